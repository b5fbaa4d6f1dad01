"""Mean and deviation over seeds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeGuard

import numpy as np

from maghub.reporting.model import Statistic

LARGEST = 1e100
"""What is beyond measures nothing, and its square would be no number."""


def is_number(value: float | None) -> TypeGuard[float]:
    """Whether a value can be averaged and drawn: finite, and no larger than ``LARGEST``."""
    return value is not None and -LARGEST <= value <= LARGEST


def statistic(values: Iterable[float | None]) -> Statistic | None:
    """Mean and sample standard deviation (n - 1) of what ``is_number``; None without one."""
    kept = np.array([v for v in values if is_number(v)], dtype=np.float64)
    if not len(kept):
        return None
    std = float(kept.std(ddof=1)) if len(kept) > 1 else None
    return Statistic(mean=float(kept.mean()), std=std, n=len(kept))
