"""Answers of the subway templates: what the released generator gives, first match first.

Every solver takes the graph's index and the drawn arguments (station and line numbers, attribute
values) and returns the answer, or None where the question has none and the draw is discarded.
Source: ../shared/specs/clegr.md, "Answer semantics (subway)".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from maghub.clegr.index import FAR, Index
from maghub.clegr.routes import count_routes

Answer = bool | int | str | tuple[str, ...]
Arguments = tuple[Any, ...]
Solver = Callable[[Index, Arguments], Answer | None]

_WITHOUT_ANSWER = "none"


def year(value: object) -> int:
    """A year of construction as a number; 0 where it is none (as released)."""
    try:
        return int(str(value))
    except ValueError:
        return 0


def mode(values: Iterable[object]) -> str | None:
    """The most common value; None for a tie or nothing."""
    counts: dict[object, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    best, most, tie = None, 0, False
    for value, count in counts.items():
        if count > most:
            best, most, tie = value, count, False
        elif count == most:
            tie = True
    return None if tie or best is None else str(best)


# Facts -----------------------------------------------------------------------------------------


def attribute(column: str) -> Solver:
    """The node's value in ``column``."""

    def solve(index: Index, args: Arguments) -> Answer:
        value: Answer = index.nodes[column][args[0]]
        return value

    return solve


def always(answer: bool) -> Solver:
    """A template whose draw decides its answer (existence questions)."""
    return lambda _index, _args: answer


def station_lines(index: Index, args: Arguments) -> tuple[str, ...]:
    """Names of the lines at a station; a connector counts under its own name."""
    names = index.edges["line_name"]
    return tuple(sorted({str(names[edge]) for edge in index.incident[args[0]]}))


def station_line_count(index: Index, args: Arguments) -> int:
    """How many line names meet at a station."""
    names = index.edges["line_name"]
    return len({names[edge] for edge in index.incident[args[0]]})


def adjacent(index: Index, args: Arguments) -> bool:
    """Whether an edge joins two nodes."""
    return args[1] in index.neighbours[args[0]]


def on_edge(column: str) -> Solver:
    """The value of the first edge between two adjacent stations."""

    def solve(index: Index, args: Arguments) -> Answer | None:
        on = index.on_pair.get(index.pair(*args))
        if args[0] == args[1] or not on:
            return None
        value: Answer = index.edges[column][on[0]]
        return value

    return solve


# Lines -----------------------------------------------------------------------------------------


def line_kinds(column: str) -> Solver:
    """How many different values of ``column`` the stations of a line have."""

    def solve(index: Index, args: Arguments) -> int:
        values = index.nodes[column]
        return len({values[node] for node in index.line_nodes[args[0]]})

    return solve


def _count(index: Index, line: int, column: str, value: object) -> int:
    values = index.nodes[column]
    return sum(values[node] == value for node in index.line_nodes[line])


def line_count(column: str, value: object | None = None) -> Solver:
    """How many stations of a line have a value: a fixed one, or the first argument."""
    if value is not None:
        return lambda index, args: _count(index, args[0], column, value)
    return lambda index, args: _count(index, args[1], column, args[0])


def line_stations(index: Index, args: Arguments) -> tuple[str, ...]:
    """Names of a line's stations."""
    return tuple(sorted(index.names[node] for node in index.line_nodes[args[0]]))


def equal_size(index: Index, args: Arguments) -> int:
    """How many stations of a line (first argument) have the size of a station."""
    return _count(index, args[0], "size", index.nodes["size"][args[1]])


def shared_stations(index: Index, args: Arguments) -> int:
    """How many stations two lines share."""
    return len(set(index.line_nodes[args[0]]).intersection(index.line_nodes[args[1]]))


def compare_lines(index: Index, args: Arguments) -> str:
    """The line with more accessible stations; the first named one on a tie."""
    counts = [_count(index, line, "disabled_access", True) for line in args]
    return str(index.lines["name"][args[counts[1] > counts[0]]])


def compare_architectures(index: Index, args: Arguments) -> str:
    """The architecture with more stations; the first named one on a tie."""
    column = index.nodes["architecture"]
    counts = [column.count(value) for value in args]
    return str(args[counts[1] > counts[0]])


def same_line(index: Index, args: Arguments) -> bool:
    """Whether a line name stands at both stations."""
    names = index.edges["line_name"]
    here, there = ({names[edge] for edge in index.incident[node]} for node in args)
    return not here.isdisjoint(there)


