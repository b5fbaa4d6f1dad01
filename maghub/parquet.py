"""The only Parquet writer of the package.

Same rows, same pyarrow version, same bytes: row groups are cut by a rule that looks at the rows
alone (never at how the input was chunked), chunks are combined before writing, and no timestamp is
stored. Layout choices: zstd, page index, content-defined chunking (deduplicated uploads), image
bytes plain and uncompressed, no dictionary for vectors; row groups of at most 100 rows with images
(so that a viewer can page through them), of at most 64 MiB, and of at most 16 MiB with vectors
(pyarrow's chunking of fixed-size lists costs time quadratic in the row group: 3x from 16 to 64
MiB); shards of at most 500 MB.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from datasets import Features, Image, config
from numpy.typing import NDArray

from maghub import layout
from maghub.schema import vector_columns
from maghub.spec import FileEntry

ROWS_WITH_IMAGES = 100
MAX_GROUP_ROWS = 100_000
MAX_GROUP_BYTES = 64 * 1024**2
MAX_VECTOR_GROUP_BYTES = 16 * 1024**2
MAX_SHARD_BYTES = 500_000_000


def row_sizes(array: pa.Array) -> NDArray[np.int64]:
    """Bytes of each row in Arrow memory, without validity bitmaps; independent of chunking."""
    kind, n = array.type, len(array)
    if pa.types.is_struct(kind):
        return sum((row_sizes(child) for child in array.flatten()), np.zeros(n, np.int64))
    if pa.types.is_fixed_size_list(kind):
        start = array.offset * kind.list_size
        values = array.values.slice(start, n * kind.list_size)
        return row_sizes(values).reshape(n, kind.list_size).sum(axis=1)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        if n == 0:
            return np.zeros(0, np.int64)
        offsets = np.asarray(array.offsets)
        child = row_sizes(array.values.slice(offsets[0], offsets[-1] - offsets[0]))
        total = np.concatenate([[0], np.cumsum(child, dtype=np.int64)])
        return np.diff(total[offsets - offsets[0]]) + 4
    if _is_binary(kind):
        lengths = pc.fill_null(pc.binary_length(array), 0)
        return lengths.to_numpy(zero_copy_only=False).astype(np.int64) + 4
    width = 0 if pa.types.is_null(kind) else max(kind.bit_width // 8, 1)
    return np.full(n, width, np.int64)


def _is_binary(kind: pa.DataType) -> bool:
    checks = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string)
    return any(check(kind) for check in (*checks, pa.types.is_large_binary))


def table_row_sizes(table: pa.Table) -> NDArray[np.int64]:
    """Bytes of each row of a table, summed over its columns."""
    total = np.zeros(table.num_rows, np.int64)
    for column in table.columns:
        if pa.types.is_fixed_size_list(column.type) and pa.types.is_primitive(
            column.type.value_type
        ):
            total += column.type.list_size * max(column.type.value_type.bit_width // 8, 1)
        elif column.num_chunks:
            total += np.concatenate([row_sizes(chunk) for chunk in column.chunks])
    return total


def _leaves(name: str, kind: pa.DataType) -> Iterator[str]:
    """Parquet paths of the leaf columns below one field."""
    if pa.types.is_struct(kind):
        for child in kind:
            yield from _leaves(f"{name}.{child.name}", child.type)
    elif (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    ):
        yield from _leaves(f"{name}.list.element", kind.value_type)
    else:
        yield name


def writer_options(features: Features) -> dict[str, Any]:
    """Arguments of ``pyarrow.parquet.ParquetWriter`` for a table of these columns."""
    schema = features.arrow_schema
    leaves = {name: list(_leaves(name, schema.field(name).type)) for name in features}
    vectors = {leaf for name in vector_columns(features) for leaf in leaves[name]}
    images = {
        leaf
        for name, feature in features.items()
        if isinstance(feature, Image)
        for leaf in leaves[name]
    }
    every = [leaf for group in leaves.values() for leaf in group]
    plain = vectors | images
    return {
        "compression": {leaf: "none" if leaf in images else "zstd" for leaf in every},
        "compression_level": {leaf: 1 for leaf in every if leaf not in images},
        "use_dictionary": [leaf for leaf in every if leaf not in plain] or False,
        "write_statistics": [leaf for leaf in every if leaf not in plain] or False,
        "write_page_index": True,
        "use_content_defined_chunking": config.DEFAULT_CDC_OPTIONS,
    }


class _HashingFile:
    """A binary file that hashes what is written and reaches the disk before it closes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sha256 = hashlib.sha256()
        self.bytes = 0
        self._file = path.open("wb")

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self.sha256.update(view)
        self.bytes += view.nbytes
        self._file.write(view)
        return view.nbytes

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        self._file.flush()

    def writable(self) -> bool:
        return True

    @property
    def closed(self) -> bool:
        return self._file.closed

    def close(self) -> None:
        if not self._file.closed:
            try:
                self._file.flush()
                os.fsync(self._file.fileno())
            finally:
                self._file.close()


