"""A cross-encoder reads question and triplet together and reorders the best of a first stage."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field

from maghub.baselines.rag._data import Ints, Questions
from maghub.baselines.rag._pairs import listed
from maghub.baselines.rag._retriever import Floats, Retriever, RetrieverConfig, get_retriever
from maghub.baselines.rag._words import asked_text
from maghub.errors import MaghubError
from maghub.libraries import library, loading


class CrossEncoderConfig(RetrieverConfig):
    """Settings.

    Attributes:
        encoder: Folder or Hub id of any sentence-transformers cross-encoder.
        first: The retriever of the first stage.
        depth: How many of its triplets are read; those after them keep their order.
        batch_size: Pairs at once.
    """

    encoder: str = "cross-encoder/ms-marco-MiniLM-L6-v2"
    first: Literal["rag-hybrid", "rag-text", "rag-bm25"] = "rag-hybrid"
    depth: int = Field(default=50, ge=1)
    batch_size: int = Field(default=64, ge=1)


class CrossEncoderRetriever(Retriever):
    """The first ``depth`` triplets of the first stage in the order of the cross-encoder."""

    Config = CrossEncoderConfig
    config: CrossEncoderConfig
    uses = ("text",)

    def prepare(self) -> None:
        """Load the model and build the first stage."""
        self.model = load_cross_encoder(self.config.encoder, self.device)
        kind = get_retriever(self.config.first)
        self.first = kind(self.corpus, seed=self.seed, device=self.device)

    def find(self, questions: Questions, k: int) -> tuple[Floats, Ints]:
        """Rerank; all pairs go through the model in batches of equal length."""
        depth = min(len(self.corpus), self.config.depth)
        _, rows = self.first.search(questions, max(k, depth))
        query, row, place = listed(rows[:, :depth])
        asked = [asked_text(text) for text in questions.texts]
        texts = self.corpus.texts
        pairs = [(asked[q], texts[r]) for q, r in zip(query.tolist(), row.tolist(), strict=True)]
        read = np.full((len(questions), depth), -np.inf, np.float32)
        if pairs:
            said = self.model.predict(
                pairs, batch_size=self.config.batch_size, show_progress_bar=False
            )
            read[query, place] = np.asarray(said, np.float32).reshape(-1)
        order = np.argsort(-read, axis=1, kind="stable")
        read = np.take_along_axis(read, order, axis=1)
        rows[:, :depth] = np.take_along_axis(rows[:, :depth], order, axis=1)
        # What was not read comes after all that was, in steps of one.
        worst = np.where(np.isfinite(read), read, np.inf).min(axis=1, keepdims=True)
        later = np.where(np.isfinite(worst), worst, 0) - 1 - np.arange(rows.shape[1] - depth)
        scores = np.concatenate([read, later.astype(np.float32)], axis=1)
        return np.where(rows >= 0, scores, -np.inf)[:, :k], rows[:, :k]


def load_cross_encoder(path: str, device: str) -> Any:
    """The model.

    Raises:
        MaghubError: It cannot be loaded, or gives several numbers for a pair.
        MissingExtra: sentence-transformers is not installed.
    """
    library_ = library("sentence_transformers", "sentence-transformers", "rag")
    with loading(path, "give a folder of a cross-encoder with --set encoder=FOLDER, or a Hub id"):
        model = library_.CrossEncoder(path, device=None if device == "auto" else device)
    if model.num_labels != 1:
        raise MaghubError(
            f"gives {model.num_labels} numbers for a pair and not one",
            where=path,
            fix="take a cross-encoder made for ranking",
        )
    return model
