"""Queries per second with cached vectors and a warm start (paper, appendix 11)."""

from __future__ import annotations

import time
from collections.abc import Callable

from pydantic import Field

from maghub.baselines.rag._data import Opened, Questions, Vectors
from maghub.baselines.rag._retriever import Retriever, RetrieverConfig
from maghub.baselines.rag._task import KGTaskConfig, Measured
from maghub.baselines.rag.tasks.retrieval import KGRetrieval


class KGEfficiencyConfig(KGTaskConfig):
    """Settings.

    Attributes:
        k: Triplets asked for.
        batch: Questions searched for together; the online number is one at a time.
        online: Questions of the online number.
        repeats: The fastest of so many passes counts.
    """

    k: int = Field(default=10, ge=1)
    batch: int = Field(default=256, ge=1)
    online: int = Field(default=100, ge=1)
    repeats: int = Field(default=3, ge=1)


class KGEfficiency(KGRetrieval):
    """``batched_qps`` in batches, ``online_qps`` one question after the other.

    Vectors of questions and triplets are in memory, indices built and used once, before the clock
    starts; writing captions and encoding are not part of it.
    """

    name = "kg-efficiency"
    Config = KGEfficiencyConfig
    config: KGEfficiencyConfig

    def measure(self, opened: Opened, config: RetrieverConfig) -> Measured:
        """Time both ways."""
        own, retriever = self.config, self.retriever(opened, config)
        questions = cached(opened.questions, self.kind.uses)
        few = questions.part(0, own.online)
        batched = self._fastest(lambda: _search(retriever, questions, own.k, own.batch))
        online = self._fastest(lambda: _search(retriever, few, own.k, 1))
        metrics = {"batched_qps": len(questions) / batched, "online_qps": len(few) / online}
        return Measured(metrics, notes=[f"batches of {own.batch}, k {own.k}"])

    def _fastest(self, work: Callable[[], None]) -> float:
        work()
        times = []
        for _ in range(self.config.repeats):
            begin = time.perf_counter()
            work()
            times.append(time.perf_counter() - begin)
        return min(times)


def cached(questions: Questions, modalities: tuple[str, ...]) -> Questions:
    """The questions with their vectors in memory."""
    kept: dict[str, Vectors] = {}
    for modality in modalities:
        own = questions.vectors(modality)
        kept[modality] = Vectors(own.rows[:].copy(), own.has)

    def vectors(modality: str) -> Vectors:
        return kept[modality] if modality in kept else questions.vectors(modality)

    return Questions(questions.ids, questions.texts, vectors, questions.pictures)


def _search(retriever: Retriever, questions: Questions, k: int, batch: int) -> None:
    for start in range(0, len(questions), batch):
        retriever.search(questions.part(start, start + batch), k)
