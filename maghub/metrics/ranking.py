"""Where the right answer stands among its candidates, and MRR and Hits@K of that.

Tied scores decide published numbers: a model that gives every candidate one score has, with 9
negatives, an MRR of 0.1 if ties count against it, 0.182 on average, and 1 if they count for it.
The default is the mean of both, as OGB and TGB.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maghub.errors import MaghubError, nearest
from maghub.metrics._inputs import numbers, same_length

Ties = Literal["mean", "optimistic", "pessimistic"]
VALUES_AT_ONCE = 1 << 24
"""Scores compared together: bounds the memory beside the scores."""


def ranks(
    scores: ArrayLike, positive: ArrayLike | None = None, *, ties: Ties = "mean"
) -> NDArray[np.float64]:
    """Rank of the right candidate of each query, 1 is best.

    Args:
        scores: [Q, C] score of each candidate of each query, higher is better.
        positive: int [Q], column of the right candidate; None: column 0.
        ties: Whether an equal score of another candidate counts half a place ("mean"), nothing
            ("optimistic") or a whole place ("pessimistic", OpenMAG's released code).

    Returns:
        float64 [Q], each 1..C; halves occur with "mean".

    Raises:
        MaghubError: No scores, NaN scores, a column that does not exist, an unknown tie rule.
    """
    if ties not in get_args(Ties):
        raise nearest(ties, get_args(Ties), kind="tie rule")
    matrix = numbers(scores, "scores", 2)
    columns = _columns(positive, *matrix.shape)
    result = np.empty(len(matrix))
    rows = max(1, VALUES_AT_ONCE // matrix.shape[1])
    for start in range(0, len(matrix), rows):
        part = matrix[start : start + rows]
        own = np.take_along_axis(part, columns[start : start + rows, None], axis=1)
        above = np.count_nonzero(part > own, axis=1)
        equal = np.count_nonzero(part == own, axis=1) - 1
        share = {"mean": 0.5, "optimistic": 0.0, "pessimistic": 1.0}[ties]
        result[start : start + rows] = 1 + above + share * equal
    return result


def mrr(rank: ArrayLike) -> float:
    """Mean of 1 / rank, in (0, 1] (OpenMAG, equation 3).

    Args:
        rank: [Q], what ``ranks`` gives.

    Raises:
        MaghubError: No ranks, or one that is NaN or below 1.
    """
    return float(np.mean(1 / _ranks(rank)))


def hits_at_k(rank: ArrayLike, k: int) -> float:
    """Share of queries whose rank is at most ``k``, 0..1 (OpenMAG, equation 4).

    Args:
        rank: [Q], what ``ranks`` gives; a rank of 1.5 (a tie for the first place) is no hit at 1.
        k: At least 1.

    Raises:
        MaghubError: No ranks, one that is NaN or below 1, or ``k`` below 1.
    """
    if k < 1:
        raise MaghubError(f"Hits@{k} is always 0", fix="give k of 1 or more")
    return float(np.mean(_ranks(rank) <= k))


def _ranks(rank: ArrayLike) -> NDArray[np.float64]:
    array = numbers(rank, "ranks", 1).astype(np.float64)
    if array.min() < 1:
        raise MaghubError(f"a rank is {array.min():g}", fix="ranks start at 1, see ranks()")
    return array


def _columns(positive: ArrayLike | None, queries: int, candidates: int) -> NDArray[np.int64]:
    if positive is None:
        return np.zeros(queries, np.int64)
    columns = numbers(positive, "positives", 1).astype(np.int64)
    same_length(queries, len(columns), "queries", "positives")
    if not 0 <= columns.min() <= columns.max() < candidates:
        raise MaghubError(
            f"positives name columns {columns.min()} to {columns.max()} of {candidates} candidates"
        )
    return columns
