"""Reading the Parquet files of a published folder in bounded memory, column by column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from maghub.errors import MaghubError
from maghub.files import os_errors
from maghub.spec import ConfigSpec, FileEntry


def open_parquet(path: Path, shown: str | None = None) -> pq.ParquetFile:
    """Open one Parquet file, memory-mapped.

    Raises:
        MaghubError: The file is missing, cut off or not Parquet.
    """
    with os_errors(shown or path):
        try:
            return pq.ParquetFile(path, memory_map=path.stat().st_size > 0)
        except pa.ArrowInvalid as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise MaghubError(
                f"is not a whole Parquet file ({reason})",
                where=shown or path,
                fix="it was cut off or damaged: copy or build it again",
            ) from None


def iter_groups(
    folder: Path, config: ConfigSpec, columns: Sequence[str], split: str | None = None
) -> Iterator[tuple[str, int, pa.Table]]:
    """Row groups of a config as (file, first row within the file, table), in stored order."""
    for entry in config.files:
        if split is not None and entry.split != split:
            continue
        file = open_parquet(folder / entry.path, entry.path)
        row = 0
        for index in range(file.num_row_groups):
            table = _read_group(file, index, columns, entry.path)
            yield entry.path, row, table
            row += table.num_rows


def _read_group(file: pq.ParquetFile, index: int, columns: Sequence[str], shown: str) -> pa.Table:
    try:
        return file.read_row_group(index, columns=list(columns))
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise MaghubError(
            f"row group {index} cannot be read ({reason})",
            where=shown,
            fix="the file is damaged: copy or build it again",
        ) from None


class RowReader:
    """Reads ranges of rows of a config, in stored order.

    The last row group is kept, so that reading on where the last range ended decodes it once.
    """

    def __init__(self, folder: Path, config: ConfigSpec, columns: Sequence[str]) -> None:
        self.folder, self.config, self.columns = folder, config, tuple(columns)
        self._file: tuple[str, pq.ParquetFile] | None = None
        self._kept: tuple[str, int, pa.Table] | None = None

    def __call__(self, start: int, stop: int) -> Iterator[pa.Table]:
        """Rows ``start..stop``, one table per row group."""
        first = 0
        for entry in self.config.files:
            if first < stop and first + entry.rows > start:
                yield from self._within(entry, start - first, stop - first)
            first += entry.rows

    def _within(self, entry: FileEntry, start: int, stop: int) -> Iterator[pa.Table]:
        if self._file is None or self._file[0] != entry.path:
            self._file = entry.path, open_parquet(self.folder / entry.path, entry.path)
        file = self._file[1]
        row = 0
        for index in range(file.num_row_groups):
            end = row + file.metadata.row_group(index).num_rows
            if row < stop and end > start:
                low = max(start - row, 0)
                yield self._group(file, entry.path, index).slice(low, min(stop, end) - row - low)
            row = end

    def _group(self, file: pq.ParquetFile, path: str, index: int) -> pa.Table:
        if self._kept is None or self._kept[:2] != (path, index):
            self._kept = None  # two at once would double the memory
            self._kept = path, index, _read_group(file, index, self.columns, path)
        return self._kept[2]


def read_columns(
    folder: Path, config: ConfigSpec, columns: Sequence[str], split: str | None = None
) -> pa.Table:
    """Whole columns of a config (all splits one after the other unless one is named)."""
    tables = [table for _, _, table in iter_groups(folder, config, columns, split)]
    if not tables:
        raise MaghubError(f"config {config.name} holds no rows", where=folder)
    return pa.concat_tables(tables)


def int_columns(
    folder: Path, config: ConfigSpec, columns: Sequence[str]
) -> list[NDArray[np.int64]]:
    """Whole int64 columns as numpy arrays."""
    table = read_columns(folder, config, columns)
    return [np.asarray(table.column(name).combine_chunks(), dtype=np.int64) for name in columns]
