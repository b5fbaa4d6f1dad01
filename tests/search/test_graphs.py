"""Graphs of nearest neighbours against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maghub.search import Options, graphs, knn_graph
from tests.helpers.brute import nearest_rows
from tests.search.test_exact import KINDS, matrix


def by_hand(vectors: np.ndarray, k: int, *, cosine: bool) -> list[tuple[int, int]]:
    """(neighbour, node) from the whole ranking of each node, itself taken out."""
    live = np.flatnonzero(vectors.any(axis=1))
    _, ranking = nearest_rows(vectors, vectors[live], len(live), cosine=cosine)
    edges = []
    for node, row in zip(live.tolist(), ranking.tolist(), strict=True):
        edges += [(other, node) for other in row if other != node][:k] if k else []
    return edges


@pytest.mark.parametrize("metric", ["cosine", "ip"])
@pytest.mark.parametrize("kind", KINDS)
def test_edges_are_those_of_brute_force(kind: str, metric: str) -> None:
    @settings(max_examples=10, deadline=None)
    @given(n=st.integers(4, 80), d=st.integers(1, 12), seed=st.integers(0, 999))
    def check(n: int, d: int, seed: int) -> None:
        vectors = matrix(kind, n, d, "float16", seed)
        live = int(vectors.any(axis=1).sum())
        if live < 2:
            return
        k = min(1 + seed % 5, live - 1)
        edges = knn_graph(vectors, k, metric)
        assert edges.dtype == np.int64
        assert edges.shape == (2, live * k)
        found = list(zip(*edges.tolist(), strict=True))
        assert found == by_hand(vectors, k, cosine=metric == "cosine")

    check()


def test_rows_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = matrix("normal", 90, 6, "float32", 1)
    whole = knn_graph(vectors, 3)
    monkeypatch.setattr(graphs, "_ROWS", 7)
    assert (knn_graph(vectors, 3) == whole).all()


def test_no_self_loops_among_more_copies_than_neighbours() -> None:
    edges = knn_graph(np.ones((30, 4)), 5)
    assert (edges[0] != edges[1]).all()
    assert edges[0, edges[1] == 20].tolist() == [0, 1, 2, 3, 4]
    assert edges[0, edges[1] == 2].tolist() == [0, 1, 3, 4, 5]


def test_approximate_graphs_leave_out_what_was_not_found() -> None:
    vectors = np.random.default_rng(0).standard_normal((300, 8))
    edges = knn_graph(vectors, 40, kind="ivf", options=Options(nlist=20, nprobe=1))
    assert edges.min() >= 0
    assert edges.shape[1] < 300 * 40
    assert (edges[0] != edges[1]).all()
