"""What a retriever sees of a benchmark: questions and triplets, with their vectors and pictures.

Gold ids of a question (its head, relation or tail) and the path of its picture, which names the
head, are never part of what is handed on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Vectors:
    """Vectors of some rows: ``rows`` [N, D], float16 or float32, zeros where ``has`` is False."""

    rows: NDArray[Any]
    has: Bools

    def take(self, at: Ints) -> Vectors:
        """Those of some rows."""
        return Vectors(self.rows[at], self.has[at])


class VectorSource(Protocol):
    """Gives the vectors of a modality, or says which command makes them."""

    def __call__(self, modality: str) -> Vectors:
        """``text`` or ``image`` vectors."""


Pictures = Callable[[], Iterator[bytes | None]]


def no_pictures() -> Iterator[bytes | None]:
    """For what has none."""
    return iter(())


@dataclass(frozen=True)
class Questions:
    """Questions as a retriever sees them.

    Attributes:
        ids: Their published ids.
        texts: What is asked; ``[Image]`` stands for the head in those with a picture.
        vectors: Their published vectors.
        pictures: Their pictures in order, None where there is none.
    """

    ids: Sequence[str]
    texts: Sequence[str]
    vectors: VectorSource
    pictures: Pictures = no_pictures

    def __len__(self) -> int:
        return len(self.texts)

    def part(self, start: int, stop: int) -> Questions:
        """Questions ``start..stop``."""
        at = np.arange(start, min(stop, len(self)))
        return replace(
            self,
            ids=self.ids[start:stop],
            texts=self.texts[start:stop],
            vectors=lambda modality: self.vectors(modality).take(at),
            pictures=lambda: islice(self.pictures(), start, stop),
        )


@dataclass(frozen=True)
class EntityPictures:
    """Vectors [P, D] of pictures, and int64 [P] the entity each of them shows."""

    vectors: Vectors
    entity: Ints


@dataclass(frozen=True)
class Corpus:
    """The triplets that may be found, row i of all arrays being triplet i.

    Attributes:
        ids: Their published ids.
        head, relation, tail: int64 [N] codes of entities and relations.
        entities, relations: Names of the entities and relations with these codes.
        vectors: Published vectors: of "head relation tail", and of the picture of the head.
        entity_pictures: Vectors of the pictures of the entities; of the triplets' own pictures
            where the folder has no others.
        pictures: Pictures of the triplets in order.
        encoders: modality -> encoder whose vectors these are.
    """

    ids: Sequence[str]
    head: Ints
    relation: Ints
    tail: Ints
    entities: Sequence[str]
    relations: Sequence[str]
    vectors: VectorSource
    entity_pictures: Callable[[], EntityPictures]
    pictures: Pictures = no_pictures
    encoders: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.head)

    @cached_property
    def texts(self) -> list[str]:
        """ "head relation tail" of each triplet."""
        return [" ".join(parts) for parts in self.triplets(np.arange(len(self)))]

    def triplets(self, rows: Ints) -> list[tuple[str, str, str]]:
        """Names of head, relation and tail of some triplets."""
        named = zip(self.head[rows], self.relation[rows], self.tail[rows], strict=True)
        return [(self.entities[h], self.relations[r], self.entities[t]) for h, r, t in named]


@dataclass(frozen=True)
class Opened:
    """A setting of a benchmark: what retrievers see, and apart from it what they must find.

    Attributes:
        questions: What is asked.
        corpus: What may be found.
        query, relevant: int64 [n] each: question and triplet of every relevance judgement whose
            triplet may be found.
        query_rows: int64 [Q]: rows of the questions in the folder's ``queries``.
        unreachable: Judgements whose triplet the setting leaves out; they still count as missed.
    """

    questions: Questions
    corpus: Corpus
    query: Ints
    relevant: Ints
    query_rows: Ints
    unreachable: Ints
