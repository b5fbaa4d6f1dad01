"""Triplets drawn at random: what retrieval is worth by itself (paper, 4.2)."""

from __future__ import annotations

import numpy as np

from maghub.baselines.rag._data import Ints, Questions
from maghub.baselines.rag._retriever import Floats, Retriever
from maghub.seeding import child_rng

_DRAWN = 1 << 22


class RandomRetriever(Retriever):
    """``k`` different triplets for each question, all equally probable.

    What a batch of questions gets depends on the seed and on its first question alone.
    """

    seeded = True

    def find(self, questions: Questions, k: int) -> tuple[Floats, Ints]:
        """The triplets with the ``k`` largest of numbers drawn for all of them."""
        rng = child_rng(self.seed, "rag-random", str(questions.ids[0]))
        n = len(self.corpus)
        scores = np.empty((len(questions), k), np.float32)
        rows = np.empty((len(questions), k), np.int64)
        step = max(1, _DRAWN // n)
        for start in range(0, len(questions), step):
            drawn = rng.random((min(step, len(questions) - start), n), dtype=np.float32)
            part = slice(start, start + len(drawn))
            best = np.argpartition(-drawn, k - 1, axis=1)[:, :k]
            values = np.take_along_axis(drawn, best, axis=1)
            order = np.argsort(-values, axis=1, kind="stable")
            rows[part] = np.take_along_axis(best, order, axis=1)
            scores[part] = np.take_along_axis(values, order, axis=1)
        return scores, rows
