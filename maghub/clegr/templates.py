# ruff: noqa: E501  (a table: one template a line reads better than a folded one)
"""All question templates: 22 + 34 subway, 9 + 11 computer networks.

Source: the paper's Tables 6 to 9, 11 and 12; the second ``StationSameLine`` template, argument
draws and validity rules as in ../shared/specs/clegr.md, "Questions".
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from maghub.clegr import solver as s
from maghub.clegr import solver_network as n
from maghub.clegr import well_posed as w
from maghub.clegr.schema import NETWORK, SUBWAY
from maghub.clegr.template import (
    AGGREGATION,
    BOOLEAN,
    EDGE,
    FACT,
    FILTERING,
    GROUPS,
    LIST,
    NODE,
    NUMERIC,
    PATH,
    REASONING,
    STRING,
    SUBGRAPH,
    TOPOLOGY,
    Template,
)
from maghub.errors import nearest

A, F, P, T = AGGREGATION, FILTERING, PATH, TOPOLOGY
S2 = "station station"


def _fact(
    domain: str, name: str, scope: str, output: str, wording: str, slots: str,
    solve: s.Solver, **rules: Any,
) -> Template:  # fmt: skip
    kinds = tuple(slots.split())
    return Template(name, domain, FACT, ("Fact",), scope, output, wording, kinds, solve, **rules)


def _reasoning(
    domain: str, name: str, scope: str, groups: tuple[str, ...], output: str, wording: str,
    slots: str, solve: s.Solver, **rules: Any,
) -> Template:  # fmt: skip
    kinds = tuple(slots.split())
    return Template(name, domain, REASONING, groups, scope, output, wording, kinds, solve, **rules)


def _station(name: str, output: str, wording: str, column: str) -> Template:
    solve = s.attribute(column)
    return _fact(SUBWAY, name, NODE, output, wording, "station", solve)


def _system(name: str, output: str, wording: str, column: str) -> Template:
    return _fact(NETWORK, name, NODE, output, wording, "node", s.attribute(column))


def _on_edge(name: str, output: str, wording: str, column: str) -> Template:
    return _fact(
        SUBWAY, name, EDGE, output, wording, S2, s.on_edge(column),
        draw="edge", distinct=True, readings=w.all_on_pair(column),
    )  # fmt: skip


# fmt: off
SUBWAY_FACTS: Final = (
    _station("StationPropertyCleanliness", STRING, "How clean is {}?", "cleanliness"),
    _station("StationPropertyCleanliness2", STRING, "What is the cleanliness level of {} station?", "cleanliness"),
    _station("StationPropertySize", STRING, "How big is {}?", "size"),
    _station("StationPropertySize2", STRING, "What size is {}?", "size"),
    _station("StationPropertyMusic", STRING, "What music plays at {}?", "music"),
    _station("StationPropertyMusic2", STRING, "Which type of music is played at {}?", "music"),
    _station("StationPropertyArchitecture", STRING, "What architectural style is {}?", "architecture"),
    _station("StationPropertyArchitecture2", STRING, "Describe {} station's architectural style.", "architecture"),
    _station("StationPropertyDisabledAccess", BOOLEAN, "Does {} have disabled access?", "disabled_access"),
    _station("StationPropertyDisabledAccess2", BOOLEAN, "Is there disabled access at {}?", "disabled_access"),
    _station("StationPropertyHasRail", BOOLEAN, "Does {} have rail connections?", "has_rail"),
    _station("StationPropertyHasRail2", BOOLEAN, "Can you get rail connections at {}?", "has_rail"),
    _fact(SUBWAY, "StationExistence1", NODE, BOOLEAN, "Is there a station called {}?", "station", s.always(True)),
    _fact(SUBWAY, "StationExistence2", NODE, BOOLEAN, "Is there a station called {}?", "fake", s.always(False)),
    _fact(SUBWAY, "StationLine", EDGE, LIST, "Which lines is {} on?", "station",
          s.station_lines, stored=w.lines_named_otherwise),
    _fact(SUBWAY, "StationLineCount", EDGE, NUMERIC, "How many lines is {} on?", "station",
          s.station_line_count, stored=w.lines_counted_otherwise),
    _fact(SUBWAY, "StationAdjacentAlwaysTrue", EDGE, BOOLEAN, "Are {} and {} adjacent?", S2, s.adjacent, draw="edge"),
    _fact(SUBWAY, "StationAdjacent", EDGE, BOOLEAN, "Are {} and {} adjacent?", S2, s.adjacent),
    _on_edge("EdgePropertyColor", STRING, "What color is the line between {} and {}?", "line_color"),
    _on_edge("EdgePropertyAircon", BOOLEAN, "Does the line between {} and {} have air conditioning?", "line_has_aircon"),
    _on_edge("EdgePropertyStroke", STRING, "What stroke style is the line between {} and {}?", "line_stroke"),
    _on_edge("EdgePropertyBuilt", STRING, "When was the line between {} and {} built?", "line_built"),
)

_SUBWAY_ROWS: tuple[tuple[Any, ...], ...] = (
    ("StationPairAdjacent", NODE, (A, T), STRING, "Which station is adjacent to both {} and {}?", S2,
     s.common_neighbour, {"readings": w.all_common}),
    ("StationArchitectureAdjacent", NODE, (F, T), STRING, "Which {} station is adjacent to {}?", "architecture station",
     s.neighbour_of_architecture, {"readings": w.all_of_architecture}),
    ("LineTotalArchitectureCount", SUBGRAPH, (A,), NUMERIC, "How many architectural styles does {} pass through?", "line",
     s.line_kinds("architecture"), {}),
    ("LineTotalMusicCount", SUBGRAPH, (A,), NUMERIC, "How many music styles does {} pass through?", "line",
     s.line_kinds("music"), {}),
    ("LineTotalSizeCount", SUBGRAPH, (A,), NUMERIC, "How many sizes of station does {} pass through?", "line",
     s.line_kinds("size"), {}),
    ("LineFilterMusicCount", SUBGRAPH, (F, A), NUMERIC, "How many stations playing {} does {} pass through?", "music line",
     s.line_count("music"), {}),
    ("LineFilterCleanlinessCount", SUBGRAPH, (F, A), NUMERIC, "How many {} stations does {} pass through?", "cleanliness line",
     s.line_count("cleanliness"), {}),
    ("LineFilterSizeCount", SUBGRAPH, (F, A), NUMERIC, "How many {} stations does {} pass through?", "size line",
     s.line_count("size"), {}),
    ("LineFilterDisabledAccessCount", SUBGRAPH, (F, A), NUMERIC,
     "How many stations with disabled access does {} pass through?", "line", s.line_count("disabled_access", True), {}),
    ("LineFilterHasRailCount", SUBGRAPH, (F, A), NUMERIC,
     "How many stations with rail connections does {} pass through?", "line", s.line_count("has_rail", True), {}),
    ("LineStations", SUBGRAPH, (A,), LIST, "Which stations does {} pass through?", "line", s.line_stations, {}),
    ("StationShortestCount", SUBGRAPH, (P, A), NUMERIC, "How many stations are between {} and {}?", S2,
     s.stations_between, {}),
    ("StationShortestAvoidingCount", SUBGRAPH, (P, F), NUMERIC,
     "How many stations are on the shortest path between {} and {} avoiding {} stations?", f"{S2} cleanliness",
     s.stations_avoiding("cleanliness"), {}),
    ("StationShortestAvoidingArchitectureCount", SUBGRAPH, (P, F), NUMERIC,
     "How many stations are on the shortest path between {} and {} avoiding {} architecture stations?",
     f"{S2} architecture", s.stations_avoiding("architecture"), {}),
    ("StationTwoHops", NODE, (T, A), NUMERIC, "How many other stations are two stops or closer to {}?", "station",
     s.within(2), {}),
    ("DistinctRoutes", SUBGRAPH, (T, P, A), NUMERIC, "How many distinct routes are there between {} and {}?", S2,
     s.distinct_routes, {"stored": w.empty_route, "strict": w.routes_by_line}),
    ("HasCycle", NODE, (T,), BOOLEAN, "Is {} part of a cycle?", "station",
     s.has_cycle, {"suffix": "Cycle", "strict": w.double_track}),
    ("StationOneApartTrue", NODE, (T, P), BOOLEAN, "Are {} and {} connected by the same station?", S2,
     s.one_apart, {"draw": "common", "strict": w.share_neighbour}),
    ("StationOneApart", NODE, (T, P), BOOLEAN, "Are {} and {} connected by the same station?", S2,
     s.one_apart, {"strict": w.share_neighbour}),
    ("StationSameLineTrue", EDGE, (T, A), BOOLEAN, "Are {} and {} on the same line?", S2,
     s.same_line, {"draw": "line", "stored": w.same_line_otherwise}),
    ("StationSameLine", EDGE, (T, A), BOOLEAN, "Are {} and {} on the same line?", S2,
     s.same_line, {"stored": w.same_line_otherwise}),
    ("CountEqualSizeStation", SUBGRAPH, (F, A), NUMERIC, "How many stations in {} are of the same size as {}", "line station",
     s.equal_size, {}),
    ("LineIntersectionStations", SUBGRAPH, (T, A), NUMERIC, "How many stations are shared between the {} and the {}?", "line line",
     s.shared_stations, {"distinct": True}),
    ("NodeOnPath", SUBGRAPH, (P,), BOOLEAN, "Is {} on the shortest path between {} and {}?", f"station {S2}",
     s.on_path, {"distinct": True, "readings": w.all_paths_through}),
    ("TopologyMostCommonArch", NODE, (T, A), STRING,
     "What is the most common architectural style of stations within 2 hops of {}?", "station", s.nearby_architecture, {}),
    ("PathMostCommonMusic", SUBGRAPH, (P, A), STRING,
     "What is the most common music style on the shortest path between {} and {}?", S2,
     s.path_music, {"distinct": True, "readings": w.all_paths_music}),
    ("CountIntersectionProperties", NODE, (F, A), NUMERIC, "How many stations are both large and have disabled access?", "",
     s.large_and_accessible, {}),
    ("EdgeFilterAirconCount", EDGE, (F, A), NUMERIC, "How many air-conditioned lines is {} connected to?", "station",
     s.edge_count("line_has_aircon", True), {"stored": w.edges_counted_otherwise("line_has_aircon", True)}),
    ("EdgeFilterColorCount", EDGE, (F, A), NUMERIC, "How many {} lines is {} connected to?", "color station",
     s.edge_count("line_color"), {"stored": w.edges_counted_otherwise("line_color")}),
    ("PathYearSpan", EDGE, (P, A), NUMERIC,
     "How many years newer is the newest line between {} and {} compared to the oldest?", S2,
     s.path_year_span, {"distinct": True, "readings": w.all_paths_span}),
    ("PathOptimalColor", EDGE, (P, A), STRING,
     "What is the most common line color on the shortest path between {} and {}?", S2,
     s.path_color, {"distinct": True, "readings": w.all_paths_color}),
    ("PathEarliestBuilt", EDGE, (P, A), NUMERIC,
     "What is the earliest year a line was built on the shortest path between {} and {}?", S2,
     s.path_earliest, {"distinct": True, "readings": w.all_paths_earliest, "suffix": STRING}),
    ("CompareLineDisabledAccess", SUBGRAPH, (A, F), STRING,
     "Which line has more stations with disabled access, {} or {}?", "line line",
     s.compare_lines, {"readings": w.tied_lines}),
    ("CompareArchitectureCount", NODE, (A, F), STRING,
     "Which architectural style has more stations, {} or {}?", "architecture architecture",
     s.compare_architectures, {"distinct": True, "readings": w.tied_architectures}),
)
SUBWAY_REASONING: Final = tuple(_reasoning(SUBWAY, *row[:-1], **row[-1]) for row in _SUBWAY_ROWS)

NETWORK_FACTS: Final = (
    _system("NodePropertyStatus", STRING, "What is the status of node {}?", "status"),
    _system("NodePropertySecurity", STRING, "What is the security level of node {}?", "security_level"),
    _system("NodePropertyLocation", STRING, "Which sector is node {} located in?", "location_sector"),
    _system("NodePropertyFirmware", STRING, "What firmware version runs on {}?", "firmware_version"),
    _system("NodePropertyPower", NUMERIC, "How many power units does {} consume?", "power_consumption_units"),
    _fact(NETWORK, "NodeExistence1", NODE, BOOLEAN, "Is there a node named {} in the grid?", "node", s.always(True)),
    _fact(NETWORK, "NodeExistence2", NODE, BOOLEAN, "Is there a node named {} in the grid?", "fake", s.always(False)),
    _fact(NETWORK, "NodeAdjacentTrue", EDGE, BOOLEAN, "Are nodes {} and {} directly linked?", "node node",
          s.adjacent, draw="edge", distinct=True),
    _fact(NETWORK, "NodeAdjacent", EDGE, BOOLEAN, "Are nodes {} and {} directly linked?", "node node",
          s.adjacent, distinct=True),
)

_NETWORK_ROWS: tuple[tuple[Any, ...], ...] = (
    ("CountNodesWithStatus", SUBGRAPH, (A,), NUMERIC, "How many nodes have status '{}'?", "status", n.with_status, {}),
    ("ListNodesInSector", SUBGRAPH, (A,), LIST, "List all nodes in {}.", "location_sector", n.in_sector, {}),
    ("MostCommonFirmware", SUBGRAPH, (A,), STRING, "What is the most common firmware version?", "",
     n.common_firmware, {}),
    ("CountNodesWithTwoProps", SUBGRAPH, (F,), NUMERIC, "How many nodes in {} have security level '{}'?",
     "location_sector security_level", n.with_two_properties, {}),
    ("CountNeighborsOperational", SUBGRAPH, (F,), NUMERIC, "How many neighbors of {} are 'Operational'?", "node",
     n.operational_neighbours, {}),
    ("ShortestPathLen", SUBGRAPH, (P,), NUMERIC, "How many nodes are on shortest path between {} and {}?", "node node",
     n.nodes_on_path, {"distinct": True}),
    ("NodesBetween", SUBGRAPH, (P,), NUMERIC, "How many nodes lie between {} and {} on that path?", "node node",
     s.stations_between, {"distinct": True}),
    ("PathAvoidingStatus", SUBGRAPH, (P,), BOOLEAN, "Is there a path from {} to {} avoiding status '{}'?",
     "node node status", n.path_avoiding_status, {"distinct": True}),
    ("WithinHops", NODE, (T,), NUMERIC, "How many other nodes are within 3 hops of {}?", "node", s.within(3), {}),
    ("HasCycle", NODE, (T,), BOOLEAN, "Is {} part of a cycle?", "node", s.has_cycle, {"suffix": "Cycle"}),
    ("OneIntermediary", EDGE, (T,), BOOLEAN, "Are {} and {} connected via exactly one intermediary?", "node node",
     s.one_apart, {"distinct": True, "strict": w.share_neighbour}),
)
NETWORK_REASONING: Final = tuple(_reasoning(NETWORK, *row[:-1], **row[-1]) for row in _NETWORK_ROWS)
# fmt: on

ALL_TEMPLATES: Final = SUBWAY_FACTS + SUBWAY_REASONING + NETWORK_FACTS + NETWORK_REASONING


@cache
def templates_of(domain: str, question_set: str) -> tuple[Template, ...]:
    """The templates of one question set, in published order."""
    group = GROUPS[question_set]
    return tuple(t for t in ALL_TEMPLATES if t.domain == domain and t.group == group)


@cache
def _by_name(domain: str) -> dict[str, Template]:
    return {t.name: t for t in ALL_TEMPLATES if t.domain == domain}


def template(domain: str, name: str) -> Template:
    """The template of one question type.

    Raises:
        MaghubError: For an unknown type, with the nearest known ones.
    """
    known = _by_name(domain)
    if name not in known:
        raise nearest(name, known, kind="question type")
    return known[name]
