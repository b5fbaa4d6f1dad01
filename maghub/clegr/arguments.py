"""Drawing a template's arguments (../shared/specs/clegr.md, "Argument draws")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from maghub.clegr.draws import Draws
from maghub.clegr.index import Index
from maghub.clegr.names import integer_name, station_name, system_name
from maghub.clegr.schema import STATION_VALUES, SUBWAY, SYSTEM_VALUES
from maghub.clegr.solver import Arguments
from maghub.clegr.template import Template

Draw = Callable[[Index, Draws], Any]

NODE_SLOTS: Final = frozenset({"station", "node"})
VALUE_SLOTS: Final[Mapping[str, tuple[object, ...]]] = {
    name: tuple(values)
    for name, values in {**STATION_VALUES, **SYSTEM_VALUES}.items()
    if isinstance(values[0], str)
}
"""Arguments that are attribute values, with their vocabularies."""


def _node(index: Index, draws: Draws) -> int:
    return draws.below(index.size)


def _line(index: Index, draws: Draws) -> int:
    return draws.below(len(index.lines["id"]))


def _color(index: Index, draws: Draws) -> object:
    """The colour of a random line of the graph."""
    return index.lines["color"][_line(index, draws)]


def _absent(index: Index, draws: Draws) -> str:
    """A name of the graph's own kind that no node of it has."""
    taken = index.node_by_name
    if index.names[0].isdigit():
        return integer_name(draws, taken, 2 * index.size)
    make = station_name if index.graph.domain == SUBWAY else system_name
    return make(draws, taken)


def _value(values: tuple[object, ...]) -> Draw:
    return lambda _index, draws: draws.pick(values)


_SLOT_DRAWS: Final[Mapping[str, Draw]] = {
    "station": _node,
    "node": _node,
    "line": _line,
    "color": _color,
    "fake": _absent,
    **{name: _value(values) for name, values in VALUE_SLOTS.items()},
}


def _edge(index: Index, draws: Draws) -> Arguments | None:
    """The two ends of an existing edge."""
    edge = draws.below(len(index.graph.source))
    return index.graph.source[edge], index.graph.target[edge]


def _same_line(index: Index, draws: Draws) -> Arguments | None:
    """Two stations of one line."""
    if not index.long_lines:
        return None
    nodes = index.line_nodes[draws.pick(index.long_lines)]
    first, second = draws.two(len(nodes))
    return nodes[first], nodes[second]


def _common(index: Index, draws: Draws) -> Arguments | None:
    """Two neighbours of one station."""
    if not index.hubs:
        return None
    near = index.neighbours[draws.pick(index.hubs)]
    first, second = draws.two(len(near))
    return near[first], near[second]


_JOINT_DRAWS: Final[Mapping[str, Draw]] = {"edge": _edge, "line": _same_line, "common": _common}


def draw_arguments(template: Template, index: Index, draws: Draws) -> Arguments | None:
    """One draw of a template's arguments; None when they are not valid."""
    args: Arguments | None
    if template.draw:
        args = _JOINT_DRAWS[template.draw](index, draws)
    else:
        args = tuple([_SLOT_DRAWS[slot](index, draws) for slot in template.slots])
    if args is not None and template.distinct and template.repeats(args):
        return None
    return args


def argument_texts(template: Template, index: Index, args: Arguments) -> list[str]:
    """Arguments as they stand in the question."""
    texts: list[str] = []
    for slot, value in zip(template.slots, args, strict=True):
        if slot in NODE_SLOTS:
            texts.append(index.names[value])
        elif slot == "line":
            texts.append(str(index.lines["name"][value]))
        else:
            texts.append(str(value))
    return texts
