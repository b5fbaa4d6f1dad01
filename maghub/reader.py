"""Reading the Parquet files of a published folder in bounded memory, column by column.

A file is read only if it has as many rows and such columns as ``maghub.json`` says, and values
where the format asks for them, so that nobody who reads columns has to look for that again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from datasets import ClassLabel
from numpy.typing import NDArray

from maghub import layout
from maghub.errors import MaghubError, first_line, place
from maghub.files import os_errors
from maghub.schema import describe, features_from_dict, nullable, required_columns
from maghub.spec import VECTOR_KINDS, ConfigSpec, FileEntry

DAMAGE = (OSError, pa.ArrowException, UnicodeDecodeError)
"""What reading a damaged Parquet file raises; the last one for the name of a column."""
_AGAIN = "find out why with: maghub validate FOLDER"


def open_parquet(path: Path, shown: str | None = None) -> pq.ParquetFile:
    """Open one Parquet file, memory-mapped.

    Raises:
        MaghubError: The file is missing, cut off or not Parquet.
    """
    with os_errors(shown or path):
        try:
            return pq.ParquetFile(path, memory_map=path.stat().st_size > 0)
        except ValueError as error:  # so is ArrowInvalid
            raise MaghubError(
                f"is not a whole Parquet file ({first_line(error)})",
                where=shown or path,
                fix="it was cut off or damaged: copy or build it again",
            ) from None


class _Columns:
    """Some columns of a config as ``maghub.json`` declares them and the format asks.

    Raises:
        MaghubError: The config has no such column, or one of another type than its kind asks for.
    """

    def __init__(self, config: ConfigSpec, names: Sequence[str]) -> None:
        features = features_from_dict(config.features)
        fixed = required_columns(config.kind)
        for name in names:
            where = place(layout.SPEC_FILE, f"{config.name}.{name}")
            if name not in features:
                raise MaghubError("column is missing", where=where, fix=_AGAIN)
            if name in fixed and features[name] != fixed[name]:
                what = f"is {describe(features[name])}, must be {describe(fixed[name])}"
                raise MaghubError(what, where=where, fix=_AGAIN)
        self.names = list(names)
        self._features = features
        self._types = {name: features.arrow_schema.field(name).type for name in names}
        filled = set(fixed) - set(nullable(config.kind))
        if config.kind in VECTOR_KINDS:
            filled |= {layout.has_column(modality) for modality in layout.MODALITIES}
        self._filled = [name for name in names if name in filled]

    def open(self, folder: Path, entry: FileEntry) -> pq.ParquetFile:
        """A file of the config, if it is what ``maghub.json`` says.

        Raises:
            MaghubError: See ``open_parquet``; also other numbers of rows, or other columns.
        """
        file = open_parquet(folder / entry.path, entry.path)
        rows, schema = file.metadata.num_rows, file.schema_arrow
        if rows != entry.rows:
            what = f"has {rows:,} rows, {layout.SPEC_FILE} says {entry.rows:,}"
            raise MaghubError(what, where=entry.path, fix=_AGAIN)
        for name, wanted in self._types.items():
            where = place(entry.path, name)
            if schema.names.count(name) != 1:
                what = "column is missing" if name not in schema.names else "column comes twice"
                raise MaghubError(what, where=where, fix=_AGAIN)
            if (own := schema.field(name).type) != wanted:
                what = f"is {own}, {layout.SPEC_FILE} says {describe(self._features[name])}"
                raise MaghubError(what, where=where, fix=_AGAIN)
        return file

    def read(self, file: pq.ParquetFile, index: int, shown: str, first: int) -> pa.Table:
        """One row group, which begins at row ``first`` of the file.

        Raises:
            MaghubError: It is damaged, or holds no value where there must be one.
        """
        try:
            table = file.read_row_group(index, columns=self.names)
        except DAMAGE as error:
            raise MaghubError(
                f"row group {index} cannot be read ({first_line(error)})",
                where=shown,
                fix="the file is damaged: copy or build it again",
            ) from None
        for name in self._filled:
            column = table[name]
            if column.null_count:
                self._refuse("is null", pc.is_null(column), place(shown, name), first)
            if isinstance(label := self._features[name], ClassLabel) and len(column):
                known = pc.is_in(column, value_set=pa.array(range(label.num_classes), pa.int64()))
                if not pc.all(known).as_py():
                    self._refuse("is no class", pc.invert(known), place(shown, name), first)
        return table

    @staticmethod
    def _refuse(what: str, bad: pa.ChunkedArray, where: str, first: int) -> None:
        row = first + int(np.argmax(np.asarray(bad)))
        raise MaghubError(what, where=f"{where}, row {row}", fix=_AGAIN)


def iter_groups(
    folder: Path, config: ConfigSpec, columns: Sequence[str], split: str | None = None
) -> Iterator[tuple[str, int, pa.Table]]:
    """Row groups of a config as (file, first row within the file, table), in stored order."""
    wanted = _Columns(config, columns)
    for entry in config.files:
        if split is not None and entry.split != split:
            continue
        file = wanted.open(folder, entry)
        row = 0
        for index in range(file.num_row_groups):
            table = wanted.read(file, index, entry.path, row)
            yield entry.path, row, table
            row += table.num_rows


class RowReader:
    """Reads ranges of rows of a config, in stored order.

    The last row group is kept, so that reading on where the last range ended decodes it once.
    """

    def __init__(self, folder: Path, config: ConfigSpec, columns: Sequence[str]) -> None:
        self.folder, self.config, self.columns = folder, config, tuple(columns)
        self._wanted = _Columns(config, columns)
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
            self._file = entry.path, self._wanted.open(self.folder, entry)
        file = self._file[1]
        row = 0
        for index in range(file.num_row_groups):
            end = row + file.metadata.row_group(index).num_rows
            if row < stop and end > start:
                low = max(start - row, 0)
                yield self._group(file, entry.path, index, row).slice(
                    low, min(stop, end) - row - low
                )
            row = end

    def _group(self, file: pq.ParquetFile, path: str, index: int, first: int) -> pa.Table:
        if self._kept is None or self._kept[:2] != (path, index):
            self._kept = None  # two at once would double the memory
            self._kept = path, index, self._wanted.read(file, index, path, first)
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
