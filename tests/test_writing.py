"""Whole folders: what is written comes back, and the bytes depend on the rows alone."""

from __future__ import annotations

import dataclasses
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Features, Value
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maghub import layout, schema
from maghub.building import build
from maghub.errors import MaghubError, place
from maghub.hub.policy import METADATA
from maghub.spec import BuilderInfo, FolderSpec, read_spec
from maghub.tables import Batch, Facts, MadeTable, Recipe, Table, in_memory
from maghub.writing import write_config, write_folder, write_tables
from tests.helpers.graphs import (
    LABELS,
    Toy,
    files_of,
    png,
    random_toy,
    toy_card,
    toy_tables,
    write_toy,
)

TEXT = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["", "猫と魚", "👩‍🚒🏽", "🇨🇭", "e\u0301", "\x00\n\r\t", "א ب", "\ufeff", "𝔘"]),
)
FLOAT16 = st.floats(width=16, allow_nan=False, allow_infinity=False)
IMAGE = st.one_of(
    st.none(),
    st.builds(png, st.integers(0, 255), st.sampled_from(["RGB", "RGBA", "L"])),
)


@st.composite
def toys(draw: st.DrawFn) -> Toy:
    """Any small graph: columns and tables may be missing or empty, splits may be empty."""
    n = draw(st.integers(1, 12))
    node = st.integers(0, n - 1)
    directed = draw(st.booleans())
    edges = draw(st.lists(st.tuples(node, node, st.integers(0, 1)), max_size=15))
    if not directed:
        edges = [(min(a, b), max(a, b), r) for a, b, r in edges]

    def rows(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=n, max_size=n))

    vectors = {}
    for modality in draw(st.sets(st.sampled_from(layout.MODALITIES))):
        width = draw(st.integers(1, 5))
        values = draw(st.lists(FLOAT16, min_size=n * width, max_size=n * width))
        vectors[modality] = np.asarray(values, np.float16).reshape(n, width)
    return Toy(
        texts=rows(TEXT),
        labels=rows(st.sampled_from([None, 0, 1, 2])) if draw(st.booleans()) else None,
        images=rows(IMAGE) if draw(st.booleans()) else None,
        edges=sorted(set(edges)),
        codes=rows(st.integers(0, 3)) if draw(st.booleans()) else None,
        vectors=dict(sorted(vectors.items())),
        negatives=None,
        directed=directed,
        self_loops=True,
    )


def write(toy: Toy, out: Path) -> tuple[FolderSpec, list[Table]]:
    return write_toy(toy, out), toy_tables(toy)[0]


def expected_splits(table: Table) -> dict[str, list[dict[str, Any]]]:
    """Rows of each split that is not empty, from the table itself."""
    rows = table.read(0, table.num_rows).to_pylist()
    codes = [0] * len(rows) if table.split_ids is None else table.split_ids.tolist()
    wanted = {
        split: [
            {name: row[name] for name in table.features}
            for row, code in zip(rows, codes, strict=True)
            if code == index
        ]
        for index, split in enumerate(table.split_names)
    }
    return {split: found for split, found in wanted.items() if found}


@pytest.fixture(autouse=True, scope="module")
def _no_fsync() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda handle: None)  # slow where the disk is busy
        yield


FUZZ = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@settings(FUZZ, max_examples=150)
@given(toy=toys())
def test_any_folder_reads_back_with_pyarrow(toy: Toy) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "out"
        spec, tables = write(toy, folder)
        assert read_spec(folder) == spec
        by_config = {config.name: config for config in spec.configs}
        assert list(by_config) == [table.config for table in tables if table.num_rows]
        for table in tables:
            if not table.num_rows:
                assert not (folder / table.config).exists()
                continue
            config = by_config[table.config]
            wanted = expected_splits(table)
            assert config.splits == {split: len(rows) for split, rows in wanted.items()}
            assert Features.from_dict(config.features) == table.features
            for split, rows in wanted.items():
                files = [folder / entry.path for entry in config.files if entry.split == split]
                found = [row for file in files for row in pq.read_table(file).to_pylist()]
                assert found == rows
        listed = {entry.path for config in spec.configs for entry in config.files}
        assert set(files_of(folder)) == {*listed, *METADATA}


