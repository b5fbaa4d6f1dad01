"""Paths, routes and cycles on random graphs against networkx."""

from __future__ import annotations

import random
import time

import networkx as nx
import pytest

from maghub.clegr.graph import Graph
from maghub.clegr.index import FAR, Index
from maghub.clegr.paths import TooManyStatesError, edge_modes
from maghub.clegr.routes import count_routes


def plain(graph: nx.Graph) -> Index:
    """An index over a bare structure."""
    ends = list(graph.edges)
    names = [str(node) for node in range(len(graph))]
    return Index(
        Graph(
            "g", "computer-networks", names, names, [], [], {},
            [u for u, _ in ends], [v for _, v in ends], {"c": list(range(len(ends)))},
        )
    )  # fmt: skip


def random_graphs(count: int, most: int) -> list[nx.Graph]:
    rng = random.Random(11)
    made = []
    for _ in range(count):
        size = rng.randint(2, most)
        made.append(nx.gnm_random_graph(size, rng.randint(0, int(1.5 * size)), seed=rng))
    return made


def test_structure_equals_networkx() -> None:
    for graph in random_graphs(150, 14):
        index = plain(graph)
        same_order = nx.Graph()
        same_order.add_nodes_from(range(len(graph)))
        same_order.add_edges_from(graph.edges)
        cycles = {node for cycle in nx.cycle_basis(graph) for node in cycle}
        assert [node in cycles for node in range(index.size)] == index.on_cycle
        for u in graph:
            hops = nx.single_source_shortest_path_length(graph, u)
            assert index.distances(u) == [hops.get(v, FAR) for v in range(index.size)]
            for v in graph:
                if v not in hops:
                    assert index.shortest_path(u, v) is None
                    assert count_routes(index, u, v) == 0
                    continue
                assert index.shortest_path(u, v) == nx.shortest_path(same_order, u, v)
                routes = sum(1 for _ in nx.all_simple_paths(graph, u, v))
                assert count_routes(index, u, v, cap=10**9, steps=10**6) == routes


def test_routes_are_capped_in_time() -> None:
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(30, 30))
    index = plain(grid)
    start = time.perf_counter()
    assert count_routes(index, 0, 899) is None
    assert time.perf_counter() - start < 1.0
    ring = plain(nx.cycle_graph(5000))
    assert count_routes(ring, 0, 2500) == 2
    chain = nx.Graph()
    for block in range(40):  # 40 squares in a row: 2 ** 40 routes, counted without listing them
        nx.add_cycle(chain, [3 * block, 3 * block + 1, 3 * block + 3, 3 * block + 2])
    assert count_routes(plain(chain), 0, 120, cap=2**50) == 2**40
    assert count_routes(plain(chain), 0, 120) is None


def test_many_shortest_paths_do_not_blow_up() -> None:
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(12, 12))
    index = plain(grid)
    start = time.perf_counter()
    column = ["even" if u % 2 else "odd" for u, _ in grid.edges]
    assert edge_modes(index, 0, 143, column) <= {"even", "odd", None}
    with pytest.raises(TooManyStatesError):
        edge_modes(index, 0, 143, list(range(grid.number_of_edges())))
    assert time.perf_counter() - start < 2.0
