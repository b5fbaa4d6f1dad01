"""``validate`` names file, column and first row of each kind of bad value; all in one run."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import maghub
from maghub import layout
from maghub.validation import validate
from tests.helpers.folders import (
    EMBEDDINGS,
    cast_column,
    change_table,
    read_rows,
    take_rows,
    with_column,
    with_value,
    with_vector_value,
    write_valid,
)
from tests.helpers.graphs import RULES, png
from tests.helpers.reports import found, lines, refusal

N = 40
RULE = RULES[0]
NEGATIVES = layout.negatives_config(RULE)
TRAINING = 0  # an edge that is in no split with negatives
Change = Callable[[pa.Table], pa.Table]


def swapped(n: int) -> list[int]:
    return [1, 0, *range(2, n)]


def repeated(array: pa.ChunkedArray) -> pa.Array:
    return pa.array([array[1].as_py(), *array.to_pylist()[1:]])


def without_7(n: int) -> list[int]:
    return [*range(7), *range(8, n)]


def null_vector(table: pa.Table) -> pa.Table:
    values = table["text"].to_pylist()
    values[7] = None
    return with_column("text", pa.array(values, table["text"].type))(table)


def picture(blob: bytes) -> Change:
    return with_value("image", 0, {"bytes": blob, "path": None})


@dataclass(frozen=True)
class Case:
    """One change of one table (of one split), and the problem it must be found as."""

    config: str
    change: Change
    column: str | None
    row: int | None
    text: str
    split: str | None = None
    count: int = 1

    @property
    def name(self) -> str:
        return f"{self.config} {self.column} {self.text}"


# Found as exactly one problem.
ALONE = [
    Case("edges", lambda table: table.drop_columns(["dst"]), "dst", None, "column is missing"),
    Case("nodes", with_value("text", 2, None), "text", 2, "is null", "train"),
    Case("edges", with_value("src", 3, None), "src", 3, "is null"),
    Case("nodes", cast_column("node_id", pa.int32()), "node_id", None, "is int32", "test"),
    Case("nodes", cast_column("label", pa.float64()), "label", None, "is float64"),
    Case("nodes", take_rows(swapped), "node_id", 1, "comes after", "test"),
    Case("nodes", with_value("label", 0, 3), "label", 0, "label 3 is not within 0..2", "test"),
    Case("edges", with_value("relation", 2, 7), "relation", 2, "label 7 is not within 0..1"),
    Case("nodes", picture(b"<html>"), "image", 0, "cannot be decoded"),
    Case("nodes", picture(png(1)[:-20]), "image", 0, "cannot be decoded (", "test"),
    Case("nodes", picture(b""), "image", 0, "no bytes"),
    Case(EMBEDDINGS, with_vector_value("text", 4, np.nan), "text", 4, "holds NaN"),
    Case(EMBEDDINGS, with_vector_value("text", 9, -np.inf), "text", 9, "an infinite value"),
    Case(EMBEDDINGS, null_vector, "text", 7, "vector is null"),
    Case(EMBEDDINGS, with_value("has_image", 5, None), "has_image", 5, "is null"),
    Case(EMBEDDINGS, take_rows(swapped), "node_id", 0, "holds node_id 1, this row", count=2),
    Case(NEGATIVES, with_value("neg", 1, None), "neg", 1, "are null"),
    Case(NEGATIVES, with_value("neg", 1, [N, 0, 0]), "neg", 1, f"node {N} is not within"),
]
# Found together with what follows from them (counts that no longer hold, ids that no row has).
WITH_MORE = [
    Case("nodes", with_value("node_id", 1, 99), "node_id", 1, "99 is not within 0..39", "test"),
    Case("nodes", with_column("node_id", repeated), "node_id", 1, "in an earlier row", "train"),
    Case("edges", take_rows(swapped), "edge_id", 1, "comes after"),
    Case("edges", with_value("edge_id", 4, 999), "edge_id", 4, "edge_id 999 is not within"),
    Case("edges", with_value("dst", 6, N), "dst", 6, f"node {N} is not within 0..{N - 1}"),
    Case("edges", with_value("src", 6, -1), "src", 6, "node -1 is not within"),
    Case("edge-splits", with_value(RULE, 3, None), RULE, 3, "is null"),
    Case("node-splits", with_value("node_id", 5, 4), "node_id", 5, "4 occurs in an earlier row"),
    Case("node-splits", take_rows(without_7), "node_id", None, "no row has node_id 7"),
    Case(EMBEDDINGS, with_value("has_text", 5, False), "has_text", 5, "text vector is not zero"),
    Case(EMBEDDINGS, take_rows(without_7), None, None, "has 39 rows, its target nodes has 40"),
    Case(NEGATIVES, with_value("edge_id", 0, TRAINING), "edge_id", 0, "not in the validation"),
    Case(NEGATIVES, with_value("positive", 1, 0), "positive", 1, "which joins"),
]


@pytest.mark.parametrize("case", [*ALONE, *WITH_MORE], ids=lambda case: case.name)
def test_each_bad_value_is_named_with_file_column_and_first_row(folder: Path, case: Case) -> None:
    path = change_table(folder, case.config, case.change, case.split)
    report = validate(folder)
    problem = found(report, path, case.column, case.text)
    assert (problem.row, problem.count) == (case.row, case.count)
    assert not report.ok
    if case in ALONE:
        assert report.problems == [problem], lines(report)


def test_a_valid_folder_has_no_problem(folder: Path) -> None:
    report = validate(folder)
    assert lines(report) == []
    assert report.ok
    assert report.checked["configs"] == 6
    assert report.checked["images"] == sum(
        row["image"] is not None for s in layout.SPLITS for row in read_rows(folder, "nodes", s)
    )
    assert report.checked["rows"] > 3 * N


def test_the_public_name_and_plain_data(folder: Path) -> None:
    change_table(folder, EMBEDDINGS, with_vector_value("text", 4, np.nan))
    data = maghub.validate(str(folder)).to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["ok"] is False
    assert data["problems"][0]["column"] == "text"
    assert data["problems"][0]["row"] == 4


# -- everything at once --------------------------------------------------------------------------


def test_all_problems_in_one_run_in_the_same_order(folder: Path) -> None:
    first = change_table(folder, "nodes", with_value("text", 1, None), "train")
    second = change_table(folder, "edges", with_value("relation", 2, 9))
    third = change_table(folder, EMBEDDINGS, with_vector_value("image", 4, np.inf))
    fourth = change_table(folder, NEGATIVES, with_value("neg", 0, [N, N, N]), "test")
    fifth = change_table(folder, "nodes", picture(b"x"), "test")
    (folder / "edges" / "old.parquet").write_bytes(b"")
    report = validate(folder)
    places = [(p.file, p.column, p.row) for p in report.problems]
    assert places == [
        ("edges/old.parquet", None, None),
        (first, "text", 1),
        (second, "relation", 2),
        (fourth, "neg", 0),
        (third, "image", 4),
        (fifth, "image", 0),
    ]
    assert validate(folder) == report


def test_many_rows_of_one_kind_are_one_problem(folder: Path) -> None:
    def spoil(array: pa.ChunkedArray) -> pa.Array:
        return pa.array([None] * len(array), array.type)

    first = change_table(folder, "nodes", with_column("text", spoil), "train")
    change_table(folder, "nodes", with_column("text", spoil), "test")
    (problem,) = validate(folder).problems
    assert (problem.file, problem.row) == (first, 0)
    rows = [len(read_rows(folder, "nodes", split)) for split in ("train", "test")]
    assert problem.count == sum(rows)
    assert f"({sum(rows)} in all)" in problem.line()


# -- properties ----------------------------------------------------------------------------------

SLOW = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=8, **SLOW)
@given(n=st.integers(20, 40), seed=st.integers(0, 2**31), directed=st.booleans())
def test_any_folder_we_write_is_valid(n: int, seed: int, directed: bool) -> None:
    with tempfile.TemporaryDirectory() as base:
        write_valid(Path(base) / "toy", n, seed, directed=directed)
        assert lines(validate(Path(base) / "toy")) == []


@settings(max_examples=25, **SLOW)
@given(data=st.data())
def test_any_changed_id_is_found(valid_folder: Path, data: st.DataObject) -> None:
    columns = [
        ("nodes", "node_id"), ("edges", "edge_id"), ("node-splits", "node_id"),
        ("edge-splits", "edge_id"), (EMBEDDINGS, "node_id"), (NEGATIVES, "positive"),
    ]  # fmt: skip
    config, column = data.draw(st.sampled_from(columns))
    with tempfile.TemporaryDirectory() as base:
        folder = Path(shutil.copytree(valid_folder, Path(base) / "toy"))
        rows = read_rows(folder, config)
        row = data.draw(st.integers(0, len(rows) - 1))
        value = data.draw(st.integers(-3, 300).filter(lambda value: value != rows[row][column]))
        path = change_table(folder, config, with_value(column, row, value))
        places = {(p.file, p.column) for p in validate(folder).problems}
        assert (path, column) in places


@settings(max_examples=40, **SLOW)
@given(seed=st.integers(0, 2**31))
def test_any_changed_byte_is_found_and_nothing_raises(valid_folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as base:
        folder = Path(shutil.copytree(valid_folder, Path(base) / "toy"))
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        path = rng.choice(files)
        data = bytearray(path.read_bytes())
        for _ in range(rng.choice([1, 1, 20])):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data[: rng.randrange(len(data))] if rng.random() < 0.2 else data)
        report = validate(folder)
        if path.suffix == ".parquet":
            name = path.relative_to(folder).as_posix()
            assert any(p.file == name and "checksum" in p.message for p in report.problems)


def places(value: object, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Where in a JSON value something stands."""
    items = value.items() if isinstance(value, dict) else enumerate(value)  # type: ignore[var-annotated,arg-type]
    found = []
    for key, item in items:
        found.append((*at, key))
        if isinstance(item, dict | list):
            found += places(item, (*at, key))
    return found


