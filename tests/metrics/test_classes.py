"""Classification and clustering metrics: hand cases, torchmetrics, brute force, invariances."""

from __future__ import annotations

import subprocess
import sys
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torchmetrics.functional import classification as tm
from torchmetrics.functional import clustering as tmc

from maghub import metrics
from maghub.errors import MaghubError, MissingExtra

some = settings(max_examples=50, deadline=None)
Labels = NDArray[np.int64]


@st.composite
def labelled(draw: st.DrawFn) -> tuple[Labels, Labels]:
    count = draw(st.integers(1, 40))
    values = st.lists(st.integers(0, 4), min_size=count, max_size=count)
    return np.array(draw(values)), np.array(draw(values))


def test_hand_cases_of_classification() -> None:
    truth, predicted = [0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 2, 2]
    assert metrics.accuracy(truth, predicted) == pytest.approx(4 / 6)
    # F1 of 0: 2*2/(3+2); of 1: 2*1/(2+2); of 2: 2*1/(1+2).
    assert metrics.macro_f1(truth, predicted) == pytest.approx((4 / 5 + 1 / 2 + 2 / 3) / 3)
    # Class 3 is predicted but never true: it counts with F1 0.
    assert metrics.macro_f1([0, 1], [0, 3]) == pytest.approx(1 / 3)
    assert metrics.macro_f1([2, 2], [2, 2]) == metrics.accuracy([2, 2], [2, 2]) == 1


@some
@given(labelled())
def test_classification_equals_torchmetrics(pair: tuple[Labels, Labels]) -> None:
    truth, predicted = map(torch.from_numpy, pair)
    micro = tm.multiclass_accuracy(predicted, truth, 5, average="micro")
    assert metrics.accuracy(*pair) == pytest.approx(micro.item(), abs=1e-6)
    # torchmetrics, too, leaves out classes that are neither true nor predicted.
    macro = tm.multiclass_f1_score(predicted, truth, 5, average="macro")
    assert metrics.macro_f1(*pair) == pytest.approx(macro.item(), abs=1e-6)


def test_hand_cases_of_clustering() -> None:
    truth, named_otherwise = [0, 0, 1, 1], [7, 7, 3, 3]
    for name in ("nmi", "ari", "clustering_accuracy"):
        assert metrics.get_metric(name)(truth, named_otherwise) == pytest.approx(1)
    # One cluster of all says nothing of two classes.
    assert metrics.nmi(truth, [0] * 4) == metrics.ari(truth, [0] * 4) == 0
    assert metrics.clustering_accuracy(truth, [0] * 4) == 0.5
    # Each node its own cluster: I = H(Y) = log 2, H(C) = log 4, so 2 log 2 / (log 2 + log 4).
    assert metrics.nmi(truth, [0, 1, 2, 3]) == pytest.approx(2 / 3)
    # Of 4 clusters two can be named; the two others are wrong.
    assert metrics.clustering_accuracy(truth, [0, 1, 2, 3]) == 0.5
    # Equation 6 by hand: table [[2, 1], [0, 2]], 1+0+0+1 pairs, rows 3+1, columns 1+3, of 10.
    expected = (2 - 16 / 10) / ((4 + 4) / 2 - 16 / 10)
    assert metrics.ari([0, 0, 0, 1, 1], [0, 0, 1, 1, 1]) == pytest.approx(expected)


@some
@given(labelled())
def test_clustering_equals_torchmetrics_and_brute_force(pair: tuple[Labels, Labels]) -> None:
    truth, clusters = pair
    names = range(5)
    best = max(np.mean(np.array(naming)[clusters] == truth) for naming in permutations(names))
    assert metrics.clustering_accuracy(truth, clusters) == pytest.approx(best)
    assume(len(set(truth.tolist())) > 1)
    tensors = torch.from_numpy(clusters), torch.from_numpy(truth)
    nmi = tmc.normalized_mutual_info_score(*tensors, average_method="arithmetic")
    assert metrics.nmi(truth, clusters) == pytest.approx(nmi.item(), abs=1e-5)
    assert metrics.ari(truth, clusters) == pytest.approx(
        tmc.adjusted_rand_score(*tensors).item(), abs=1e-5
    )


