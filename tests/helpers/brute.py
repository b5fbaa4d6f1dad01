"""Nearest rows by brute force in float64, apart from everything in ``maghub.search``."""

from __future__ import annotations

import numpy as np


def nearest_rows(
    vectors: np.ndarray, queries: np.ndarray, k: int, *, cosine: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Scores and rows [Q, k], rows of zeros left out; equal to nine digits means lower row first.

    "Equal to nine digits" is of the largest product that a query could have.
    """
    wide, asked = vectors.astype(np.float64), queries.astype(np.float32).astype(np.float64)
    live = np.flatnonzero(wide.any(axis=1))
    lengths = np.sqrt((wide[live] ** 2).sum(axis=1))
    own = np.sqrt((asked**2).sum(axis=1))
    scores = asked @ wide[live].T
    largest = own * lengths.max()
    if cosine:
        scores, largest = scores / own[:, None] / lengths, np.ones(len(asked))
    steps = np.rint(scores / (1e-9 * largest[:, None]))
    found = []
    for row in steps:
        order = sorted(range(len(live)), key=lambda i, row=row: (-row[i], live[i]))
        found.append(order[:k])
    order = np.asarray(found, dtype=np.int64).reshape(len(asked), k)
    return np.take_along_axis(scores, order, axis=1), live[order]
