"""Graphs whose answers are known: communities with features of their own, written for real."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from maghub.loading import load
from maghub.mag import MAG
from tests.helpers.graphs import LABELS, Toy, write_toy

ENCODER = {"text": "toy-encoder", "image": "toy-encoder"}
CLASSES, WIDTH = len(LABELS), 8


def communities(
    n: int = 240, noise: float = 0.3, seed: int = 0, *, shuffle: bool = False, degree: int = 4
) -> Toy:
    """Three communities, edges inside them only; features are one-hot classes plus noise.

    Args:
        n: Nodes.
        noise: Standard deviation of what is added to the one-hot features.
        seed: Of everything.
        shuffle: Whether the labels shown have nothing to do with features and edges.
        degree: Edges drawn per node.
    """
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % CLASSES
    src = np.repeat(np.arange(n), degree)
    dst = (src + CLASSES * rng.integers(1, max(2, n // CLASSES), len(src))) % n
    proper = src != dst
    pairs = np.stack([np.minimum(src, dst), np.maximum(src, dst)])[:, proper]
    vectors = {}
    for modality in ("text", "image"):
        x = np.zeros((n, WIDTH), np.float32)
        x[np.arange(n), labels] = 1
        vectors[modality] = x + noise * rng.standard_normal(x.shape, dtype=np.float32)
    shown = rng.permutation(labels) if shuffle else labels
    return Toy(
        texts=[f"node {i}" for i in range(n)],
        labels=shown.tolist(),
        images=None,
        edges=[(int(a), int(b), 0) for a, b in np.unique(pairs, axis=1).T],
        codes=rng.permutation(np.repeat([0, 1, 2], [n // 2, n // 4, n - n // 2 - n // 4])).tolist(),
        vectors=vectors,
        negatives=20,
        seed=seed,
    )


def planted(folder: Path, noise: float = 0.3, **options: int | bool) -> MAG:
    """``communities`` as a published folder, opened."""
    write_toy(communities(noise=noise, **options), folder)  # type: ignore[arg-type]
    return load(folder)
