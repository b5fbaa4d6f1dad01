"""Graphs from outside: the JSON-lines form anybody's released set can be put into (issue 3).

One line is one graph with its questions::

    {"nodes": [{id, name, architecture, ...}], "edges": [{station1, station2, line_id, ...}],
     "lines": [{id, name, color, ...}], "qa": [{type, question, answer}]}

Computer networks have no lines, and edges {node1_id, node2_id, bandwidth_units, ...}.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from maghub.clegr.graph import Graph
from maghub.clegr.schema import EDGE_COLUMNS, LINE_COLUMNS, NETWORK, NODE_COLUMNS, SUBWAY
from maghub.errors import MaghubError, place

Records = list[Mapping[str, Any]]


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any] | MaghubError]]:
    """The records of a file, one at a time, with their place; a bad line comes as its error."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as lines:
            for number, line in enumerate(lines, start=1):
                where = place(path.name, row=number)
                if line.strip():
                    yield where, _record(line, where)
    except OSError as problem:
        raise MaghubError(f"cannot be read ({problem.strerror})", where=path) from problem


def _record(line: str, where: str) -> dict[str, Any] | MaghubError:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as problem:
        return MaghubError(f"the line is not JSON ({str(problem)[:80]})", where=where)
    if isinstance(record, dict):
        return record
    return MaghubError("the line is not a JSON object", where=where)


def graph_from_json(record: Mapping[str, Any], graph_id: str) -> Graph:
    """The graph of one record.

    Raises:
        MaghubError: In one line, for a missing column, an empty graph, an unknown node or line.
    """
    nodes = _records(record, "nodes", graph_id)
    edges = _records(record, "edges", graph_id)
    lines = _records(record, "lines", graph_id) if record.get("lines") else []
    if not nodes:
        raise MaghubError("the graph has no nodes", where=graph_id)
    domain = SUBWAY if lines or "architecture" in nodes[0] else NETWORK
    ids = [str(value) for value in _column(nodes, "id", "node", graph_id)]
    at = {node: number for number, node in enumerate(ids)}
    if len(at) < len(ids):
        raise MaghubError("two nodes have the same id", where=graph_id)
    line_at = {str(v): n for n, v in enumerate(_column(lines, "id", "line", graph_id))}
    ends = [_ends(edge, at, graph_id) for edge in edges]
    graph = Graph(
        graph_id=graph_id,
        domain=domain,
        ids=ids,
        names=[str(value) for value in _column(nodes, "name", "node", graph_id)],
        x=[_number(node.get("x")) for node in nodes],
        y=[_number(node.get("y")) for node in nodes],
        nodes={name: _column(nodes, name, "node", graph_id) for name in NODE_COLUMNS[domain]},
        source=[u for u, _ in ends],
        target=[v for _, v in ends],
        edges={name: _column(edges, name, "edge", graph_id) for name in EDGE_COLUMNS[domain]},
        lines={name: _column(lines, name, "line", graph_id) for name in LINE_COLUMNS},
    )
    if domain == SUBWAY:
        for line in graph.edges["line_id"]:
            if str(line) not in line_at:
                raise MaghubError(f"an edge names unknown line '{line}'", where=graph_id)
        graph.line_of = [line_at[str(line)] for line in graph.edges["line_id"]]
    return graph


def _records(record: Mapping[str, Any], key: str, where: str) -> Records:
    value = record.get(key)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise MaghubError(f"'{key}' is not a list of objects", where=where)
    return value


def _column(records: Records, name: str, kind: str, where: str) -> list[Any]:
    """One column; an edge's own ``properties`` are looked into as well."""
    values = []
    for number, record in enumerate(records):
        value = record.get(name)
        if value is None and isinstance(record.get("properties"), dict):
            value = record["properties"].get(name)
        if value is None or isinstance(value, list | dict):
            raise MaghubError(f"{kind} {number} has no usable '{name}'", where=where)
        values.append(value)
    return values


def _ends(edge: Mapping[str, Any], at: Mapping[str, int], where: str) -> tuple[int, int]:
    found = []
    for names in (("station1", "node1_id", "node1"), ("station2", "node2_id", "node2")):
        node = str(next((edge[name] for name in names if name in edge), ""))
        if node not in at:
            raise MaghubError(f"an edge names unknown node '{node[:60]}'", where=where)
        found.append(at[node])
    return found[0], found[1]


def _number(value: object) -> float:
    """A coordinate; 0 where there is none (no answer needs it)."""
    return float(value) if isinstance(value, int | float) else 0.0
