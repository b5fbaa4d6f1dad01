"""Arithmetic on pairs (question, triplet): expanding candidates, their products, the best of them.

Candidates of many questions are two parallel arrays, so that no question is a Python loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maghub.baselines.rag._data import Bools, Ints

Floats = NDArray[np.float32]
_BLOCK_BYTES = 64 << 20


class Groups:
    """Members by group: ``members(g)`` are the positions i with ``keys[i] == g``, in order.

    Args:
        keys: int64 [N] group of each position.
        count: Number of groups.
    """

    def __init__(self, keys: Ints, count: int) -> None:
        self.order = np.argsort(keys, kind="stable")
        self.start = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=count))])

    def sizes(self, group: Ints) -> Ints:
        """int64: how many members each of these groups has."""
        found: Ints = self.start[group + 1] - self.start[group]
        return found

    def expand(self, owner: Ints, group: Ints) -> tuple[Ints, Ints]:
        """(owner, member) for every member of the group beside each owner."""
        sizes = self.sizes(group)
        ends = np.cumsum(sizes)
        total = int(ends[-1]) if len(ends) else 0
        offset = np.arange(total) - np.repeat(ends - sizes, sizes)
        return np.repeat(owner, sizes), self.order[np.repeat(self.start[group], sizes) + offset]


def distinct(query: Ints, row: Ints, width: int) -> tuple[Ints, Ints]:
    """Each pair once, by query and row; ``row`` < ``width``."""
    keys = np.unique(query * width + row)
    return keys // width, keys % width


def pair_products(
    left: NDArray[Any], right: NDArray[Any], query: Ints, row: Ints
) -> NDArray[np.float32]:
    """float32: product of ``left[query]`` and ``right[row]`` of each pair, in blocks."""
    found = np.empty(len(query), np.float32)
    step = max(1, _BLOCK_BYTES // (8 * left.shape[1]))
    for start in range(0, len(query), step):
        part = slice(start, start + step)
        a = np.asarray(left[query[part]], np.float32)
        b = np.asarray(right[row[part]], np.float32)
        found[part] = np.einsum("ij,ij->i", a, b)
    return found


def unit(rows: NDArray[Any]) -> Floats:
    """float32 rows of length 1; rows of zeros stay."""
    wide = np.asarray(rows, np.float32)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.divide(wide, np.where(norms > 0, norms, 1), dtype=np.float32)


def best_pairs(
    query: Ints, row: Ints, score: NDArray[Any], count: int, k: int
) -> tuple[Floats, Ints]:
    """The ``k`` best rows of each query, equal scores by row.

    Args:
        query, row, score: Pairs, each once, in any order.
        count: Number of queries.
        k: How many.

    Returns:
        Scores float32 [count, k] and rows int64 [count, k]; -inf and -1 where there are fewer.
    """
    order = np.lexsort((row, -score, query))
    query, row, score = query[order], row[order], score[order]
    first = np.searchsorted(query, np.arange(count))
    place = np.arange(len(query)) - first[query]
    kept = place < k
    scores = np.full((count, k), -np.inf, np.float32)
    rows = np.full((count, k), -1, np.int64)
    scores[query[kept], place[kept]] = score[kept]
    rows[query[kept], place[kept]] = row[kept]
    return scores, rows


def listed(rows: Ints) -> tuple[Ints, Ints, Ints]:
    """(query, row, place from 0) of every result of [Q, k] results that is one."""
    query, place = np.nonzero(rows >= 0)
    return query, rows[query, place], place


def summed(
    query: Ints, row: Ints, score: NDArray[Any], width: int
) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """Each pair once, its scores added up; ``row`` < ``width``."""
    pairs: Ints = query * width + row
    keys, at = np.unique(pairs, return_inverse=True)
    total = np.bincount(at, weights=score, minlength=len(keys)).astype(np.float64)
    first, second = np.divmod(keys, width)
    return first, second, total


def first_distinct(groups: Ints, k: int) -> Bools:
    """bool [Q, n]: the first place of each of the first ``k`` different groups of a row; -1 is
    none."""
    order = np.argsort(groups, axis=1, kind="stable")
    ranked = np.take_along_axis(groups, order, axis=1)
    new = np.ones(groups.shape, bool)
    new[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    fresh = np.zeros(groups.shape, bool)
    np.put_along_axis(fresh, order, new, axis=1)
    fresh &= groups >= 0
    return fresh & (np.cumsum(fresh, axis=1) <= k)
