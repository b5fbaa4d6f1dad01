"""Random subway maps: Bezier lines, merged interchanges, connectors (paper C.1)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from maghub.clegr.draws import Draws
from maghub.clegr.graph import Column, Graph, components
from maghub.clegr.layout import Floats, Ints, merge_near, noisy_count
from maghub.clegr.names import LINE_ENDINGS, station_name
from maghub.clegr.schema import (
    LINE_VALUES,
    STATION_VALUES,
    SUBWAY,
    SUBWAY_SIZES,
    SubwaySize,
    Values,
)

_FEWEST_STATIONS = 3


def subway_graph(rng: np.random.Generator, graph_id: str, size: str, int_names: bool) -> Graph:
    """Draw one subway map.

    Args:
        rng: The graph's own Generator.
        graph_id: Name of the graph.
        size: ``small``, ``medium`` or ``large``.
        int_names: Call stations and lines by integers, ids included (paper C.1, step 6).

    Returns:
        A connected map of at least three stations (a smaller draw, which the templates could not
        be asked of, is drawn again; at these sizes that is about never).
    """
    base = SUBWAY_SIZES[size]
    draws = Draws(rng)
    while True:
        graph = _draw(rng, draws, graph_id, base)
        if len(graph) >= _FEWEST_STATIONS:
            break
    if int_names:
        _use_integers(rng, graph)
    _connect(draws, graph)
    _fill_edges(graph)
    return graph


def _draw(rng: np.random.Generator, draws: Draws, graph_id: str, base: SubwaySize) -> Graph:
    """Lines, stations and line edges, before connectors."""
    lines = _lines(rng, draws, base)
    points, starts = _curves(rng, len(lines["id"]), base)
    order = rng.permutation(len(points))
    master = merge_near(points, order, base.merge_distance, base.merge_rounds)
    kept, station_of = np.unique(master, return_inverse=True)
    source, target, line_of = _line_edges(station_of.tolist(), starts)
    size = len(kept)
    names: dict[str, None] = {}
    while len(names) < size:
        names[station_name(draws, names)] = None
    positions = points[kept]
    return Graph(
        graph_id=graph_id,
        domain=SUBWAY,
        ids=[f"s{index}" for index in kept.tolist()],
        names=list(names),
        x=positions[:, 0].tolist(),
        y=positions[:, 1].tolist(),
        nodes=random_columns(rng, STATION_VALUES, size),
        source=source,
        target=target,
        edges={},
        lines=lines,
        line_of=line_of,
    )


def random_columns(
    rng: np.random.Generator, values: Mapping[str, Values], size: int
) -> dict[str, Column]:
    """One uniformly drawn column per attribute."""
    columns: dict[str, Column] = {}
    for name, options in values.items():
        columns[name] = [options[i] for i in rng.integers(len(options), size=size).tolist()]
    return columns


def _lines(rng: np.random.Generator, draws: Draws, base: SubwaySize) -> dict[str, Column]:
    """Lines with unique (colour, stroke) pairs and unique names; at most 36, all such pairs."""
    colors, strokes = LINE_VALUES["color"], LINE_VALUES["stroke"]
    count = min(noisy_count(rng, base.lines), len(colors) * len(strokes))
    pairs = rng.permutation(len(colors) * len(strokes))[:count].tolist()
    names: dict[str, None] = {}
    for pair in pairs:
        color = str(colors[pair // len(strokes)]).title()
        while (name := color + draws.pick(LINE_ENDINGS)) in names:
            pass
        names[name] = None
    rest = {name: LINE_VALUES[name] for name in ("built", "has_aircon")}
    return {
        "id": [f"l{index}" for index in range(count)],
        "name": list(names),
        "color": [str(colors[pair // len(strokes)]) for pair in pairs],
        "stroke": [str(strokes[pair % len(strokes)]) for pair in pairs],
        **random_columns(rng, rest, count),
    }


def _curves(rng: np.random.Generator, lines: int, base: SubwaySize) -> tuple[Floats, list[int]]:
    """Stations along one cubic Bezier per line, jittered; and where each line's stations start."""
    control = rng.uniform(-base.radius, base.radius, size=(lines, 4, 2))
    counts = [noisy_count(rng, base.stations_per_line, least=2) for _ in range(lines)]
    starts = [0]
    for count in counts:
        starts.append(starts[-1] + count)
    at = np.concatenate([np.arange(count) / (count - 1) for count in counts])
    rest = 1.0 - at
    weights = np.stack([rest**3, 3 * rest**2 * at, 3 * rest * at**2, at**3], axis=1)
    points = np.einsum("nk,nkd->nd", weights, np.repeat(control, counts, axis=0))
    points *= rng.uniform(0.95, 1.05, size=points.shape)
    return points, starts


def _line_edges(station_of: list[int], starts: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Edges between consecutive distinct stations; a station stands once on a line."""
    source: list[int] = []
    target: list[int] = []
    line_of: list[int] = []
    for line in range(len(starts) - 1):
        stops = list(dict.fromkeys(station_of[starts[line] : starts[line + 1]]))
        source += stops[:-1]
        target += stops[1:]
        line_of += [line] * (len(stops) - 1)
    return source, target, line_of


def _connect(draws: Draws, graph: Graph) -> None:
    """Join component after component by a connector between random nodes (paper C.1, step 5)."""
    groups = components(len(graph), graph.source, graph.target)
    graph.edges["connector"] = [False] * len(graph.source)
    if len(groups) == 1:
        return
    line_at: dict[int, int] = {}
    for u, v, line in zip(graph.source, graph.target, graph.line_of, strict=True):
        line_at.setdefault(u, line)
        line_at.setdefault(v, line)
    for here, there in pairwise(groups):
        u, v = draws.pick(here), draws.pick(there)
        known = line_at.get(u, line_at.get(v))
        line = draws.below(len(graph.lines["id"])) if known is None else known
        line_at.setdefault(u, line)
        line_at.setdefault(v, line)
        graph.source.append(u)
        graph.target.append(v)
        graph.line_of.append(line)
        graph.edges["connector"].append(True)


def _fill_edges(graph: Graph) -> None:
    """Give every edge its line's attributes; a connector is dotted and named so."""
    connector = graph.edges.pop("connector")
    lines, line_of = graph.lines, graph.line_of
    columns: dict[str, Column] = {
        f"line_{name}": [lines[name][line] for line in line_of]
        for name in ("id", "name", "color", "stroke", "has_aircon", "built")
    }
    for edge, joins in enumerate(connector):
        if joins:
            columns["line_name"][edge] = f"{columns['line_name'][edge]} Connector"
            columns["line_stroke"][edge] = "dotted"
    graph.edges = columns


def integer_names(rng: np.random.Generator, count: int, offset: int = 0) -> list[str]:
    """``count`` different integers below twice as many, so that false names are left over."""
    order: Ints = rng.permutation(2 * count)[:count] + offset
    return [str(value) for value in order.tolist()]


def _use_integers(rng: np.random.Generator, graph: Graph) -> None:
    """Integer names for stations and lines; the ids change with them."""
    graph.names = integer_names(rng, len(graph))
    graph.ids = list(graph.names)
    lines = integer_names(rng, len(graph.lines["id"]), offset=2 * len(graph))
    graph.lines["id"] = lines
    graph.lines["name"] = list(lines)
