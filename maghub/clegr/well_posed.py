"""Every answer a careful reader could give: the acceptance rule of the well_posed variant.

Three kinds of further answers are told apart. *Readings* are those the specification names: all
common neighbours, all shortest paths, all lines on one pair, both sides of a tie. *Stored*
readings come from how the released generator keeps a graph: one line per pair of stations, and
connectors under a name of their own. *Strict* readings take a word of the question in a second
way. A well_posed draw is accepted only when all three leave one answer. The audit of compat data
counts a given answer among the first two as agreeing and reports it as ambiguous.

None in a set stands for a reading without any answer (a tie on another shortest path).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, product

from maghub.clegr import paths
from maghub.clegr.index import Index
from maghub.clegr.routes import legs
from maghub.clegr.solver import Answer, Arguments, one_apart, year

Readings = Callable[[Index, Arguments], set[Answer | None]]
_CHOICES = 512
"""Most ways of choosing one line per pair at a station that are tried."""


# Readings --------------------------------------------------------------------------------------


def all_on_pair(column: str) -> Readings:
    """The values of all lines between two stations."""

    def readings(index: Index, args: Arguments) -> set[Answer | None]:
        values = index.edges[column]
        return {values[edge] for edge in index.on_pair.get(index.pair(*args), ())}

    return readings


def all_common(index: Index, args: Arguments) -> set[Answer | None]:
    """All stations adjacent to both."""
    both = set(index.neighbours[args[0]]).intersection(index.neighbours[args[1]])
    return {index.names[node] for node in both}


def all_of_architecture(index: Index, args: Arguments) -> set[Answer | None]:
    """All neighbours with an architecture."""
    column = index.nodes["architecture"]
    near = index.neighbours[args[1]]
    return {index.names[node] for node in near if column[node] == args[0]}


def tied_lines(index: Index, args: Arguments) -> set[Answer | None]:
    """Both lines on a tie."""
    access = index.nodes["disabled_access"]
    counts = [sum(access[node] is True for node in index.line_nodes[line]) for line in args]
    names = index.lines["name"]
    return {str(names[line]) for line, n in zip(args, counts, strict=True) if n == max(counts)}


def tied_architectures(index: Index, args: Arguments) -> set[Answer | None]:
    """Both architectures on a tie."""
    counts = [index.nodes["architecture"].count(value) for value in args]
    return {str(value) for value, n in zip(args, counts, strict=True) if n == max(counts)}


def all_paths_through(index: Index, args: Arguments) -> set[Answer | None]:
    """Whether a station is on the shortest path, for every shortest path."""
    return set(paths.between(index, *args))


def all_paths_music(index: Index, args: Arguments) -> set[Answer | None]:
    """The most common music on every shortest path."""
    return {*paths.node_modes(index, args[0], args[1], index.nodes["music"])}


def all_paths_color(index: Index, args: Arguments) -> set[Answer | None]:
    """The most common line colour on every shortest path."""
    return {*paths.edge_modes(index, args[0], args[1], index.edges["line_color"])}


def all_paths_span(index: Index, args: Arguments) -> set[Answer | None]:
    """The year span of every shortest path."""
    years = [year(value) for value in index.edges["line_built"]]
    return {high - low for low, high in paths.extremes(index, args[0], args[1], years)}


def all_paths_earliest(index: Index, args: Arguments) -> set[Answer | None]:
    """The earliest year of every shortest path."""
    years = [year(value) for value in index.edges["line_built"]]
    return {low for low, _ in paths.extremes(index, args[0], args[1], years)}


# Stored readings -------------------------------------------------------------------------------


def _name_columns(index: Index) -> Iterator[Sequence[object]]:
    """Line names of the edges: as stored, and without the connectors' own names."""
    yield index.edges["line_name"]
    yield [index.lines["name"][line] for line in index.graph.line_of]


def _one_line_each(index: Index, node: int) -> Iterator[Sequence[int]]:
    """The edges at a station; where pairs are shared, also each choice of one line per pair."""
    yield index.incident[node]
    if index.crowded[node]:
        pairs = [index.on_pair[index.pair(node, other)] for other in index.neighbours[node]]
        yield from islice(product(*pairs), _CHOICES)


def _plain(index: Index, *nodes: int) -> bool:
    """Whether the stations have neither shared pairs nor connectors."""
    stored, named = index.edges["line_name"], index.lines["name"]
    line_of = index.graph.line_of
    return not any(index.crowded[node] for node in nodes) and all(
        stored[edge] == named[line_of[edge]] for node in nodes for edge in index.incident[node]
    )


def lines_named_otherwise(index: Index, args: Arguments) -> set[Answer | None]:
    """Lines at a station with connectors under their line's name, or one line per pair."""
    if _plain(index, args[0]):
        return set()
    return {
        tuple(sorted({str(names[edge]) for edge in edges}))
        for names in _name_columns(index)
        for edges in _one_line_each(index, args[0])
    }


def lines_counted_otherwise(index: Index, args: Arguments) -> set[Answer | None]:
    """Sizes of the sets of ``lines_named_otherwise``."""
    found = lines_named_otherwise(index, args)
    return {len(lines) for lines in found if isinstance(lines, tuple)}


def same_line_otherwise(index: Index, args: Arguments) -> set[Answer | None]:
    """Whether two stations share a line under the same other readings."""
    if _plain(index, *args):
        return set()
    found: set[Answer | None] = set()
    for names in _name_columns(index):
        here, there = (
            [{names[edge] for edge in edges} for edges in _one_line_each(index, node)]
            for node in args
        )
        found.update(not a.isdisjoint(b) for a in here for b in there)
        if len(found) == 2:
            break
    return found


def edges_counted_otherwise(column: str, value: object | None = None) -> Readings:
    """Edges at a station that have a value, with one line chosen per pair."""

    def readings(index: Index, args: Arguments) -> set[Answer | None]:
        node = args[-1]
        if not index.crowded[node]:
            return set()
        values = index.edges[column]
        wanted = args[0] if value is None else value
        sums = {0}
        for other in index.neighbours[node]:
            on = index.on_pair[index.pair(node, other)]
            sums = {total + (values[edge] == wanted) for total in sums for edge in on}
        return {*sums}

    return readings


def empty_route(_index: Index, args: Arguments) -> set[Answer | None]:
    """A station has one route to itself, the empty one, or none."""
    return {0, 1} if args[0] == args[1] else set()


# Strict readings -------------------------------------------------------------------------------


def double_track(index: Index, args: Arguments) -> set[Answer | None]:
    """Two lines on one pair, taken for a cycle."""
    return {True} if index.crowded[args[0]] else set()


def routes_by_line(index: Index, args: Arguments) -> set[Answer | None]:
    """Routes that differ only in the line taken; None: there are some, not worked out."""
    blocks = {block for block, _, _ in legs(index, args[0], args[1]) or ()}
    shared = any(len(index.on_pair[pair]) > 1 for b in blocks for pair in index.block_pairs[b])
    return {None} if shared else set()


def share_neighbour(index: Index, args: Arguments) -> set[Answer | None]:
    """Connected by the same station, though adjacent as well."""
    if one_apart(index, args):
        return set()
    there = index.neighbours[args[1]]
    return {True} if any(node in there for node in index.neighbours[args[0]]) else set()
