"""Graph-aware retrieval: entities of the question, their triplets, personalised PageRank, text.

No released code has it; the paper's findings ask for it (4.2, 4.3). Everything is done for blocks
of questions: links by name in a trie, links by picture and texts through FAISS, the walk as
products of one sparse matrix.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field
from scipy import sparse

from maghub import layout
from maghub.baselines.rag._data import Ints, Questions
from maghub.baselines.rag._pairs import Groups, best_pairs, distinct, listed, pair_products, unit
from maghub.baselines.rag._retriever import Floats, RetrieverConfig
from maghub.baselines.rag.linking import NameLinker
from maghub.baselines.rag.retrievers.reranking import NearestEntities
from maghub.baselines.rag.retrievers.text import TextRetriever
from maghub.errors import MaghubError

_BLOCK = 256


class GraphConfig(RetrieverConfig):
    """Settings; chosen on the validation split of the benchmark made of MarKG by rules.

    Attributes:
        restart: Probability of going back to the question's entities at each step.
        steps: Steps of the walk.
        weight: What the walk counts beside the cosine of text: the best triplet of a question
            gets so much more than one that the walk never reaches.
        tail: What a walker at the tail of a triplet counts beside one at its head: questions are
            about heads, which are never masked.
        depth: Nearest texts that are candidates beside the triplets of linked entities.
        pictured: Entities that a question's picture is linked to.
        guessed: Nearest texts whose entities are taken where a question names none.
    """

    restart: float = Field(default=0.8, gt=0, le=1)
    steps: int = Field(default=2, ge=1)
    weight: float = Field(default=0.2, ge=0)
    tail: float = Field(default=0.5, ge=0)
    depth: int = Field(default=100, ge=1)
    pictured: int = Field(default=10, ge=0)
    guessed: int = Field(default=5, ge=0)


class GraphRetriever(TextRetriever):
    """Cosine of text plus what a walk from the question's entities leaves at a triplet.

    The walk goes from an entity to one of its triplets, all equally probable, and from a triplet to
    one of its two ends; its end after a few steps, with restarts, is personalised PageRank. So a
    triplet of a rare entity, or one that joins two entities of the question, gets more than one of
    the thousands of a hub. Entities of a question are those it names, those its picture resembles,
    else those of its nearest texts; the gold ids are never seen.
    """

    Config = GraphConfig
    may_use = (layout.IMAGE,)
    config: GraphConfig  # type: ignore[assignment]

    def prepare(self) -> None:
        """Index the texts, the names and, where there are any, the pictures; lay out the walk."""
        super().prepare()
        corpus, count = self.corpus, len(self.corpus.entities)
        self.texts = unit(corpus.vectors(layout.TEXT).rows)
        self.linker = NameLinker(corpus.entities)
        ends = np.concatenate([corpus.head, corpus.tail])
        self.around = Groups(ends, count)
        # A self loop is two ends of one triplet, so that each end still carries half of it.
        degree = np.bincount(ends, minlength=count)
        self.share = (1.0 / np.maximum(degree, 1)).astype(np.float32)
        rows = np.concatenate([corpus.head, corpus.tail, corpus.head, corpus.tail])
        columns = np.concatenate([corpus.head, corpus.head, corpus.tail, corpus.tail])
        step = (0.5 * self.share[columns]).astype(np.float32)
        self.walk = sparse.csr_matrix((step, (rows, columns)), shape=(count, count))
        self.shown = self._pictures() if self.config.pictured else None

    def _pictures(self) -> NearestEntities | None:
        """Entities by their pictures; None where the folder has no vectors of these."""
        try:
            pictures = self.corpus.entity_pictures()
        except MaghubError:
            return None
        return NearestEntities.of(pictures, np.arange(len(self.corpus.entities)))

    def find(self, questions: Questions, k: int) -> tuple[Floats, Ints]:
        """Best candidates, block by block."""
        parts = [
            self._find(questions.part(start, start + _BLOCK), k)
            for start in range(0, len(questions), _BLOCK)
        ]
        scores, rows = (np.concatenate(own) for own in zip(*parts, strict=True))
        return scores, rows

    def _find(self, questions: Questions, k: int) -> tuple[Floats, Ints]:
        count, width = len(questions), len(self.corpus)
        near = super().find(questions, min(max(k, self.config.depth), width))[1]
        query, entity = self._linked(questions, near)
        mass = self._walked(query, entity, count)
        owner, end = self.around.expand(query, entity)
        listed_query, listed_row, _ = listed(near)
        pair_query, pair_row = distinct(
            np.concatenate([listed_query, owner]),
            np.concatenate([listed_row, end % width]),
            width,
        )
        asked = unit(questions.vectors(layout.TEXT).rows)
        score = pair_products(asked, self.texts, pair_query, pair_row)
        score += self.config.weight * self._left(mass, pair_query, pair_row, count)
        return best_pairs(pair_query, pair_row, score, count, k)

    def _linked(self, questions: Questions, near: Ints) -> tuple[Ints, Ints]:
        """(question, entity) by name, by picture, or of the nearest texts, each pair once."""
        count, entities = len(questions), len(self.corpus.entities)
        links = self.linker.link(questions.texts)
        query, entity = [links.query], [links.entity]
        if self.shown is not None:
            image = questions.vectors(layout.IMAGE)
            seen = np.flatnonzero(image.has)
            if len(seen):
                found = self.shown.nearest(image.rows[seen], self.config.pictured, self.device)
                at, place = np.nonzero(found >= 0)
                query.append(seen[at])
                entity.append(found[at, place])
        without = np.ones(count, bool)
        without[np.concatenate(query)] = False
        lost = np.flatnonzero(without)
        at, row, _ = listed(near[lost, : self.config.guessed])
        query += [lost[at], lost[at]]
        entity += [self.corpus.head[row], self.corpus.tail[row]]
        return distinct(np.concatenate(query), np.concatenate(entity), entities)

    def _walked(self, query: Ints, entity: Ints, count: int) -> Floats:
        """float32 [E, Q]: where walkers from the entities of each question are after all steps."""
        linked = np.bincount(query, minlength=count)
        start = np.zeros((len(self.corpus.entities), count), np.float32)
        start[entity, query] = 1.0 / linked[query]
        mass, restart = start, np.float32(self.config.restart)
        for _ in range(self.config.steps):
            mass = restart * start + (1 - restart) * (self.walk @ mass)
        return mass

    def _left(self, mass: Floats, query: Ints, row: Ints, count: int) -> Floats:
        """float32 [pairs]: what the walk leaves at triplets, 1 for the best of a question."""
        head, tail = self.corpus.head[row], self.corpus.tail[row]
        left = mass[head, query] * self.share[head]
        left += np.float32(self.config.tail) * mass[tail, query] * self.share[tail]
        best = np.zeros(count, np.float32)
        np.maximum.at(best, query, left)
        return np.divide(left, np.where(best > 0, best, 1)[query], dtype=np.float32)
