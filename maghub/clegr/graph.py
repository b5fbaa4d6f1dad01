"""The graph both domains share: plain columns, integer endpoints, and its structural checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from maghub.clegr.schema import LINE_COLUMNS, SUBWAY
from maghub.errors import MaghubError

Column = list[Any]
"""Values of one attribute: booleans, numbers or strings."""


@dataclass
class Graph:
    """One subway map or computer network, stored column-wise.

    Attributes:
        graph_id: The graph's name in its set.
        domain: ``subway`` or ``computer-networks``.
        ids: Node ids.
        names: Node names, unique within the graph.
        x: Map coordinates.
        y: Map coordinates.
        nodes: Node attribute columns (paper C.2.1 or C.6.1).
        source: Index of each edge's first node.
        target: Index of each edge's second node.
        edges: Edge attribute columns (paper C.2.2 or C.6.2).
        lines: Line columns ``id, name, color, stroke, built, has_aircon``; empty for networks.
        line_of: Index of each edge's line; empty for networks.
    """

    graph_id: str
    domain: str
    ids: list[str]
    names: list[str]
    x: list[float]
    y: list[float]
    nodes: dict[str, Column]
    source: list[int]
    target: list[int]
    edges: dict[str, Column]
    lines: dict[str, Column] = field(default_factory=lambda: {name: [] for name in LINE_COLUMNS})
    line_of: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)


def components(size: int, source: Sequence[int], target: Sequence[int]) -> list[list[int]]:
    """Connected components as lists of node indices, ordered by their first node."""
    parent = list(range(size))
    for u, v in zip(source, target, strict=True):
        while parent[u] != u:
            parent[u] = u = parent[parent[u]]
        while parent[v] != v:
            parent[v] = v = parent[parent[v]]
        if u < v:
            parent[v] = u
        else:
            parent[u] = v
    groups: dict[int, list[int]] = {}
    for node in range(size):
        root = node
        while parent[root] != root:
            root = parent[root]
        groups.setdefault(root, []).append(node)
    return list(groups.values())


def check_graph(graph: Graph) -> None:
    """Reject a graph no question can be asked of: empty, dangling, or with doubled names.

    Raises:
        MaghubError: In one line, with the graph's id.
    """
    size = len(graph)
    if not size:
        raise MaghubError("the graph has no nodes", where=graph.graph_id)
    for ends in (graph.source, graph.target):
        for node in ends:
            if not 0 <= node < size:
                raise MaghubError(f"an edge names unknown node {node}", where=graph.graph_id)
    if graph.domain == SUBWAY and len(graph.line_of) != len(graph.source):
        raise MaghubError("an edge has no line", where=graph.graph_id)
    for kind, names in (("node", graph.names), ("line", graph.lines["name"])):
        if len(set(names)) < len(names):
            double = next(name for name in names if names.count(name) > 1)
            raise MaghubError(f"two {kind}s are called '{double}'", where=graph.graph_id)
