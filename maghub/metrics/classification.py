"""How often a classifier is right (scikit-learn does the counting)."""

from __future__ import annotations

from numpy.typing import ArrayLike

from maghub.libraries import library
from maghub.metrics._inputs import class_pair


def accuracy(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Share of right answers, 0..1.

    Args:
        truth: int [N] classes.
        predicted: int [N] classes.

    Raises:
        MaghubError: The vectors are empty, of different lengths, or no classes.
    """
    pair = class_pair(truth, predicted)
    return float(library("sklearn.metrics", "scikit-learn", "metrics").accuracy_score(*pair))


def macro_f1(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Mean over classes of the F1 score, 0..1; a class is one that is true or predicted somewhere.

    A class without a right answer counts 0. Arguments and errors as ``accuracy``.
    """
    pair = class_pair(truth, predicted)
    metrics = library("sklearn.metrics", "scikit-learn", "metrics")
    return float(metrics.f1_score(*pair, average="macro", zero_division=0))
