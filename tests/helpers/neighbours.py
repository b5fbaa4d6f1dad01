"""Mutual nearest neighbours, row by row with exact sums."""

from __future__ import annotations

import math

import numpy as np


def mutual_by_hand(vectors: np.ndarray, k: int) -> dict[tuple[int, int], float]:
    """(a, b) with a < b -> cosine; equal cosines (to nine decimals) prefer the lower id."""
    rows = [[float(x) for x in row] for row in vectors]
    length = [math.sqrt(math.fsum(x * x for x in row)) for row in rows]

    def cosine(a: int, b: int) -> float:
        dot = math.fsum(x * y for x, y in zip(rows[a], rows[b], strict=True))
        return round(dot / (length[a] * length[b]), 9)

    live = [node for node in range(len(rows)) if length[node]]
    near = {
        a: sorted((b for b in live if b != a), key=lambda b, a=a: (-cosine(a, b), b))[:k]
        for a in live
    }
    return {(a, b): cosine(a, b) for a in live for b in near[a] if a < b and a in near[b]}
