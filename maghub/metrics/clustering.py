"""Agreement of clusters with classes, whatever the clusters are called."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maghub.errors import MaghubError
from maghub.libraries import library
from maghub.metrics._inputs import class_pair


def nmi(truth: ArrayLike, clusters: ArrayLike) -> float:
    """Normalised mutual information 2 I / (H + H), 0..1 (OpenMAG, equation 5).

    Args:
        truth: int [N] classes.
        clusters: int [N] clusters.

    Raises:
        MaghubError: The vectors are empty, of different lengths or no classes, or all nodes are of
            one class, where agreement means nothing.
    """
    metrics = library("sklearn.metrics", "scikit-learn", "metrics")
    pair = _several_classes(truth, clusters)
    return float(metrics.normalized_mutual_info_score(*pair, average_method="arithmetic"))


def ari(truth: ArrayLike, clusters: ArrayLike) -> float:
    """Adjusted Rand index, -0.5..1, 0 in expectation for random clusters (OpenMAG, equation 6).

    Arguments and errors as ``nmi``.
    """
    metrics = library("sklearn.metrics", "scikit-learn", "metrics")
    return float(metrics.adjusted_rand_score(*_several_classes(truth, clusters)))


def clustering_accuracy(truth: ArrayLike, clusters: ArrayLike) -> float:
    """Accuracy under the best one-to-one naming of clusters by classes (Hungarian method), 0..1.

    With more clusters than classes the clusters left over count as wrong. Arguments as ``nmi``.

    Raises:
        MaghubError: The vectors are empty, of different lengths, or no classes.
    """
    from scipy.optimize import linear_sum_assignment  # 0.2 s that a report need not wait for

    pair = class_pair(truth, clusters)
    table = library("sklearn.metrics.cluster", "scikit-learn", "metrics").contingency_matrix(*pair)
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / len(pair[0]))


def _several_classes(truth: ArrayLike, clusters: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    pair = class_pair(truth, clusters)
    if len(np.unique(pair[0])) < 2:
        raise MaghubError(
            f"all {len(pair[0]):,} nodes are of one class: agreement with clusters is undefined",
            fix="choose nodes of at least two classes",
        )
    return pair
