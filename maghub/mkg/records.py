"""Records of a retrieval benchmark made from a knowledge graph: typed rows, whole tables of them.

One record is a frozen dataclass; all records of a benchmark are five Arrow tables in ``Records``,
whose columns are those of the published configs (``maghub.schema.retrieval_columns``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import ClassLabel, Features
from numpy.typing import NDArray

from maghub import layout, schema
from maghub.errors import MaghubError
from maghub.spec import Kind

Mask = Literal["tail", "relation"]
Picture = Callable[[str], bytes | None]
"""The bytes of a picture by its path; None where there is none. Picklable for several workers."""
Place = Callable[[int], str]
"""Where row i of a table comes from, e.g. ``train/text_queries.jsonl, row 7``."""
Ints = NDArray[np.int64]


def record_id(number: int, *, multimodal: bool) -> str:
    """Published id of a query or triplet: ``text-12`` or ``mm-7``, whose numbers overlap upstream.

    Example:
        >>> record_id(7, multimodal=True)
        'mm-7'
    """
    return f"{layout.MM_ID if multimodal else layout.TEXT_ID}{number}"


@dataclass(frozen=True, slots=True)
class Triplet:
    """A document of the corpus: one triplet, in ids and in words.

    Attributes:
        image_path: Path of the head's picture (a key of the pictures), None for text triplets.
    """

    id: str
    head_id: str
    rel_id: str
    tail_id: str
    head_text: str
    rel_text: str
    tail_text: str
    image_path: str | None = None

    @property
    def is_multimodal(self) -> bool:
        """Whether it belongs to the multimodal part of the corpus."""
        return self.id.startswith(layout.MM_ID)

    @property
    def text(self) -> str:
        """Head, relation and tail in words; one without words is left out."""
        return " ".join(filter(None, (self.head_text, self.rel_text, self.tail_text)))


@dataclass(frozen=True, slots=True)
class Query:
    """A question about the masked part of a triplet.

    Attributes:
        text: The question; a multimodal one calls its head ``[Image]``.
        masked: The part asked for.
        rel_id, tail_id: None where masked.
        image_path: Path of the question's picture, None where it has none.
        group_kind: Upstream's name of the masked form.
        writer: Who wrote the question: ``rule``, a model's name, or ``upstream``.
    """

    id: str
    text: str
    masked: Mask
    head_id: str
    rel_id: str | None
    tail_id: str | None
    image_path: str | None = None
    group_kind: str = ""
    writer: str = ""

    @property
    def is_multimodal(self) -> bool:
        """Whether it is asked about a picture."""
        return self.id.startswith(layout.MM_ID)


@dataclass(frozen=True, slots=True)
class Qrel:
    """A triplet that answers a query."""

    query_id: str
    corpus_id: str
    score: int = 1


@dataclass(frozen=True, slots=True)
class QA:
    """A question and its gold answers: the masked sides of its relevant triplets."""

    query_id: str
    question: str
    answers: tuple[str, ...]
    answer_ids: tuple[str, ...]
    masked: Mask


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity of the graph; ``image_paths`` are keys of the pictures."""

    id: str
    name: str
    description: str = ""
    image_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of the graph."""

    id: str
    name: str
    description: str = ""


KINDS: dict[type, Kind] = {
    Triplet: "corpus",
    Query: "queries",
    Qrel: "qrels",
    QA: "qa",
    Entity: "entities",
    Relation: "relations",
}


def _column(rows: list[Any], name: str, feature: object) -> list[Any]:
    """The values of one column; its attribute has an underscore where the column has a hyphen."""
    values = [getattr(row, name.replace("-", "_")) for row in rows]
    if isinstance(feature, ClassLabel):
        return [feature.str2int(value) for value in values]
    return values


def record_table(kind: type[Any], rows: Iterable[Any]) -> pa.Table:
    """Records of one kind as an Arrow table with the published columns."""
    features = Features(schema.retrieval_columns(KINDS[kind]))
    found = list(rows)
    columns = {name: _column(found, name, feature) for name, feature in features.items()}
    return pa.table(columns, schema=pa.schema(features.arrow_schema))


def records_of(kind: type[Any], table: pa.Table) -> list[Any]:
    """Rows of an Arrow table as records, the other way round."""
    names = [one.name for one in fields(kind)]
    features = schema.retrieval_columns(KINDS[kind])
    columns: list[list[Any]] = []
    for name in names:
        column = name if name in features else name.replace("_", "-")
        values = table[column].to_pylist()
        if isinstance(label := features[column], ClassLabel):
            values = [label.int2str(value) for value in values]
        elif values and isinstance(values[0], list):
            values = [tuple(value) for value in values]
        columns.append(values)
    return [kind(*row) for row in zip(*columns, strict=True)]


def _unnamed(table: str) -> Place:
    return lambda row: f"{table}, row {row}"


@dataclass(frozen=True)
class Records:
    """All records of one benchmark, each kind an Arrow table with its published columns.

    Attributes:
        triplets, queries, qrels, entities, relations: The tables; ``qrels`` point by id.
        places: Table name -> where its row i comes from, for messages.
    """

    triplets: pa.Table
    queries: pa.Table
    qrels: pa.Table
    entities: pa.Table
    relations: pa.Table
    places: Mapping[str, Place] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        *,
        triplets: Iterable[Triplet],
        queries: Iterable[Query],
        qrels: Iterable[Qrel],
        entities: Iterable[Entity] = (),
        relations: Iterable[Relation] = (),
        places: Mapping[str, Place] | None = None,
    ) -> Records:
        """Records from dataclasses.

        Raises:
            MaghubError: There is no triplet: the graph is empty.
        """
        found = cls(
            record_table(Triplet, triplets),
            record_table(Query, queries),
            record_table(Qrel, qrels),
            record_table(Entity, entities),
            record_table(Relation, relations),
            dict(places or {}),
        )
        found.require_triplets()
        return found

    def require_triplets(self) -> None:
        """Refuse an empty graph."""
        if not self.triplets.num_rows:
            where = self.place(layout.TRIPLETS, 0) if layout.TRIPLETS in self.places else None
            fix = "give a graph with triplets, or filter less"
            raise MaghubError("the knowledge graph holds no triplet", where=where, fix=fix)

    def place(self, table: str, row: int) -> str:
        """Where a row of a table comes from."""
        return self.places.get(table, _unnamed(table))(row)

    def where(self, **keep: NDArray[np.bool_]) -> Records:
        """The records without some rows: table name -> mask of those that stay."""
        places = dict(self.places)
        changed: dict[str, Any] = {}
        for name, mask in keep.items():
            changed[name] = getattr(self, name).filter(pa.array(mask))
            places[name] = _Moved(self.places.get(name, _unnamed(name)), np.flatnonzero(mask))
        return replace(self, **changed, places=places)

    def qrel_rows(self) -> tuple[Ints, Ints]:
        """Row of the query and of the triplet of each qrel; -1 where the id is unknown."""
        return (
            rows_of(self.qrels[layout.QUERY_ID], self.queries[layout.ID]),
            rows_of(self.qrels[layout.CORPUS_ID], self.triplets[layout.ID]),
        )


@dataclass(frozen=True)
class _Moved:
    """Places of rows that were chosen out of a table."""

    place: Place
    rows: Ints

    def __call__(self, row: int) -> str:
        return self.place(int(self.rows[row])) if row < len(self.rows) else self.place(row)


def rows_of(ids: pa.ChunkedArray, known: pa.ChunkedArray) -> Ints:
    """int64 [len(ids)]: the row of each id among the known ones (the first), -1 for unknown."""
    at = pc.index_in(ids, value_set=known.combine_chunks())
    return np.asarray(pc.fill_null(at, -1).combine_chunks(), dtype=np.int64)


def repeated(keys: pa.Array) -> NDArray[np.bool_]:
    """bool [N]: which keys stand at an earlier place too; nulls are one key."""
    codes = np.asarray(keys.dictionary_encode().indices.fill_null(-1))
    _, first = np.unique(codes, return_index=True)
    again = np.ones(len(codes), bool)
    again[first] = False
    return again
