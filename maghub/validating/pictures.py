"""Checks of picture embeddings: one row per picture of each row of the target, in order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from maghub import layout
from maghub.pictures import Pictures, pictures_of
from maghub.validating.opened import NULL, REBUILD, Opened
from maghub.validating.report import rowwise
from maghub.validating.vectors import ENCODE

_KEY = (layout.ID, layout.POSITION)
_COLUMNS = (layout.ID, layout.IMAGE_PATHS)


def check_pictures(table: Opened, target: Opened | None) -> None:
    """Compare the keys of every row with the pictures of the target's rows."""
    if target is None or not all(column in target.features for column in _COLUMNS):
        what = f"target of config {table.spec.name} is no table with pictures"
        table.findings.add(layout.SPEC_FILE, what, column="configs", fix=REBUILD)
        return
    rows = target.table(*_COLUMNS)
    if rows is None:
        return
    pictures = pictures_of(rows)
    if table.whole and table.rows != len(pictures.row):
        what = f"has {table.rows:,} rows, {target.spec.name} has {len(pictures.row):,} pictures"
        table.findings.add(table.first_file, what, kind="target rows", fix=ENCODE)
    if all(table.sound(column) for column in _KEY):
        _check_keys(table, pictures)


def _check_keys(table: Opened, pictures: Pictures) -> None:
    """Row i must be picture i."""
    ids = pictures.ids.combine_chunks()
    for group in table.groups(_KEY):
        at = pc.fill_null(pc.index_in(group.batch[layout.ID], ids).cast(pa.int64()), NULL)
        found = np.asarray(at, dtype=np.int64)
        positions = group.integers(layout.POSITION)
        row, position = (np.full(len(found), NULL) for _ in range(2))
        part = slice(group.start, group.start + len(found))
        row[: len(pictures.row[part])] = pictures.row[part]
        position[: len(pictures.row[part])] = pictures.position[part]
        _note(table, layout.ID, group.start, found, row)
        _note(table, layout.POSITION, group.start, positions, position)


def _note(
    table: Opened, column: str, start: int, found: NDArray[np.int64], expected: NDArray[np.int64]
) -> None:
    bad = found != expected
    what = "is picture of row {} of the target, must be of row {}"
    if column == layout.POSITION:
        what = "holds position {}, this row must be position {}"
    table.findings.rows(table, column, "row", start, bad, rowwise(what, found, expected), ENCODE)
