"""A small made-up benchmark in memory, as retrievers see it, and slow rankings to compare with."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from maghub.baselines.rag._data import Corpus, EntityPictures, Questions, Vectors

DIM = 16


def some(rng: np.random.Generator, n: int, share: float) -> Vectors:
    """Random vectors, of which some rows are missing: zeros."""
    rows = rng.standard_normal((n, DIM)).astype(np.float32)
    has = rng.random(n) < share
    has[0] = True
    rows[~has] = 0
    return Vectors(rows, has)


def corpus_of(seed: int = 0, triplets: int = 120, entities: int = 30, shown: float = 0.5) -> Corpus:
    """Triplets of random entities; names are ``e7`` and ``r1``."""
    rng = np.random.default_rng(seed)
    head, tail = rng.integers(entities, size=(2, triplets))
    head[:entities] = np.arange(entities)
    held = {"text": some(rng, triplets, 1.0), "image": some(rng, triplets, shown)}
    owner = rng.integers(entities, size=2 * entities)
    pictures = EntityPictures(some(rng, 2 * entities, 1.0), owner)
    return Corpus(
        ids=[f"text-{i}" for i in range(triplets)],
        head=head,
        relation=rng.integers(4, size=triplets),
        tail=tail,
        entities=[f"e{i}" for i in range(entities)],
        relations=[f"r{i}" for i in range(4)],
        vectors=held.__getitem__,
        entity_pictures=lambda: pictures,
    )


def questions_of(corpus: Corpus, count: int = 25, seed: int = 1, shown: float = 0.5) -> Questions:
    """Questions that name an entity and a relation, in random words."""
    rng = np.random.default_rng(seed)
    named = rng.integers(len(corpus.entities), size=count)
    texts = [f"what has e{e} by r{rng.integers(4)}?" for e in named]
    held = {"text": some(rng, count, 1.0), "image": some(rng, count, shown)}

    def pictures() -> Iterator[bytes | None]:
        return iter([None] * count)

    return Questions([f"text-{i}" for i in range(count)], texts, held.__getitem__, pictures)


def unit64(rows: np.ndarray) -> np.ndarray:
    """Rows of length 1 in float64; zeros stay."""
    wide = rows.astype(np.float64)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.divide(wide, norms, out=np.zeros_like(wide), where=norms > 0)


def ranked(scores: np.ndarray, k: int) -> np.ndarray:
    """int64 [Q, k]: the best columns of each row, equal ones by column; -inf gives -1."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.where(np.isneginf(np.take_along_axis(scores, order, axis=1)), -1, order)
