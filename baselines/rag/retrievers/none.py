"""No retrieval: the baseline of generation without evidence."""

from __future__ import annotations

import numpy as np

from maghub.baselines.rag._data import Ints, Questions
from maghub.baselines.rag._retriever import MISSING, Floats, Retriever


class NoEvidence(Retriever):
    """Finds nothing; the generator answers from what it knows (paper, 4.3: RAG-free)."""

    evidence = False

    def find(self, questions: Questions, k: int) -> tuple[Floats, Ints]:
        """Nothing."""
        shape = (len(questions), k)
        return np.full(shape, -np.inf, np.float32), np.full(shape, MISSING, np.int64)
