"""The user's own tables, pictures and graphs as a dataset: ``maghub build NAME --from``.

Nodes and edges are CSV, TSV, JSON Lines or Parquet; or one graph of another library: a PyG ``Data``
(.pt), GraphML, a networkx edge list, a DGL binary, or those objects themselves. ids are the user's
(``source_id`` keeps them), node_id counts the rows. A split is the user's own where a column gives
it, ours otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from datasets import ClassLabel
from numpy.typing import NDArray

from maghub import layout, schema
from maghub.builders._graph import (
    Graph,
    GraphSource,
    Negatives,
    NodeReader,
    Rule,
    edge_rule,
    stratified_rule,
    uniform_negatives,
)
from maghub.builders._own_columns import classes, ends, extra, identifiers, places, splits
from maghub.builders._own_edges import given_edges, kept_rows, require_whole, taken
from maghub.builders._own_graphs import READERS, RawGraph, graph_of, read_graph
from maghub.builders._own_pictures import find_pictures
from maghub.builders._own_read import Frame, Wanted, read_frame, select
from maghub.cards import Card
from maghub.errors import MaghubError, nearest
from maghub.features import file_sha256
from maghub.files import os_errors
from maghub.statistics import pair_keys

NODE_FIELDS = {
    "id": ("id", "node_id", "source_id"),
    "text": ("text", "raw_text", "raw_texts"),
    "label": ("label", "labels", "y"),
    "image": ("image",),
    "split": ("split",),
}
EDGE_FIELDS = {
    "src": ("src", "source"),
    "dst": ("dst", "target"),
    "relation": ("relation",),
    "edge-split": ("edge_split", "edge-split"),
}
CORE = {layout.NODE_ID, layout.SOURCE_ID, layout.EDGE_ID, *NODE_FIELDS, *EDGE_FIELDS}
GIVEN, STRATIFIED, RANDOM, UNIFORM = "given", "stratified", "random", "uniform"


@dataclass(frozen=True)
class Own:
    """Nodes and edges as the user has them; ``edges`` None is a dataset without edges."""

    nodes: Frame
    edges: Frame | None
    directed: bool | None
    left_out: tuple[str, ...]
    sources: dict[str, str]


class OwnSource(GraphSource):
    """A dataset from the user's own tables.

    Args:
        source: Nodes, or a whole graph: a file, columns by name, an Arrow table, or the object.
        edges: Edges likewise; a graph gives its edges only, its nodes called 0..N-1 or as it does.
        images: A folder of pictures.
        columns: Field (id, text, label, image, split; src, dst, relation, edge-split) or a column
            that the card declares -> the user's column.
        card: Says what the dataset is, and which further columns are kept.
        seed: Of our splits and negatives.
        as_given: Keep what cannot be published (repeated edges, loops, a node pair in two splits)
            and add nothing (ids but row numbers, splits, negatives): for looking at what is there.
        **options: ``self_loops`` keeps loops, ``negatives`` how many per positive edge.
    """

    name = "own"
    defaults = {"self_loops": False, "negatives": 50}

    def __init__(
        self,
        source: Any,
        *,
        card: Card,
        edges: Any = None,
        images: str | Path | None = None,
        columns: Mapping[str, str] | None = None,
        seed: int = 0,
        as_given: bool = False,
        **options: str | int | float | bool | None,
    ) -> None:
        super().__init__(None, seed, **options)
        self.as_given = as_given
        self.whole("negatives")
        if type(self.options["self_loops"]) is not bool:
            raise MaghubError("option self_loops must be true or false", where=self.name)
        self.given, self.given_edges, self.base = source, edges, card
        self.images = None if images is None else Path(images)
        self.columns = dict(columns or {})
        self.options |= {f"map {field}": own for field, own in sorted(self.columns.items())}

    # -- what the user gave ------------------------------------------------------------------

    @cached_property
    def own(self) -> Own:
        """The user's columns, read once."""
        nodes_wanted, edges_wanted = self._wanted()
        graph = _graph(self.given)
        other = None if self.given_edges is None else _graph(self.given_edges)
        if graph is None:
            nodes = _frame(self.given, nodes_wanted, "nodes")
        else:
            nodes = select(graph.nodes, graph.where, nodes_wanted)
        edges = None
        if self.given_edges is not None and other is None:
            edges = _frame(self.given_edges, edges_wanted, "edges")
        elif (of := other or graph) is not None:
            edges = select(of.edges, of.where, edges_wanted)
        for field in ("src", "dst"):
            if edges is None and field in self.columns:
                what = f"--map {field}={self.columns[field]} is about edges, and none are given"
                raise MaghubError(what, fix="name their table with --edges")
        graphs = [one for one in (graph, other) if one is not None]
        left_out = [*nodes.left_out, *(edges.left_out if edges else ())]
        left_out += [name for one in graphs for name in one.left_out]
        return Own(
            nodes=nodes,
            edges=edges,
            directed=graphs[-1].directed if graphs else None,
            left_out=tuple(dict.fromkeys(map(_printable, left_out))),
            sources=_sources(nodes=self.given, edges=self.given_edges),
        )

    def _wanted(self) -> tuple[Wanted, Wanted]:
        declared = self.base.spec.columns
        of_nodes = tuple(c for c in declared.get(layout.NODES, ()) if c not in CORE)
        of_edges = tuple(c for c in declared.get(layout.EDGES, ()) if c not in CORE)
        known = (*NODE_FIELDS, *EDGE_FIELDS, *of_nodes, *of_edges)
        for field in self.columns:
            if field not in known:
                raise nearest(field, known, kind="field of --map")
        return (
            Wanted(NODE_FIELDS, () if self.as_given else ("id",), self.columns, of_nodes),
            Wanted(EDGE_FIELDS, ("src", "dst"), self.columns, of_edges),
        )

    @property
    def directed(self) -> bool:
        """As the card says, else as the graph does, else not."""
        said = self.base.spec.directed
        return bool(self.own.directed if said is None else said)

    # -- what becomes of it ------------------------------------------------------------------

    def read(self) -> Graph:
        """Nodes in the user's order; edges sorted, each once per relation (the first holds)."""
        own = self.own
        nodes = own.nodes
        ids = identifiers(nodes, "id") if "id" in nodes.columns else _row_numbers(nodes)
        index = places(nodes, ids)
        columns: dict[str, Any] = {layout.SOURCE_ID: ids, layout.TEXT: nodes.texts("text")}
        names, labels = None, np.full(len(ids), -1)
        if "label" in nodes.columns:
            names, labels = classes(nodes, "label")
            columns[layout.LABEL] = pa.array(labels, mask=labels < 0)
        types = {}
        for field in nodes.columns.keys() - NODE_FIELDS.keys():
            types[field], columns[field] = extra(nodes, field)
        types = {field: types[field] for field in nodes.columns if field in types}
        pictures = find_pictures(nodes, ids, self.images)
        edges = self._edges(index)
        rules = _node_rules(nodes, None if self.as_given else names, labels, self.seed)
        return Graph(
            num_nodes=len(ids),
            nodes=schema.nodes_features(names, types, image=pictures is not None),
            read_nodes=NodeReader(pa.table(columns), pictures),
            self_loops=self.as_given or bool(self.options["self_loops"]),
            multi_edges=self.as_given,
            directed=self.directed,
            node_rules=rules,
            parallel=pictures is not None,
            part_size=256 if pictures is not None else 50_000,
            **edges,
        )

    def _edges(self, index: Mapping[str, int]) -> dict[str, Any]:
        """The fields of ``Graph`` that are about edges."""
        frame, n = self.own.edges, len(index)
        notes: dict[str, object] = {"columns left out": list(self.own.left_out)}
        if frame is None or not len(frame):
            none = np.zeros(0, np.int64)
            return {"src": none, "dst": none, "notes": notes}
        src, dst = (ends(frame, end, index, self.own.nodes.where) for end in ("src", "dst"))
        columns: dict[str, tuple[object, object]] = {}
        relation = np.zeros(len(src), np.int64)
        key: tuple[str, ...] = (layout.SRC, layout.DST)
        if "relation" in frame.columns:
            names, relation = classes(frame, "relation")
            if (relation < 0).any():
                raise frame.fail("relation", int(np.argmin(relation)), "no relation")
            columns[layout.RELATION] = (ClassLabel(names=names), relation)
            key = (*key, layout.RELATION)
        for field in (field for field in frame.columns if field not in EDGE_FIELDS):
            columns[field] = extra(frame, field)
        if not self.directed:
            src, dst = np.minimum(src, dst), np.maximum(src, dst)
        if self.as_given:
            rows = np.arange(len(src))
        else:
            rows, counts = kept_rows(src, dst, relation, bool(self.options["self_loops"]))
            notes |= counts
        src, dst = src[rows], dst[rows]
        rule = None
        if "edge-split" in frame.columns:
            rule = given_edges(frame, rows)
            if not self.as_given:
                require_whole(frame, rule.codes, rows, pair_keys(src, dst, n, directed=False))
        elif not self.as_given:
            rule = edge_rule(RANDOM, src, dst, n, self.seed)
        return {
            "src": src,
            "dst": dst,
            "edge_columns": {k: (kind, taken(v, rows)) for k, (kind, v) in columns.items()},
            "edge_key": key,
            "edge_rules": (rule,) if len(src) and rule else (),
            "negatives": () if self.as_given or not rule else self._negatives(rule, src, dst, n),
            "notes": notes,
        }

    def _negatives(
        self, rule: Rule, src: NDArray[np.int64], dst: NDArray[np.int64], n: int
    ) -> tuple[Negatives, ...]:
        """As many per edge as asked for, fewer where a small graph has no more; maybe none."""
        pairs = np.unique(pair_keys(src, dst, n, directed=False)[src != dst])
        degree = np.bincount(np.concatenate([pairs // n, pairs % n]), minlength=n)
        k = min(self.whole("negatives"), n - 1 - int(degree.max(initial=0)))
        held_out = (rule.codes > 0) & (rule.codes < len(layout.SPLITS) - 1) & (src != dst)
        if k < 1 or not held_out.any():
            return ()
        directed = self.directed
        return (uniform_negatives(UNIFORM, rule, src, dst, n, self.seed, k, directed=directed),)

    @property
    def inputs(self) -> dict[str, str]:  # type: ignore[override]
        """What was read, by role, with checksums."""
        return self.own.sources

    def complete(self, card: Card) -> Card:
        """The card with what was decided here: splits, negatives, direction."""
        graph, spec = self.graph, card.spec
        rules = {rule.name: rule.description for rule in (*graph.node_rules, *graph.edge_rules)}
        negatives = {one.name: one.description for one in graph.negatives}
        columns = dict(spec.columns)
        if layout.RELATION in graph.edge_columns:
            meant = {layout.RELATION: "kind of the edge"}
            columns[layout.EDGES] = meant | columns.get(layout.EDGES, {})
        update = {
            "directed": graph.directed,
            "columns": columns,
            "default_split": graph.node_rules[0].name if graph.node_rules else None,
            "splits": rules | spec.splits,
            "negatives": negatives | spec.negatives,
        }
        return card.model_copy(update={"spec": spec.model_copy(update=update)})


def _graph(value: Any) -> RawGraph | None:
    """The graph that a file or an object holds; None where it is a table."""
    if isinstance(value, str | Path):
        return read_graph(Path(value)) if Path(value).suffix.lower() in READERS else None
    return graph_of(value)


def _frame(value: Any, wanted: Wanted, what: str) -> Frame:
    """A table: a file, an Arrow table, or columns by name."""
    if isinstance(value, str | Path):
        return read_frame(Path(value), wanted)
    if isinstance(value, pa.Table):
        wanted.choose(value.column_names, what)  # a name that stands twice would be lost below
        value = dict(zip(value.column_names, value.columns, strict=True))
    if not isinstance(value, Mapping):
        fix = "give a file, an Arrow table, a dictionary of columns, a PyG Data or a networkx graph"
        raise MaghubError(f"cannot read {what} from a {type(value).__name__}", fix=fix)
    columns = {
        str(name): _column(values, f"{what}, column {name}") for name, values in value.items()
    }
    return select(columns, what, wanted)


def _column(values: Any, where: str) -> list[Any] | pa.ChunkedArray:
    """The values of one column: of a tensor plain numbers, Arrow memory as it is."""
    if isinstance(values, pa.ChunkedArray):
        return values
    if not isinstance(values, Iterable):
        raise MaghubError(f"a {type(values).__name__} is no column", where=where)
    plain = getattr(values, "tolist", None) if hasattr(values, "detach") else None
    return list(plain() if plain else values)


def _printable(name: str) -> str:
    """A name of the user's, half characters replaced."""
    return name.encode("utf-8", "replace").decode()


def _sources(**given: Any) -> dict[str, str]:
    """Name and checksum of each file, the kind of anything else."""
    found = {}
    for role, value in given.items():
        if isinstance(value, str | Path):
            with os_errors(value):
                found[role] = f"{Path(value).name} sha256:{file_sha256(Path(value))}"
        elif value is not None:
            found[role] = f"a Python {type(value).__name__}"
    return found


def _node_rules(
    nodes: Frame, names: list[str] | None, labels: NDArray[np.int64], seed: int
) -> tuple[Rule, ...]:
    """The user's split, else ours within each class, else none."""
    if "split" in nodes.columns:
        text = f"column {nodes.names['split']} of the user's nodes"
        return (Rule(GIVEN, splits(nodes, "split"), text, origin="upstream"),)
    return (stratified_rule(STRATIFIED, labels, seed),) if names else ()


def _row_numbers(nodes: Frame) -> list[str]:
    return [str(row) for row in range(len(nodes))]
