"""Records become rows: what is averaged, what is kept apart, and what is the best."""

from __future__ import annotations

import math
import random
import statistics
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maghub.errors import MaghubError
from maghub.reporting import Block, summarise
from maghub.reporting.statistic import statistic
from maghub.results import RunRecord
from tests.helpers.reports import one_line
from tests.reporting.records import CLIP, record, seeds, showcase


def block(records: list[RunRecord]) -> Block:
    """The only table of some records."""
    report = summarise(records)
    assert len(report.blocks) == 1
    return report.blocks[0]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=12))
def test_mean_and_deviation_are_those_of_the_statistics_module(values: list[float]) -> None:
    found = statistic(values)
    assert found is not None
    assert found.n == len(values)
    assert math.isclose(found.mean, statistics.fmean(values), abs_tol=1e-12)
    if len(values) == 1:
        assert found.std is None
    else:
        assert found.std is not None
        assert math.isclose(found.std, statistics.stdev(values), rel_tol=1e-9, abs_tol=1e-12)


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["gcn", "mlp"]), st.sampled_from(["movies", "toys"])),
        st.lists(st.floats(0, 1), min_size=1, max_size=5),
        min_size=1,
    ),
    st.randoms(use_true_random=False),
)
def test_every_kind_of_run_is_averaged_over_its_seeds_and_nothing_else(
    values: dict[tuple[str, str], list[float]], order: random.Random
) -> None:
    records = [
        r
        for (model, name), found in values.items()
        for r in seeds(*found, model=model, dataset={"name": name})
    ]
    order.shuffle(records)
    found = {
        (row.model, table.dataset): row.cells["accuracy"]
        for table in summarise(records).blocks
        for row in table.rows
    }
    assert found.keys() == values.keys()
    for key, own in values.items():
        assert math.isclose(found[key].mean, statistics.fmean(own), abs_tol=1e-12)
        assert found[key].n == len(own)


def test_one_seed_has_no_deviation() -> None:
    (row,) = block([record(7, 0.5)]).rows
    assert row.seeds == (7,)
    assert (row.cells["accuracy"].std, row.cells["accuracy"].n) == (None, 1)


def test_tables_are_per_dataset_task_and_setting() -> None:
    rag = {"task": "retrieval", "metrics": {"ndcg@10": 0.5}}
    records = [
        record(),
        record(dataset={"name": "toys"}),
        record(task="node-clustering"),
        record(**rag, task_settings={"setting": "S4"}),
        record(**rag, task_settings={"setting": "S1"}),
    ]
    titles = [table.title for table in summarise(records).blocks]
    assert titles == [
        "movies, node-classification",
        "movies, node-clustering",
        "movies, retrieval, S1",
        "movies, retrieval, S4",
        "toys, node-classification",
    ]
    assert all(row.comparable for table in summarise(records).blocks for row in table.rows)


def test_encoders_modalities_noise_and_presets_are_rows_of_their_own() -> None:
    changes: list[dict[str, object]] = [
        {},
        {"encoders": {"text": CLIP}},
        {"encoders": {"text": "t5-large", "image": CLIP}},
        {"noise": {"text": 0.1}},
        {"noise": {"text": 0.2}},
        {"preset": "openmag-code"},
    ]
    records = [r for change in changes for r in seeds(0.4, 0.6, **change)]
    rows = block(records).rows
    assert len(rows) == len(changes)
    assert all(row.seeds == (0, 1) for row in rows)


def test_a_share_of_zero_is_no_noise() -> None:
    (row,) = block([record(0), record(1, noise={"text": 0.0})]).rows
    assert (row.seeds, row.noise) == ((0, 1), {})


def test_the_order_of_the_records_does_not_matter() -> None:
    records = showcase()
    expected = summarise(records)
    for seed in range(5):
        random.Random(seed).shuffle(records)
        assert summarise(records) == expected


def test_a_repeated_run_counts_once() -> None:
    table = block([record(0, 0.5), record(0, 0.5), record(1, 0.7)])
    (row,) = table.rows
    assert row.cells["accuracy"].n == 2
    assert row.cells["accuracy"].mean == pytest.approx(0.6)
    assert row.comparable
    assert [note.text for note in table.notes] == [
        "seed 0 was recorded more than once; it counts once"
    ]


def test_of_a_run_repeated_with_another_result_the_last_counts_and_the_row_is_flagged() -> None:
    table = block([record(0, 0.5), record(0, 0.9), record(1, 0.7), *seeds(0.1, 0.2, model="mlp")])
    row = next(row for row in table.rows if row.model == "gcn")
    assert row.cells["accuracy"].mean == pytest.approx(0.8)
    assert not row.comparable
    assert "accuracy" not in row.best
    (note,) = table.notes
    assert note.text == "seed 0 was recorded more than once with different results; the last counts"


def test_missing_and_undefined_metrics_are_said() -> None:
    table = block(
        [
            record(0, 0.5),
            record(1, 0.7, metrics={"accuracy": 0.7}),
            record(2, 0.9, metrics={"accuracy": math.nan, "macro_f1": 0.35}),
        ]
    )
    (row,) = table.rows
    assert row.cells["accuracy"].mean == pytest.approx(0.6)
    assert row.cells["macro_f1"].mean == pytest.approx(0.3)
    assert (row.cells["accuracy"].n, row.cells["macro_f1"].n) == (2, 2)
    assert {note.text for note in table.notes} == {
        "accuracy is not a number in 1 of 3 runs",
        "macro_f1 is missing in 1 of 3 runs",
    }


def test_runs_without_any_metric_have_a_row_and_no_cell() -> None:
    (row,) = block([record(metrics={})]).rows
    assert row.cells == {}
    (row,) = block([record(metrics={"mrr": math.inf})]).rows
    assert row.cells == {}


def test_the_best_knows_the_direction() -> None:
    low = seeds(0.4, 0.4, metrics={"accuracy": 0.4, "perplexity": 3.0, "mean_rank": 2.0})
    high = seeds(0, 0, model="mlp", metrics={"accuracy": 0.6, "perplexity": 9.0, "mean_rank": 7.0})
    table = block([*low, *high])
    assert {row.model: row.best for row in table.rows} == {
        "gcn": ("perplexity", "mean_rank"),
        "mlp": ("accuracy",),
    }
    by_name = {m.name: m for m in table.measures}
    assert by_name["perplexity"].unit == ""
    assert by_name["accuracy"].unit == "%"


def test_the_best_is_neither_noisy_nor_flagged_and_ties_are_shared() -> None:
    rows = block(
        [
            *seeds(0.5, 0.5),
            *seeds(0.5, 0.5, model="mlp"),
            *seeds(0.4, 0.4, model="gat"),
            *seeds(0.9, 0.9, noise={"text": 0.1}),
            *seeds(0.8, model="mgat", dataset={"split": "random-0"}),
        ]
    ).rows
    best = [(row.model, row.noise) for row in rows if "accuracy" in row.best]
    assert best == [("gcn", {}), ("mlp", {})]


def test_no_record_is_one_line() -> None:
    with pytest.raises(MaghubError) as caught:
        summarise([], where="results.jsonl")
    one_line(caught.value, "results.jsonl", "no result record", "maghub run")


def test_two_thousand_runs_of_one_model_take_seconds() -> None:
    records = [
        record(seed, 0.5, model_settings={f"setting{i}": i for i in range(30)} | {"hidden": hidden})
        for hidden in range(400)
        for seed in range(5)
    ]
    begin = time.perf_counter()
    assert len(block(records).rows) == 400
    assert time.perf_counter() - begin < 10
