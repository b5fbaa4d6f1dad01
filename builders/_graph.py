"""Sources of one graph: a subclass says what the nodes and edges are, the tables follow from it.

Every graph dataset has the same configs (nodes, edges, node-splits, edge-splits, negatives, and
upstream's vectors where they exist); here is the one place that makes them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from datasets import Features
from numpy.typing import NDArray

from maghub import layout, schema
from maghub.builders._rules import (
    EDGE_FRACTIONS,
    NODE_FRACTIONS,
    Negatives,
    Rule,
    edge_rule,
    random_rule,
    stratified_rule,
    uniform_negatives,
    upstream_permutation,
)
from maghub.builders._source import Facts, Source, Table, in_memory
from maghub.errors import MaghubError
from maghub.images import ImageSummary, PixelRule, normalise
from maghub.spec import EncoderProvenance
from maghub.statistics import pair_keys
from maghub.tables import IMAGE_COUNTS, Counted

IMAGE_TYPE = pa.struct({"bytes": pa.binary(), "path": pa.string()})


@dataclass(frozen=True)
class Graph:
    """What upstream says of one graph.

    Attributes:
        num_nodes: Nodes N.
        nodes: Types of the node columns after node_id (``schema.nodes_features``).
        read_nodes: ``read_nodes(start, stop)`` gives those columns, node_id included; picklable
            where ``parallel``.
        src, dst: int64 [E] edges as they are stored.
        edge_columns: Further edge columns: name -> (type, values [E]).
        edge_key: Columns that identify an edge.
        node_rules, edge_rules: Named splits; the first node rule is the default.
        negatives: Fixed negatives.
        extra: Further configs, e.g. upstream's vectors.
        encoders: Provenance of the vectors in ``extra``.
        notes: Counts and facts for card and ``maghub.json``.
    """

    num_nodes: int
    nodes: Features
    read_nodes: Callable[[int, int], pa.Table | Counted]
    src: NDArray[np.int64]
    dst: NDArray[np.int64]
    edge_columns: dict[str, tuple[object, object]] = field(default_factory=dict)
    edge_key: tuple[str, ...] = (layout.SRC, layout.DST)
    directed: bool = False
    self_loops: bool = False
    multi_edges: bool = False
    node_rules: tuple[Rule, ...] = ()
    edge_rules: tuple[Rule, ...] = ()
    negatives: tuple[Negatives, ...] = ()
    extra: tuple[Table, ...] = ()
    encoders: tuple[EncoderProvenance, ...] = ()
    images: dict[str, int] = field(default_factory=dict)
    notes: dict[str, object] = field(default_factory=dict)
    part_size: int = 256
    parallel: bool = True


class GraphSource(Source):
    """A source of one graph: subclasses implement ``read`` and name in ``inputs`` what it reads."""

    inputs: dict[str, str] = {}

    @abstractmethod
    def read(self) -> Graph:
        """Parse the raw files (called once)."""

    @cached_property
    def graph(self) -> Graph:
        """What ``read`` gave."""
        return self.read()

    def whole(self, option: str, low: int = 0) -> int:
        """The value of an option that must be a whole number of at least ``low``."""
        value = self.options[option]
        if type(value) is not int or value < low:
            what = f"option {option} is {value!r}, must be a whole number of at least {low}"
            raise MaghubError(what, where=self.name)
        return value

    def tables(self) -> list[Table]:
        """nodes, edges, splits, negatives and further configs, in this order."""
        graph = self.graph
        default = graph.node_rules[0].codes if graph.node_rules else None
        nodes = Table(
            config=layout.NODES,
            kind="nodes",
            features=graph.nodes,
            num_rows=graph.num_nodes,
            read=graph.read_nodes,
            split_names=layout.SPLITS if graph.node_rules else (layout.FULL,),
            split_ids=default,
            part_size=graph.part_size,
            parallel=graph.parallel,
        )
        edge_ids = np.arange(len(graph.src))
        types = {name: kind for name, (kind, _) in graph.edge_columns.items()}
        values = {name: column for name, (_, column) in graph.edge_columns.items()}
        columns = {layout.EDGE_ID: edge_ids, layout.SRC: graph.src, layout.DST: graph.dst, **values}
        return [
            nodes,
            in_memory(layout.EDGES, "edges", schema.edges_features(types), columns),
            *_rules(layout.NODE_SPLITS, layout.NODE_ID, graph.node_rules, layout.NODES),
            *_rules(layout.EDGE_SPLITS, layout.EDGE_ID, graph.edge_rules, layout.EDGES),
            *(negatives.table() for negatives in graph.negatives),
            *graph.extra,
        ]

    def facts(self) -> Facts:
        """The graph's nature, its rules and what was counted."""
        graph = self.graph
        return Facts(
            directed=graph.directed,
            self_loops=graph.self_loops,
            multi_edges=graph.multi_edges,
            edge_key=graph.edge_key,
            default_split=graph.node_rules[0].name if graph.node_rules else None,
            node_splits=tuple(rule.spec("nodes") for rule in graph.node_rules),
            edge_splits=tuple(rule.spec("edges") for rule in graph.edge_rules),
            negatives=tuple(negatives.spec() for negatives in graph.negatives),
            encoders=graph.encoders,
            images=graph.images,
            sources=self.inputs,
            notes=graph.notes,
        )


