"""The published tables of graphs and questions, built column by column (clegr.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from maghub.clegr.graph import Graph
from maghub.clegr.questions import Question, answer_text
from maghub.clegr.schema import (
    EDGE_COLUMNS,
    LINE_COLUMNS,
    LINK_VALUES,
    NETWORK,
    NODE_COLUMNS,
    STATION_VALUES,
    SUBWAY,
    SYSTEM_VALUES,
)
from maghub.clegr.text import context, edge_texts, node_texts
from maghub.errors import MaghubError

if TYPE_CHECKING:
    import datasets

QUESTION_SCHEMA: Final = pa.schema(
    [
        pa.field("question_id", pa.string()),
        pa.field("graph_id", pa.string()),
        pa.field("question", pa.string()),
        pa.field("question_type", pa.string()),
        pa.field("question_group", pa.string()),
        pa.field("question_subgroups", pa.list_(pa.string())),
        pa.field("scope", pa.string()),
        pa.field("output_type", pa.string()),
        pa.field("arguments", pa.list_(pa.string())),
        pa.field("answer", pa.string()),
        pa.field("answer_list", pa.list_(pa.string())),
    ]
)

_TYPES: Final = {bool: pa.bool_(), int: pa.int32(), str: pa.string()}
_LINE_TYPES: Final = {name: pa.string() for name in LINE_COLUMNS} | {"has_aircon": pa.bool_()}
_ATTRIBUTES: Final = {
    name: _TYPES[type(values[0])]
    for group in (STATION_VALUES, SYSTEM_VALUES, LINK_VALUES)
    for name, values in group.items()
}


def _node_types(domain: str) -> dict[str, pa.DataType]:
    attributes = {name: _ATTRIBUTES[name] for name in NODE_COLUMNS[domain]}
    ends = {"x": pa.float64(), "y": pa.float64()}
    return {"id": pa.string(), "name": pa.string(), **attributes, **ends}


def _edge_types(domain: str) -> dict[str, pa.DataType]:
    types = {
        name: pa.bool_() if name == "line_has_aircon" else _ATTRIBUTES.get(name, pa.string())
        for name in EDGE_COLUMNS[domain]
    }
    return {"source": pa.int32(), "target": pa.int32(), **types}


def _struct(types: Mapping[str, pa.DataType]) -> pa.DataType:
    return pa.list_(pa.struct([pa.field(name, kind) for name, kind in types.items()]))


def graph_schema(domain: str) -> pa.Schema:
    """Columns of a graph table; networks have no ``lines``."""
    fields = [
        pa.field("graph_id", pa.string()),
        pa.field("nodes", _struct(_node_types(domain))),
        pa.field("edges", _struct(_edge_types(domain))),
        pa.field("lines", _struct(_LINE_TYPES)),
        pa.field("node_texts", pa.list_(pa.string())),
        pa.field("edge_texts", pa.list_(pa.string())),
        pa.field("context", pa.string()),
    ]
    return pa.schema([f for f in fields if domain == SUBWAY or f.name != "lines"])


def features(schema: pa.Schema) -> datasets.Features:
    """The ``datasets.Features`` of a schema of this module."""
    import datasets

    return datasets.Features.from_arrow_schema(schema)


def _offsets(lengths: Iterable[int]) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(list(lengths), dtype=np.int64)]), pa.int32())


def _lists(values: Sequence[Sequence[Any]]) -> pa.Array:
    """A list array of strings."""
    flat = [value for row in values for value in row]
    return pa.ListArray.from_arrays(_offsets(map(len, values)), pa.array(flat, pa.string()))


def _structs(columns: Mapping[str, Sequence[Sequence[Any]]], types: Mapping[str, Any]) -> pa.Array:
    """A list array of structs from one list of columns per graph."""
    arrays = [
        pa.array([value for part in columns[name] for value in part], kind)
        for name, kind in types.items()
    ]
    struct = pa.StructArray.from_arrays(arrays, names=list(types))
    return pa.ListArray.from_arrays(_offsets(map(len, columns[next(iter(types))])), struct)


def graph_table(graphs: Sequence[Graph], domain: str) -> pa.Table:
    """Graph rows."""
    nodes: dict[str, list[Sequence[Any]]] = {
        "id": [g.ids for g in graphs],
        "name": [g.names for g in graphs],
        **{name: [g.nodes[name] for g in graphs] for name in NODE_COLUMNS[domain]},
        "x": [g.x for g in graphs],
        "y": [g.y for g in graphs],
    }
    edges: dict[str, list[Sequence[Any]]] = {
        "source": [g.source for g in graphs],
        "target": [g.target for g in graphs],
        **{name: [g.edges[name] for g in graphs] for name in EDGE_COLUMNS[domain]},
    }
    columns = {
        "graph_id": pa.array([g.graph_id for g in graphs], pa.string()),
        "nodes": _structs(nodes, _node_types(domain)),
        "edges": _structs(edges, _edge_types(domain)),
        "node_texts": _lists([node_texts(g) for g in graphs]),
        "edge_texts": _lists([edge_texts(g) for g in graphs]),
        "context": pa.array([context(g) for g in graphs], pa.string()),
    }
    if domain == SUBWAY:
        lines = {name: [g.lines[name] for g in graphs] for name in LINE_COLUMNS}
        columns["lines"] = _structs(lines, _LINE_TYPES)
    schema = graph_schema(domain)
    return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


def question_table(questions: Iterable[tuple[str, Question]]) -> pa.Table:
    """Question rows, from (graph id, question) pairs."""
    columns: list[list[Any]] = [[] for _ in QUESTION_SCHEMA]
    ids, graph_ids, texts, types, groups, subgroups, scopes, outputs, arguments, answers, lists = (
        columns
    )
    for graph_id, question in questions:
        template = question.template
        ids.append(f"{graph_id}-{template.name}-{question.instance + 1}")
        graph_ids.append(graph_id)
        texts.append(template.wording.format(*question.arguments) + template.suffix_text)
        types.append(template.name)
        groups.append(template.group)
        subgroups.append(template.subgroups)
        scopes.append(template.scope)
        outputs.append(template.output)
        arguments.append(question.arguments)
        answers.append(answer_text(question.answer))
        lists.append(question.answer if isinstance(question.answer, tuple) else ())
    arrays = [
        _lists(column) if pa.types.is_list(field.type) else pa.array(column, field.type)
        for column, field in zip(columns, QUESTION_SCHEMA, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=QUESTION_SCHEMA)


def graph_from_row(row: Mapping[str, Any], domain: str | None = None) -> Graph:
    """The graph of one published row (as ``to_pylist`` or ``datasets`` give it).

    Args:
        row: A graph row.
        domain: The domain; read off the columns where it is not given.

    Raises:
        MaghubError: When a column is missing or an edge names an unknown line.
    """
    where = row.get("graph_id", "a graph row")
    domain = domain or (SUBWAY if "lines" in row else NETWORK)
    try:
        nodes, edges, lines = row["nodes"], row["edges"], row.get("lines") or []
        at = {line["id"]: number for number, line in enumerate(lines)}
        return Graph(
            graph_id=str(row["graph_id"]),
            domain=domain,
            ids=[node["id"] for node in nodes],
            names=[node["name"] for node in nodes],
            x=[node["x"] for node in nodes],
            y=[node["y"] for node in nodes],
            nodes={name: [node[name] for node in nodes] for name in NODE_COLUMNS[domain]},
            source=[edge["source"] for edge in edges],
            target=[edge["target"] for edge in edges],
            edges={name: [edge[name] for edge in edges] for name in EDGE_COLUMNS[domain]},
            lines={name: [line[name] for line in lines] for name in LINE_COLUMNS},
            line_of=[at[edge["line_id"]] for edge in edges] if domain == SUBWAY else [],
        )
    except (KeyError, TypeError) as problem:
        raise MaghubError(f"a graph row lacks or misnames {problem}", where=where) from problem
