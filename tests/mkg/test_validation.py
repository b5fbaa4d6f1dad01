"""maghub validate on retrieval benchmarks: every planted fault is found, with its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import maghub
from maghub.mkg.defects import Summary
from maghub.mkg.splits import group_split, released_split
from maghub.mkg.tables import Benchmark
from maghub.spec import read_spec
from maghub.tables import Table, in_memory
from maghub.writing import write_metadata
from tests.helpers.kgrag import own_card, small_records, write_tables_of


def benchmark(**tables: pa.Table) -> Benchmark:
    """The small benchmark, sound or not."""
    records = replace(small_records(), **tables)
    queries = records.queries
    codes = released_split(queries["id"])
    return Benchmark(records, codes, group_split(queries), Summary({}, {}))


def problems(folder: Path) -> list[str]:
    return [problem.line() for problem in maghub.validate(folder).problems]


def cell(table: pa.Table, column: str, row: int, value: object) -> pa.Table:
    """A table with one other value."""
    values = table[column].to_pylist()
    values[row] = value
    at = table.schema.get_field_index(column)
    return table.set_column(
        at, table.schema.field(at), pa.array(values, table.schema.field(at).type)
    )


RECORDS = small_records()
ROW_OF = {key: row for row, key in enumerate(RECORDS.queries["id"].to_pylist())}
QRELS, QUERIES = RECORDS.qrels, RECORDS.queries
WRONG: dict[str, tuple[Callable[[], Benchmark], str, str]] = {
    "triplet twice": (
        lambda: benchmark(triplets=cell(RECORDS.triplets, "id", 3, "text-2")),
        "corpus/full", "column id, row 3: id text-2 comes twice",
    ),
    "entity twice": (
        lambda: benchmark(entities=cell(RECORDS.entities, "id", 3, "Q1")),
        "entities/full", "column id, row 3: id Q1 comes twice",
    ),
    "unknown query": (
        lambda: benchmark(qrels=cell(QRELS, "query-id", 0, "mm-999")),
        "qrels/", "column query-id", 
    ),
    "unknown triplet": (
        lambda: benchmark(qrels=cell(QRELS, "corpus-id", 0, "mm-999")),
        "qrels/", "unknown corpus id mm-999",
    ),
    "qrel twice": (
        lambda: benchmark(qrels=pa.concat_tables([QRELS, QRELS.slice(0, 1)])),
        "qrels/", "a qrel of query text-0 comes twice",
    ),
    "no qrels": (
        lambda: benchmark(qrels=QRELS.slice(0, 143)),
        "queries/", "has no qrels",
    ),
    "masked part shown": (
        lambda: benchmark(queries=cell(QUERIES, "tail_id", 0, "Q1")),
        "queries/", "column tail_id", 
    ),
    "known part hidden": (
        lambda: benchmark(queries=cell(QUERIES, "rel_id", 0, None)),
        "queries/", "is null but not masked",
    ),
    "wrong modality": (
        lambda: benchmark(queries=cell(QUERIES, "is_multimodal", 0, True)),
        "queries/", "column is_multimodal",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_records_are_found(name: str, tmp_path: Path) -> None:
    make, where, what = WRONG[name]
    write_tables_of(make(), tmp_path / "rag")
    found = problems(tmp_path / "rag")
    assert [line for line in found if line.startswith(where) and what in line], found


def test_a_torn_group_is_found(tmp_path: Path) -> None:
    good = benchmark()
    codes = good.group.copy()
    row = int(np.flatnonzero(codes == 0)[0])
    codes[row] = 2
    write_tables_of(replace(good, group=codes), tmp_path / "rag")
    found = problems(tmp_path / "rag")
    assert len(found) == 1
    assert found[0].startswith("group-queries/")
    assert "is in another split than a query of the same head, relation and masked part" in found[0]


def other(tables: list[Table], config: str, change: Callable[[pa.Table], pa.Table]) -> list[Table]:
    """The tables, one of them changed."""
    made = []
    for table in tables:
        if table.config == config:
            rows = change(table.read_typed(0, table.num_rows))
            table = in_memory(
                config, table.kind, table.features, rows, split_names=table.split_names,
                split_ids=None if table.split_ids is None else table.split_ids[: rows.num_rows],
                target=table.target,
            )  # fmt: skip
        made.append(table)
    return made


CHANGED: dict[str, tuple[str, Callable[[pa.Table], pa.Table], str]] = {
    "another answer": (
        "qa", lambda rows: cell(rows, "answers", 7, ["other"]), "is not what the qrels give",
    ),
    "an answer less": (
        "qa", lambda rows: cell(rows, "answers", 0, rows["answers"][0].as_py()[:2]),
        "is not what the qrels give",
    ),
    "another order": (
        "qa", lambda rows: cell(rows, "answer_ids", 0, rows["answer_ids"][0].as_py()[::-1]),
        "is not what the qrels give",
    ),
    "another question": (
        "qa", lambda rows: cell(rows, "question", 7, "why?"), "why? is not the text of this row's",
    ),
    "another query": (
        "qa", lambda rows: cell(rows, "query-id", 7, "text-0"), "is not the id of this row's query",
    ),
    "a question less": ("qa", lambda rows: rows.slice(0, 95), "has 95 rows, there are 96 queries"),
    "another corpus": (
        "group-corpus", lambda rows: cell(rows, "id", 3, "mm-77"), "mm-77 is not in corpus",
    ),
    "a triplet less": (
        "group-corpus", lambda rows: rows.slice(0, 47), "has 47 rows, corpus has 48",
    ),
    "a qrel elsewhere": (
        "group-qrels", lambda rows: cell(rows, "corpus-id", 0, "text-9"), "is not in qrels",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_tables_that_contradict_each_other_are_found(name: str, tmp_path: Path) -> None:
    config, change, what = CHANGED[name]
    good = benchmark()
    write_tables_of(good, tmp_path / "rag", other(good.tables(), config, change))
    found = problems(tmp_path / "rag")
    assert [line for line in found if line.startswith(f"{config}/") and what in line], found


def test_a_qrel_in_another_split_is_found(tmp_path: Path) -> None:
    good = benchmark()
    tables = good.tables()
    ids = tables[1].split_ids
    assert ids is not None
    moved = ids.copy()
    moved[0] = (ids[0] + 1) % 3
    tables[1] = replace(tables[1], split_ids=moved)
    write_tables_of(good, tmp_path / "rag", tables)
    found = [
        line for line in problems(tmp_path / "rag") if "query text-0 is in another split" in line
    ]
    assert len(found) == 1
    assert found[0].startswith("qrels/")


def test_rules_must_be_declared_with_their_counts(tmp_path: Path) -> None:
    folder = tmp_path / "rag"
    spec = write_tables_of(benchmark(), folder)
    first, second = spec.query_splits
    for rules, what in (
        ((first,), "split rule group_split or its config group-queries is missing"),
        (
            (first.model_copy(update={"counts": {"train": 96}}), second),
            "released counts {'train': 96}, queries has {'train': 76,",
        ),
    ):
        changed = spec.model_copy(update={"query_splits": rules})
        write_metadata(folder, own_card(), changed)
        assert read_spec(folder) == changed
        assert [line for line in problems(folder) if what in line]


def test_damaged_files_are_reported_without_a_crash(tmp_path: Path) -> None:
    folder = tmp_path / "rag"
    write_tables_of(benchmark(), folder)
    for name in ("queries/train", "corpus/full", "qa/test"):
        path = folder / f"{name}-00000-of-00001.parquet"
        path.write_bytes(path.read_bytes()[:-20])
    found = problems(folder)
    assert sum("is not a whole Parquet file" in line for line in found) == 3
