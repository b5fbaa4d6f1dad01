"""Generated graphs: sizes inside the paper's tables, uniform attributes, structure."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import numpy as np
import pytest
from scipy.stats import chisquare

from maghub.clegr.generate import SetConfig, make_graph
from maghub.clegr.graph import Graph, check_graph, components
from maghub.clegr.layout import merge_near
from maghub.clegr.schema import LINE_VALUES, LINK_VALUES, STATION_VALUES, SYSTEM_VALUES
from maghub.errors import MaghubError

PAPER = {  # domain, size: (nodes, edges, lines), as mean and standard deviation (Tables 5, 10)
    ("subway", "small"): ((26.54, 5.41), (28.32, 6.37), (6.02, 1.23)),
    ("subway", "medium"): ((73.17, 13.55), (78.87, 16.41), (9.97, 2.02)),
    ("computer-networks", "small"): ((21.64, 3.93), (28.61, 5.30)),
}


def graphs(domain: str, size: str = "small", count: int = 500, **options: bool) -> list[Graph]:
    config = SetConfig(domain, "facts", size, count, **options)
    return [make_graph(config, number)[0] for number in range(count)]


@pytest.mark.parametrize("key", PAPER)
def test_means_are_the_papers(key: tuple[str, str]) -> None:
    """Means within three standard errors of both samples of 500, spreads within a fifth."""
    made = graphs(*key)
    for (mean, spread), values in zip(
        PAPER[key],
        (
            [len(g) for g in made],
            [len(g.source) for g in made],
            [len(g.lines["id"]) for g in made],
        ),
        strict=False,
    ):
        assert abs(np.mean(values) - mean) < 3 * spread * (2 / 500) ** 0.5
        assert 0.8 < np.std(values) / spread < 1.2


@pytest.mark.parametrize("domain", ["subway", "computer-networks"])
def test_attributes_are_uniform(domain: str) -> None:
    made = graphs(domain)
    subway = domain == "subway"
    node_values = STATION_VALUES if subway else SYSTEM_VALUES
    columns = {name: ([g.nodes[name] for g in made], node_values[name]) for name in node_values}
    if subway:
        for name, values in LINE_VALUES.items():
            columns[f"line {name}"] = ([g.lines[name] for g in made], values)
    else:
        for name, values in LINK_VALUES.items():
            columns[name] = ([g.edges[name] for g in made], values)
    for name, (drawn, values) in columns.items():
        counts = Counter(value for column in drawn for value in column)
        assert set(counts) == set(values), name
        assert chisquare([counts[value] for value in values]).pvalue > 0.001, name


@pytest.mark.parametrize("domain", ["subway", "computer-networks"])
@pytest.mark.parametrize("size", ["small", "medium", "large"])
@pytest.mark.parametrize("int_names", [False, True])
def test_structure(domain: str, size: str, int_names: bool) -> None:
    for graph in graphs(domain, size, 60 if size == "small" else 5, int_names=int_names):
        check_graph(graph)
        assert len(graph) >= 3
        whole = nx.Graph(zip(graph.source, graph.target, strict=True))
        assert len(whole) == len(graph)
        assert nx.is_connected(whole)
        keys = [
            (*sorted(ends), line)
            for *ends, line in zip(
                graph.source, graph.target, graph.line_of or [0] * len(graph.source), strict=True
            )
        ]
        assert len(set(keys)) == len(keys), "an edge is unique per pair and line"
        assert all(u != v for u, v, _ in keys)
        assert len(set(graph.ids)) == len(graph)
        if int_names:
            assert graph.ids == graph.names
            assert all(name.isdigit() for name in graph.names)
            assert graph.lines["id"] == graph.lines["name"]
        if domain == "subway":
            check_lines(graph, int_names)


def check_lines(graph: Graph, int_names: bool) -> None:
    lines, edges = graph.lines, graph.edges
    assert len(set(zip(lines["color"], lines["stroke"], strict=True))) == len(lines["id"])
    assert len(set(lines["name"])) == len(lines["id"])
    for edge, line in enumerate(graph.line_of):
        connector = str(edges["line_name"][edge]).endswith(" Connector")
        name = f"{lines['name'][line]}{' Connector' if connector else ''}"
        assert edges["line_name"][edge] == name
        assert edges["line_stroke"][edge] == ("dotted" if connector else lines["stroke"][line])
        for column in ("id", "color", "has_aircon", "built"):
            assert edges[f"line_{column}"][edge] == lines[column][line]
    if not int_names:
        for name, color in zip(lines["name"], lines["color"], strict=True):
            assert str(name).split()[0] == str(color).title()


def test_mixed_has_equal_shares() -> None:
    made = graphs("subway", "mixed", 30)
    means = [np.mean([len(g) for g in made[start::3]]) for start in range(3)]
    assert means[0] < 40 < means[1] < 120 < means[2]


def test_facts_and_reasoning_are_independent_and_variants_share_graphs() -> None:
    facts, _ = make_graph(SetConfig(question_set="facts"), 0)
    reasoning, _ = make_graph(SetConfig(question_set="reasoning"), 0)
    compat, _ = make_graph(SetConfig(question_set="facts", variant="compat"), 0)
    assert facts.names != reasoning.names
    assert facts == compat


def test_merging_keeps_far_points_apart_and_one_member_in_place() -> None:
    rng = np.random.default_rng(3)
    points = rng.uniform(0, 10, size=(80, 2))
    priority = rng.permutation(80)
    master = merge_near(points, priority, 1.0, 50)
    kept = np.unique(master)
    assert (master[kept] == kept).all()
    gaps = np.linalg.norm(points[kept][:, None] - points[kept][None], axis=2)
    assert gaps[np.triu_indices(len(kept), 1)].min() > 1.0
    assert (merge_near(points, priority, 0.0, 5) == np.arange(80)).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": "huge"}, "unknown size 'huge'"),
        ({"size": "Large"}, "Did you mean large"),
        ({"domain": "metro"}, "unknown domain"),
        ({"question_set": "fact"}, "Did you mean facts"),
        ({"variant": "wellposed"}, "Did you mean well_posed"),
        ({"graphs": 0}, "0 graphs"),
        ({"graphs": -3}, "-3 graphs"),
        ({"graphs": 2.5}, "2.5 graphs"),
        ({"graphs": True}, "True graphs"),
        ({"seed": -1}, "-1 is no seed"),
    ],
)
def test_impossible_settings_are_one_line(options: dict[str, object], words: str) -> None:
    with pytest.raises(MaghubError, match=words) as caught:
        SetConfig(**options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_bad_graphs_are_one_line() -> None:
    good, _ = make_graph(SetConfig(), 0)
    good.source[0] = 999
    with pytest.raises(MaghubError, match="unknown node 999"):
        check_graph(good)
    empty = Graph("g", "subway", [], [], [], [], {}, [], [], {})
    with pytest.raises(MaghubError, match="g: the graph has no nodes"):
        check_graph(empty)
    assert components(4, [0, 2], [1, 3]) == [[0, 1], [2, 3]]
