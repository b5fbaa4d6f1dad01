"""The one seed rule: every random draw comes from a child of one seed, named by what it is for."""

from __future__ import annotations

import hashlib

import numpy as np

DEFAULT_SEED = 0


def child_rng(seed: int, *names: str | int) -> np.random.Generator:
    """A numpy Generator that depends only on ``seed`` and ``names``.

    The names (for example ``"node-split", "random-0"`` or ``"graph", 17``) become the spawn key of
    a ``SeedSequence``, so children are independent of each other and of the order they are made in.
    """
    key = hashlib.sha256("\x1f".join(str(name) for name in names).encode()).digest()
    words = np.frombuffer(key[:16], dtype=np.uint32)
    sequence = np.random.SeedSequence(seed, spawn_key=tuple(int(word) for word in words))
    return np.random.Generator(np.random.PCG64(sequence))
