"""Counting simple paths without listing them all: by biconnected component, chains contracted.

A simple path between two nodes passes the same biconnected components in the same order, so the
number of routes is the product over the components; inside one, nodes of degree two are
contracted and the rest is searched depth first under a cap.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from maghub.clegr.index import Index

ROUTE_CAP: Final = 10_000
"""Most routes DistinctRoutes may count; a graph that exceeds it loses the template."""
STEP_CAP: Final = 20_000
"""Most steps of the search inside one component."""


def biconnected(neighbours: list[list[int]], size: int) -> dict[int, int]:
    """Biconnected component of each adjacent pair ``low * size + high`` (iterative Tarjan)."""
    block_of: dict[int, int] = {}
    seen = [0] * size
    low = [0] * size
    clock = block = 0
    for root in range(size):
        if seen[root]:
            continue
        clock += 1
        seen[root] = low[root] = clock
        walk = [(root, -1, iter(neighbours[root]))]
        open_pairs: list[tuple[int, int]] = []
        while walk:
            node, parent, others = walk[-1]
            for other in others:
                if not seen[other]:
                    clock += 1
                    seen[other] = low[other] = clock
                    open_pairs.append((node, other))
                    walk.append((other, node, iter(neighbours[other])))
                    break
                if other != parent and seen[other] < seen[node]:
                    open_pairs.append((node, other))
                    low[node] = min(low[node], seen[other])
            else:
                walk.pop()
                if parent >= 0:
                    low[parent] = min(low[parent], low[node])
                    if low[node] >= seen[parent]:
                        _close(open_pairs, (parent, node), block, block_of, size)
                        block += 1
    return block_of


def _close(
    open_pairs: list[tuple[int, int]],
    last: tuple[int, int],
    block: int,
    block_of: dict[int, int],
    size: int,
) -> None:
    """Move the open pairs down to ``last`` into a finished component."""
    while True:
        pair = open_pairs.pop()
        u, v = pair
        block_of[u * size + v if u < v else v * size + u] = block
        if pair == last:
            return


def legs(index: Index, start: int, end: int) -> list[tuple[int, int, int]] | None:
    """The components every route passes, as (component, entry, exit); None without a path."""
    path = index.shortest_path(start, end)
    if path is None:
        return None
    found: list[tuple[int, int, int]] = []
    for u, v in pairwise(path):
        block = index.blocks[index.pair(u, v)]
        if found and found[-1][0] == block:
            found[-1] = (block, found[-1][1], v)
        else:
            found.append((block, u, v))
    return found


def count_routes(
    index: Index, start: int, end: int, cap: int = ROUTE_CAP, steps: int = STEP_CAP
) -> int | None:
    """Number of simple paths; None when more than ``cap`` or too many steps to tell.

    A node has one route to itself, the empty one; nodes without a path have none.
    """
    parts = legs(index, start, end)
    if parts is None:
        return 0
    total = 1
    for block, entry, out in parts:
        key = (block, entry, out) if entry < out else (block, out, entry)
        if key not in index.routes:
            pairs = index.block_pairs[block]
            count = 1 if len(pairs) == 1 else _inside(pairs, index.size, entry, out, cap, steps)
            index.routes[key] = count
        inside = index.routes[key]
        if inside is None:
            return None
        total *= inside
    return total if total <= cap else None


def _inside(pairs: list[int], size: int, start: int, end: int, cap: int, steps: int) -> int | None:
    """Simple paths within one component."""
    weights = _contract(pairs, size, start, end)
    seen = {start}
    total = 0
    walk = [(start, 1, iter(weights[start].items()))]
    while walk:
        node, ways, others = walk[-1]
        for other, weight in others:
            if other == end:
                total += ways * weight
                if total > cap:
                    return None
            elif other not in seen:
                seen.add(other)
                walk.append((other, ways * weight, iter(weights[other].items())))
                break
        else:
            walk.pop()
            seen.discard(node)
            steps -= 1
            if steps < 0:
                return None
    return total


def _contract(pairs: list[int], size: int, start: int, end: int) -> dict[int, dict[int, int]]:
    """Multigraph of the component as weights, with chains and hanging rings contracted."""
    weights: dict[int, dict[int, int]] = {}
    for key in pairs:
        u, v = divmod(key, size)
        weights.setdefault(u, {})[v] = 1
        weights.setdefault(v, {})[u] = 1
    queue = list(weights)
    while queue:
        node = queue.pop()
        if node in (start, end) or node not in weights or len(weights[node]) > 2:
            continue
        ends = list(weights.pop(node).items())
        for other, _ in ends:
            del weights[other][node]
            queue.append(other)
        if len(ends) == 2:
            (u, a), (v, b) = ends
            weights[u][v] = weights[v][u] = weights[u].get(v, 0) + a * b
    return weights
