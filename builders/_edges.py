"""Edges made from what nodes have in common: a group, a place in one order, a direction in space.

Everything is vectorised over edges, draws nothing but from the generator it is given, and breaks
ties by node id, so that equal input gives equal edges on every machine.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maghub.errors import MaghubError
from maghub.progress import track
from maghub.statistics import pair_keys

MAX_PAIRS = 50_000_000
BLOCK_BYTES = 32 << 20
TIE = 1e-9
"""Cosines are compared in steps of this size: products of equal vectors differ in the last bits."""

Ids = NDArray[np.int64]


class Pairs(NamedTuple):
    """Ends of edges, int64 [E] each, in no particular order; a pair may come more than once."""

    src: Ids
    dst: Ids


class Neighbours(NamedTuple):
    """Undirected edges src < dst, each once, sorted, with their cosine."""

    src: Ids
    dst: Ids
    cosine: NDArray[np.float32]


def adjacent_pairs(sequence: Ids, item: Ids, window: int = 1) -> Pairs:
    """Items at most ``window`` places apart in one sequence.

    Args:
        sequence: int64 [M], which sequence a row belongs to; rows of one sequence stand together.
        item: int64 [M], the items in the order of each sequence.
        window: The largest distance.
    """
    src, dst = [], []
    for step in range(1, window + 1):
        same = sequence[step:] == sequence[:-step]
        src.append(item[:-step][same])
        dst.append(item[step:][same])
    return Pairs(np.concatenate(src), np.concatenate(dst))


def group_pairs(
    group: Ids, member: Ids, cap: int | None = None, rng: np.random.Generator | None = None
) -> Pairs:
    """Pairs of different members of one group.

    Args:
        group: int64 [M], a group of each row.
        member: int64 [M], a member of it; (group, member) comes once.
        cap: In a group of more than ``cap`` + 1 members each draws this many distinct partners,
            uniformly (a member may be drawn by others too, so degrees exceed it); None pairs all.
        rng: Where the draws come from.

    Raises:
        MaghubError: That would be more than ``MAX_PAIRS`` pairs.
    """
    order = np.lexsort((member, group))
    group, member = group[order], member[order]
    _, first, count = np.unique(group, return_index=True, return_counts=True)
    start, size = np.repeat(first, count), np.repeat(count, count)
    rows = np.arange(len(group))
    capped = np.zeros(len(group), bool) if cap is None else size - 1 > cap
    later = np.where(capped, 0, start + size - 1 - rows)
    total = int(later.sum()) + int(capped.sum()) * (cap or 0)
    if total > MAX_PAIRS:
        what = f"groups of up to {int(count.max())} members make {total:,} pairs"
        raise MaghubError(what, fix="set a lower cap")
    src = np.repeat(rows, later)
    dst = src + 1 + np.arange(len(src)) - np.repeat(np.cumsum(later) - later, later)
    if cap is not None and capped.any():
        assert rng is not None
        drawing = rows[capped]
        partner = drawing - start[capped] + 1 + _distinct(size[capped] - 1, cap, rng).T
        src = np.concatenate([src, np.tile(drawing, cap)])
        dst = np.concatenate([dst, (start[capped] + partner % size[capped]).ravel()])
    return Pairs(member[src], member[dst])


def _distinct(limit: Ids, count: int, rng: np.random.Generator) -> Ids:
    """int64 [len(limit), count]: distinct numbers below each limit, uniformly (Floyd's method)."""
    drawn = np.empty((len(limit), count), np.int64)
    for step in range(count):
        last = limit - count + step
        number = rng.integers(0, last + 1)
        taken = (drawn[:, :step] == number[:, None]).any(axis=1)
        drawn[:, step] = np.where(taken, last, number)
    return drawn


def multiplicity(src: Ids, dst: Ids, pairs: Pairs, num_nodes: int) -> NDArray[np.float32]:
    """How often each stored edge (sorted, src <= dst) comes among pairs in either direction."""
    stored = pair_keys(src, dst, num_nodes, directed=False)
    keys, counts = np.unique(
        pair_keys(pairs.src, pairs.dst, num_nodes, directed=False), return_counts=True
    )
    return counts[np.searchsorted(keys, stored)].astype(np.float32)


def mutual_knn(vectors: NDArray[np.floating], k: int) -> Neighbours:
    """Pairs of nodes that are both among the ``k`` nearest of the other by cosine.

    Exact, in blocks of rows, in float64. Of equally near nodes (to nine decimals) the lower id is
    nearer. A row of zeros has no direction and no neighbour.

    Args:
        vectors: [N, D], row i is node i.
        k: How many neighbours of a node count.
    """
    length = np.linalg.norm(vectors.astype(np.float64), axis=1)
    nodes = np.flatnonzero(length)
    unit = vectors[nodes].astype(np.float64) / length[nodes, None]
    n, k = len(nodes), min(k, len(nodes) - 1)
    if k < 1:
        return Neighbours(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))
    near, steps = _nearest(unit, k)
    head, tail = np.repeat(np.arange(n), k), near.ravel()
    keys = head * n + tail
    kept = np.flatnonzero((head < tail) & np.isin(keys, tail * n + head))
    kept = kept[np.argsort(keys[kept])]
    cosine = (steps.ravel()[kept] * TIE).astype(np.float32)
    return Neighbours(nodes[head[kept]], nodes[tail[kept]], cosine)


def _nearest(unit: NDArray[np.float64], k: int) -> tuple[Ids, Ids]:
    """int64 [N, k] nearest other rows of each row, in no order, and their cosines in steps."""
    n = len(unit)
    near, steps = np.empty((n, k), np.int64), np.empty((n, k), np.int64)
    rows = max(1, BLOCK_BYTES // (8 * n))
    for start in track(range(0, n, rows), "nearest neighbours", -(-n // rows)):
        cosine = np.rint(unit[start : start + rows] @ unit.T / TIE).astype(np.int64)
        rank = cosine * n - np.arange(n)
        own = np.arange(len(rank))
        rank[own, start + own] = np.iinfo(np.int64).min
        best = np.argpartition(rank, n - k, axis=1)[:, n - k :]
        near[start : start + rows] = best
        steps[start : start + rows] = np.take_along_axis(cosine, best, axis=1)
    return near, steps
