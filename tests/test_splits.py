"""Splits, negatives and seeding: properties that hold for every graph and seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from maghub import layout
from maghub.seeding import child_rng
from maghub.splits import (
    SPLIT_CODES,
    edge_split,
    fixed_negatives,
    random_split,
    split_counts,
    stratified_split,
)
from maghub.statistics import unique_pairs

FRACTIONS = st.sampled_from(
    [(0.6, 0.2, 0.2), (0.7, 0.1, 0.2), (0.8, 0.1, 0.1), (1.0, 0.0, 0.0), (1 / 3, 1 / 3, 1 / 3)]
)
SEEDS = st.integers(0, 2**32)


@st.composite
def edge_lists(draw: st.DrawFn) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
    """Nodes and edges, with loops, parallel edges and both directions of a pair."""
    nodes = draw(st.integers(1, 30))
    node = st.integers(0, nodes - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=60))
    edges = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    return nodes, edges[:, 0], edges[:, 1]


def off_by(codes: NDArray[np.int8], fractions: tuple[float, ...]) -> float:
    """Largest distance of a split's size from its exact share."""
    counts = np.bincount(codes, minlength=len(fractions))
    return float(np.abs(counts - np.asarray(fractions) * len(codes)).max(initial=0))


@given(count=st.integers(0, 500), fractions=FRACTIONS, seed=SEEDS)
def test_random_split_gives_every_row_a_split_in_the_shares_asked(
    count: int, fractions: tuple[float, ...], seed: int
) -> None:
    codes = random_split(count, fractions, child_rng(seed, "test"))
    assert codes.dtype == np.int8
    assert len(codes) == count
    assert set(codes.tolist()) <= {0, 1, 2}
    assert off_by(codes, fractions) < 1
    again = random_split(count, fractions, child_rng(seed, "test"))
    assert np.array_equal(codes, again)


@given(labels=st.lists(st.integers(-1, 4), max_size=200), fractions=FRACTIONS, seed=SEEDS)
def test_stratified_split_keeps_the_shares_within_each_class(
    labels: list[int], fractions: tuple[float, ...], seed: int
) -> None:
    array = np.asarray(labels, dtype=np.int64)
    codes = stratified_split(array, fractions, child_rng(seed, "test"))
    unassigned = SPLIT_CODES[layout.UNASSIGNED]
    assert np.array_equal(codes == unassigned, array < 0)
    for label in set(labels) - {-1}:
        assert off_by(codes[array == label], fractions) < 1


def test_shuffled_not_sorted() -> None:
    codes = random_split(1000, (0.6, 0.2, 0.2), child_rng(0, "test"))
    assert 0.5 < (codes[:500] == 0).mean() < 0.7
    other = random_split(1000, (0.6, 0.2, 0.2), child_rng(1, "test"))
    assert not np.array_equal(codes, other)


@given(graph=edge_lists(), fractions=FRACTIONS, seed=SEEDS)
def test_edge_split_never_parts_a_pair_and_trains_on_loops(
    graph: tuple[int, NDArray[np.int64], NDArray[np.int64]],
    fractions: tuple[float, ...],
    seed: int,
) -> None:
    nodes, src, dst = graph
    codes = edge_split(src, dst, nodes, fractions, child_rng(seed, "test"))
    side: dict[frozenset[int], int] = {}
    for a, b, code in zip(src.tolist(), dst.tolist(), codes.tolist(), strict=True):
        assert side.setdefault(frozenset((a, b)), code) == code
    assert all(code == 0 for pair, code in side.items() if len(pair) == 1)
    proper = np.asarray([c for pair, c in side.items() if len(pair) == 2], dtype=np.int8)
    assert off_by(proper, fractions) < 1
    flipped = edge_split(dst, src, nodes, fractions, child_rng(seed, "test"))
    assert np.array_equal(codes, flipped)


@settings(deadline=None)
@given(graph=edge_lists(), seed=SEEDS, data=st.data())
def test_negatives_are_distinct_non_neighbours(
    graph: tuple[int, NDArray[np.int64], NDArray[np.int64]], seed: int, data: st.DataObject
) -> None:
    nodes, src, dst = graph
    near = [{n} for n in range(nodes)]
    for a, b in zip(src.tolist(), dst.tolist(), strict=True):
        near[a].add(b)
        near[b].add(a)
    query = np.asarray(data.draw(st.lists(st.integers(0, nodes - 1), max_size=10)), dtype=np.int64)
    most = min((nodes - len(near[q]) for q in query.tolist()), default=3)
    k = data.draw(st.integers(0, most))
    drawn = fixed_negatives(src, dst, nodes, query, k, child_rng(seed, "test"))
    assert drawn.shape == (len(query), k)
    for q, row in zip(query.tolist(), drawn.tolist(), strict=True):
        assert len(set(row)) == k
        assert not set(row) & near[q]
        assert all(0 <= node < nodes for node in row)
    if len(query):
        with pytest.raises(ValueError, match="fewer than"):
            fixed_negatives(src, dst, nodes, query, most + 1, child_rng(seed, "test"))


def test_negatives_are_drawn_uniformly() -> None:
    src, dst = np.asarray([0, 1]), np.asarray([1, 2])
    query = np.zeros(20_000, np.int64)
    drawn = fixed_negatives(src, dst, 6, query, 2, child_rng(0, "test"))
    share = np.bincount(drawn.ravel(), minlength=6) / drawn.size
    assert share[[0, 1]].tolist() == [0, 0]
    assert np.allclose(share[2:], 0.25, atol=0.01)


def test_negatives_of_no_edges_at_all() -> None:
    none = np.zeros(0, np.int64)
    drawn = fixed_negatives(none, none, 4, np.asarray([2]), 3, child_rng(0, "test"))
    assert sorted(drawn[0].tolist()) == [0, 1, 3]


@given(codes=st.lists(st.integers(0, 3), max_size=50))
def test_split_counts_leave_empty_splits_out(codes: list[int]) -> None:
    counts = split_counts(np.asarray(codes, dtype=np.int8))
    names = [layout.SPLITS[code] for code in codes]
    assert counts == {name: names.count(name) for name in layout.SPLITS if name in names}


NAMES = st.lists(
    st.one_of(st.integers(0, 99), st.text("abcλ猫", max_size=4)), min_size=1, max_size=3
)


@given(seed=SEEDS, first=NAMES, second=NAMES)
def test_children_depend_on_seed_and_names_alone(
    seed: int, first: list[str | int], second: list[str | int]
) -> None:
    draw = child_rng(seed, *first).integers(2**62, size=4).tolist()
    child_rng(seed, *second).random(10)  # making another child changes nothing
    assert child_rng(seed, *first).integers(2**62, size=4).tolist() == draw
    assert child_rng(seed + 1, *first).integers(2**62, size=4).tolist() != draw
    if [str(name) for name in first] != [str(name) for name in second]:
        assert child_rng(seed, *second).integers(2**62, size=4).tolist() != draw


def test_draws_of_a_seed_never_change_between_versions() -> None:
    """Published splits hang on these numbers: if this fails, every folder's bytes change."""
    rng = child_rng(0, "nodes", "stratified")
    assert rng.integers(1_000_000, size=3).tolist() == [16053, 824908, 511946]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=40))
def test_unique_pairs_are_those_of_numpy(pairs: list[tuple[int, int]]) -> None:
    edges = np.array(pairs, np.int64).reshape(-1, 2).T
    found = unique_pairs(edges, 7)
    assert found.shape[0] == 2
    assert np.array_equal(found, np.unique(edges, axis=1))
