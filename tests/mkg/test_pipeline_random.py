"""Random graphs with awkward names and pictures: what comes out is complete and leaks nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maghub.errors import MaghubError
from maghub.mkg.pipeline import build_benchmark
from tests.helpers.built import check_valid
from tests.helpers.graphs import png
from tests.helpers.kg_folders import Graph, check_benchmark, write_graph

NAME = st.one_of(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8).map(str.strip),
    st.sampled_from(
        ["", "Sun", "sun", "part", "subject", "猫", "北京", "...", "[Image]", "{tail}"]
    ),
)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    entities = {f"Q{i}": draw(NAME) for i in range(draw(st.integers(2, 6)))}
    relations = {f"P{i}": draw(NAME) for i in range(draw(st.integers(1, 3)))}
    ends, rels = st.sampled_from(list(entities)), st.sampled_from(list(relations))
    triplets = draw(st.lists(st.tuples(ends, rels, ends), min_size=1, max_size=15, unique=True))
    shown = draw(st.dictionaries(ends, st.integers(1, 3), max_size=3))
    images = {
        key: [png(i + 7 * n) for n in range(count)] for i, (key, count) in enumerate(shown.items())
    }
    return Graph(triplets, entities, relations, images=images)


@given(graphs(), st.integers(0, 3))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_random_graphs(graph: Graph, seed: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        kg = write_graph(graph, Path(root) / "kg")
        try:
            spec = build_benchmark(kg, Path(root) / "out", seed=seed).spec
        except MaghubError as error:
            if error.what in ("the filter keeps no triplet", "no question could be written"):
                return
            raise
        check_valid(Path(root) / "out")
        counts = check_benchmark(
            Path(root) / "out", graph.triplets, graph.entities, graph.relations
        )
        report = spec.notes["question_synthesis"]["masked forms"]
        assert sum(report["questions"].values()) == counts["queries"]
