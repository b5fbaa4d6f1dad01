"""Records of runs: one whole JSON line each, whatever happened to the file before."""

from __future__ import annotations

import json
import math
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maghub.errors import MaghubError
from maghub.files import locked
from maghub.results import DatasetIdentity, RunRecord, append_records, read_records
from tests.helpers.reports import one_line
from tests.reporting.records import record

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
NUMBERS = st.dictionaries(TEXT, st.floats(allow_nan=False, allow_infinity=False), max_size=3)
RECORDS = st.builds(
    RunRecord,
    dataset=st.builds(
        DatasetIdentity,
        name=TEXT,
        version=TEXT,
        revision=st.none() | TEXT,
        checksums=st.dictionaries(TEXT, TEXT, max_size=2),
        split=st.none() | TEXT,
    ),
    task=TEXT,
    model=TEXT,
    encoders=st.dictionaries(TEXT, TEXT, max_size=2),
    seed=st.integers(0, 2**63),
    preset=st.none() | TEXT,
    model_settings=st.dictionaries(
        TEXT, st.none() | st.booleans() | st.integers() | TEXT | st.lists(st.integers()), max_size=3
    ),
    metrics=NUMBERS,
    noise=NUMBERS,
    notes=st.lists(TEXT, max_size=2),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(RECORDS, max_size=3), max_size=3))
def test_what_is_appended_is_read_back_in_order(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[RunRecord]]
) -> None:
    path = tmp_path_factory.mktemp("results") / "r.jsonl"
    append_records(path, [])
    for batch in batches:
        append_records(path, batch)
    assert read_records([path]) == [own for batch in batches for own in batch]
    lines = path.read_bytes().split(b"\n")
    assert lines.pop() == b""
    assert len(lines) == sum(map(len, batches))
    assert all(isinstance(json.loads(line), dict) for line in lines)


def test_files_are_read_in_the_given_order_and_blank_lines_are_nothing(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 0)):
        append_records(tmp_path / name, [record(seed)])
    with (tmp_path / "a").open("a") as file:
        file.write("\n   \n")
    append_records(tmp_path / "a", [record(2)])
    assert [r.seed for r in read_records([tmp_path / "a", tmp_path / "b"])] == [1, 2, 0]
    (tmp_path / "empty").touch()
    assert read_records([tmp_path / "empty"]) == []


def test_a_folder_is_made_for_the_file(tmp_path: Path) -> None:
    append_records(tmp_path / "new" / "r.jsonl", [record()])
    assert len(read_records([tmp_path / "new" / "r.jsonl"])) == 1


@pytest.mark.parametrize("kept", [1, 20, -1])
def test_a_torn_last_line_costs_itself_alone(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "r.jsonl"
    append_records(path, [record(0), record(1)])
    whole = path.read_bytes()
    second = whole.index(b"\n") + 1
    path.write_bytes(whole[:-1] if kept == -1 else whole[: second + kept])
    append_records(path, [record(2)])
    lines = path.read_bytes().splitlines()
    assert len(lines) == 3
    assert RunRecord.model_validate_json(lines[2]) == record(2)
    if kept == -1:  # the record was whole, only its end of line was missing
        assert [r.seed for r in read_records([path])] == [0, 1, 2]
        return
    with pytest.raises(MaghubError) as caught:
        read_records([path])
    one_line(caught.value, str(path), "row 2", "is no result record", "Remove that line")
    path.write_bytes(b"\n".join([lines[0], lines[2]]))
    assert [r.seed for r in read_records([path])] == [0, 2]


def test_a_line_that_another_writer_is_about_to_finish_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    whole = record(seed=1).to_line().encode()
    with path.open("ab") as other, locked(other):
        other.write(whole[:40])
        other.flush()
        writer = threading.Thread(target=append_records, args=(path, [record(seed=2)]))
        writer.start()
        writer.join(0.3)
        assert path.read_bytes() == whole[:40]
        other.write(whole[40:])
        other.flush()
    writer.join(30)
    assert [own.seed for own in read_records([path])] == [1, 2]


def test_values_that_are_no_number_survive(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    append_records(path, [record(metrics={"a": math.nan, "b": math.inf, "c": -math.inf})])
    (found,) = read_records([path])
    assert math.isnan(found.metrics["a"])
    assert (found.metrics["b"], found.metrics["c"]) == (math.inf, -math.inf)


def test_a_record_of_a_later_version_is_read(tmp_path: Path) -> None:
    line = record().model_dump(mode="json") | {"record_version": "1.7", "energy_joules": 3.5}
    (tmp_path / "r").write_text(json.dumps(line) + "\n")
    (found,) = read_records([tmp_path / "r"])
    assert (found.record_version, found.model) == ("1.7", "gcn")


BROKEN: dict[str, tuple[Any, str]] = {
    "no JSON": (b"accuracy = 0.5", "the line"),
    "no object": (b"[1, 2]", "the line"),
    "not UTF-8": (b'{"model": "\xff"}', "the line"),
    "no metrics": (
        b'{"dataset": {"name": "x", "version": "1"}, "task": "t", "model": "m"}',
        "metrics",
    ),
    "no number": (
        b'{"dataset": {"name": "x", "version": "1"}, "task": "t", "model": "m", '
        b'"metrics": {"accuracy": "high"}}',
        "metrics.accuracy",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_line_that_is_no_record_is_named(tmp_path: Path, what: str) -> None:
    line, field = BROKEN[what]
    path = tmp_path / "r.jsonl"
    append_records(path, [record()])
    with path.open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(MaghubError) as caught:
        read_records([path])
    one_line(caught.value, f"{path}, row 2", "is no result record", field)


def test_files_that_cannot_be_read_or_written_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(MaghubError) as caught:
        read_records([tmp_path / "none.jsonl"])
    one_line(caught.value, "none.jsonl", "No such file", "Check the path")
    with pytest.raises(MaghubError) as caught:
        read_records([tmp_path])
    one_line(caught.value, str(tmp_path), "Is a directory")
    with pytest.raises(MaghubError) as caught:
        append_records(tmp_path, [record()])
    one_line(caught.value, str(tmp_path), "Is a directory")
    if os.path.exists("/dev/full"):
        with pytest.raises(MaghubError) as caught:
            append_records(Path("/dev/full"), [record()])
        one_line(caught.value, "/dev/full", "Free some disk space")