@some
@given(labelled(), st.permutations(range(5)), st.integers(0, 99))
def test_order_of_nodes_and_names_of_clusters_change_nothing(
    pair: tuple[Labels, Labels], naming: list[int], seed: int
) -> None:
    truth, clusters = pair
    assume(len(set(truth.tolist())) > 1)
    order = np.random.default_rng(seed).permutation(len(truth))
    for name in ("nmi", "ari", "clustering_accuracy"):
        metric = metrics.get_metric(name)
        value = metric(truth, clusters)
        assert metric(truth[order], clusters[order]) == pytest.approx(value)
        assert metric(truth, np.array(naming)[clusters]) == pytest.approx(value)
    for name in ("accuracy", "macro_f1"):
        metric = metrics.get_metric(name)
        assert metric(truth[order], clusters[order]) == pytest.approx(metric(truth, clusters))


def test_torch_tensors_and_whole_floats_are_classes_too() -> None:
    assert metrics.accuracy(torch.tensor([1, 0]), [1.0, 1.0]) == 0.5
    largest = 2**63 - 1
    assert metrics.accuracy([largest, 0], np.array([largest, 1], np.uint64)) == 0.5
    assert metrics.accuracy([True, False], [1.0, 2.0]) == 0.5


@pytest.mark.parametrize("name", ["accuracy", "macro_f1", "nmi", "ari", "clustering_accuracy"])
def test_bad_classes_are_one_line(name: str) -> None:
    metric = metrics.get_metric(name)
    with pytest.raises(MaghubError, match=r"^2 true classes but 3 predicted classes. Give one for"):
        metric([0, 1], [0, 1, 1])
    with pytest.raises(MaghubError, match=r"^there are no true classes: nothing can be measured$"):
        metric([], [])
    for bad in ([0.5, 1.0], [np.nan, 1.0], ["a", "b"], [np.inf, 1.0], [1e300, 1.0], [2**64 - 1, 0]):
        with pytest.raises(MaghubError, match=r"^predicted classes are not whole numbers. Give"):
            metric([0, 1], bad)
    with pytest.raises(MaghubError, match=r"^predicted classes cannot be made an array \("):
        metric([0, 1], [[0, 1], [2]])
    with pytest.raises(MaghubError, match=r"^predicted classes have the shape \(2, 3\). Give a"):
        metric([0, 1], np.zeros((2, 3)))


@pytest.mark.parametrize("name", ["nmi", "ari"])
def test_agreement_with_a_single_class_is_refused(name: str) -> None:
    with pytest.raises(MaghubError, match=r"^all 3 nodes are of one class: agreement with cluster"):
        metrics.get_metric(name)([4, 4, 4], [0, 1, 0])


def test_metrics_have_names_units_and_directions() -> None:
    assert list(metrics.METRICS) == [metric.name for metric in metrics.METRICS.values()]
    assert all(metric.higher_is_better for metric in metrics.METRICS.values())
    units = {metric.unit for metric in metrics.METRICS.values() if metric.takes == "texts"}
    assert units == {"percent"}
    assert metrics.get_metric("hits@7")([7, 8]) == 0.5
    with pytest.raises(MaghubError, match=r"^unknown metric 'acuracy'. Did you mean accuracy"):
        metrics.get_metric("acuracy")
    with pytest.raises(MaghubError, match=r"^unknown metric 'hits10'. Did you mean hits@10"):
        metrics.get_metric("hits10")
    with pytest.raises(MaghubError, match=r"^hits@0 is always 0. Ask for hits@1 or more"):
        metrics.get_metric("hits@0")


def test_a_missing_library_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.metrics", None)
    with pytest.raises(MissingExtra, match=r"scikit-learn, which is not installed. Run: pip inst"):
        metrics.accuracy([1], [1])


def test_importing_metrics_imports_no_heavy_library() -> None:
    code = (
        "import sys, maghub.metrics as m; m.mrr(m.ranks([[2.0, 1.0]]));"
        "sys.exit(any(x in sys.modules for x in ('torch', 'sklearn', 'sacrebleu', 'nltk')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
