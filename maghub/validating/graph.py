"""Checks of ids, edges and vectors against each other: the rules that make the tables a graph."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from maghub import layout
from maghub.spec import FolderSpec, GraphSpec
from maghub.statistics import edge_keys, measure, measure_texts, pair_keys
from maghub.validating.opened import NULL, REBUILD, Opened
from maghub.validating.report import Findings, rowwise

Ints = NDArray[np.int64]


def outside(values: Ints, count: int) -> NDArray[np.bool_]:
    """Which values are no id of ``count`` things (nulls, noted elsewhere, apart)."""
    return (values != NULL) & ((values < 0) | (values >= count))


def check_ids(table: Opened, column: str, count: int) -> None:
    """Ids must be 0..count-1, each in one row, ascending within a split."""
    if not table.sound(column):
        return
    seen = np.zeros(count, bool)
    last: dict[str, int] = {}
    for group in table.groups([column]):
        ids = group.integers(column)
        wrong = outside(ids, count)
        known = (ids != NULL) & ~wrong
        valid = np.flatnonzero(known)
        repeated = np.zeros(len(ids), bool)
        _, first = np.unique(ids[valid], return_index=True)
        repeated[np.delete(valid, first)] = True
        repeated[valid] |= seen[ids[valid]]
        seen[ids[valid]] = True
        before = np.concatenate([[last.get(group.split, NULL)], ids[:-1]])
        descends = known & (ids < before) & ~repeated
        last[group.split] = int(ids[-1]) if len(ids) else NULL
        note, start = table.findings.rows, group.start
        form = f"{column} {{}} is not within 0..{count - 1}"
        note(table, column, "range", start, wrong, rowwise(form, ids), REBUILD)
        form = f"{column} {{}} occurs in an earlier row too"
        note(table, column, "repeat", start, repeated, rowwise(form, ids), "keep one row per id")
        form = f"{column} {{}} comes after {{}}"
        fix = "sort each split by id"
        note(table, column, "order", start, descends, rowwise(form, ids, before), fix)
    _note_missing(table, column, seen)


def _note_missing(table: Opened, column: str, seen: NDArray[np.bool_]) -> None:
    missing = np.flatnonzero(~seen)
    if table.whole and len(missing):
        table.findings.add(
            table.first_file,
            f"no row has {column} {missing[0]}",
            column=column,
            fix="every id from 0 on needs a row",
            kind="missing",
            count=len(missing),
        )


@dataclass(frozen=True)
class Edges:
    """The edges as stored, and the keys of node pairs that they join."""

    src: Ints
    dst: Ints
    num_nodes: int
    directed: bool

    def pairs(self) -> Ints:
        """Sorted distinct pair keys (ordered pairs where directed) of the edges within range."""
        inside = ~(_off(self.src, self.num_nodes) | _off(self.dst, self.num_nodes))
        src, dst = self.src[inside], self.dst[inside]
        return np.unique(pair_keys(src, dst, self.num_nodes, directed=self.directed))


def _off(values: Ints, count: int) -> NDArray[np.bool_]:
    return (values < 0) | (values >= count)


def read_edges(table: Opened, num_nodes: int, *, directed: bool) -> Edges | None:
    """Both ends of all edges, or None where they cannot be read."""
    ends = table.integers(layout.SRC, layout.DST)
    return Edges(ends[0], ends[1], num_nodes, directed) if ends else None


def check_edges(table: Opened, edges: Edges, graph: GraphSpec) -> None:
    """End points in range, order of undirected edges, self loops, duplicates, declared counts."""
    note, n = table.findings.rows, edges.num_nodes
    src, dst = edges.src, edges.dst
    for column, values in ((layout.SRC, src), (layout.DST, dst)):
        message = rowwise(f"node {{}} is not within 0..{n - 1}", values)
        fix = "every end must be a node_id"
        note(table, column, "range", 0, outside(values, n), message, fix)
    known = (src != NULL) & (dst != NULL)
    if not graph.directed:
        message = rowwise("src {} > dst {} in an undirected graph", src, dst)
        fix = "store undirected edges once, src <= dst"
        note(table, layout.SRC, "order", 0, known & (src > dst), message, fix)
    loops = known & (src == dst)
    if not graph.self_loops:
        fix = "drop it, or declare self_loops"
        note(table, layout.DST, "loop", 0, loops, rowwise("undeclared self loop at {}", dst), fix)
    if not len(src):
        return
    inside = np.flatnonzero(~(_off(src, n) | _off(dst, n)))
    repeated = _repeated(table, edges, graph, inside)
    if repeated is None:
        return
    if not graph.multi_edges:
        key = ", ".join(graph.key)
        message = rowwise(f"edge ({{}}, {{}}) occurs in an earlier row too, by key {key}", src, dst)
        fix = "drop it, or declare multi_edges"
        note(table, graph.key[-1], "duplicate", 0, repeated, message, fix)
    if len(inside) == len(src):
        _check_pairs(table.findings, graph, len(edges.pairs()))


def _repeated(
    table: Opened, edges: Edges, graph: GraphSpec, inside: NDArray[np.int64]
) -> NDArray[np.bool_] | None:
    """Which edges have the key of an earlier one; None where the key cannot be read."""
    columns = [edges.src[inside], edges.dst[inside]]
    for name in graph.key:
        if name in (layout.SRC, layout.DST):
            continue
        if not table.usable(name):
            if name not in table.features:
                what = f"key column {name} is not in the edges"
                table.findings.add(layout.SPEC_FILE, what, column="graph.key", fix=REBUILD)
            return None
        whole = table.table(name)
        if whole is None:
            return None
        codes = whole[name].combine_chunks().dictionary_encode().indices.fill_null(-1)
        columns.append(np.asarray(codes, dtype=np.int64)[inside])
    keys = edge_keys(columns, edges.num_nodes, directed=edges.directed)
    repeated = np.zeros(len(edges.src), bool)
    order = np.argsort(keys, kind="stable")
    repeated[inside[order[1:]]] = keys[order[1:]] == keys[order[:-1]]
    return repeated


def _check_pairs(findings: Findings, graph: GraphSpec, pairs: int) -> None:
    if pairs != graph.unique_pairs:
        what = f"{graph.unique_pairs:,} declared, the edges join {pairs:,} distinct pairs"
        findings.add(layout.SPEC_FILE, what, column="graph.unique_pairs", fix=REBUILD)


def check_statistics(folder: Path, spec: FolderSpec, findings: Findings) -> None:
    """The measured statistics, measured again; only for tables in which nothing is wrong."""
    if measure_texts(folder, spec.configs) != spec.text_lengths:
        what = "is not what the tables have"
        findings.add(layout.SPEC_FILE, what, column="text_lengths", fix=REBUILD)
    if spec.graph is None or spec.statistics is None:
        return
    nodes = spec.config(layout.NODES)
    edges = spec.config(layout.EDGES) if spec.has(layout.EDGES) else None
    real, _ = measure(folder, nodes, edges, directed=spec.graph.directed, key=spec.graph.key)
    declared = spec.statistics.model_dump()
    for field, value in real.model_dump().items():
        if declared[field] != value:
            what = f"is {declared[field]}, the tables have {value}"
            findings.add(layout.SPEC_FILE, what, column=f"statistics.{field}", fix=REBUILD)


def check_counts(spec: FolderSpec, nodes: Opened, edges: Opened | None, findings: Findings) -> None:
    """The declared numbers of nodes and edges."""
    if spec.graph is None:
        what = "is missing although the folder has nodes"
        findings.add(layout.SPEC_FILE, what, column="graph", fix=REBUILD)
        return
    real = {"num_nodes": nodes, "num_edges": edges}
    for name, table in real.items():
        declared = getattr(spec.graph, name)
        rows = table.rows if table is not None else 0
        if (table is None or table.whole) and rows != declared:
            what = f"{declared:,} declared, the table has {rows:,} rows"
            findings.add(layout.SPEC_FILE, what, column=f"graph.{name}", fix=REBUILD)
