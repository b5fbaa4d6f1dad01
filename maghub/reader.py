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
from maghub.spec import ConfigSpec


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
            try:
                table = file.read_row_group(index, columns=list(columns))
            except (OSError, pa.ArrowException) as error:
                reason = str(error).splitlines()[0].rstrip(".")
                raise MaghubError(
                    f"row group {index} cannot be read ({reason})",
                    where=entry.path,
                    fix="the file is damaged: copy or build it again",
                ) from None
            yield entry.path, row, table
            row += table.num_rows


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
