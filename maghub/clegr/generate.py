"""Generating a set part by part: a pure function of (configuration, part number).

A part is a fixed number of consecutive graphs, and every graph has its own child seed, so the rows
do not depend on how many workers make the parts, nor in which order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa

from maghub.clegr.draws import Draws
from maghub.clegr.graph import Graph
from maghub.clegr.index import Index
from maghub.clegr.network import network_graph
from maghub.clegr.questions import DrawCounts, Question, ask
from maghub.clegr.rows import graph_table, question_table
from maghub.clegr.schema import BASE_SIZES, DOMAINS, SETS, SIZES, SUBWAY, VARIANTS
from maghub.clegr.subway import subway_graph
from maghub.clegr.templates import templates_of
from maghub.errors import MaghubError, nearest
from maghub.parallel import ordered_map
from maghub.seeding import DEFAULT_SEED, child_rng

PART_GRAPHS: Final = 25
DEFAULT_GRAPHS: Final = 500
_IN_NAMES: Final = {"small": "", "medium": "-large", "large": "-huge", "mixed": "-mixed"}
"""How sizes stand in config names; the paper's CLeGR-Large is the size medium."""


@dataclass(frozen=True)
class SetConfig:
    """What one question set is made of.

    Attributes:
        domain: ``subway`` or ``computer-networks``.
        question_set: ``facts`` or ``reasoning``; the two are independent graph sets.
        size: ``small``, ``medium``, ``large``, or ``mixed`` (the three in turn: equal shares).
        graphs: Number of graphs.
        seed: The one seed.
        int_names: Call stations, lines and nodes by integers.
        variant: ``well_posed`` or ``compat``; both ask about the same graphs.

    Raises:
        MaghubError: For an unknown name or an impossible number.
    """

    domain: str = SUBWAY
    question_set: str = "facts"
    size: str = "small"
    graphs: int = DEFAULT_GRAPHS
    seed: int = DEFAULT_SEED
    int_names: bool = False
    variant: str = "well_posed"

    def __post_init__(self) -> None:
        for kind, value, known in (
            ("domain", self.domain, DOMAINS),
            ("question set", self.question_set, SETS),
            ("size", self.size, SIZES),
            ("variant", self.variant, VARIANTS),
        ):
            if value not in known:
                raise nearest(str(value), known, kind=kind)
        if isinstance(self.graphs, bool) or not isinstance(self.graphs, int) or self.graphs < 1:
            raise MaghubError(f"{self.graphs} graphs cannot be generated", fix="ask for 1 or more")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise MaghubError(f"{self.seed} is no seed", fix="give a whole number, 0 or more")

    @property
    def name(self) -> str:
        """Name of the published config, e.g. ``subway-large-facts``."""
        return f"{self.domain}{_IN_NAMES[self.size]}-{self.question_set}"

    @property
    def parts(self) -> int:
        """Number of parts."""
        return -(-self.graphs // PART_GRAPHS)

    def graph_id(self, number: int) -> str:
        """Id of one graph, e.g. ``subway-facts-small-00017``."""
        return f"{self.domain}-{self.question_set}-{self.size}-{number:05d}"


class Part(NamedTuple):
    """The rows of consecutive graphs.

    Attributes:
        graphs: Graph rows.
        questions: Question rows.
        counts: Draw counts per question type.
    """

    graphs: pa.Table
    questions: pa.Table
    counts: dict[str, DrawCounts]


def make_graph(config: SetConfig, number: int) -> tuple[Graph, Draws]:
    """One graph of a set, and the stream its questions are drawn from."""
    if not 0 <= number < config.graphs:
        raise MaghubError(f"the set has no graph {number}", fix=f"0 to {config.graphs - 1}")
    rng = child_rng(config.seed, config.domain, config.question_set, config.size, number)
    size = BASE_SIZES[number % len(BASE_SIZES)] if config.size == "mixed" else config.size
    make = subway_graph if config.domain == SUBWAY else network_graph
    graph = make(rng, config.graph_id(number), size, config.int_names)
    return graph, Draws(rng)


def generate_part(config: SetConfig, part_index: int) -> Part:
    """Graphs and questions of one part; pure and picklable.

    Raises:
        MaghubError: For a part the set does not have.
    """
    if not 0 <= part_index < config.parts:
        raise MaghubError(f"the set has no part {part_index}", fix=f"0 to {config.parts - 1}")
    templates = templates_of(config.domain, config.question_set)
    counts = {template.name: DrawCounts() for template in templates}
    graphs: list[Graph] = []
    questions: list[tuple[str, Question]] = []
    first = part_index * PART_GRAPHS
    for number in range(first, min(first + PART_GRAPHS, config.graphs)):
        graph, draws = make_graph(config, number)
        graphs.append(graph)
        asked = ask(Index(graph), templates, draws, config.variant, counts)
        questions += [(graph.graph_id, question) for question in asked]
    return Part(graph_table(graphs, config.domain), question_table(questions), counts)


def generate(config: SetConfig, workers: int = 1) -> Iterator[Part]:
    """All parts in order, made by up to ``workers`` processes; a few are held at a time.

    Raises:
        MaghubError: For fewer than one worker.
    """
    if workers < 1:
        raise MaghubError(f"{workers} workers cannot work", fix="ask for 1 or more")
    parts = [(index,) for index in range(config.parts)]
    return ordered_map(partial(generate_part, config), parts, workers)


def merge_counts(parts: Iterator[Part] | list[Part]) -> dict[str, DrawCounts]:
    """Draw counts of all parts together."""
    total: dict[str, DrawCounts] = {}
    for part in parts:
        for name, counts in part.counts.items():
            total.setdefault(name, DrawCounts()).add(counts)
    return total


def split_of_graph(number: int, graphs: int) -> str:
    """The split of a graph: the first three fifths train, then validation, then test.

    Graphs are independent draws, so their order carries nothing; splits go by graph, never by
    question (../shared/specs/clegr.md).
    """
    if number < -(-3 * graphs // 5):
        return "train"
    return "validation" if number < -(-4 * graphs // 5) else "test"
