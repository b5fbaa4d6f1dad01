"""BM25, the lexical baseline, by the library bm25s (Lucene's variant)."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field

from maghub.baselines.rag._data import Ints, Questions
from maghub.baselines.rag._pairs import best_pairs, listed
from maghub.baselines.rag._retriever import MISSING, Floats, Retriever, RetrieverConfig
from maghub.baselines.rag._words import asked_text
from maghub.errors import MaghubError
from maghub.libraries import library

_MARGIN = 8


class BM25Config(RetrieverConfig):
    """Settings.

    Attributes:
        k1: How soon another occurrence of a word stops to count.
        b: How much long texts are held back.
        stopwords: Language whose common words are left out; None for no language.
    """

    k1: float = Field(default=1.5, ge=0)
    b: float = Field(default=0.75, ge=0, le=1)
    stopwords: str | None = "english"


class BM25Retriever(Retriever):
    """Words that question and "head relation tail" share; a triplet that shares none is not found.
    Equal scores come in the order of the corpus, but which of them are cut off is left to bm25s."""

    Config = BM25Config
    config: BM25Config

    def prepare(self) -> None:
        """Index the texts of the triplets."""
        self._bm25s = library("bm25s", "bm25s", "rag")
        self._check_stopwords()
        self.model = self._bm25s.BM25(k1=self.config.k1, b=self.config.b)
        tokens = self._tokens(self.corpus.texts)
        self.wordless = not any(tokens.ids)  # names of single letters, signs or stopwords alone
        if not self.wordless:
            self.model.index(tokens, show_progress=False)

    def find(self, questions: Questions, k: int) -> tuple[Floats, Ints]:
        """Best triplets by BM25."""
        if self.wordless:
            shape = (len(questions), k)
            return np.full(shape, -np.inf, np.float32), np.full(shape, MISSING, np.int64)
        asked = self._tokens([asked_text(text) for text in questions.texts], words=True)
        width = min(len(self.corpus), k + _MARGIN)
        rows, scores = self.model.retrieve(asked, k=width, show_progress=False, n_threads=0)
        rows = np.where(scores > 0, rows.astype(np.int64), MISSING)
        query, row, place = listed(rows)
        return best_pairs(query, row, scores[query, place], len(questions), k)

    def _check_stopwords(self) -> None:
        try:
            self._tokens(["a word"])
        except ValueError as error:
            fix = "name a language in English, e.g. german, or give null for none"
            raise MaghubError(f"setting stopwords: {error}", fix=fix) from None

    def _tokens(self, texts: list[str], words: bool = False) -> Any:
        return self._bm25s.tokenize(
            texts,
            stopwords=self.config.stopwords or [],
            return_ids=not words,
            show_progress=False,
        )
