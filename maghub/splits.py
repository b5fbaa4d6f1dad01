"""Our own split and negative-sampling rules: seeded, leak-free, vectorised."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from maghub import layout
from maghub.statistics import pair_keys

DRAWS_AT_ONCE = 1 << 22
"""Negatives drawn together; part of the rule, since it decides which draw is whose."""
SPLIT_CODES = {name: code for code, name in enumerate(layout.SPLITS)}


def _shares(count: int, fractions: Sequence[float]) -> NDArray[np.int64]:
    """Whole numbers that add up to ``count``, by largest remainder."""
    exact = np.asarray(fractions, dtype=np.float64) * count
    shares = np.floor(exact + 1e-9).astype(np.int64)
    order = np.argsort(-(exact - shares), kind="stable")
    shares[order[: count - shares.sum()]] += 1
    return shares


def random_split(
    count: int, fractions: Sequence[float], rng: np.random.Generator
) -> NDArray[np.int8]:
    """int8 [count] codes 0, 1, 2 (train, validation, test) in the given fractions."""
    codes = np.repeat(np.arange(len(fractions), dtype=np.int8), _shares(count, fractions))
    return rng.permutation(codes)


def stratified_split(
    labels: NDArray[np.int64], fractions: Sequence[float], rng: np.random.Generator
) -> NDArray[np.int8]:
    """Like ``random_split`` within each class; rows labelled -1 become ``unassigned``."""
    codes = np.full(len(labels), SPLIT_CODES[layout.UNASSIGNED], np.int8)
    for label in np.unique(labels[labels >= 0]):
        rows = np.flatnonzero(labels == label)
        codes[rows] = random_split(len(rows), fractions, rng)
    return codes


def edge_split(
    src: NDArray[np.int64],
    dst: NDArray[np.int64],
    num_nodes: int,
    fractions: Sequence[float],
    rng: np.random.Generator,
) -> NDArray[np.int8]:
    """Split edges by unordered node pair, so that no pair stands on two sides.

    Parallel edges (two relations) and the two directions of a pair share their side: an edge in
    training never gives away one in test. Self loops always train.
    """
    keys = pair_keys(src, dst, num_nodes, directed=False)
    pairs, member = np.unique(keys, return_inverse=True)
    proper = pairs // num_nodes != pairs % num_nodes
    codes = np.zeros(len(pairs), np.int8)
    codes[proper] = random_split(int(proper.sum()), fractions, rng)
    return codes[member]


def fixed_negatives(
    src: NDArray[np.int64],
    dst: NDArray[np.int64],
    num_nodes: int,
    query: NDArray[np.int64],
    k: int,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """int64 [len(query), k]: distinct nodes that are no neighbour of the query in any split.

    Drawn uniformly; a draw that is the query itself, a neighbour over any edge in either
    direction, or already in the row is drawn again.

    Raises:
        ValueError: Some query has fewer than ``k`` non-neighbours.
    """
    keys = np.unique(pair_keys(src, dst, num_nodes, directed=False))
    low, high = keys // num_nodes, keys % num_nodes
    proper = low != high
    degree = np.bincount(low[proper], minlength=num_nodes)
    degree += np.bincount(high[proper], minlength=num_nodes)
    if len(query) and int(num_nodes - 1 - degree[query].max()) < k:
        raise ValueError(f"a query has fewer than {k} non-neighbours")
    result = np.empty((len(query), k), np.int64)
    rows = max(1, DRAWS_AT_ONCE // max(1, k))
    for start in range(0, len(query), rows):
        part = query[start : start + rows]
        result[start : start + rows] = _draw(part, k, keys, num_nodes, rng)
    return result


def _draw(
    query: NDArray[np.int64],
    k: int,
    keys: NDArray[np.int64],
    num_nodes: int,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    result = rng.integers(0, num_nodes, (len(query), k))
    while True:
        bad = _bad_draws(result, query, keys, num_nodes)
        count = int(bad.sum())
        if count == 0:
            return result
        result[bad] = rng.integers(0, num_nodes, count)


def _bad_draws(
    drawn: NDArray[np.int64], query: NDArray[np.int64], keys: NDArray[np.int64], num_nodes: int
) -> NDArray[np.bool_]:
    head = np.broadcast_to(query[:, None], drawn.shape)
    wanted = pair_keys(head.ravel(), drawn.ravel(), num_nodes, directed=False).reshape(drawn.shape)
    spot = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    bad = (drawn == head) | ((keys[spot] == wanted) if len(keys) else False)
    order = np.argsort(drawn, axis=1, kind="stable")
    ranked = np.take_along_axis(drawn, order, axis=1)
    repeated = np.zeros_like(bad)
    np.put_along_axis(repeated[:, :], order[:, 1:], ranked[:, 1:] == ranked[:, :-1], axis=1)
    return bad | repeated


def split_counts(codes: NDArray[np.int8]) -> dict[str, int]:
    """Rows per split name, splits without rows left out."""
    counts = np.bincount(codes, minlength=len(layout.SPLITS))
    return {name: int(counts[code]) for name, code in SPLIT_CODES.items() if counts[code]}
