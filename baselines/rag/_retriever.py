"""The retriever contract. A new retriever is one file and one entry point in ``maghub.retrievers``.

``__init__`` takes the triplets and builds what it searches with; ``search`` takes many questions at
once. Both see what ``_data`` hands on, and nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from maghub import registry
from maghub.baselines.rag._data import Corpus, Ints, Questions, Vectors
from maghub.errors import MaghubError
from maghub.search import Index
from maghub.search.backend import faiss_device

Floats = NDArray[np.float32]
MISSING = -1
"""Where a retriever finds fewer than it is asked for."""


class RetrieverConfig(BaseModel):
    """Settings of a retriever; the base has none."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Retriever(ABC):
    """Finds triplets for questions.

    Args:
        corpus: What may be found.
        config: An instance of ``Config``.
        seed: Seed of what is drawn.
        device: torch device of models that it runs.

    Raises:
        MaghubError: The folder lacks what it needs; says which command makes it.
    """

    Config: ClassVar[type[RetrieverConfig]] = RetrieverConfig
    uses: ClassVar[tuple[str, ...]] = ()
    """Modalities whose published vectors it reads."""
    may_use: ClassVar[tuple[str, ...]] = ()
    """Those that it reads where there are any."""
    seeded: ClassVar[bool] = False
    """Whether the seed changes what it finds."""
    evidence: ClassVar[bool] = True
    """Whether it finds anything at all."""

    def __init__(
        self,
        corpus: Corpus,
        config: RetrieverConfig | None = None,
        *,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.corpus, self.seed, self.device = corpus, seed, device
        self.config = config or self.Config()
        self.prepare()

    def prepare(self) -> None:  # noqa: B027 - nothing is needed by default
        """Build what is searched with; called once."""

    @abstractmethod
    def find(self, questions: Questions, k: int) -> tuple[Floats, Ints]:
        """``search`` for 1 <= k <= len(corpus) and at least one question."""

    def search(self, questions: Questions, k: int) -> tuple[Floats, Ints]:
        """The ``k`` best triplets of each question, best first.

        Args:
            questions: Any number of them.
            k: How many, at least 1; more than there are triplets give what there is.

        Returns:
            Scores float32 [Q, k] and rows of the corpus int64 [Q, k]; -inf and -1 where fewer
            were found.
        """
        if k < 1:
            raise MaghubError(f"{k} triplets cannot be found", fix="give a k of 1 or more")
        scores = np.full((len(questions), k), -np.inf, np.float32)
        rows = np.full((len(questions), k), MISSING, np.int64)
        if len(questions):
            found = self.find(questions, min(k, len(self.corpus)))
            width = found[1].shape[1]
            scores[:, :width], rows[:, :width] = found
        return scores, rows


def dense_search(
    index: Index, vectors: Vectors, k: int, device: str = "auto"
) -> tuple[Floats, Ints]:
    """``Index.search`` of questions some of which may have no vector: they find nothing.

    Args:
        index: Over the triplets.
        vectors: Of the questions.
        k: How many; fewer where the index holds fewer.
        device: ``cpu`` keeps FAISS off the GPU.
    """
    width = min(k, len(index))
    scores = np.full((len(vectors.has), width), -np.inf, np.float32)
    rows = np.full((len(vectors.has), width), MISSING, np.int64)
    asked = np.flatnonzero(vectors.has)
    if len(asked) == len(vectors.has):
        return index.search(vectors.rows, width, device=faiss_device(device))
    if len(asked):
        found = index.search(vectors.rows[asked], width, device=faiss_device(device))
        scores[asked], rows[asked] = found
    return scores, rows


def get_retriever(name: str) -> type[Retriever]:
    """The registered retriever.

    Raises:
        MaghubError: Unknown name (the nearest models and retrievers are given), or it is none.
    """
    found = registry.get("retrievers", name)
    if not (isinstance(found, type) and issubclass(found, Retriever)):
        raise MaghubError(f"{name} is no retriever", fix="choose another one, e.g. rag-text")
    return found
