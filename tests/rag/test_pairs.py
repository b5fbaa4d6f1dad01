"""Pair arithmetic against loops."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from maghub.baselines.rag._pairs import (
    Groups,
    best_pairs,
    first_distinct,
    listed,
    pair_products,
    summed,
    unit,
)

SEEDS = st.integers(0, 10_000)


@settings(deadline=None, max_examples=40)
@given(seed=SEEDS)
def test_the_best_pairs_of_each_query(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, width, k = int(rng.integers(1, 6)), int(rng.integers(1, 9)), int(rng.integers(1, 8))
    keys = rng.choice(count * width, size=int(rng.integers(0, count * width + 1)), replace=False)
    query, row = keys // width, keys % width
    score = rng.integers(0, 4, len(keys)).astype(float)  # many ties
    scores, rows = best_pairs(query, row, score, count, k)
    for q in range(count):
        own = [(-score[i], int(row[i])) for i in range(len(keys)) if query[i] == q]
        wanted = sorted(own)[:k]
        assert rows[q].tolist() == [r for _, r in wanted] + [-1] * (k - len(wanted))
        assert scores[q].tolist() == [-s for s, _ in wanted] + [-np.inf] * (k - len(wanted))


@settings(deadline=None, max_examples=40)
@given(seed=SEEDS)
def test_groups_give_all_members(seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 5, size=int(rng.integers(0, 12)))
    owner = np.arange(int(rng.integers(0, 6)))
    group = rng.integers(0, 5, size=len(owner))
    found = Groups(keys, 5).expand(owner, group)
    wanted = [
        (o, i)
        for o, g in zip(owner.tolist(), group.tolist(), strict=True)
        for i in np.flatnonzero(keys == g).tolist()
    ]
    assert list(zip(found[0].tolist(), found[1].tolist(), strict=True)) == wanted


@settings(deadline=None, max_examples=40)
@given(seed=SEEDS)
def test_the_first_different_groups(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = rng.integers(-1, 4, size=(3, 9))
    k = int(rng.integers(1, 5))
    found = first_distinct(groups, k)
    for own, kept in zip(groups.tolist(), found, strict=True):
        wanted = list(dict.fromkeys(g for g in own if g >= 0))[:k]
        assert [g for g, here in zip(own, kept, strict=True) if here] == wanted


def test_products_units_and_sums() -> None:
    rng = np.random.default_rng(0)
    left = rng.standard_normal((4, 8)).astype(np.float16)
    right = rng.standard_normal((5, 8)).astype(np.float32)
    query, row = np.asarray([0, 3, 3, 1]), np.asarray([4, 0, 0, 2])
    wanted = [left[q].astype(np.float32) @ right[r] for q, r in zip(query, row, strict=True)]
    np.testing.assert_allclose(pair_products(left, right, query, row), wanted, rtol=1e-5)
    rows = unit(np.asarray([[3.0, 4.0], [0.0, 0.0]]))
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0, 0]], rtol=1e-6)
    found = summed(query, row, np.asarray([1.0, 2.0, 0.5, 4.0]), 5)
    assert [part.tolist() for part in found] == [[0, 1, 3], [4, 2, 0], [1.0, 4.0, 2.5]]
    places = listed(np.asarray([[2, -1], [-1, -1], [1, 0]]))
    assert [part.tolist() for part in places] == [[0, 2, 2], [2, 1, 0], [0, 0, 1]]
