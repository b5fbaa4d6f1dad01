"""The one seed rule: every random draw comes from a child of one seed, named by what it is for."""

from __future__ import annotations

import hashlib

import numpy as np

from maghub.errors import MaghubError

DEFAULT_SEED = 0


def child_rng(seed: int, *names: str | int) -> np.random.Generator:
    """A numpy Generator that depends only on ``seed`` and ``names``.

    The names (for example ``"node-split", "random-0"`` or ``"graph", 17``) become the spawn key of
    a ``SeedSequence``, so children are independent of each other and of the order they are made in.
    """
    if seed < 0:
        raise MaghubError(f"the seed {seed} is negative", fix="give 0 or more")
    key = hashlib.sha256("\x1f".join(str(name) for name in names).encode()).digest()
    words = np.frombuffer(key[:16], dtype=np.uint32)
    sequence = np.random.SeedSequence(seed, spawn_key=tuple(int(word) for word in words))
    return np.random.Generator(np.random.PCG64(sequence))
