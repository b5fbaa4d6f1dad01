"""Checks of embedding configs: one finite vector per row of the target, in its order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from maghub import layout
from maghub.schema import vector_columns
from maghub.spec import TABLE_KINDS, EncoderProvenance
from maghub.validating.opened import NULL, REBUILD, Opened, embedding_key
from maghub.validating.report import rowwise

VECTOR_BATCH_BYTES = 16 * 1024**2
ENCODE = "encode it again"


def fixed_lists(array: pa.Array) -> tuple[pa.Array, NDArray[np.bool_]]:
    """All values of a fixed-size list column, rows of null included, and which rows are null."""
    width = array.type.list_size
    values = array.values.slice(array.offset * width, len(array) * width)
    return values, np.asarray(array.is_null())


def check_rows(table: Opened, target: Opened | None) -> None:
    """One row per row of the target, in its order."""
    if target is not None and target.whole and table.whole and table.rows != target.rows:
        what = f"has {table.rows:,} rows, its target {target.spec.name} has {target.rows:,}"
        table.findings.add(table.first_file, what, kind="target rows", fix=ENCODE)
    _check_key(table, target)


def check_vectors(table: Opened) -> dict[str, int]:
    """The vectors of an embedding config; returns the rows without a vector per modality."""
    widths = vector_columns(table.features)
    return {
        modality: _check_modality(table, modality, widths[modality])
        for modality in layout.MODALITIES
        if modality in widths and table.sound(modality)
    }


def _check_key(table: Opened, target: Opened | None) -> None:
    """Row i must be row i of the target (node i where the target is nodes)."""
    key = embedding_key(table.spec)
    if key is None or not table.sound(key):
        return
    wanted: NDArray[np.int64] | None = None
    if target is not None and target.spec.kind in TABLE_KINDS and key in target.features:
        if not pa.types.is_integer(target.features.arrow_schema.field(key).type):
            _check_texts(table, target, key)
            return
        columns = target.integers(key)
        wanted = columns[0] if columns else None
    for group in table.groups([key]):
        ids = group.integers(key)
        expected = np.arange(group.start, group.start + len(ids))
        if wanted is not None:
            expected = np.full(len(ids), NULL)
            part = wanted[group.start : group.start + len(ids)]
            expected[: len(part)] = part
        bad = (ids != NULL) & (ids != expected)
        message = rowwise(f"holds {key} {{}}, this row must be {key} {{}}", ids, expected)
        table.findings.rows(table, key, "row", group.start, bad, message, ENCODE)


def _check_texts(table: Opened, target: Opened, key: str) -> None:
    """The same for a key of text."""
    rows = target.table(key)
    if rows is None:
        return
    wanted = rows[key].combine_chunks()
    for group in table.groups([key]):
        ids = group.batch[key]
        expected = wanted.slice(group.start, len(ids))
        if len(expected) < len(ids):
            expected = pa.concat_arrays([expected, pa.nulls(len(ids) - len(expected), wanted.type)])
        bad = ~np.asarray(pc.fill_null(pc.equal(ids, expected), False))

        def message(i: int, ids: pa.Array = ids, expected: pa.Array = expected) -> str:
            return f"holds {key} {ids[i]}, this row must be {key} {expected[i]}"

        table.findings.rows(table, key, "row", group.start, bad, message, ENCODE)


def _check_modality(table: Opened, modality: str, width: int) -> int:
    """Nulls, NaN, infinities and flags of one vector column; returns the rows without a vector."""
    flag = layout.has_column(modality)
    columns = [modality, flag] if table.sound(flag) else [modality]
    itemsize = np.dtype(table.features[modality].feature.dtype).itemsize
    size = max(1, VECTOR_BATCH_BYTES // (width * itemsize))
    note, absent = table.findings.rows, 0
    for group in table.groups(columns, size):
        values, null = fixed_lists(group.batch[modality])
        empty = np.asarray(values.is_null()).reshape(-1, width).any(axis=1) & ~null
        if values.null_count:
            values = values.fill_null(0)
        matrix = values.to_numpy(zero_copy_only=False).reshape(-1, width)
        matrix = np.where(null[:, None], matrix.dtype.type(0), matrix) if null.any() else matrix
        finite = np.isfinite(matrix).all(axis=1)
        nan = ~finite & np.isnan(matrix).any(axis=1)
        infinite = ~finite & np.isinf(matrix).any(axis=1)
        start = group.start
        note(table, modality, "null", start, null, "vector is null", "write zeros instead")
        note(table, modality, "null value", start, empty, "vector holds a null", ENCODE)
        note(table, modality, "nan", start, nan, "vector holds NaN", ENCODE)
        note(table, modality, "inf", start, infinite, "vector holds an infinite value", ENCODE)
        if len(columns) == 2:
            without = np.asarray(group.batch[flag].fill_null(True).to_numpy(zero_copy_only=False))
            without = ~without.astype(bool)
            absent += int(without.sum())
            wrong = without & finite & (matrix != 0).any(axis=1)
            what = f"{flag} is false but the {modality} vector is not zero"
            note(table, flag, "flag", start, wrong, what, "write zeros, or set it true")
    return absent


def check_provenance(table: Opened, encoder: EncoderProvenance, absent: dict[str, int]) -> None:
    """What maghub.json says about the vectors: widths, dtype and rows without a vector."""
    widths = vector_columns(table.features)
    where = f"encoders.{encoder.encoder}"

    def note(what: str) -> None:
        table.findings.add(layout.SPEC_FILE, what, column=where, fix=REBUILD)

    if sorted(encoder.modalities) != sorted(widths):
        note(f"modalities are {list(encoder.modalities)}, the config holds {list(widths)}")
    if dict(encoder.dim) != widths:
        note(f"dim is {dict(encoder.dim)}, the config holds {widths}")
    types = sorted({table.features[name].feature.dtype for name in widths})
    if types and types != [encoder.dtype]:
        note(f"dtype is {encoder.dtype}, the config holds {', '.join(types)}")
    for modality, count in absent.items():
        if table.whole and encoder.missing.get(modality, 0) != count:
            declared = encoder.missing.get(modality, 0)
            note(f"missing {modality} is {declared:,}, the config has {count:,} rows without")
