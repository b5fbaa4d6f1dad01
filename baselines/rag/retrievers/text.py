"""Text retrieval: cosine of the question and of "head relation tail" (paper, appendix 10)."""

from __future__ import annotations

from maghub import layout
from maghub.baselines.rag._data import Ints, Questions
from maghub.baselines.rag._retriever import Floats, Retriever, dense_search
from maghub.search import Index


class TextRetriever(Retriever):
    """Exact search among the published text vectors, whatever pictures there are."""

    uses = (layout.TEXT,)

    def prepare(self) -> None:
        """Index the triplets."""
        self.index = Index.build(self.corpus.vectors(layout.TEXT).rows)

    def find(self, questions: Questions, k: int) -> tuple[Floats, Ints]:
        """Nearest triplets by cosine."""
        return dense_search(self.index, questions.vectors(layout.TEXT), k, self.device)