def edge_count(column: str, value: object | None = None) -> Solver:
    """How many edges at a station have a value: a fixed one, or the first argument.

    Edges, unique by pair and line, not lines: this is how the released data counts.
    """

    def solve(index: Index, args: Arguments) -> int:
        values = index.edges[column]
        wanted = args[0] if value is None else value
        return sum(values[edge] == wanted for edge in index.incident[args[-1]])

    return solve


# Neighbourhoods and cycles ---------------------------------------------------------------------


def common_neighbour(index: Index, args: Arguments) -> str | None:
    """The first station adjacent to both."""
    there = index.neighbours[args[1]]
    return next((index.names[node] for node in index.neighbours[args[0]] if node in there), None)


def neighbour_of_architecture(index: Index, args: Arguments) -> str | None:
    """The first neighbour with an architecture."""
    column = index.nodes["architecture"]
    near = index.neighbours[args[1]]
    return next((index.names[node] for node in near if column[node] == args[0]), None)


def within(hops: int) -> Solver:
    """How many other nodes are at most ``hops`` away."""

    def solve(index: Index, args: Arguments) -> int:
        return sum(far <= hops for far in index.distances(args[0])) - 1

    return solve


def nearby_architecture(index: Index, args: Arguments) -> str | None:
    """The most common architecture of the other stations within two hops."""
    column, far = index.nodes["architecture"], index.distances(args[0])
    return mode(column[node] for node in range(index.size) if 0 < far[node] <= 2)


def has_cycle(index: Index, args: Arguments) -> bool:
    """Whether the node lies on some cycle."""
    return index.on_cycle[args[0]]


def one_apart(index: Index, args: Arguments) -> bool:
    """Whether the shortest path has exactly three nodes."""
    return index.distances(args[0])[args[1]] == 2


def large_and_accessible(index: Index, _args: Arguments) -> int:
    """How many stations are large and have disabled access."""
    sizes, access = index.nodes["size"], index.nodes["disabled_access"]
    return sum(size == "large" and ok for size, ok in zip(sizes, access, strict=True))


# Paths -----------------------------------------------------------------------------------------


def stations_between(index: Index, args: Arguments) -> int | None:
    """Nodes strictly between two nodes on a shortest path."""
    hops = index.distances(args[0])[args[1]]
    return None if hops == FAR else max(hops - 1, 0)


def hops_avoiding(index: Index, args: Arguments, column: str) -> int:
    """Length of the shortest path off nodes with the third argument's value, ends excepted."""
    start, end, value = args
    closed = [other == value for other in index.nodes[column]]
    closed[start] = closed[end] = False
    return index.search(start, closed)[end]


def stations_avoiding(column: str) -> Solver:
    """Stations strictly between on the shortest path that avoids a value."""

    def solve(index: Index, args: Arguments) -> int | None:
        hops = hops_avoiding(index, args, column)
        return None if hops == FAR else max(hops - 1, 0)

    return solve


def distinct_routes(index: Index, args: Arguments) -> int | None:
    """Number of simple paths; None beyond the cap, which takes the template from the graph."""
    if index.too_many_routes:
        return None
    count = count_routes(index, args[0], args[1])
    index.too_many_routes = count is None
    return count


def on_path(index: Index, args: Arguments) -> bool:
    """Whether the first station is on the first shortest path between the others."""
    return args[0] in (index.shortest_path(args[1], args[2]) or ())


def path_music(index: Index, args: Arguments) -> str | None:
    """The most common music on the first shortest path."""
    column = index.nodes["music"]
    found = mode(column[node] for node in index.shortest_path(*args) or ())
    return None if found == _WITHOUT_ANSWER else found


def _path_values(index: Index, args: Arguments, column: str) -> list[object]:
    """Values of the first edge of every pair on the first shortest path."""
    path = index.shortest_path(*args) or []
    values = index.edges[column]
    return [values[index.on_pair[index.pair(u, v)][0]] for u, v in pairwise(path)]


def path_color(index: Index, args: Arguments) -> str | None:
    """The most common line colour on the first shortest path."""
    found = mode(_path_values(index, args, "line_color"))
    return None if found == _WITHOUT_ANSWER else found


def path_year_span(index: Index, args: Arguments) -> int | None:
    """Years between the oldest and the newest line on the first shortest path."""
    years = [year(value) for value in _path_values(index, args, "line_built")]
    return max(years) - min(years) if years else None


def path_earliest(index: Index, args: Arguments) -> int | None:
    """The earliest year on the first shortest path."""
    years = [year(value) for value in _path_values(index, args, "line_built")]
    return min(years, default=None)
