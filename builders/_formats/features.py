"""Upstream feature matrices as blocks of rows, with one rule for the rows that hold no numbers.

Published features hold NaN and Inf (overflows of float16; every upstream loader hides them with
``nan_to_num``). The rule here: a row with a NaN or an Inf is zeroed as a whole and flagged as
absent, a row of zeros is flagged as absent too, and both are counted, so that card and
``maghub.json`` can say so. Nothing is ever clipped or imputed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ._files import fail, give_back
from .npz import read_npy
from .torchfiles import read_feature_tensor

BLOCK_BYTES = 16 << 20


@dataclass
class FeatureCounts:
    """What the blocks of one matrix held; complete once all blocks were read."""

    rows: int = 0
    nan_values: int = 0
    inf_values: int = 0
    zeroed_rows: int = 0  # for holding NaN or Inf
    zero_rows: int = 0  # zero as stored


@dataclass
class Features:
    """A [N, D] matrix of floats in a file, read in blocks of rows."""

    path: Path
    array: np.ndarray
    counts: FeatureCounts = field(default_factory=FeatureCounts)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.array.shape  # type: ignore[return-value]

    def columns(self, start: int, stop: int) -> Features:
        """Some of the columns, with counts of their own; no data is read."""
        return Features(self.path, self.array[:, start:stop])

    def halves(self) -> tuple[Features, Features]:
        """Text and image of an MM-Graph matrix: the first half is text, the second image."""
        width = self.shape[1]
        if width % 2:
            raise fail(self.path, f"{width} columns do not split into a text and an image half")
        return self.columns(0, width // 2), self.columns(width // 2, width)

    def blocks(self, rows: int | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pairs of a cleaned block and its has-flags, in row order; starts the counts anew."""
        total, width = self.shape
        rows = rows or max(1, BLOCK_BYTES // max(1, width * self.array.itemsize))
        self.counts = FeatureCounts()
        for start in range(0, total, rows):
            yield self.read(start, start + rows)

    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows ``start..stop`` cleaned, and their has-flags; adds to the counts."""
        counts = self.counts
        native = self.array.dtype.newbyteorder("=")
        block = np.array(self.array[start:stop], dtype=native, order="C")
        give_back(self.array)
        finite = np.isfinite(block).all(axis=1)
        if not finite.all():
            bad = block[~finite]
            counts.nan_values += int(np.isnan(bad).sum())
            counts.inf_values += int(np.isinf(bad).sum())
            counts.zeroed_rows += len(bad)
            block[~finite] = 0
        has: np.ndarray = np.any(block, axis=1)
        counts.zero_rows += int((finite & ~has).sum())
        counts.rows += len(block)
        return block, has


def open_features(path: str | os.PathLike[str], num_rows: int | None = None) -> Features:
    """Open an upstream feature file: ``.npy`` or ``.pt`` (one float tensor).

    Args:
        path: The file.
        num_rows: How many rows it must have: row i is node i.
    """
    array = read_feature_tensor(path) if str(path).endswith((".pt", ".pth")) else read_npy(path)
    if array.ndim != 2 or array.dtype.kind != "f" or 0 in array.shape:
        raise fail(path, f"expected a table of floats, found shape {array.shape} of {array.dtype}")
    if num_rows is not None and len(array) != num_rows:
        raise fail(path, f"{len(array)} rows of features for {num_rows} nodes")
    return Features(Path(path), array)
