"""What rankings are compared with: every rank being equally likely."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def chance(candidates: int, ks: Sequence[int] = ()) -> dict[str, float]:
    """Expected MRR and Hits@K of one true candidate at a random rank.

    Args:
        candidates: Number of candidates, the true one included.
        ks: The K of ``random_hits@K``.
    """
    expected = {"random_mrr": float(np.mean(1 / np.arange(1, candidates + 1)))}
    return expected | {f"random_hits@{k}": min(1.0, k / candidates) for k in ks}
