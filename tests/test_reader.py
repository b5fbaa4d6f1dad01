"""Columns are read only from files that are what ``maghub.json`` and the format say."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from maghub.errors import MaghubError
from maghub.loading import load
from maghub.mkg import write_benchmark
from maghub.mkg.benchmark import KGRag
from maghub.reader import RowReader, iter_groups, read_columns
from maghub.spec import read_spec
from tests.helpers.graphs import random_toy, write_toy
from tests.helpers.kgrag import BUILDER, own_card, small_records

Change = Callable[[pa.Table, str], pa.Table]


def put(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)


def null_in_row_2(table: pa.Table, name: str) -> pa.Table:
    values = table[name].to_pylist()
    values[2] = None
    return put(table, name, pa.array(values, table[name].type))


def twice(table: pa.Table, name: str) -> pa.Table:
    return table.append_column(name, table[name])


def other_type(table: pa.Table, name: str) -> pa.Table:
    return put(table, name, pa.array([[str(value)] for value in table[name].to_pylist()]))


CHANGES: dict[str, Change] = {
    "column is missing": lambda table, name: table.drop_columns([name]),
    "column comes twice": twice,
    "is list<element: string>, maghub.json says": other_type,
    "rows, maghub.json says": lambda table, name: table.slice(1),
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reader") / "toy"
    write_toy(random_toy(), folder)
    return folder


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reader") / "questions"
    write_benchmark(small_records(), own_card(), folder, builder=BUILDER)
    return folder


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[Path, str, Change, str], Path]:
    def changed(source: Path, config: str, change: Change, column: str) -> Path:
        folder = Path(shutil.copytree(source, tmp_path / "copy"))
        path = sorted((folder / config).glob("*.parquet"))[0]
        pq.write_table(change(pq.read_table(path), column), path)
        return folder

    return changed


def one_line(error: pytest.ExceptionInfo[MaghubError], *words: str) -> None:
    line = error.value.line()
    assert "\n" not in line
    for word in words:
        assert word in line, line


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize(("config", "column"), [("nodes", "text"), ("edges", "dst")])
def test_a_file_that_is_not_as_declared(
    graph: Path, copy: Callable[..., Path], config: str, column: str, what: str
) -> None:
    folder = copy(graph, config, CHANGES[what], column)
    spec = read_spec(folder).config(config)
    for read in (
        lambda: read_columns(folder, spec, [column]),
        lambda: list(iter_groups(folder, spec, [column])),
        lambda: list(RowReader(folder, spec, [column])(0, spec.rows)),
    ):
        with pytest.raises(MaghubError) as error:
            read()
        one_line(error, f"{config}/", "-00000-of-00001.parquet", what, "maghub validate")
    other = "source_id" if config == "nodes" else "src"  # what nobody asks for does not matter
    if "rows" not in what:
        assert len(read_columns(folder, spec, [other])) == spec.rows


@pytest.mark.parametrize(
    ("config", "column", "ask"),
    [
        ("queries", "text", lambda rag: rag.queries()),
        ("queries", "masked", lambda rag: rag.queries()),
        ("corpus", "is_multimodal", lambda rag: rag.corpus_rows(True)),
        ("corpus", "head_id", lambda rag: rag.corpus),
        ("qrels", "corpus-id", lambda rag: rag.relevant()),
        ("qa", "masked", lambda rag: rag.qa()),
        ("entities", "name", lambda rag: rag.entities),
    ],
)
def test_a_value_that_must_be_there(
    questions: Path, copy: Callable[..., Path], config: str, column: str, ask: Callable[..., object]
) -> None:
    rag = load(copy(questions, config, null_in_row_2, column))
    assert isinstance(rag, KGRag)
    with pytest.raises(MaghubError) as error:
        ask(rag)
    one_line(error, f"column {column}, row 2: is null", "maghub validate")


def test_a_value_that_may_be_missing(questions: Path) -> None:
    queries = load(questions).queries()  # type: ignore[attr-defined]
    assert queries["tail_id"].null_count
    assert queries["rel_id"].null_count


def test_a_class_that_is_none(questions: Path, copy: Callable[..., Path]) -> None:
    rag = load(copy(questions, "qa", lambda t, c: put(t, c, pa.array([7] * len(t))), "masked"))
    with pytest.raises(MaghubError) as error:
        rag.qa()  # type: ignore[attr-defined]
    one_line(error, "column masked, row 0: is no class")


def test_columns_that_maghub_json_lacks_or_declares_otherwise(graph: Path) -> None:
    spec = read_spec(graph).config("nodes")
    with pytest.raises(MaghubError) as error:
        read_columns(graph, spec, ["colour"])
    one_line(error, "maghub.json, column nodes.colour: column is missing")
    other = {**spec.features, "text": spec.features["node_id"]}
    with pytest.raises(MaghubError) as error:
        read_columns(graph, spec.model_copy(update={"features": other}), ["text"])
    one_line(error, "maghub.json, column nodes.text: is int64, must be string")
