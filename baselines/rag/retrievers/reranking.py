"""Reranking in two stages: candidates by picture, order by text (appendix 10)."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from maghub import layout
from maghub.baselines.rag._data import EntityPictures, Ints, Questions
from maghub.baselines.rag._pairs import Groups, best_pairs, first_distinct, pair_products, unit
from maghub.baselines.rag._retriever import (
    MISSING,
    Floats,
    Retriever,
    RetrieverConfig,
    dense_search,
)
from maghub.search import Index
from maghub.search.backend import faiss_device


class RerankingConfig(RetrieverConfig):
    """Settings.

    Attributes:
        entities: How many nearest heads give the candidates.
    """

    entities: int = Field(default=10, ge=1)


class RerankingRetriever(Retriever):
    """The question's picture finds the nearest head entities; their triplets are the candidates,
    ordered by the cosine of text. Without a picture it is text retrieval."""

    Config = RerankingConfig
    uses = (layout.TEXT, layout.IMAGE)
    config: RerankingConfig

    def prepare(self) -> None:
        """Index the texts of the triplets and the pictures of their heads."""
        text = self.corpus.vectors(layout.TEXT)
        self.texts = unit(text.rows)
        self.index = Index.build(text.rows)
        self.heads = Groups(self.corpus.head, len(self.corpus.entities))
        self.shown = NearestEntities.of(self.corpus.entity_pictures(), np.unique(self.corpus.head))

    def find(self, questions: Questions, k: int) -> tuple[Floats, Ints]:
        """Candidates by picture where there is one, else nearest texts."""
        text, image = questions.vectors(layout.TEXT), questions.vectors(layout.IMAGE)
        seen = image.has if self.shown else np.zeros(len(image.has), bool)
        scores = np.full((len(questions), k), -np.inf, np.float32)
        rows = np.full((len(questions), k), MISSING, np.int64)
        plain, pictured = np.flatnonzero(~seen), np.flatnonzero(seen)
        if len(plain):
            found = dense_search(self.index, text.take(plain), k, self.device)
            width = found[1].shape[1]  # fewer than k where few triplets have a vector
            scores[plain, :width], rows[plain, :width] = found
        if len(pictured) and self.shown:
            own = image.take(pictured)
            entity = self.shown.nearest(own.rows, self.config.entities, self.device)
            query, place = np.nonzero(entity >= 0)
            query, row = self.heads.expand(query, entity[query, place])
            asked = unit(text.rows[pictured])
            products = pair_products(asked, self.texts, query, row)
            scores[pictured], rows[pictured] = best_pairs(query, row, products, len(pictured), k)
        return scores, rows


class NearestEntities:
    """Entities by the nearest of their pictures.

    Args:
        vectors: [P, D] of the pictures.
        entity: int64 [P] that each shows.
    """

    def __init__(self, vectors: Floats, entity: Ints) -> None:
        self.index, self.entity = Index.build(vectors), entity
        self.most = int(np.bincount(entity).max())

    @classmethod
    def of(cls, pictures: EntityPictures, allowed: Ints) -> NearestEntities | None:
        """Those of some entities; None where none of them has a picture."""
        kept = np.flatnonzero(np.isin(pictures.entity, allowed) & pictures.vectors.has)
        if not len(kept):
            return None
        return cls(pictures.vectors.rows[kept], pictures.entity[kept])

    def nearest(self, queries: Floats, k: int, device: str) -> Ints:
        """int64 [Q, n]: the ``k`` nearest different entities in order, -1 in between."""
        # So many pictures surely show k entities.
        width = min(len(self.index), (k - 1) * self.most + 1)
        _, found = self.index.search(queries, width, device=faiss_device(device))
        entity = self.entity[found]
        return np.where(first_distinct(entity, k), entity, MISSING)
