"""What all metrics check of their input."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maghub.errors import MaghubError, first_line

_LARGEST = 2.0**53
"""Whole numbers below it are exact in float64."""


def class_pair(truth: ArrayLike, predicted: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Two int64 vectors of whole numbers of one length, at least 1.

    Raises:
        MaghubError: They are something else.
    """
    pair = _array(truth, "true classes"), _array(predicted, "predicted classes")
    for name, values in zip(("true", "predicted"), pair, strict=True):
        if values.ndim != 1:
            raise MaghubError(f"{name} classes have the shape {values.shape}", fix="give a vector")
        if values.size and not _whole(values):
            raise MaghubError(
                f"{name} classes are not whole numbers", fix="give class ids, not scores"
            )
    same_length(len(pair[0]), len(pair[1]), "true classes", "predicted classes")
    return pair[0].astype(np.int64), pair[1].astype(np.int64)


def _array(values: ArrayLike, what: str) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:  # rows of unequal lengths, and whatever else
        what = f"{what} cannot be made an array ({first_line(error)})"
        raise MaghubError(what, fix="give numbers, every row of one length") from None


def same_length(first: int, second: int, first_name: str, second_name: str) -> None:
    """Refuse two lengths that differ, or both 0."""
    if first != second:
        raise MaghubError(
            f"{first:,} {first_name} but {second:,} {second_name}", fix="give one for each"
        )
    if first == 0:
        raise MaghubError(f"there are no {first_name}: nothing can be measured")


def numbers(values: ArrayLike, what: str, ndim: int) -> NDArray[Any]:
    """A non-empty array of real numbers with ``ndim`` dimensions and no NaN.

    Raises:
        MaghubError: It is something else.
    """
    array = _array(values, what)
    if array.ndim != ndim or array.dtype.kind not in "biuf":
        kind = "a matrix" if ndim == 2 else "a vector"
        raise MaghubError(
            f"{what} are {array.dtype} of shape {array.shape}", fix=f"give {kind} of numbers"
        )
    if array.size == 0:
        raise MaghubError(f"there are no {what}: nothing can be measured")
    if array.dtype.kind == "f":
        bad = np.isnan(array)
        if bad.any():
            row = int(np.argwhere(bad)[0, 0])
            raise MaghubError(
                f"{int(bad.sum()):,} of {bad.size:,} {what} are NaN, the first in row {row}",
                fix="look for a diverged training run",
            )
    return array


def _whole(values: NDArray[Any]) -> bool:
    if values.dtype.kind in "bi":
        return True
    if values.dtype.kind == "u":
        return bool(values.max() <= np.iinfo(np.int64).max)
    if values.dtype.kind != "f":
        return False
    return bool(((np.abs(values) < _LARGEST) & (values == np.floor(values))).all())
