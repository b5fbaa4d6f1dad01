"""Defects planted into copies of emoji and Cora are found; without them nothing fails."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import maghub
from maghub import layout
from maghub.audit import Report, run
from maghub.audit.texts import EXACT, NEAR
from maghub.cli.app import app
from maghub.errors import MaghubError
from maghub.loading import sample_path
from tests.helpers import audited
from tests.helpers.audited import MANY, ids, starting
from tests.helpers.graphs import random_toy, write_toy
from tests.helpers.real import linked, real

PARTS = ("y", "allx", "ally", "tx", "ty", "graph", "test.index")
COUNT = 25


@dataclass
class Case:
    """A clean folder and a damaged copy with their reports, and what was planted."""

    clean: Report
    damaged: Report
    planted: dict[str, set[int]]
    negatives: set[tuple[int, int]]
    nodes: int


def damage(folder: Path, pictures: bool) -> Case:
    """Audit a folder, damage it in every way, audit it again."""
    mag = maghub.load(folder)
    texts = audited.projected(list(mag.nodes["text"]))
    good = {"text": texts}
    if pictures:
        good["image"] = audited.pictured(list(mag.nodes["image"]))
    audited.add_vectors(folder, "good", good)
    clean = run(folder, examples=MANY)
    planted = audited.plant_texts(folder, COUNT)
    if pictures:
        planted |= audited.plant_pictures(folder, COUNT)
    planted["held-out edges in training"] = audited.plant_edges(folder, COUNT, reverse=False)
    config = mag.spec.of_kind("negatives")[0].name
    negatives = audited.plant_negatives(folder, config, 12 * COUNT)
    for modality, matrix in good.items():
        for name, wrong in audited.misplaced(matrix).items():
            audited.add_vectors(folder, f"{name}-{modality}", {modality: wrong})
    copies = texts.copy()
    copies[1::10] = copies[0:-1:10][: len(copies[1::10])]
    audited.add_vectors(folder, "copies", {"text": copies})
    audited.add_vectors(folder, "constant", {"text": np.ones_like(texts)})
    audited.add_vectors(
        folder, "zeros", {"text": np.where(np.arange(len(texts))[:, None] % 50, texts, 0)}
    )
    audited.set_flags(folder, "zeros", "has_text", True)
    audited.add_vectors(folder, "dead", {"text": texts})
    audited.set_flags(folder, "dead", "has_text", False)
    return Case(clean, run(folder, examples=MANY), planted, negatives, mag.num_nodes)


def cora_folder(tmp: Path) -> Path:
    """Cora, whose texts are not redistributed: its words, by number, are the texts."""
    files = [real("planetoid") / f"ind.cora.{part}" for part in PARTS]
    raw = linked(tmp / "raw", *files, real("gnn_benchmark_npz") / "cora.npz")
    maghub.build("cora", tmp / "cora", raw)
    words = np.asarray(maghub.load(tmp / "cora").features("bag-of-words", "text"))
    texts = {
        node: " ".join(f"w{word}" for word in row.nonzero()[0]) for node, row in enumerate(words)
    }
    for split in maghub.load(tmp / "cora").spec.config("nodes").splits:
        audited.replace(tmp / "cora", split, "text", texts)
    return tmp / "cora"


@pytest.fixture(scope="module", params=["emoji", "cora"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    tmp = tmp_path_factory.mktemp(f"audit-{request.param}")
    if request.param == "cora":
        return damage(cora_folder(tmp), pictures=False)
    return damage(Path(shutil.copytree(sample_path("emoji"), tmp / "emoji")), pictures=True)


def test_nothing_fails_where_nothing_is_planted(case: Case) -> None:
    assert [check.name for check in case.clean.checks if check.verdict == "fail"] == []
    for modality in ("text", "image"):
        for check in case.clean.checks:
            if check.name == f"vectors match their rows: embeddings-good {modality}":
                assert check.verdict == "ok"
                assert check.value is not None
                assert check.value > 0.7


def test_every_planted_twin_and_edge_is_found_and_no_other(case: Case) -> None:
    planted = set().union(*case.planted.values())
    for name, wanted in case.planted.items():
        found, before = starting(case.damaged, name), starting(case.clean, name)
        assert found.verdict in ("warn", "fail"), name
        assert found.count == len(ids(found))
        assert wanted - ids(found) == set(), name
        # Nobody else but a neighbour of what was planted.
        others = [e for e in found.examples if e.ids[0] not in ids(before) | wanted]
        assert [e for e in others if not planted & set(e.ids)] == [], name
        assert len(others) <= 2, name


def test_negatives_that_are_positives_are_all_found(case: Case) -> None:
    assert starting(case.clean, "negatives that are edges").count == 0
    found = starting(case.damaged, "negatives that are edges")
    pairs = {(example.ids[0], example.ids[1]) for example in found.examples}
    assert case.negatives - pairs == set()
    assert found.verdict == "fail"


@pytest.mark.parametrize(
    ("fault", "verdict"), [("shuffled", "fail"), ("moved", "fail"), ("stretch", "warn")]
)
def test_vectors_of_other_rows_are_found(case: Case, fault: str, verdict: str) -> None:
    start = f"vectors match their rows: embeddings-{fault}-"
    checks = [check for check in case.damaged.checks if check.name.startswith(start)]
    assert checks
    for check in checks:
        assert check.verdict == verdict, check
        if fault == "shuffled":
            assert check.value == pytest.approx(0.5, abs=0.03)
        if fault == "stretch":
            first, last = audited.stretch_of(case.nodes)
            slack = case.nodes // 12
            assert all(
                first - slack <= e.ids[0] <= e.ids[1] <= last + slack for e in check.examples
            )


def test_constant_shared_and_dead_vectors_are_found(case: Case) -> None:
    def vectors(name: str) -> str:
        return f"vectors shared by different inputs: embeddings-{name} text"

    copies = starting(case.damaged, vectors("copies"))
    assert ids(copies) >= set(range(1, case.nodes, 10)) - _equal_texts(case)
    assert copies.verdict == "fail"
    assert starting(case.damaged, vectors("constant")).verdict == "fail"
    zeros = starting(case.damaged, vectors("zeros"))
    assert zeros.verdict == "fail"
    assert "are all zero though has_text is set" in zeros.summary
    alive = starting(case.damaged, "modalities alive")
    assert [e.text for e in alive.examples] == ["embeddings-dead text: no node has it"]


def _equal_texts(case: Case) -> set[int]:
    return ids(starting(case.damaged, "equal texts"))


@pytest.fixture
def emoji(tmp_path: Path) -> Path:
    return Path(shutil.copytree(sample_path("emoji"), tmp_path / "emoji"))


def test_reversed_edges_one_class_and_one_text_for_all(emoji: Path) -> None:
    def change(spec: dict) -> None:
        spec["graph"]["directed"] = True

    audited.change_spec(emoji, change)
    planted = audited.plant_edges(emoji, COUNT, reverse=True)
    for split in ("train", "validation", "test"):
        audited.change_nodes(emoji, split, "label", lambda old: 3)
        audited.change_nodes(emoji, split, "text", lambda old: "Lorem ipsum")
        audited.change_nodes(emoji, split, "image", lambda old: None)
    report = run(emoji, examples=MANY)
    reverse = report.check("held-out edges reversed in training")
    assert ids(reverse) == planted
    assert reverse.verdict == "warn"
    balance = report.check("label balance")
    assert (balance.verdict, balance.value) == ("fail", 1.0)
    alive = report.check("modalities alive")
    assert [e.text for e in alive.examples] == ["text: the same for all", "image: no node has it"]
    assert report.check("equal texts across splits").value == 1.0
    assert report.verdict == "fail"


def test_a_class_that_never_trains_is_named(emoji: Path) -> None:
    audited.change_nodes(emoji, "train", "label", lambda old: 0 if old == 9 else old)
    balance = run(emoji).check("label balance")
    assert (balance.verdict, balance.count) == ("warn", 1)
    assert balance.examples[0].text.startswith("flags:")


def test_what_does_not_apply_is_skipped_with_a_reason(tmp_path: Path) -> None:
    from tests.helpers.graphs import random_toy, write_toy

    toy = random_toy()
    toy.labels = toy.images = toy.codes = toy.negatives = None
    toy.vectors = {}
    write_toy(toy, tmp_path / "toy")
    report = run(tmp_path / "toy")
    skipped = {check.name: check.summary for check in report.checks if check.verdict == "skipped"}
    assert skipped["equal texts across splits"] == "nodes are not split"
    assert skipped["negatives that are edges"] == "there are no fixed negatives"
    assert skipped["label balance"] == "nodes have no labels"


def test_a_split_in_which_no_node_is_or_none_with_a_text(tmp_path: Path) -> None:
    toy = random_toy(40)
    toy.codes = [3] * 40
    write_toy(toy, tmp_path / "unassigned")
    toy.codes = [3 if text else 0 for text in toy.texts]
    write_toy(toy, tmp_path / "textless")
    for folder in ("unassigned", "textless"):
        report = run(tmp_path / folder)
        for name in (EXACT, NEAR):
            check = report.check(name)
            assert (check.verdict, check.count, check.total) == ("ok", 0, 0)


def test_equal_runs_give_equal_reports_and_a_seed_shows(emoji: Path) -> None:
    assert run(emoji) == run(emoji)
    assert run(emoji, seed=5).check("near-equal texts across splits").count > 0


def test_a_folder_without_texts_is_warned_of(emoji: Path) -> None:
    for split in ("train", "validation", "test"):
        audited.change_nodes(emoji, split, "text", lambda old: "")
    report = run(emoji)
    assert report.check("modalities alive").verdict == report.verdict == "warn"
    assert report.check("equal texts across splits").summary == "no node has a text"


def test_the_command_prints_a_table_or_json_and_exits_1_on_failure(emoji: Path) -> None:
    invoke = CliRunner().invoke
    done = invoke(app, ["audit", str(emoji)], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert "near-equal pictures across splits" in done.output
    for split in ("train", "validation", "test"):
        audited.change_nodes(emoji, split, "text", lambda old: "all the same")
    done = invoke(app, ["audit", str(emoji), "--json", "--examples", "2"])
    assert done.exit_code == 1
    data = json.loads(done.stdout)
    assert data["verdict"] == "fail"
    assert {check["name"] for check in data["checks"] if check["verdict"] == "fail"} == {
        "equal texts across splits",
        "modalities alive",
    }
    assert all(len(check["examples"]) <= 2 for check in data["checks"])


def test_a_dataset_that_is_no_graph_is_refused_in_one_line(folder: Path) -> None:
    def change(spec: dict) -> None:
        spec["graph"] = None
        spec["configs"] = [c for c in spec["configs"] if c["name"] == layout.EDGES]

    audited.change_spec(folder, change)
    with pytest.raises(MaghubError, match="is not one graph"):
        run(folder)
