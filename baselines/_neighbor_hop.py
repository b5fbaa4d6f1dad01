"""One hop of neighbour sampling, compiled by numba on first use and kept beside this file.

A module of its own: importing numba takes a third of a second, which only sampling should pay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

P = ParamSpec("P")
R = TypeVar("R")
Ints = NDArray[np.int64]


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """The function, compiled when first called, in this process where no folder can keep it."""
    try:
        return numba.njit(cache=True)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # neither this folder nor the user's cache can be written
        return numba.njit(function)  # type: ignore[no-any-return]


@compiled
def sample_hop(
    start: NDArray[np.int32],
    in_edges: NDArray[np.uint32],
    table: NDArray[np.int32],
    base: int,
    nodes: Ints,
    begin: int,
    edge_index: Ints,
    e_id: Ints,
    fanout: int,
    rng: np.random.Generator,
) -> tuple[Ints, Ints, Ints]:
    """Draws in-edges of ``nodes[begin:]`` and numbers what they lead to.

    Args:
        start: int32 [N + 1], where each node's in-edges begin.
        in_edges: uint32 [E, 2], source and edge id, sorted by target.
        table: int32 [N], ``base`` plus the local number of each node of the batch; all others are
            below ``base``. Changed in place.
        base: See ``table``.
        nodes: int64 [n], global ids of the batch so far.
        begin: Where those start whose in-edges are drawn.
        edge_index: int64 [2, e], local edges so far.
        e_id: int64 [e], their ids.
        fanout: Most in-edges per node.
        rng: Source of the draws.

    Returns:
        ``nodes``, ``edge_index`` and ``e_id`` with this hop's behind them.
    """
    known, done, drawn, most = len(nodes), len(e_id), 0, 0
    for i in range(begin, known):
        degree = start[nodes[i] + 1] - start[nodes[i]]
        most = max(most, degree)
        drawn += min(degree, fanout)
    end = done + drawn
    all_nodes = np.empty(known + drawn, np.int64)
    all_nodes[:known] = nodes
    edges = np.empty(end, np.int64)
    edges[:done] = e_id
    ends = np.empty((2, end), np.int64)
    ends[:, :done] = edge_index
    sources, targets = ends[0], ends[1]
    _draw(start, nodes, begin, min(fanout, most), most, rng, edges[done:], targets[done:])
    for at in range(done, end):  # cache misses only, so that many are under way at once
        place = edges[at]
        sources[at] = in_edges[place, 0]
        edges[at] = in_edges[place, 1]
    count = known
    for at in range(done, end):  # without branches, which would be guessed wrong every other time
        source = sources[at]
        new = table[source] < base
        number = base + count if new else table[source]
        table[source] = number
        all_nodes[count] = source
        count += new
        sources[at] = number - base
    return all_nodes[:count], ends, edges


@compiled
def _draw(
    start: NDArray[np.int32],
    nodes: Ints,
    begin: int,
    fanout: int,
    most: int,
    rng: np.random.Generator,
    places: Ints,
    targets: Ints,
) -> None:
    """Fills in places of in-edges, a uniform subset per node, and the local number of the node.

    No node has more than ``most`` in-edges, and ``fanout`` is not above that.
    """
    few = fanout * (4 + fanout // 8)  # above, Floyd's k * k / 2 steps are fewer
    order = np.empty(min(few, most), np.int32)
    at = 0
    for i in range(begin, len(nodes)):
        first = start[nodes[i]]
        degree = start[nodes[i] + 1] - first
        take = min(degree, fanout)
        rest = degree - take
        if rest == 0:
            for j in range(take):
                places[at + j] = first + j
        elif degree <= few:  # Fisher and Yates: draw those taken or those left, whichever is less
            for j in range(degree):
                order[j] = first + j
            for j in range(min(rest, take)):
                k = j + int(rng.random() * (degree - j))
                order[j], order[k] = order[k], order[j]
            skip = rest if rest < take else 0
            for j in range(take):
                places[at + j] = order[skip + j]
        else:  # Floyd (Bentley and Floyd, CACM 30(9), 1987): hubs cost nothing extra
            for j in range(take):
                place = first + int(rng.random() * (rest + j + 1))
                for k in range(at, at + j):
                    if places[k] == place:
                        place = first + rest + j
                        break
                places[at + j] = place
        for j in range(take):
            targets[at + j] = i
        at += take
