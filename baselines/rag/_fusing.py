"""Reciprocal rank fusion."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from maghub.baselines.rag._data import Ints
from maghub.baselines.rag._pairs import listed, summed


def reciprocal_ranks(
    lists: Sequence[Ints], width: int, constant: float = 60.0
) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """Pairs with the sum of 1 / (constant + rank) over lists, ranks counting from 1.

    Args:
        lists: int64 [Q, n] rows, best first, -1 for none.
        width: Number of rows.
        constant: 60 in Cormack et al. 2009.

    Returns:
        Query, row and score of each pair, each once.
    """
    parts = [listed(rows) for rows in lists]
    query, row, place = (np.concatenate(own) for own in zip(*parts, strict=True))
    return summed(query, row, 1.0 / (constant + 1 + place), width)
