"""Every shortest path at once: sets of possible summaries, level by level through their DAG.

Nothing is enumerated path by path; states (an extreme, a pair of extremes, a count per value) are
merged at every node, and their number is capped.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, TypeVar

from maghub.clegr.index import FAR, Index

State = TypeVar("State", bound=Hashable)
STATE_CAP: Final = 3_000
"""Most states kept per level; beyond it the readings are not known (``TooManyStatesError``)."""
_BITS = 12


class TooManyStatesError(Exception):
    """The shortest paths differ in more ways than ``STATE_CAP``."""


def levels(index: Index, start: int, end: int) -> list[list[int]] | None:
    """Nodes on some shortest path, by distance from ``start``; None without a path."""
    near, far = index.distances(start), index.distances(end)
    length = near[end]
    if length == FAR:
        return None
    layers: list[list[int]] = [[] for _ in range(length + 1)]
    for node, hops in enumerate(near):
        if hops + far[node] == length:
            layers[hops].append(node)
    return layers


def summaries(
    index: Index,
    start: int,
    end: int,
    first: State,
    step: Callable[[State, int, int], Iterable[State]],
) -> set[State]:
    """All states in which a shortest path can arrive at ``end``.

    Args:
        index: The graph.
        start: First node.
        end: Last node.
        first: State at ``start``.
        step: Follow-up states of one state over the edge (from, to).

    Raises:
        TooManyStatesError: When more than ``STATE_CAP`` states stand on one level.
    """
    layers = levels(index, start, end)
    if layers is None:
        return set()
    here: dict[int, set[State]] = {start: {first}}
    for layer in layers[1:]:
        there: dict[int, set[State]] = {node: set() for node in layer}
        for node, states in here.items():
            for other in index.neighbours[node]:
                if other in there:
                    for state in states:
                        there[other].update(step(state, node, other))
        if sum(map(len, there.values())) > STATE_CAP:
            raise TooManyStatesError
        here = there
    return here[end]


def extremes(index: Index, start: int, end: int, value: Sequence[int]) -> set[tuple[int, int]]:
    """Possible (least, greatest) edge values over the shortest paths and the lines on each pair.

    Where several lines run on a pair, each of them and all of them together are readings.
    """

    def step(state: tuple[int, int], u: int, v: int) -> Iterable[tuple[int, int]]:
        on = [value[edge] for edge in index.on_pair[index.pair(u, v)]]
        low, high = state
        for least, most in {(a, a) for a in on} | {(min(on), max(on))}:
            yield min(low, least), max(high, most)

    return summaries(index, start, end, (FAR, -FAR), step)


def edge_modes(index: Index, start: int, end: int, column: Sequence[object]) -> set[str | None]:
    """Possible most common edge values; None stands for a tie or an empty path."""
    code = {value: i for i, value in enumerate(dict.fromkeys(column))}

    def step(state: int, u: int, v: int) -> Iterable[int]:
        on = [1 << (_BITS * code[column[edge]]) for edge in index.on_pair[index.pair(u, v)]]
        yield from {state + one for one in on}
        if len(on) > 1:
            yield state + sum(on)

    return _modes(summaries(index, start, end, 0, step), list(code))


def node_modes(index: Index, start: int, end: int, column: Sequence[object]) -> set[str | None]:
    """Possible most common node values; None stands for a tie."""
    code = {value: i for i, value in enumerate(dict.fromkeys(column))}
    one = [1 << (_BITS * code[value]) for value in column]

    def step(state: int, _u: int, v: int) -> Iterable[int]:
        yield state + one[v]

    return _modes(summaries(index, start, end, one[start], step), list(code))


def _modes(states: Iterable[int], values: list[object]) -> set[str | None]:
    """The unique most common value of each state, or None."""
    found: set[str | None] = set()
    mask = (1 << _BITS) - 1
    for state in states:
        counts = [(state >> (_BITS * i)) & mask for i in range(len(values))]
        most = max(counts, default=0)
        tie = most == 0 or counts.count(most) > 1
        found.add(None if tie else str(values[counts.index(most)]))
    return found


def between(index: Index, node: int, start: int, end: int) -> set[bool]:
    """Whether a node lies on the shortest paths: on all, on none, or (both) on some."""
    layers = levels(index, start, end)
    if layers is None:
        return {False}
    hops = index.distances(start)[node]
    if hops >= len(layers) or node not in layers[hops]:
        return {False}
    return {True} if len(layers[hops]) == 1 else {True, False}
