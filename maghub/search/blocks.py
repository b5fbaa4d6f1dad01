"""A matrix of vectors read in blocks of rows: its norms, and float32 rows ready for products.

float16 is decoded by FAISS, which is several times faster than numpy. Memory is that of one block:
the pages of a read-only mapping are given back to the system behind the reader.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maghub.errors import MaghubError
from maghub.progress import track
from maghub.search.backend import Floats, library

BLOCK_BYTES = 128 << 20
"""Size of one block as float32."""

_LARGEST_SCALE = 1e37
"""Larger ones are no float32; they belong to rows of length 1e-37 and less."""

Matrix = NDArray[Any]
Norms = NDArray[np.float64]


def as_matrix(vectors: object, what: str) -> Matrix:
    """[N, D] float16 or float32, rows contiguous; a copy only where it must be.

    Raises:
        MaghubError: Not a matrix of real numbers.
    """
    array = vectors if isinstance(vectors, np.memmap) else np.asarray(vectors)
    if array.ndim != 2 or array.shape[1] == 0 or array.dtype.kind not in "fiub":
        shown = f"{array.dtype} of shape {list(array.shape)}"
        raise MaghubError(f"{what} are {shown}, not a matrix of numbers", fix="give [rows, width]")
    kept = array.dtype if array.dtype in (np.float16, np.float32) else np.dtype(np.float32)
    if isinstance(array, np.memmap) and array.dtype == kept and array.flags.c_contiguous:
        return array
    with np.errstate(over="ignore"):  # what float32 cannot hold is found to be infinite later
        return np.ascontiguousarray(array, dtype=kept)


def row_ranges(rows: int, width: int, parts: int = 1) -> list[tuple[int, int]]:
    """(start, stop) of blocks of whole rows, of ``BLOCK_BYTES / parts`` at most as float32."""
    step = max(1, BLOCK_BYTES // (4 * width * parts))
    return [(start, min(start + step, rows)) for start in range(0, rows, step)]


def blocks(matrix: Matrix, label: str, parts: int = 1) -> Iterator[tuple[int, Matrix]]:
    """(first row, rows as stored), one block after the other (see ``row_ranges``)."""
    count, width = matrix.shape
    for start, stop in track(row_ranges(count, width, parts), label):
        yield start, matrix[start:stop]
        _give_back(matrix)


def _give_back(matrix: Matrix) -> None:
    """Drop the pages of a read-only mapping from memory; they can be read again."""
    base = matrix.base
    readable = isinstance(matrix, np.memmap) and matrix.mode == "r"
    if readable and isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def measure_norms(matrix: Matrix, what: str) -> Norms:
    """float64 [N] lengths of the rows.

    Raises:
        MaghubError: A value is NaN or infinite.
    """
    norms = np.empty(len(matrix), np.float64)
    for start, rows in blocks(matrix, f"measuring {what}", parts=8):
        values = rows.astype(np.float64)
        norms[start : start + len(rows)] = np.sqrt(np.einsum("ij,ij->i", values, values))
    bad = ~np.isfinite(norms)
    if bad.any():
        raise MaghubError(
            f"row {int(np.argmax(bad))} of {what} is not finite ({int(bad.sum()):,} such rows)",
            fix="repair or leave out those rows",
        )
    return norms


def decoded(rows: Matrix, scale: NDArray[np.floating] | None = None) -> Floats:
    """float32 rows, each times its scale; the rows themselves where nothing is to do."""
    if rows.dtype == np.float32:
        if scale is None:
            return np.ascontiguousarray(rows)
        if scale.max(initial=0) > _LARGEST_SCALE:
            wide: Floats = (rows * scale[:, None]).astype(np.float32)
            return wide
        return np.multiply(rows, scale[:, None].astype(np.float32), dtype=np.float32)
    faiss = library()
    out = np.empty(rows.shape, np.float32)
    coder = faiss.IndexScalarQuantizer(rows.shape[1], faiss.ScalarQuantizer.QT_fp16)
    coder.sa_decode(np.ascontiguousarray(rows).view(np.uint8), out)
    if scale is not None:
        out *= scale[:, None].astype(np.float32)
    return out


def reciprocal(norms: Norms) -> Norms:
    """1/norm, and 0 for a row of zeros."""
    return np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