@settings(FUZZ, max_examples=15)
@given(toy=toys())
def test_any_folder_loads_with_datasets(toy: Toy) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, cache = Path(name) / "out", str(Path(name) / "cache")
        spec, tables = write(toy, folder)
        for table in tables:
            if not table.num_rows:
                continue
            config = None if table.config == layout.NODES else table.config
            loaded = datasets.load_dataset(str(folder), config, cache_dir=cache)
            wanted = expected_splits(table)
            assert {split: len(part) for split, part in loaded.items()} == {
                split: len(rows) for split, rows in wanted.items()
            }
            for split, part in loaded.items():
                assert part.features == table.features
                assert part.with_format("arrow")[:].to_pylist() == wanted[split]
                if table.kind == "nodes" and "image" in part.features:
                    for row, source in zip(part, wanted[split], strict=True):
                        assert (row["image"] is None) == (source["image"] is None)
                        if row["image"] is not None:
                            row["image"].load()
        assert spec.config(layout.NODES).rows == toy.n


def test_labels_images_and_vectors_as_a_user_of_datasets_sees_them(tmp_path: Path) -> None:
    toy = random_toy(12, seed=1)
    write_toy(toy, tmp_path / "toy")
    loaded = datasets.load_dataset(str(tmp_path / "toy"), cache_dir=str(tmp_path / "cache"))
    assert list(loaded) == list(layout.SPLITS)
    for part in loaded.values():
        for row in part:
            node = row["node_id"]
            assert row["text"] == toy.texts[node]
            assert row["label"] == toy.labels[node]
            blob = toy.images[node]
            assert (row["image"] is None) == (blob is None)
            if blob is not None:
                assert row["image"].size == (2 + node % 3, 2)
    assert loaded["train"].features["label"] == ClassLabel(names=list(LABELS))
    vectors = datasets.load_dataset(
        str(tmp_path / "toy"), "embeddings-toy-encoder", cache_dir=str(tmp_path / "cache")
    )["full"]
    found = np.asarray(vectors.with_format("arrow")[:]["text"].combine_chunks().flatten())
    assert found.dtype == np.float16
    assert np.array_equal(found.reshape(12, 8), toy.vectors["text"])


@pytest.mark.integration
@pytest.mark.parametrize("seed", [0, 7])
def test_same_bytes_for_one_and_two_workers(tmp_path: Path, seed: int) -> None:
    toy = random_toy(60, seed=seed, loops=2)
    write_toy(toy, tmp_path / "one", workers=1)
    write_toy(toy, tmp_path / "two", workers=2)
    write_toy(random_toy(60, seed=seed + 1, loops=2), tmp_path / "other")
    one, two = files_of(tmp_path / "one"), files_of(tmp_path / "two")
    assert len(one) > 10
    assert one == two
    assert one != files_of(tmp_path / "other")


@pytest.mark.integration
def test_emoji_same_bytes_for_one_and_two_workers(tmp_path: Path) -> None:
    first = build("emoji", tmp_path / "one", seed=5)
    build("emoji", tmp_path / "two", seed=5, workers=2)
    assert first.builder.seed == 5
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")


@dataclasses.dataclass(frozen=True)
class _BadRow:
    """A reader that meets a damaged upstream row."""

    read: Callable[[int, int], pa.Table]
    row: int

    def __call__(self, start: int, stop: int) -> pa.Table:
        if start <= self.row < stop:
            raise MaghubError(
                "is no number", where=place("raw.csv", "year", self.row), fix="mend it"
            )
        return self.read(start, stop)


def _made(number: int) -> Batch:
    """Part ``number`` of a recipe: rows of two configs, some splits and parts without any."""
    numbers = pa.table({"number": np.arange(number * 10, number * 10 + number)})
    words = pa.table({"word": [f"猫 {number}"]})
    rows = {"numbers": {"train": numbers, "test": numbers[:0]}, "words": {"full": words}}
    return Batch(rows, {"parts": 1, "words": {"long": number}})


