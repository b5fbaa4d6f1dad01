"""Sentences of nodes and edges (paper C.4.1, C.4.2, C.6.3, C.6.4) and the CSV context (E.1.7)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from maghub.clegr.graph import Graph
from maghub.clegr.schema import SUBWAY

_NEEDS_QUOTES = re.compile(r'[",\r\n]')
_HAS: Mapping[object, str] = {True: "has", False: "does not have"}


def node_texts(graph: Graph) -> list[str]:
    """One sentence per node."""
    nodes = graph.nodes
    if graph.domain == SUBWAY:
        return [
            f"{name} {_HAS[access]} disabled access and {_HAS[rail]} rail. It features {style} "
            f"architecture, has {clean} cleanliness, {music} music and is {size} in size."
            for name, access, rail, style, clean, music, size in zip(
                graph.names,
                nodes["disabled_access"],
                nodes["has_rail"],
                nodes["architecture"],
                nodes["cleanliness"],
                nodes["music"],
                nodes["size"],
                strict=True,
            )
        ]
    return [
        f"System node {name} is in {sector} with status {status}. It has security level {level}, "
        f"firmware {firmware}, and consumes {power} power units."
        for name, sector, status, level, firmware, power in zip(
            graph.names,
            nodes["location_sector"],
            nodes["status"],
            nodes["security_level"],
            nodes["firmware_version"],
            nodes["power_consumption_units"],
            strict=True,
        )
    ]


def edge_texts(graph: Graph) -> list[str]:
    """One sentence per (undirected) edge."""
    names, edges = graph.names, graph.edges
    ends = zip(graph.source, graph.target, strict=True)
    if graph.domain == SUBWAY:
        return [
            f"There is a {stroke} {color} line from {names[u]} to {names[v]}. It {_HAS[air]} air "
            f"conditioning and was built in {built}."
            for (u, v), stroke, color, air, built in zip(
                ends,
                edges["line_stroke"],
                edges["line_color"],
                edges["line_has_aircon"],
                edges["line_built"],
                strict=True,
            )
        ]
    return [
        f"A link connects {names[u]} and {names[v]}. It has {bandwidth} bandwidth units, "
        f"{latency}ms latency, and its encryption status is {encryption}."
        for (u, v), bandwidth, latency, encryption in zip(
            ends,
            edges["bandwidth_units"],
            edges["latency_ms"],
            edges["encryption_status"],
            strict=True,
        )
    ]


_EDGE_TABLE = {
    "line_color": "line_color",
    "line_stroke": "line_stroke",
    "line_has_aircon": "has_aircon",
    "line_built": "built",
    "bandwidth_units": "bandwidth_units",
    "latency_ms": "latency_ms",
    "encryption_status": "encryption_status",
}
"""Edge columns of the context, with the names they have there."""


def context(graph: Graph) -> str:
    """The graph as two CSV tables: nodes (id, name, attributes) and edges (ids, attributes)."""
    columns = [name for name in graph.edges if name in _EDGE_TABLE]
    nodes = _csv(
        ["id", "name", *graph.nodes],
        zip(
            map(str, range(len(graph))),
            map(_field, graph.names),
            *(map(str, values) for values in graph.nodes.values()),
            strict=True,
        ),
    )
    edges = _csv(
        ["source_id", "target_id", *(_EDGE_TABLE[name] for name in columns)],
        zip(
            map(str, graph.source),
            map(str, graph.target),
            *(map(str, graph.edges[name]) for name in columns),
            strict=True,
        ),
    )
    return f"--- Nodes ---\n{nodes}\n\n--- Edges ---\n{edges}\n"


def _csv(header: list[str], rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join([",".join(header), *map(",".join, rows)])


def _field(value: str) -> str:
    """A name as a CSV field."""
    return '"' + value.replace('"', '""') + '"' if _NEEDS_QUOTES.search(value) else value
