"""Hybrid retrieval: reciprocal rank fusion of BM25 and text vectors (Cormack et al. 2009)."""

from __future__ import annotations

from pydantic import Field

from maghub.baselines.rag._data import Ints, Questions
from maghub.baselines.rag._fusing import reciprocal_ranks
from maghub.baselines.rag._pairs import best_pairs
from maghub.baselines.rag._retriever import Floats, RetrieverConfig
from maghub.baselines.rag.retrievers.bm25 import BM25Config, BM25Retriever
from maghub.baselines.rag.retrievers.text import TextRetriever


class HybridConfig(RetrieverConfig):
    """Settings.

    Attributes:
        constant: What is added to each rank (60 in the paper).
        bm25: Settings of BM25, see ``rag-bm25``.
        depth: How many results of each list are fused, at least as many as are asked for.
    """

    constant: float = Field(default=60.0, gt=0)
    depth: int = Field(default=200, ge=1)
    bm25: BM25Config = BM25Config()


class HybridRetriever(TextRetriever):
    """The sum of 1 / (60 + rank) over the lists of BM25 and of text vectors."""

    Config = HybridConfig
    config: HybridConfig  # type: ignore[assignment]

    def prepare(self) -> None:
        """Both indices."""
        super().prepare()
        self.words = BM25Retriever(self.corpus, self.config.bm25)

    def find(self, questions: Questions, k: int) -> tuple[Floats, Ints]:
        """Best triplets by fused rank."""
        depth = min(len(self.corpus), max(k, self.config.depth))
        lists = [super().find(questions, depth)[1], self.words.find(questions, depth)[1]]
        fused = reciprocal_ranks(lists, len(self.corpus), self.config.constant)
        return best_pairs(*fused, len(questions), k)