@pytest.mark.integration
@pytest.mark.parametrize("workers", [1, 2])
def test_configs_made_together_by_parts(tmp_path: Path, workers: int) -> None:
    recipe = Recipe(_made, {"train": [(n,) for n in range(6)], "test": [(2,)], "full": [(5,)]})
    tables = [
        MadeTable("words", "table", Features({"word": Value("string")}), recipe),
        MadeTable("numbers", "table", Features({"number": Value("int64")}), recipe),
    ]
    configs, counts = write_tables(tmp_path, tables, workers)
    assert [(config.name, config.splits) for config in configs] == [
        ("words", {"full": 6}),
        ("numbers", {"train": 15}),
    ]
    assert counts == {"parts": 6, "words": {"long": 15}}
    assert sorted(files_of(tmp_path)) == [
        "numbers/train-00000-of-00001.parquet",
        "words/full-00000-of-00001.parquet",
    ]
    found = pq.read_table(tmp_path / configs[1].files[0].path)["number"].to_pylist()
    assert found == [n * 10 + i for n in range(6) for i in range(n)]
    assert counts["parts"] == len(recipe.parts())


@pytest.mark.integration
def test_an_error_in_a_worker_is_the_same_one_line(tmp_path: Path) -> None:
    nodes = toy_tables(random_toy(20))[0][0]
    broken = dataclasses.replace(nodes, read=_BadRow(nodes.read, 17), part_size=4, parallel=True)
    messages = []
    for workers in (1, 2):
        with pytest.raises(MaghubError) as caught:
            write_config(tmp_path / str(workers), broken, workers)
        messages.append((str(caught.value), caught.value.where, caught.value.fix))
    assert messages[0] == messages[1]
    assert "row 17" in messages[0][0]


def test_an_existing_folder_is_kept_or_replaced_whole(tmp_path: Path) -> None:
    out = tmp_path / "toy"
    write_toy(random_toy(30), out)
    before = files_of(out)
    with pytest.raises(MaghubError, match="already exists"):
        write_toy(random_toy(20), out)
    assert files_of(out) == before
    write_toy(random_toy(20, seed=3), out, overwrite=True)
    assert read_spec(out).graph.num_nodes == 20
    assert [path.name for path in tmp_path.iterdir()] == ["toy"]


def test_a_failing_builder_leaves_nothing_behind(tmp_path: Path) -> None:
    tables, facts = toy_tables(random_toy(30))
    short = dataclasses.replace(tables[1], read=lambda start, stop: tables[1].read(start, stop - 1))
    builder = BuilderInfo(name="toy", version="1.0.0", seed=0)
    with pytest.raises(MaghubError, match="edges: builder gave"):
        write_folder(tmp_path / "out", [tables[0], short], facts, builder, toy_card())
    assert list(tmp_path.iterdir()) == []
    card = toy_card()
    bare = card.model_copy(update={"spec": card.spec.model_copy(update={"columns": {}})})
    with pytest.raises(MaghubError, match=r"nodes\.year is not declared.*edges\.relation"):
        write_folder(tmp_path / "out", tables, facts, builder, bare)
    empty = in_memory(
        "nodes",
        "nodes",
        schema.nodes_features(image=False),
        {"node_id": [], "source_id": [], "text": []},
    )
    with pytest.raises(MaghubError, match="every table is empty"):
        write_folder(tmp_path / "out", [empty], Facts(), builder, card)
    assert list(tmp_path.iterdir()) == []


def test_spec_and_readme_hold_no_path_and_no_time(tmp_path: Path) -> None:
    write_toy(random_toy(20), tmp_path / "a")
    shutil.move(tmp_path / "a", tmp_path / "kept")
    write_toy(random_toy(20), tmp_path / "deep" / "er" / "b")
    kept, again = files_of(tmp_path / "kept"), files_of(tmp_path / "deep" / "er" / "b")
    assert kept == again
    text = json.dumps([kept[name].decode() for name in METADATA])
    assert str(tmp_path) not in text


def test_wrong_types_of_a_builder_are_cast_or_refused(tmp_path: Path) -> None:
    features = Features({"edge_id": Value("int64"), "name": Value("string")})
    small = in_memory(
        "t", "table", features, {"edge_id": np.arange(3, dtype=np.int8), "name": list("abc")}
    )
    config = write_config(tmp_path, small)
    assert config is not None
    assert pq.read_table(tmp_path / config.files[0].path).schema.field("edge_id").type == "int64"
    wrong = in_memory("u", "table", features, {"edge_id": ["x"], "name": ["a"]})
    with pytest.raises(Exception, match="x"):
        write_config(tmp_path, wrong)
