"""What the solvers look up in one graph, computed once and only when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from maghub.clegr.graph import Graph
from maghub.clegr.routes import biconnected

FAR = 1 << 30
"""Distance between nodes that no path joins."""


class Index:
    """Cached structure of one graph.

    Nodes, edges and lines are integers. A *pair* is the key ``low * n + high`` of two adjacent
    nodes; several lines may run on one pair.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.size = len(graph)
        self.names = graph.names
        self.nodes = graph.nodes
        self.edges = graph.edges
        self.lines = graph.lines
        self.routes: dict[tuple[int, int, int], int | None] = {}
        self.too_many_routes = False
        self._distances: dict[int, list[int]] = {}

    def pair(self, u: int, v: int) -> int:
        """The key of two nodes, in any order."""
        return u * self.size + v if u < v else v * self.size + u

    @cached_property
    def neighbours(self) -> list[list[int]]:
        """Adjacent nodes, each once, in the order of the edges (self loops left out)."""
        near: list[dict[int, None]] = [{} for _ in range(self.size)]
        for u, v in zip(self.graph.source, self.graph.target, strict=True):
            if u != v:
                near[u][v] = None
                near[v][u] = None
        return [list(others) for others in near]

    @cached_property
    def on_pair(self) -> dict[int, list[int]]:
        """Edges of each pair, in the order of the edges, one per line."""
        pairs: dict[int, list[int]] = {}
        line_of = self.graph.line_of
        for edge, (u, v) in enumerate(zip(self.graph.source, self.graph.target, strict=True)):
            known = pairs.setdefault(self.pair(u, v), [])
            if not known or (line_of and all(line_of[at] != line_of[edge] for at in known)):
                known.append(edge)
        return pairs

    @cached_property
    def crowded(self) -> list[bool]:
        """Whether a node shares one of its pairs between several lines."""
        crowded = [False] * self.size
        if len(self.on_pair) < len(self.graph.source):
            for key, edges in self.on_pair.items():
                if len(edges) > 1:
                    crowded[key // self.size] = crowded[key % self.size] = True
        return crowded

    @cached_property
    def incident(self) -> list[list[int]]:
        """Edges at each node, unique by pair and line."""
        at: list[list[int]] = [[] for _ in range(self.size)]
        source, target = self.graph.source, self.graph.target
        for edges in self.on_pair.values():
            for edge in edges:
                at[source[edge]].append(edge)
                if source[edge] != target[edge]:
                    at[target[edge]].append(edge)
        return at

    @cached_property
    def line_nodes(self) -> list[list[int]]:
        """Stations touched by an edge of each line, connectors of the line included."""
        touched: list[dict[int, None]] = [{} for _ in self.lines["id"]]
        graph = self.graph
        for u, v, line in zip(graph.source, graph.target, graph.line_of, strict=True):
            touched[line][u] = None
            touched[line][v] = None
        return [list(stations) for stations in touched]

    @cached_property
    def long_lines(self) -> list[int]:
        """Lines with two stations or more."""
        return [line for line, nodes in enumerate(self.line_nodes) if len(nodes) > 1]

    @cached_property
    def hubs(self) -> list[int]:
        """Nodes with two neighbours or more."""
        return [node for node, near in enumerate(self.neighbours) if len(near) > 1]

    @cached_property
    def node_by_name(self) -> dict[str, int]:
        """Node of each name."""
        return {name: node for node, name in enumerate(self.names)}

    @cached_property
    def line_by_name(self) -> dict[str, int]:
        """Line of each name."""
        return {str(name): line for line, name in enumerate(self.lines["name"])}

    def distances(self, start: int) -> list[int]:
        """Hops from ``start`` to every node (``FAR`` where there is no path)."""
        found = self._distances.get(start)
        if found is None:
            found = self._distances[start] = self.search(start)
        return found

    def search(self, start: int, closed: Sequence[bool] | None = None) -> list[int]:
        """Breadth-first hops from ``start`` that never enter a closed node."""
        near = self.neighbours
        hops = [FAR] * self.size
        hops[start] = 0
        queue = [start]
        for node in queue:
            step = hops[node] + 1
            for other in near[node]:
                if hops[other] == FAR and not (closed and closed[other]):
                    hops[other] = step
                    queue.append(other)
        return hops

    def shortest_path(self, start: int, end: int) -> list[int] | None:
        """The first shortest path; None where there is none.

        Searched from both ends, the smaller frontier first, in the order of the edges: the path
        ``networkx.shortest_path`` gives, which the released generator asks for.
        """
        if start == end:
            return [start]
        near = self.neighbours
        before: dict[int, int] = {start: -1}
        after: dict[int, int] = {end: -1}
        ahead, behind = [start], [end]
        while ahead and behind:
            forward = len(ahead) <= len(behind)
            level, mine, theirs = (ahead, before, after) if forward else (behind, after, before)
            grown: list[int] = []
            for node in level:
                for other in near[node]:
                    if other not in mine:
                        mine[other] = node
                        grown.append(other)
                    if other in theirs:
                        return _trace(before, after, other)
            if forward:
                ahead = grown
            else:
                behind = grown
        return None

    @cached_property
    def blocks(self) -> dict[int, int]:
        """Biconnected component of each pair."""
        return biconnected(self.neighbours, self.size)

    @cached_property
    def block_pairs(self) -> dict[int, list[int]]:
        """Pairs of each biconnected component."""
        pairs: dict[int, list[int]] = {}
        for key, block in self.blocks.items():
            pairs.setdefault(block, []).append(key)
        return pairs

    @cached_property
    def on_cycle(self) -> list[bool]:
        """Whether a node lies on some cycle of three nodes or more."""
        found = [False] * self.size
        for pairs in self.block_pairs.values():
            if len(pairs) > 1:
                for key in pairs:
                    found[key // self.size] = found[key % self.size] = True
        return found


def _trace(before: dict[int, int], after: dict[int, int], meeting: int) -> list[int]:
    """The path through the node where both searches met."""
    path = [meeting]
    while (node := before[path[-1]]) >= 0:
        path.append(node)
    path.reverse()
    while (node := after[path[-1]]) >= 0:
        path.append(node)
    return path
