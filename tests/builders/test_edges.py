"""Edges of groups, orders and neighbours against brute force, and the options around them."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from maghub.builders import _edges
from maghub.builders._edges import (
    Pairs,
    adjacent_pairs,
    group_pairs,
    multiplicity,
    mutual_knn,
)
from maghub.errors import MaghubError
from tests.helpers.neighbours import mutual_by_hand


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def listed(pairs: Pairs) -> list[tuple[int, int]]:
    return list(zip(pairs.src.tolist(), pairs.dst.tolist(), strict=True))


@pytest.mark.parametrize("window", [1, 2, 5, 40])
def test_adjacent_pairs(window: int) -> None:
    draw = rng(window)
    sequences = [draw.integers(0, 9, size=size).tolist() for size in (0, 1, 2, 7, 30)]
    wanted = Counter(
        (items[a], items[b])
        for items in sequences
        for a, b in itertools.combinations(range(len(items)), 2)
        if b - a <= window
    )
    sequence = np.repeat(np.arange(5), [len(items) for items in sequences])
    item = np.concatenate([np.asarray(items, np.int64) for items in sequences])
    assert Counter(listed(adjacent_pairs(sequence, item, window))) == wanted


def random_groups(draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Shuffled (group, member) rows of groups of 1 to 40; a member may be in several groups."""
    sizes = [1, 2, 3, 4, 5, 6, 12, 40]
    members = [np.sort(draw.choice(60, size=size, replace=False)) for size in sizes]
    order = draw.permutation(sum(sizes))
    names = draw.choice(1000, size=len(sizes), replace=False)
    return np.repeat(names, sizes)[order], np.concatenate(members)[order]


def test_group_pairs_without_cap_are_all_pairs() -> None:
    group, member = random_groups(rng())
    wanted: Counter[tuple[int, int]] = Counter()
    for name in np.unique(group):
        wanted.update(itertools.combinations(sorted(member[group == name].tolist()), 2))
    assert Counter(tuple(sorted(pair)) for pair in listed(group_pairs(group, member))) == wanted
    empty = np.zeros(0, np.int64)
    assert listed(group_pairs(empty, empty)) == listed(group_pairs(empty, empty, 3, rng())) == []


@pytest.mark.parametrize("cap", [1, 3, 4, 11])
def test_group_pairs_with_a_cap(cap: int) -> None:
    draw = rng()
    group = np.repeat([7, 3], [5, 30])  # no member in both: what a pair belongs to is certain
    member = draw.permutation(35)
    found = listed(group_pairs(group, member, cap, rng(1)))
    small, large = set(member[:5].tolist()), set(member[5:].tolist())
    inside = [pair for pair in found if set(pair) <= small]
    drawn = [pair for pair in found if set(pair) <= large]
    assert len(inside) + len(drawn) == len(found)
    assert all(a != b for a, b in found)
    if cap >= 4:
        assert sorted(map(sorted, inside)) == sorted(
            map(list, itertools.combinations(sorted(small), 2))
        )
    assert Counter(a for a, _ in drawn) == dict.fromkeys(large, cap)  # each draws that many
    assert len(set(drawn)) == len(drawn)  # distinct ones
    order = draw.permutation(35)
    again = listed(group_pairs(group[order], member[order], cap, rng(1)))
    assert again == found != listed(group_pairs(group, member, cap, rng(2)))


def test_capped_draws_are_uniform() -> None:
    group, member, counts = np.zeros(8, np.int64), np.arange(8), np.zeros((8, 8))
    draw = rng()
    for _ in range(2000):
        pairs = group_pairs(group, member, 3, draw)
        counts[pairs.src, pairs.dst] += 1
    off = counts[~np.eye(8, dtype=bool)]
    assert counts.trace() == 0
    expected = 2000 * 3 / 7
    assert np.abs(off - expected).max() < 5 * math.sqrt(expected * 4 / 7)


def test_too_many_pairs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_edges, "MAX_PAIRS", 1000)
    many = np.arange(50)
    with pytest.raises(MaghubError, match=r"up to 50 members make 1,225 pairs\. Set a lower cap"):
        group_pairs(np.zeros(50, np.int64), many)
    group_pairs(np.zeros(50, np.int64), many, 20, rng())


def test_multiplicity_counts_both_directions() -> None:
    pairs = Pairs(np.array([3, 1, 2, 2, 0, 1]), np.array([1, 3, 1, 2, 4, 3]))
    src, dst = np.array([0, 1, 1]), np.array([4, 2, 3])
    assert multiplicity(src, dst, pairs, 5).tolist() == [1, 1, 3]


@pytest.mark.parametrize("k", [1, 3, 10, 100])
@pytest.mark.parametrize("kind", ["normal", "ties"])
def test_mutual_knn(k: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = rng(k)
    if kind == "normal":
        vectors = draw.normal(size=(60, 7)).astype(np.float32)
    else:  # directions in a plane of small integers: many are equal, at many lengths
        vectors = draw.integers(-2, 3, size=(60, 2)).astype(np.float32)
        vectors[5] = 0
    wanted = mutual_by_hand(vectors, k)
    assert wanted
    for block in (1, 1 << 12, 1 << 25):
        monkeypatch.setattr(_edges, "BLOCK_BYTES", block)
        src, dst, cosine = mutual_knn(vectors, k)
        found = dict(zip(zip(src.tolist(), dst.tolist(), strict=True), cosine, strict=True))
        assert list(found) == sorted(wanted)
        assert all(abs(found[pair] - wanted[pair]) < 1e-6 for pair in wanted)
        assert cosine.dtype == np.float32


def test_mutual_knn_of_equal_vectors_prefers_low_ids() -> None:
    src, dst, cosine = mutual_knn(np.ones((6, 3), np.float16), 2)
    # 0: {1, 2}; 1: {0, 2}; 2: {0, 1}; all others: {0, 1}
    assert list(zip(src.tolist(), dst.tolist(), strict=True)) == [(0, 1), (0, 2), (1, 2)]
    assert cosine.tolist() == [1, 1, 1]


@pytest.mark.parametrize("rows", [0, 1])
def test_mutual_knn_of_next_to_nothing(rows: int) -> None:
    vectors = np.zeros((5, 3), np.float32)
    vectors[:rows] = 1
    assert [len(column) for column in mutual_knn(vectors, 10)] == [0, 0, 0]
