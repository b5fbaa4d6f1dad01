"""Steps both graph generators share: noisy counts, merging of near points, joining of components.

Source: ../shared/specs/clegr.md; paper C.1 (steps 3 and 5) and C.5.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def noisy_count(rng: np.random.Generator, base: int, least: int = 1) -> int:
    """``max(least, round(N(base, 0.2 * base)))``."""
    return max(least, round(rng.normal(base, 0.2 * base)))


def merge_near(points: Floats, priority: Ints, distance: float, rounds: int) -> Ints:
    """Merge points closer than ``distance``; the member with the lowest priority stays.

    Args:
        points: Positions, one row per point.
        priority: A random order; it decides which member of a cluster survives, in place.
        distance: Merge radius of the KD-tree query.
        rounds: Most rounds; merging stops earlier when a round merges nothing.

    Returns:
        For each point, the index of the point that stands for it.
    """
    master = np.arange(len(points))
    alive = master.copy()
    for _ in range(rounds):
        pairs = cKDTree(points[alive]).query_pairs(distance, output_type="ndarray")
        if not len(pairs):
            break
        root = _union(len(alive), pairs, priority[alive])
        step = np.arange(len(points))
        step[alive] = alive[root]
        master = step[master]
        alive = alive[np.unique(root)]
    return master


def _union(size: int, pairs: Ints, priority: Ints) -> Ints:
    """Disjoint sets over ``pairs``; each set is named by its member of lowest priority."""
    parent = list(range(size))
    rank = priority.tolist()
    for a, b in pairs.tolist():
        while parent[a] != a:
            parent[a] = a = parent[parent[a]]
        while parent[b] != b:
            parent[b] = b = parent[parent[b]]
        if rank[a] < rank[b]:
            parent[b] = a
        else:
            parent[a] = b
    for node in range(size):
        root = node
        while parent[root] != root:
            root = parent[root]
        parent[node] = root
    return np.asarray(parent, dtype=np.int64)
