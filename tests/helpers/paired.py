"""A graph whose nodes' texts and images belong together: both are made of one hidden vector."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from maghub.loading import load
from maghub.mag import MAG
from tests.helpers.graphs import Toy, write_toy
from tests.helpers.planted import communities

HIDDEN = 6
WIDTHS = {"text": 10, "image": 8}


def pairs_toy(n: int = 180, noise: float = 0.1, seed: int = 0) -> Toy:
    """``communities`` with other vectors: text = z A + noise, image = z B + noise, z per node."""
    rng = np.random.default_rng(seed)
    toy = communities(n=n, seed=seed, degree=2)
    hidden = rng.standard_normal((n, HIDDEN))
    toy.vectors = {}
    for modality, width in WIDTHS.items():
        made = hidden @ rng.standard_normal((HIDDEN, width))
        made += noise * rng.standard_normal(made.shape)
        toy.vectors[modality] = made.astype(np.float32)
    return toy


def paired(folder: Path, n: int = 180, noise: float = 0.1, seed: int = 0) -> MAG:
    """``pairs_toy`` as a published folder, opened."""
    write_toy(pairs_toy(n, noise, seed), folder)
    return load(folder)