ODD = [None, 0, -1, 1e300, 2**70, "", "x", "\n", True, [], ["x"], {}, {"_type": "List"}]


@settings(max_examples=40, **SLOW)
@given(data=st.data())
def test_any_changed_value_of_maghub_json_raises_nothing(
    valid_folder: Path, data: st.DataObject
) -> None:
    """Renamed, left out, or something else altogether: wrong or not, it is never a traceback."""
    spec = json.loads((valid_folder / layout.SPEC_FILE).read_text())
    *path, last = data.draw(st.sampled_from(places(spec)))
    around = spec
    for key in path:
        around = around[key]
    change = data.draw(st.sampled_from(["rename", "leave out", *ODD]))
    old = around.pop(last)
    if change == "rename":
        around.update({f"{last}x": old}) if isinstance(around, dict) else around.append(old)
    elif change != "leave out":
        around.update({last: change}) if isinstance(around, dict) else around.insert(last, change)
    with tempfile.TemporaryDirectory() as base:
        folder = Path(shutil.copytree(valid_folder, Path(base) / "toy"))
        (folder / layout.SPEC_FILE).write_text(json.dumps(spec))
        report = validate(folder)
        if report.problems or change in ("rename", "leave out"):
            return
        assert maghub.load(folder).spec.name


def damaged(path: Path) -> Iterator[bytes]:
    """Files that break off, with a bit of the footer changed, with the pages of a column gone."""
    whole = path.read_bytes()
    yield from (whole[: int(share * len(whole))] for share in np.linspace(0.01, 0.99, 6))
    footer = int.from_bytes(whole[-8:-4], "little")
    for place in range(len(whole) - 8 - footer, len(whole), 31):
        yield whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :]
    columns = pq.ParquetFile(path).metadata.row_group(0)
    for number in range(columns.num_columns):
        column = columns.column(number)
        begin = min(filter(None, (column.dictionary_page_offset, column.data_page_offset)))
        end = begin + column.total_compressed_size
        yield whole[:begin] + b"\xff" * (end - begin) + whole[end:]


def test_damage_to_any_column_of_any_file_is_found(valid_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(valid_folder, tmp_path / "toy"))
    for path in sorted(folder.rglob("*.parquet")):
        whole = path.read_bytes()
        for data in list(damaged(path)):
            path.write_bytes(data)
            name = path.relative_to(folder).as_posix()
            assert name in {problem.file for problem in validate(folder).problems}
        path.write_bytes(whole)


UNREADABLE = [{"dtyp": "int64"}, {"_type": "Nope"}, {"_type": "Value"}, {"_type": "List"}]


@pytest.mark.parametrize("feature", UNREADABLE)
def test_columns_that_datasets_cannot_read_are_named(folder: Path, feature: dict[str, str]) -> None:
    data = json.loads((folder / layout.SPEC_FILE).read_text())
    for number, config in enumerate(data["configs"]):
        changed = json.loads(json.dumps(data))
        features = changed["configs"][number]["features"]
        features[next(iter(features))] = feature
        (folder / layout.SPEC_FILE).write_text(json.dumps(changed))
        what = f"features of config {config['name']} cannot be read"
        found(validate(folder), layout.SPEC_FILE, "features", what)
        assert "cannot read" in refusal(maghub.load(folder).table, config["name"])
