"""How well a retriever ranks the triplets that answer a question (paper, 4.2)."""

from __future__ import annotations

import numpy as np

from maghub.baselines.rag._data import Opened
from maghub.baselines.rag._retriever import RetrieverConfig
from maghub.baselines.rag._task import KGTask, Measured
from maghub.baselines.rag.ranking import CUTS, ranking_metrics
from maghub.errors import MaghubError


class KGRetrieval(KGTask):
    """NDCG, precision and recall at 5 to 100 on the questions of a setting."""

    name = "kg-retrieval"

    def check(self) -> None:
        """A retriever that finds nothing cannot be measured."""
        if not self.kind.evidence:
            raise MaghubError(
                f"{self.request.model} retrieves nothing",
                fix="use it with --task kg-generation, or choose another retriever",
            )

    def measure(self, opened: Opened, config: RetrieverConfig) -> Measured:
        """Rank once, all questions together."""
        _, rows = self.retriever(opened, config).search(opened.questions, max(CUTS))
        return Measured(measured(opened, rows), controls=chance(opened))


def measured(opened: Opened, rows: np.ndarray) -> dict[str, float]:
    """The metrics of rankings [Q, n] of an opened setting."""
    lost = opened.unreachable
    query = np.concatenate([opened.query, lost])
    relevant = np.concatenate([opened.relevant, -2 - np.arange(len(lost))])
    return ranking_metrics(rows, query, relevant)


def chance(opened: Opened) -> dict[str, float]:
    """Recall of a random order, which is K / N."""
    n = len(opened.corpus)
    return {f"chance_recall@{k}": min(1.0, k / n) for k in (10, 100)}