class SplitWriter:
    """Writes one split of one config as Parquet shards.

    Use as a context manager; ``entries`` holds the finished shards afterwards. An exception inside
    leaves temporary files behind in the folder being staged, which its owner removes.
    """

    def __init__(self, folder: Path, name: str, split: str, features: Features) -> None:
        self.folder, self.name, self.split, self.features = folder, name, split, features
        self.entries: list[FileEntry] = []
        self.num_bytes = 0
        has_image = any(isinstance(feature, Image) for feature in features.values())
        self._max_rows = ROWS_WITH_IMAGES if has_image else MAX_GROUP_ROWS
        vectors = vector_columns(features)
        self._max_bytes = MAX_VECTOR_GROUP_BYTES if vectors else MAX_GROUP_BYTES
        self._options = writer_options(features)
        self._pending: list[pa.Table] = []
        self._sizes = np.zeros(0, np.int64)
        self._shards: list[tuple[_HashingFile, int]] = []
        self._writer: pq.ParquetWriter | None = None
        self._shard_bytes = self._shard_rows = 0

    def __enter__(self) -> SplitWriter:
        (self.folder / self.name).mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        if kind is None:
            self._emit(final=True)
            self._close_shard()
            self._rename()
        elif self._writer is not None:
            sink = self._shards[-1][0]
            try:
                self._writer.close()
            except OSError:
                pass
            finally:
                sink.close()

    def write(self, table: pa.Table) -> None:
        """Append rows; ``table`` must have exactly the columns of ``features``, in order."""
        if table.num_rows:
            self._pending.append(table)
            self._sizes = np.concatenate([self._sizes, table_row_sizes(table)])
            self._emit(final=False)

    def _emit(self, *, final: bool) -> None:
        """Write every row group that is certainly complete (``final``: whatever is left too)."""
        start = 0
        ends = np.cumsum(self._sizes)
        buffered: pa.Table | None = None
        while start < len(ends):
            before = ends[start - 1] if start else 0
            stop = int(np.searchsorted(ends, before + self._max_bytes, side="right"))
            stop = min(max(stop, start + 1), start + self._max_rows)
            if stop >= len(ends) and not final and stop - start < self._max_rows:
                break
            stop = min(stop, len(ends))
            if buffered is None:
                buffered = pa.concat_tables(self._pending)
            self._write_group(buffered.slice(start, stop - start), int(ends[stop - 1] - before))
            start = stop
        if start and buffered is not None:
            self._pending = [buffered.slice(start)] if start < len(ends) else []
            self._sizes = self._sizes[start:]

    def _write_group(self, group: pa.Table, size: int) -> None:
        if self._writer is not None and self._shard_bytes + size > MAX_SHARD_BYTES:
            self._close_shard()
        if self._writer is None:
            path = self.folder / self.name / f"{self.split}-{len(self._shards):05d}.partial"
            sink = _HashingFile(path)
            self._shards.append((sink, 0))
            schema = self.features.arrow_schema
            self._writer = pq.ParquetWriter(pa.PythonFile(sink, mode="w"), schema, **self._options)
        arrays = [column.combine_chunks() for column in group.columns]
        whole = pa.Table.from_arrays(arrays, schema=self.features.arrow_schema)
        self._writer.write_table(whole, row_group_size=max(group.num_rows, 1))
        self._shard_bytes += size
        self._shard_rows += group.num_rows
        self.num_bytes += size

    def _close_shard(self) -> None:
        if self._writer is not None:
            self._writer.close()
            sink, _ = self._shards[-1]
            sink.close()
            self._shards[-1] = (sink, self._shard_rows)
            self._writer, self._shard_bytes, self._shard_rows = None, 0, 0

    def _rename(self) -> None:
        for index, (sink, rows) in enumerate(self._shards):
            path = layout.data_file(self.name, self.split, index, len(self._shards))
            os.replace(sink.path, self.folder / path)
            self.entries.append(
                FileEntry(
                    path=path,
                    split=self.split,
                    rows=rows,
                    bytes=sink.bytes,
                    sha256=sink.sha256.hexdigest(),
                )
            )
