"""The measures themselves: blocks of rows in, numbers out; memory does not grow with the rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from maghub.quality.report import Alignment, Histogram, Neighbours, Retrieval

BLOCK = 512
BINS = 40
Matrix = NDArray[np.floating]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def blocks(rows: int, size: int = BLOCK) -> Iterator[slice]:
    """Consecutive ranges of rows."""
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def zero_rows(matrix: Matrix) -> NDArray[np.bool_]:
    """Which rows are all zero."""
    found = np.empty(len(matrix), bool)
    for part in blocks(len(matrix), 8192):
        found[part] = ~matrix[part].any(axis=1)
    return found


def norms(matrix: Matrix) -> Floats:
    """Euclidean length of each row."""
    found = np.empty(len(matrix))
    for part in blocks(len(matrix)):
        found[part] = np.linalg.norm(matrix[part].astype(np.float64), axis=1)
    return found


def unit(matrix: Matrix) -> NDArray[np.float32]:
    """Rows scaled to length one, in float32; a row of zeros stays one."""
    found = np.empty(matrix.shape, np.float32)
    for part in blocks(len(matrix)):
        rows = matrix[part].astype(np.float32)
        found[part] = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return found


def histogram(values: Floats, low: float | None = None, high: float | None = None) -> Histogram:
    """Counts in equal bins."""
    if not len(values):
        return Histogram(edges=(0.0, 1.0), counts=(0,))
    low = float(values.min()) if low is None else low
    high = float(values.max()) if high is None else high
    if high - low < 1e-3 * max(1.0, abs(high)):  # equal but for rounding: one bar, no noise
        low, high = low - 0.5, high + 0.5
    counts, edges = np.histogram(values, BINS, (low, high))
    return Histogram(edges=tuple(edges.round(6).tolist()), counts=tuple(counts.tolist()))


def duplicates(matrix: Matrix) -> tuple[int, int]:
    """Rows that equal an earlier one, and the most rows that are equal to each other."""
    if not len(matrix):
        return 0, 0
    rows = np.ascontiguousarray(matrix + 0)  # -0 becomes 0
    keys = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel()
    _, counts = np.unique(keys, return_counts=True)
    return int(len(keys) - len(counts)), int(counts.max())


def singular_values(matrix: Matrix) -> Floats:
    """Singular values of the centred matrix, greatest first, from its covariance."""
    rows, width = matrix.shape
    if not rows:
        return np.zeros(0)
    total = np.zeros(width)
    for part in blocks(rows):
        total += matrix[part].astype(np.float64).sum(axis=0)
    mean, scatter = total / rows, np.zeros((width, width))
    for part in blocks(rows):
        centred = matrix[part].astype(np.float64) - mean
        scatter += centred.T @ centred
    values = np.clip(np.linalg.eigvalsh(scatter)[::-1], 0, None)
    return np.asarray(np.sqrt(values))


def effective_rank(values: Floats) -> float:
    """exp of the entropy of singular values taken as shares of their sum; 0 where all are 0."""
    if not values.sum() > 0:
        return 0.0
    shares = values / values.sum()
    shares = shares[shares > 0]
    return float(np.exp(-(shares * np.log(shares)).sum()))


def neighbours(vectors: NDArray[np.float32], labels: Ints, k: int) -> Neighbours | None:
    """Leave-one-out label agreement of the k nearest unit vectors; None below k + 2 rows."""
    rows = len(vectors)
    if rows < k + 2:
        return None
    _, labels = np.unique(labels, return_inverse=True)
    shares = np.bincount(labels) / rows
    agree = right = 0.0
    for part in blocks(rows):
        similar = vectors[part] @ vectors.T
        own = np.arange(part.start, part.stop)
        similar[np.arange(len(own)), own] = -np.inf
        nearest = np.argpartition(-similar, k, axis=1)[:, :k]
        votes = np.zeros((len(own), len(shares)), np.int32)
        np.add.at(votes, (np.arange(len(own))[:, None], labels[nearest]), 1)
        agree += float((labels[nearest] == labels[own][:, None]).mean(axis=1).sum())
        right += float((votes.argmax(axis=1) == labels[own]).sum())
    others = (shares * rows - 1) / (rows - 1)
    return Neighbours(
        k=k,
        rows=rows,
        agreement=agree / rows,
        chance=float((shares * others).sum()),
        accuracy=right / rows,
        majority=float(shares.max()),
    )


def _retrieval(queries: NDArray[np.float32], answers: NDArray[np.float32]) -> Retrieval:
    """Query i looks for answer i among all answers."""
    hits = reciprocal = 0.0
    for part in blocks(len(queries)):
        scores = queries[part] @ answers.T
        own = scores[np.arange(len(scores)), np.arange(part.start, part.stop)][:, None]
        better = (scores > own).sum(axis=1)
        equal = (scores == own).sum(axis=1) - 1
        hits += float((0.5 * (better == 0) + 0.5 * (better + equal == 0)).sum())
        reciprocal += float((0.5 / (1 + better) + 0.5 / (1 + better + equal)).sum())
    return Retrieval(recall_at_1=hits / len(queries), mrr=reciprocal / len(queries))


def alignment(
    texts: NDArray[np.float32], images: NDArray[np.float32], rng: np.random.Generator
) -> Alignment | None:
    """Paired against shuffled cosines of unit vectors, and retrieval both ways; None below 2."""
    if len(texts) < 2:
        return None
    order = rng.permutation(len(texts))
    paired = np.einsum("nd,nd->n", texts, images).astype(np.float64)
    shuffled = np.einsum("nd,nd->n", texts[order], images[np.roll(order, 1)]).astype(np.float64)
    low, high = min(paired.min(), shuffled.min()), max(paired.max(), shuffled.max())
    return Alignment(
        pairs=len(texts),
        paired=float(paired.mean()),
        shuffled=float(shuffled.mean()),
        text_to_image=_retrieval(texts, images),
        image_to_text=_retrieval(images, texts),
        paired_histogram=histogram(paired, float(low), float(high)),
        shuffled_histogram=histogram(shuffled, float(low), float(high)),
    )
