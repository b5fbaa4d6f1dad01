"""Ranking metrics: by hand, and against a plain computation of their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("ir_measures")

from maghub.baselines.rag.ranking import CUTS, ranking_metrics
from maghub.errors import MaghubError


def metrics(rows: list[list[int]], judged: list[list[int]], *cuts: int) -> dict[str, float]:
    query = [q for q, own in enumerate(judged) for _ in own]
    relevant = [row for own in judged for row in own]
    return ranking_metrics(np.asarray(rows), np.asarray(query), np.asarray(relevant), cuts)


def test_hand_cases() -> None:
    # Relevant at ranks 1 and 3 of five, a third one not found.
    found = metrics([[7, 1, 8, 2, 3]], [[7, 8, 9]], 2, 3, 5)
    second, third = 1 / math.log2(3), 1 / math.log2(4)
    assert found["ndcg@2"] == pytest.approx(1 / (1 + second))
    assert found["ndcg@3"] == pytest.approx((1 + third) / (1 + second + third))
    assert found["ndcg@5"] == found["ndcg@3"]
    assert found["precision@2"] == pytest.approx(0.5)
    assert found["precision@5"] == pytest.approx(0.4)
    assert found["recall@2"] == pytest.approx(1 / 3)
    assert found["recall@5"] == pytest.approx(2 / 3)


def test_the_ideal_is_cut_at_k() -> None:
    """Twenty relevant triplets, five found first: perfect at 5."""
    found = metrics([list(range(5))], [list(range(20))], 5)
    assert found["ndcg@5"] == pytest.approx(1.0)
    assert found["recall@5"] == pytest.approx(0.25)


def test_precision_divides_by_k_also_when_fewer_were_found() -> None:
    found = metrics([[4, -1, -1, -1, -1, -1, -1, -1, -1, -1]], [[4]], 5, 10)
    assert found["precision@5"] == pytest.approx(0.2)
    assert found["precision@10"] == pytest.approx(0.1)
    assert found["ndcg@10"] == pytest.approx(1.0)


def test_questions_count_the_same_and_the_empty_one_counts() -> None:
    found = metrics([[0, 1], [-1, -1], [5, 4]], [[0], [3], [4, 6, 7, 8]], 2)
    assert found["recall@2"] == pytest.approx((1 + 0 + 0.25) / 3)
    assert found["precision@2"] == pytest.approx((0.5 + 0 + 0.5) / 3)


def test_what_a_setting_leaves_out_is_missed() -> None:
    assert metrics([[3, 1]], [[3, -2, -3]], 2)["recall@2"] == pytest.approx(1 / 3)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10_000))
def test_equal_to_the_definitions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, width, corpus = int(rng.integers(1, 5)), int(rng.integers(1, 30)), 40
    rows, judged = [], []
    for _ in range(count):
        own = rng.permutation(corpus)[:width]
        own[int(rng.integers(0, width + 1)) :] = -1
        rows.append(own.tolist())
        judged.append(rng.choice(corpus, size=int(rng.integers(1, 30)), replace=False).tolist())
    found = metrics(rows, judged, *CUTS)
    for k in CUTS:
        gains = np.asarray(
            [[r in own and r >= 0 for r in line] for line, own in _pairs(rows, judged)]
        )
        gains = np.pad(gains, ((0, 0), (0, 100)))[:, :k].astype(float)
        discount = 1 / np.log2(np.arange(2, k + 2))
        ideal = [discount[: min(k, len(own))].sum() for own in judged]
        size = np.asarray([len(own) for own in judged])
        assert found[f"ndcg@{k}"] == pytest.approx(np.mean((gains @ discount) / ideal), abs=1e-6)
        assert found[f"precision@{k}"] == pytest.approx(gains.sum(1).mean() / k, abs=1e-6)
        assert found[f"recall@{k}"] == pytest.approx(np.mean(gains.sum(1) / size), abs=1e-6)


def _pairs(rows: list[list[int]], judged: list[list[int]]) -> list[tuple[list[int], list[int]]]:
    return list(zip(rows, judged, strict=True))


def test_the_order_of_results_is_the_rank_whatever_their_ids() -> None:
    """trec_eval orders equal scores by id; ranks of ours are never equal."""
    assert metrics([[9, 10, 1]], [[9]], 1)["ndcg@1"] == 1
    assert metrics([[1, 9]], [[9]], 1)["ndcg@1"] == 0


def test_bad_input() -> None:
    with pytest.raises(MaghubError, match="no questions"):
        metrics([], [], 5)
    with pytest.raises(MaghubError, match="question 1 has no relevant triplet"):
        metrics([[0], [1]], [[0], []], 5)
