"""Ranks, MRR and Hits@K: the tie rule by hand, scipy's ranks, PyG's and torchmetrics' metrics."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy import stats
from torch_geometric.metrics import LinkPredMRR
from torchmetrics.functional.retrieval import retrieval_hit_rate, retrieval_reciprocal_rank

from maghub import metrics
from maghub.errors import MaghubError
from maghub.metrics import Ties, hits_at_k, mrr, ranking, ranks

some = settings(max_examples=60, deadline=None)
RULES = {"mean": "average", "optimistic": "min", "pessimistic": "max"}
Scores = NDArray[np.float64]


@st.composite
def tied_scores(draw: st.DrawFn) -> Scores:
    """Few different values, so that ties are common; infinities are scores too."""
    shape = draw(st.tuples(st.integers(1, 6), st.integers(1, 8)))
    return draw(
        arrays(np.float64, shape, elements=st.sampled_from([0, 1, 2, 0.5, -np.inf, np.inf]))
    )


def test_hand_case_of_each_tie_rule() -> None:
    scores = [[2, 3, 2, 1, 2], [1, 1, 1, 1, 1], [5, 1, 1, 1, 1]]
    assert ranks(scores, ties="optimistic").tolist() == [2, 1, 1]
    assert ranks(scores, ties="pessimistic").tolist() == [4, 5, 1]
    assert ranks(scores).tolist() == [3, 3, 1]


def test_all_ties_of_nine_negatives_give_the_known_values() -> None:
    # field measurement of OpenMAG's pessimistic rule against OGB's mean rank: 0.100 and 0.182
    scores = np.zeros((4, 10))
    assert mrr(ranks(scores, ties="pessimistic")) == pytest.approx(0.1)
    assert mrr(ranks(scores)) == pytest.approx(1 / 5.5)
    assert mrr(ranks(scores, ties="optimistic")) == 1


def test_hand_case_of_mrr_and_hits() -> None:
    found = [1, 1.5, 2, 10]
    assert mrr(found) == pytest.approx((1 + 2 / 3 + 1 / 2 + 1 / 10) / 4)
    assert [hits_at_k(found, k) for k in (1, 2, 9, 10)] == [0.25, 0.75, 0.75, 1]


@some
@given(tied_scores(), st.sampled_from(list(RULES)), st.data())
def test_ranks_equal_scipys(scores: Scores, ties: str, data: st.DataObject) -> None:
    queries, candidates = scores.shape
    column = st.integers(0, candidates - 1)
    positive = np.array(data.draw(st.lists(column, min_size=queries, max_size=queries)))
    wanted = stats.rankdata(-scores, method=RULES[ties], axis=1)
    found = ranks(scores, positive, ties=cast("Ties", ties))
    assert found.tolist() == wanted[np.arange(queries), positive].tolist()
    first = ranks(scores, ties=cast("Ties", ties))
    assert first.tolist() == wanted[:, 0].tolist()


@some
@given(tied_scores(), st.integers(0, 99))
def test_mean_rank_lies_between_and_order_changes_nothing(scores: Scores, seed: int) -> None:
    best, worst = ranks(scores, ties="optimistic"), ranks(scores, ties="pessimistic")
    mean = ranks(scores)
    assert np.array_equal(mean, (best + worst) / 2)
    rng = np.random.default_rng(seed)
    columns = np.concatenate([[0], 1 + rng.permutation(scores.shape[1] - 1)])
    assert np.array_equal(ranks(scores[:, columns]), mean)
    order = rng.permutation(len(scores))
    assert mrr(ranks(scores[order])) == pytest.approx(mrr(mean))
    assert hits_at_k(mean[order], 2) == hits_at_k(mean, 2)


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(0).integers(0, 5, (50, 7)).astype(np.float32)
    positive = np.arange(50) % 7
    whole = ranks(scores, positive)
    monkeypatch.setattr(ranking, "VALUES_AT_ONCE", 20)
    assert np.array_equal(ranks(scores, positive), whole)


def test_without_ties_mrr_and_hits_equal_torchmetrics_and_pyg() -> None:
    rng = np.random.default_rng(1)
    # Positive scores: torchmetrics takes a candidate with a score of 0 or less as not retrieved.
    scores, positive = rng.random((40, 12)), rng.integers(0, 12, 40)
    found = ranks(scores, positive)
    target = torch.nn.functional.one_hot(torch.from_numpy(positive), 12)
    predicted = torch.from_numpy(scores)
    pairs = list(zip(predicted, target, strict=True))
    theirs = torch.stack([retrieval_reciprocal_rank(p, t) for p, t in pairs]).mean()
    assert mrr(found) == pytest.approx(theirs.item(), rel=1e-6)
    for k in (1, 3, 10):
        hits = torch.stack([retrieval_hit_rate(p, t, top_k=k) for p, t in pairs]).mean()
        assert hits_at_k(found, k) == pytest.approx(hits.item(), rel=1e-6)
    pyg = LinkPredMRR(k=12)
    label_index = torch.stack([torch.arange(40), torch.from_numpy(positive)])
    pyg.update(predicted.argsort(dim=1, descending=True), label_index)
    assert mrr(found) == pytest.approx(pyg.compute().item(), rel=1e-6)


def test_bad_scores_and_ranks_are_one_line() -> None:
    with pytest.raises(MaghubError, match=r"^2 of 4 scores are NaN, the first in row 1. Look for"):
        ranks([[1, 2], [np.nan, np.nan]])
    with pytest.raises(MaghubError, match=r"^there are no scores: nothing can be measured$"):
        ranks(np.empty((0, 5)))
    with pytest.raises(MaghubError, match=r"^scores are float64 of shape \(3,\). Give a matrix of"):
        ranks([1.0, 2.0, 3.0])
    with pytest.raises(MaghubError, match=r"^2 queries but 1 positives. Give one for each$"):
        ranks([[1, 2], [1, 2]], [0])
    with pytest.raises(MaghubError, match=r"^positives name columns 0 to 2 of 2 candidates$"):
        ranks([[1, 2], [1, 2]], [0, 2])
    with pytest.raises(MaghubError, match=r"^unknown tie rule 'optimist'. Did you mean optimistic"):
        ranks([[1, 2]], ties=cast("Ties", "optimist"))
    with pytest.raises(MaghubError, match=r"^there are no ranks: nothing can be measured$"):
        mrr([])
    with pytest.raises(MaghubError, match=r"^1 of 2 ranks are NaN, the first in row 1"):
        metrics.get_metric("mrr")([1, np.nan])
    with pytest.raises(MaghubError, match=r"^a rank is 0. Ranks start at 1, see ranks\(\)$"):
        hits_at_k([0, 1], 3)
    with pytest.raises(MaghubError, match=r"^Hits@0 is always 0. Give k of 1 or more$"):
        hits_at_k([1], 0)