def _rules(config: str, key: str, rules: Sequence[Rule], target: str) -> list[Table]:
    """``node-splits`` or ``edge-splits``; no table where there is no rule."""
    if not rules:
        return []
    kind = "node_splits" if key == layout.NODE_ID else "edge_splits"
    columns: dict[str, object] = {key: np.arange(len(rules[0].codes))}
    columns |= {rule.name: rule.codes for rule in rules}
    features = schema.splits_features(key, [rule.name for rule in rules])
    return [in_memory(config, kind, features, columns, target=target)]  # type: ignore[arg-type]


@dataclass(frozen=True)
class StoredEdges:
    """Edges in stored form, and what was dropped or folded on the way."""

    src: NDArray[np.int64]
    dst: NDArray[np.int64]
    counts: dict[str, int]


def _store(
    src: NDArray[np.int64],
    dst: NDArray[np.int64],
    num_nodes: int,
    self_loops: bool,
    directed: bool,
    folded: str,
) -> StoredEdges:
    keys = pair_keys(src, dst, num_nodes, directed=directed)
    if not self_loops:
        keys = keys[src != dst]
    unique = np.unique(keys)
    counts = {"upstream edges": len(src), folded: len(keys) - len(unique)}
    counts["self loops kept" if self_loops else "self loops dropped"] = int((src == dst).sum())
    return StoredEdges(unique // num_nodes, unique % num_nodes, counts)


def store_undirected(
    src: NDArray[np.int64], dst: NDArray[np.int64], num_nodes: int, *, self_loops: bool = False
) -> StoredEdges:
    """Each unordered pair once, src <= dst, sorted; loops dropped unless they are kept."""
    return _store(src, dst, num_nodes, self_loops, False, "folded duplicates and reverses")


def store_directed(
    src: NDArray[np.int64], dst: NDArray[np.int64], num_nodes: int, *, self_loops: bool = False
) -> StoredEdges:
    """Each ordered pair once, sorted; loops dropped unless they are kept."""
    return _store(src, dst, num_nodes, self_loops, True, "folded duplicates")


@dataclass(frozen=True)
class NodeReader:
    """Reads rows of ``nodes`` whose columns are in memory and whose images are fetched per row.

    Attributes:
        columns: All columns but node_id and image, N rows.
        image: ``image(node)`` gives the upstream bytes of a node's image or None; picklable.
        rule: The pixel rule; None publishes upstream bytes unchanged once they decode.
    """

    columns: pa.Table
    image: Callable[[int], bytes | None] | None = None
    rule: PixelRule | None = field(default_factory=PixelRule)

    def __call__(self, start: int, stop: int) -> pa.Table | Counted:
        """Rows ``start..stop`` with node_id and image added; what became of the images counted."""
        rows = self.columns.slice(start, stop - start)
        rows = rows.append_column(layout.NODE_ID, pa.array(np.arange(start, stop)))
        if self.image is None:
            return rows
        summary = ImageSummary()
        images = []
        for node in range(start, stop):
            data = self.image(node)
            result = None if data is None else normalise(data, self.rule)
            if self.rule is None and result is not None and result.data is not None:
                result = replace(result, data=data, action="kept", steps=())
            summary.add(result)
            kept = result.data if result is not None else None
            images.append(None if kept is None else {"bytes": kept, "path": None})
        rows = rows.append_column(layout.IMAGE, pa.array(images, IMAGE_TYPE))
        return Counted(rows, {IMAGE_COUNTS: summary.flat()})


__all__ = [
    "EDGE_FRACTIONS",
    "NODE_FRACTIONS",
    "Graph",
    "GraphSource",
    "Negatives",
    "NodeReader",
    "Rule",
    "StoredEdges",
    "edge_rule",
    "random_rule",
    "store_directed",
    "store_undirected",
    "stratified_rule",
    "uniform_negatives",
    "upstream_permutation",
]
