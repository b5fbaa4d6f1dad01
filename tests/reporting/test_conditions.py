"""Runs that may not be compared are kept apart, and a note says why."""

from __future__ import annotations

from typing import Any

import pytest

from maghub.reporting import summarise
from maghub.reporting.conditions import PROTOCOL
from tests.reporting.records import CHECKSUMS, CLIP, seeds

DIFFERENT: dict[str, tuple[dict[str, Any], str, str]] = {
    "checksums": (
        {"dataset": {"checksums": {**CHECKSUMS, "edges": "3" * 64}}},
        "data",
        "other data: edges 333333333333 (elsewhere 222222222222)",
    ),
    "revision": (
        {"dataset": {"revision": "abc"}},
        "version",
        "other dataset version: revision abc (elsewhere none)",
    ),
    "version": (
        {"dataset": {"version": "1.1.0"}},
        "version",
        "other dataset version: 1.1.0 (elsewhere 1.0.0)",
    ),
    "split": (
        {"dataset": {"split": "random-0"}},
        "split",
        "other split: random-0 (elsewhere openmag)",
    ),
    "encoder": (
        {"encoders": {"text": "t5-large", "image": CLIP}},
        "inputs",
        f"other inputs: image {CLIP}, text t5-large (elsewhere image {CLIP}, text {CLIP})",
    ),
    "tie rule": (
        {"task_settings": {"epochs": 100, "lr": 0.005, "ties": "pessimistic"}},
        "protocol",
        "measured in another way: ties pessimistic (elsewhere mean)",
    ),
    "settings": (
        {"model_settings": {"hidden": 64, "layers": 3}},
        "settings",
        "other settings than other runs of this model: hidden 64 (elsewhere 256)",
    ),
    "software": (
        {"versions": {"maghub": "0.1.0", "torch": "2.10.0"}},
        "versions",
        "other software: torch 2.10.0 (elsewhere 2.9.0)",
    ),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_a_seed_that_differs_in_more_is_not_averaged_and_is_flagged(what: str) -> None:
    change, kind, text = DIFFERENT[what]
    common = {"task_settings": {"epochs": 100, "lr": 0.005, "ties": "mean"}}
    records = seeds(0.5, 0.6, 0.7, **common)
    odd = seeds(0.0, 0.0, 0.0, 0.9, **(common | change))[3]
    (table,) = summarise([odd, *records]).blocks
    usual = next(row for row in table.rows if len(row.seeds) == 3)
    other = next(row for row in table.rows if row.seeds == (3,))
    assert len(table.rows) == 2
    assert usual.cells["accuracy"].mean == pytest.approx(0.6)
    assert (usual.comparable, usual.notes) == (True, ())
    assert not other.comparable
    (note,) = table.notes
    assert other.notes == (note.letter,) == ("a",)
    assert note.kind == kind
    assert note.text == text


@pytest.mark.parametrize("what", [w for w in DIFFERENT if w != "settings"])
def test_another_model_is_flagged_as_well(what: str) -> None:
    change, kind, _ = DIFFERENT[what]
    common = {"task_settings": {"epochs": 100, "lr": 0.005, "ties": "mean"}}
    records = [*seeds(0.5, 0.6, **common), *seeds(0.7, model="mlp", **(common | change))]
    (table,) = summarise(records).blocks
    flagged = {row.model for row in table.rows if not row.comparable}
    assert flagged == {"mlp"}
    assert [note.kind for note in table.notes] == [kind]


def test_models_have_their_own_settings_and_encoders_their_own_files() -> None:
    own = {"hidden": 16, "heads": 8}
    checksums = {"checksums": {"nodes": CHECKSUMS["nodes"], "embeddings-x": "9" * 64}}
    records = [*seeds(0.5), *seeds(0.6, model="gat", model_settings=own, dataset=checksums)]
    (table,) = summarise(records).blocks
    assert table.notes == ()
    assert all(row.comparable for row in table.rows)


def test_settings_are_compared_across_noise_and_not_across_presets() -> None:
    small = {"hidden": 64, "layers": 3}
    noisy = seeds(0.4, noise={"text": 0.3}, model_settings=small)
    preset = seeds(0.5, 0.5, preset="clegr-cora", model_settings={"hidden": 512, "layers": 3})
    (table,) = summarise([*seeds(0.5, 0.5), *noisy, *preset]).blocks
    assert [row.settings for row in table.rows] == [{"hidden": "256"}, {"hidden": "64"}, {}]
    assert [row.comparable for row in table.rows] == [True, False, True]


def test_equal_notes_share_a_letter_and_the_usual_is_what_most_runs_have() -> None:
    odd = {"dataset": {"split": "random-0"}}
    records = [
        *seeds(0.1, 0.2, 0.3, 0.4, model="mlp"),
        *seeds(0.5, model="gat", **odd),
        *seeds(0.5, model="gcn", **odd),
    ]
    (table,) = summarise(records).blocks
    assert [(row.model, row.notes) for row in table.rows] == [
        ("gat", ("a",)),
        ("gcn", ("a",)),
        ("mlp", ()),
    ]


def test_devices_and_remarks_explain_and_do_not_flag() -> None:
    cpu, gpu = seeds(0.5)[0], seeds(0.0, 0.6, device="cuda", notes=["resumed\nat epoch 40"])[1]
    (table,) = summarise([cpu, gpu]).blocks
    (row,) = table.rows
    assert row.comparable
    assert [note.text for note in table.notes] == [
        "runs on cpu and cuda: their times and memory are not comparable",
        "resumed at epoch 40",
    ]
    assert row.cost.devices == ("cpu", "cuda")


def test_many_differences_are_cut_and_counted() -> None:
    base = {f"s{i}": 0 for i in range(20)}
    changed = {f"s{i}": 1 for i in range(20)}
    records = [*seeds(0.1, 0.2, model_settings=base), *seeds(0.3, model_settings=changed)]
    (table,) = summarise(records).blocks
    assert table.notes[0].text.endswith("s5 1 (elsewhere 0), and 14 more")


@pytest.mark.parametrize(
    ("name", "usual", "other"),
    [
        ("inputs", "own", "all"),
        ("candidates", "split", "all"),
        ("pairs", None, 50),
        ("limit", None, 100),
        ("references", ["text"], ["text", "caption"]),
        ("split", "test", "validation"),
        ("generator", "extractive", "openai:m"),
        ("evidence", 5, 10),
        ("pictures", True, False),
        ("max_tokens", 64, 8),
        ("parameters", {}, {"temperature": 1}),
        ("k", 10, 100),
        ("batch", 256, 1),
        ("online", 100, 1),
        ("repeats", 3, 1),
    ],
)
def test_other_candidates_inputs_or_targets_forbid_a_comparison(
    name: str, usual: object, other: object
) -> None:
    """What is measured is another thing, whatever the model: neither row is better."""
    records = seeds(0.5, 0.6, 0.7, task_settings={"epochs": 100, name: usual})
    odd = seeds(0.9, model="mlp", task_settings={"epochs": 100, name: other})
    (table,) = summarise([*records, *odd]).blocks
    judged = {row.model: (row.comparable, row.best) for row in table.rows}
    assert judged.pop("mlp") == (False, ())
    assert list(judged.values()) == [(True, ())]
    assert any(note.text.startswith(f"measured in another way: {name} ") for note in table.notes)


def test_every_setting_of_retrieval_tasks_is_known_to_decide_or_not() -> None:
    """Who adds a setting says here whether results under different values may be compared."""
    from maghub.baselines.rag.tasks import efficiency, generation, retrieval

    apart = {"setting", "rule"}  # tables of their own; part of the dataset
    for task in (retrieval.KGRetrieval, generation.KGGeneration, efficiency.KGEfficiency):
        deciding = set(task.Config.model_fields) - task.no_result - apart
        assert deciding <= set(PROTOCOL), task.name
