"""The Parquet writer: bytes, row groups, shards and encodings depend on the rows alone."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Features, Image, List, Value
from hypothesis import given, settings
from hypothesis import strategies as st

from maghub import parquet
from maghub.parquet import SplitWriter, row_sizes, table_row_sizes
from maghub.spec import FileEntry

WORDS = ("", "a", "猫と魚", "🧑‍🚒 firefighter", "ein längerer Satz mit Umlauten", "x" * 300)
WITHOUT_IMAGES = Features(
    {
        "number": Value("int64"),
        "flag": Value("bool"),
        "text": Value("string"),
        "label": ClassLabel(names=["no", "yes"]),
        "half": List(Value("float16"), length=5),
        "single": List(Value("float32"), length=3),
        "numbers": List(Value("int64")),
        "parts": List({"name": Value("string"), "scores": List(Value("float32"))}),
        "bits": List(Value("bool"), length=2),
    }
)
EVERYTHING = Features({**WITHOUT_IMAGES, "image": Image()})
NO_VECTORS = Features({k: WITHOUT_IMAGES[k] for k in ("number", "text", "label", "parts")})


def png(value: int) -> bytes:
    buffer = io.BytesIO()
    PIL.Image.new("RGB", (3, 1 + value % 4), (value % 256, 7, 9)).save(buffer, "PNG")
    return buffer.getvalue()


def random_rows(features: Features, count: int, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)

    def some(value: object) -> Any:
        return value if rng.random() < 0.8 else None

    def part() -> dict[str, Any]:
        scores = rng.random(rng.integers(3)).astype(np.float32).tolist()
        return {"name": some(str(rng.choice(WORDS))), "scores": some(scores)}

    def image() -> dict[str, Any] | None:
        return some({"bytes": png(int(rng.integers(1000))), "path": None})

    makers: dict[str, Any] = {
        "number": lambda: int(rng.integers(1000)),
        "flag": lambda: some(bool(rng.integers(2))),
        "text": lambda: some(str(rng.choice(WORDS))),
        "label": lambda: some(int(rng.integers(2))),
        "half": lambda: rng.standard_normal(5).astype(np.float16).tolist(),
        "single": lambda: rng.standard_normal(3).astype(np.float32).tolist(),
        "numbers": lambda: some(rng.integers(9, size=rng.integers(4)).tolist()),
        "parts": lambda: some([part() for _ in range(rng.integers(3))]),
        "bits": lambda: [True, False],
        "image": image,
    }
    return [{name: makers[name]() for name in features} for _ in range(count)]


def to_table(features: Features, rows: Sequence[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=features.arrow_schema)


def cut(table: pa.Table, places: Iterable[int]) -> list[pa.Table]:
    """The table as separate pieces, cut at the given rows (sorted; repeats give empty pieces)."""
    edges = [0, *sorted(min(place, table.num_rows) for place in places), table.num_rows]
    return [table.slice(a, b - a) for a, b in itertools.pairwise(edges)]


def write(folder: Path, features: Features, pieces: Iterable[pa.Table]) -> list[FileEntry]:
    with SplitWriter(folder, "things", "train", features) as writer:
        for piece in pieces:
            writer.write(piece)
    return writer.entries


def group_rows(folder: Path, entries: Sequence[FileEntry]) -> list[list[int]]:
    """Rows of each row group, shard by shard."""
    files = [pq.ParquetFile(folder / entry.path).metadata for entry in entries]
    return [[m.row_group(g).num_rows for g in range(m.num_row_groups)] for m in files]


def slow_size(value: Any, kind: pa.DataType) -> int:
    """Bytes of one value in Arrow memory, one Python object at a time."""
    if pa.types.is_struct(kind):
        return sum(slow_size(value and value[field.name], field.type) for field in kind)
    if pa.types.is_fixed_size_list(kind):
        return sum(slow_size(item, kind.value_type) for item in value)
    if pa.types.is_list(kind):
        return 4 + sum(slow_size(item, kind.value_type) for item in value or ())
    if pa.types.is_string(kind):
        return 4 + len((value or "").encode())
    if pa.types.is_binary(kind):
        return 4 + len(value or b"")
    return {"bool": 1, "int64": 8, "halffloat": 2, "float": 4}[str(kind)]


def slow_row_size(features: Features, row: dict[str, Any]) -> int:
    return sum(slow_size(row[field.name], field.type) for field in features.arrow_schema)


def slow_cut(sizes: Sequence[int], rows: int, group: int, shard: int) -> list[list[int]]:
    """Greedy reference for row groups and shards: rows per group, by shard."""
    groups: list[list[int]] = []
    for size in sizes:
        if not groups or len(groups[-1]) == rows or sum(groups[-1]) + size > group:
            groups.append([])
        groups[-1].append(size)
    shards: list[list[list[int]]] = []
    for sizes_of_group in groups:
        filled = sum(sum(g) for g in shards[-1]) if shards else 0
        if not shards or filled + sum(sizes_of_group) > shard:
            shards.append([])
        shards[-1].append(sizes_of_group)
    return [[len(g) for g in s] for s in shards]


places = st.lists(st.integers(0, 80), max_size=12)


@settings(max_examples=40, deadline=None)
@given(
    features=st.sampled_from([EVERYTHING, WITHOUT_IMAGES, NO_VECTORS]),
    count=st.integers(1, 80),
    seed=st.integers(0, 10**6),
    places=places,
    twice=places,
    rows=st.sampled_from([1, 7, 1000]),
    group=st.sampled_from([100, 2_000, 10**6]),
    shard=st.sampled_from([1_000, 10_000, 10**9]),
)
def test_same_rows_same_bytes_however_chunked(
    features: Features,
    count: int,
    seed: int,
    places: list[int],
    twice: list[int],
    rows: int,
    group: int,
    shard: int,
) -> None:
    table_rows = random_rows(features, count, seed)
    table = to_table(features, table_rows)
    # A piece of its own buffers, and one whose columns are themselves chunked.
    own = [to_table(features, piece.to_pylist()) for piece in cut(table, places)]
    chunked = [pa.concat_tables(cut(piece, twice)) for piece in cut(table, places)]
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as name:
        patch.setattr("os.fsync", lambda handle: None)  # slow where the disk is busy
        patch.setattr(parquet, "ROWS_WITH_IMAGES", rows)
        patch.setattr(parquet, "MAX_GROUP_ROWS", rows)
        patch.setattr(parquet, "MAX_GROUP_BYTES", group)
        patch.setattr(parquet, "MAX_VECTOR_GROUP_BYTES", group)
        patch.setattr(parquet, "MAX_SHARD_BYTES", shard)
        folder = Path(name)
        whole, *others = (
            write(folder / str(i), features, pieces)
            for i, pieces in enumerate(([table], cut(table, places), own, chunked))
        )
        assert all(entries == whole for entries in others)
        sizes = [slow_row_size(features, row) for row in table_rows]
        assert group_rows(folder / "0", whole) == slow_cut(sizes, rows, group, shard)
        back = pa.concat_tables(pq.read_table(folder / "0" / entry.path) for entry in whole)
        assert back.to_pylist() == table.to_pylist()


@settings(max_examples=40, deadline=None)
@given(count=st.integers(0, 40), seed=st.integers(0, 10**6), places=places)
def test_row_sizes_against_a_slow_computation(count: int, seed: int, places: list[int]) -> None:
    rows = random_rows(EVERYTHING, count, seed)
    table = to_table(EVERYTHING, rows)
    slow = [slow_row_size(EVERYTHING, row) for row in rows]
    assert table_row_sizes(table).tolist() == slow
    assert table_row_sizes(pa.concat_tables(cut(table, places))).tolist() == slow
    for field in EVERYTHING.arrow_schema:
        by_column = [slow_size(row[field.name], field.type) for row in rows]
        chunks = [chunk for piece in cut(table, places) for chunk in piece[field.name].chunks]
        assert [size for chunk in chunks for size in row_sizes(chunk)] == by_column


def test_pages_do_not_depend_on_chunks_either(tmp_path: Path) -> None:
    """Large enough for many pages in every column: content-defined chunking cuts them."""
    rng = np.random.default_rng(0)
    count = 60_000
    lengths = rng.integers(0, 20, count)
    numbers = pa.array(rng.integers(10**9, size=lengths.sum()))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    vectors = rng.standard_normal((count, 40)).astype(np.float16)
    features = Features(
        {
            "text": Value("string"),
            "numbers": List(Value("int64")),
            "vector": List(Value("float16"), length=40),
        }
    )
    table = pa.table(
        {
            "text": [
                f"{value:060d}" if value % 9 else None for value in rng.integers(10**9, size=count)
            ],
            "numbers": pa.ListArray.from_arrays(pa.array(offsets), numbers),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 40),
        }
    )
    entries = [
        write(tmp_path / str(number), features, cut(table, rng.integers(0, count, number)))
        for number in (0, 1, 3, 500)
    ]
    assert entries[0][0].bytes > 5e6
    assert all(other == entries[0] for other in entries)


def test_a_group_may_be_exactly_as_large_as_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "MAX_GROUP_BYTES", 24)
    features = Features({"number": Value("int64")})
    entries = write(tmp_path, features, [pa.table({"number": [1]}) for _ in range(7)])
    assert group_rows(tmp_path, entries) == [[3, 3, 1]]


def test_a_row_larger_than_every_limit_stands_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "MAX_GROUP_BYTES", 100)
    monkeypatch.setattr(parquet, "MAX_SHARD_BYTES", 300)
    features = Features({"text": Value("string")})
    texts = ["a" * 10, "b" * 5000, "c" * 10, "d" * 5000, "e" * 10, "f" * 10]
    entries = write(tmp_path, features, [pa.table({"text": [text]}) for text in texts])
    assert group_rows(tmp_path, entries) == [[1], [1], [1], [1], [2]]


def test_names_checksums_and_counts_of_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "MAX_GROUP_ROWS", 10)
    monkeypatch.setattr(parquet, "MAX_SHARD_BYTES", 24 * 8)
    features = Features({"number": Value("int64")})
    with SplitWriter(tmp_path, "things", "test", features) as writer:
        writer.write(pa.table({"number": np.arange(45)}))
    assert [entry.path for entry in writer.entries] == [
        f"things/test-{i:05d}-of-00003.parquet" for i in range(3)
    ]
    assert [entry.rows for entry in writer.entries] == [20, 20, 5]
    assert writer.num_bytes == 45 * 8
    for entry in writer.entries:
        data = (tmp_path / entry.path).read_bytes()
        assert (entry.bytes, entry.sha256) == (len(data), hashlib.sha256(data).hexdigest())
        assert entry.split == "test"
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*"))
    assert files == [entry.path for entry in writer.entries]


def columns_of(path: Path) -> dict[str, Any]:
    group = pq.ParquetFile(path).metadata.row_group(0)
    return {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}


def test_images_plain_vectors_undictionaried_and_a_page_index(tmp_path: Path) -> None:
    rows = random_rows(EVERYTHING, 90, seed=1)
    (entry,) = write(tmp_path, EVERYTHING, [to_table(EVERYTHING, rows)])
    path = tmp_path / entry.path
    columns = columns_of(path)
    vectors = {"half.list.element", "single.list.element"}
    images = {"image.bytes", "image.path"}
    for name, column in columns.items():
        assert column.has_offset_index, name
        assert column.compression == ("UNCOMPRESSED" if name in images else "ZSTD"), name
        plain = name in vectors | images
        assert column.has_dictionary_page == (not plain and column.physical_type != "BOOLEAN"), name
        if not plain:
            assert column.has_column_index, name
            assert column.is_stats_set, name
    data = path.read_bytes()
    assert all(row["image"]["bytes"] in data for row in rows if row["image"])


def test_no_timestamps_or_machine_facts_in_the_file(tmp_path: Path) -> None:
    table = to_table(EVERYTHING, random_rows(EVERYTHING, 5, seed=2))
    (entry,) = write(tmp_path, EVERYTHING, [table])
    metadata = pq.ParquetFile(tmp_path / entry.path).metadata
    assert metadata.created_by == f"parquet-cpp-arrow version {pa.__version__}"
    assert set(metadata.metadata) == {b"huggingface", b"ARROW:schema"}
    assert list(json.loads(metadata.metadata[b"huggingface"])) == ["info"]


def test_inserted_rows_leave_later_pages_as_they_were(tmp_path: Path) -> None:
    features = Features({"vector": List(Value("float32"), length=64)})
    values = np.random.default_rng(0).standard_normal((40_000, 64)).astype(np.float32)

    def file_of(rows: np.ndarray, name: str) -> bytes:
        flat = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 64)
        (entry,) = write(tmp_path / name, features, [pa.table({"vector": flat})])
        return (tmp_path / name / entry.path).read_bytes()

    before = file_of(values, "before")
    after = file_of(np.concatenate([values[-10:], values]), "after")
    step = 16_384
    pieces = [before[at : at + step] for at in range(0, len(before) - step, step)]
    kept = sum(piece in after for piece in pieces)
    assert kept > len(pieces) / 2, f"{kept} of {len(pieces)} pieces kept"


def test_wrong_columns_are_refused(tmp_path: Path) -> None:
    features = Features({"a": Value("int64"), "b": Value("string")})
    with pytest.raises(pa.ArrowException), SplitWriter(tmp_path, "t", "full", features) as writer:
        writer.write(pa.table({"a": ["x"], "b": ["y"]}))
