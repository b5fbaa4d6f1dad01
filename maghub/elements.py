"""Nodes and edges of many small graphs as rows: graph by graph, its nodes and then its edges."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Elements(NamedTuple):
    """All nodes and edges of a table of graphs, in row order.

    Attributes:
        graph_ids: Id of each graph.
        graph: Which graph an element belongs to, as an index into ``graph_ids``.
        part: 0 for a node, 1 for an edge.
        position: Index of the element among the graph's nodes or edges.
    """

    graph_ids: pa.Array
    graph: Ints
    part: Ints
    position: Ints


def elements_of(graph_ids: pa.Array, nodes: Ints, edges: Ints) -> Elements:
    """The elements of graphs with so many nodes and edges each."""
    counts = np.stack([nodes, edges], axis=1).ravel()
    runs = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    return Elements(graph_ids, runs // 2, runs % 2, np.arange(len(runs)) - starts[runs])
