"""What is wrong with the records of a benchmark: found, named with its place, counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from maghub import layout
from maghub.errors import MaghubError
from maghub.mkg.records import Ints, Records, repeated, rows_of

FATAL = "correct it, or build with --set strict=false, which leaves such rows out and counts them"


@dataclass(frozen=True)
class Defect:
    """Rows of one table with one fault.

    Attributes:
        kind: What is wrong, as the notes name it.
        table: ``triplets``, ``queries``, ``qrels``, ``entities`` or ``relations``.
        rows: The rows, in order.
        message: What is wrong with the first of them.
        fatal: Whether the rows cannot be published.
    """

    kind: str
    table: str
    rows: Ints
    message: str
    fatal: bool = True


def _repeated(keys: pa.ChunkedArray) -> Ints:
    """Rows whose key stands in an earlier row."""
    return np.flatnonzero(repeated(keys.combine_chunks()))


def find_defects(records: Records) -> Iterator[Defect]:
    """Everything that is wrong, tables one after the other.

    Fatal: an id or qrel that stands twice, a qrel that names an unknown query or triplet, a query
    without a relevant triplet. Not fatal: a relation without a text, a multimodal triplet whose
    head has no picture, a triplet that names an entity or relation without a row, a relevant
    triplet that is not of its query's masked form.
    """
    for table in (layout.TRIPLETS, layout.QUERIES, layout.ENTITIES, layout.RELATIONS):
        ids = getattr(records, table)[layout.ID]
        yield from _some("duplicate id", table, _repeated(ids), ids, "id {} comes twice")
    yield from _qrel_defects(records)
    texts = records.triplets[layout.REL_TEXT]
    untold = np.flatnonzero(np.asarray(pc.equal(texts, "")))
    rel_ids = records.triplets[layout.REL_ID]
    yield from _some(
        "relation without text", layout.TRIPLETS, untold, rel_ids, "relation {} has no text", False
    )
    shown = records.triplets[layout.IS_MULTIMODAL]
    bare = np.asarray(pc.and_(shown, records.triplets[layout.IMAGE_PATH].is_null()))
    what = "entity {} of a multimodal triplet has no image"
    heads = records.triplets[layout.HEAD_ID]
    yield from _some(
        "entity without image", layout.TRIPLETS, np.flatnonzero(bare), heads, what, False
    )
    yield from _unknown_names(records)


def _some(
    kind: str, table: str, rows: Ints, shown: pa.ChunkedArray, message: str, fatal: bool = True
) -> Iterator[Defect]:
    if len(rows):
        yield Defect(kind, table, rows, message.format(shown[int(rows[0])]), fatal)


def _qrel_defects(records: Records) -> Iterator[Defect]:
    qrels = records.qrels
    query, triplet = records.qrel_rows()
    query_ids, triplet_ids = qrels[layout.QUERY_ID], qrels[layout.CORPUS_ID]
    no_query, no_triplet = np.flatnonzero(query < 0), np.flatnonzero(triplet < 0)
    yield from _some("unknown query", layout.QRELS, no_query, query_ids, "unknown query id {}")
    yield from _some(
        "unknown triplet", layout.QRELS, no_triplet, triplet_ids, "unknown corpus id {}"
    )
    pairs = pc.binary_join_element_wise(query_ids, triplet_ids, "\t")
    twice = _repeated(pairs)
    yield from _some("repeated qrel", layout.QRELS, twice, query_ids, "a qrel of {} comes twice")
    good = (query >= 0) & (triplet >= 0)
    asked = np.zeros(records.queries.num_rows, bool)
    asked[query[good]] = True
    ids = records.queries[layout.ID]
    asked = asked[rows_of(ids, ids)]  # a second query of one id is told above
    yield from _some(
        "query without qrels", layout.QUERIES, np.flatnonzero(~asked), ids, "query {} has no qrels"
    )
    other = _of_another_form(records, query, triplet)
    what = "the relevant triplet {} is not of its query's masked form"
    yield from _some("qrel of another form", layout.QRELS, other, triplet_ids, what, False)


def _of_another_form(records: Records, query: Ints, triplet: Ints) -> Ints:
    """Qrels whose triplet contradicts what their query says of head, relation or tail."""
    known = np.flatnonzero((query >= 0) & (triplet >= 0))
    wrong = np.zeros(len(known), bool)
    at_query, at_triplet = pa.array(query[known]), pa.array(triplet[known])
    for name in (layout.HEAD_ID, layout.REL_ID, layout.TAIL_ID):
        said = records.queries[name].take(at_query)
        equal = pc.equal(said, records.triplets[name].take(at_triplet))
        wrong |= ~np.asarray(pc.fill_null(equal, True))
    return known[wrong]


def _unknown_names(records: Records) -> Iterator[Defect]:
    """Entities and relations of triplets that have no row of their own, where there are rows."""
    ends = (
        (layout.HEAD_ID, layout.ENTITIES, "head entity"),
        (layout.TAIL_ID, layout.ENTITIES, "tail entity"),
        (layout.REL_ID, layout.RELATIONS, "relation"),
    )
    for column, table, word in ends:
        known = getattr(records, table)
        if not known.num_rows:
            continue
        ids = records.triplets[column]
        rows = np.flatnonzero(rows_of(ids, known[layout.ID]) < 0)
        what = f"{word} {{}} is not in the table of {table}"
        yield from _some(f"{word} without a row", layout.TRIPLETS, rows, ids, what, False)


@dataclass(frozen=True)
class Summary:
    """What was wrong with records.

    Attributes:
        counts: Table -> kind of defect -> ``{"rows": number}``.
        first: ``table: kind`` -> where the first of them is and what is wrong with it.
    """

    counts: dict[str, dict[str, dict[str, int]]]
    first: dict[str, str]


def sound(records: Records, *, strict: bool = True) -> tuple[Records, Summary]:
    """Records that can be published, and what was wrong with them.

    Args:
        records: As they came.
        strict: Refuse fatal defects; else their rows are left out (of two with one id the second),
            with the qrels and queries that are nothing without them.

    Raises:
        MaghubError: A fatal defect: the first place, and how many there are.
    """
    records.require_triplets()
    found = Summary({}, {})
    rounds = 0
    while True:
        drop: dict[str, NDArray[np.bool_]] = {}
        for defect in find_defects(records):
            if strict and defect.fatal:
                raise _error(records, defect)
            if defect.fatal:
                size = getattr(records, defect.table).num_rows
                drop.setdefault(defect.table, np.ones(size, bool))[defect.rows] = False
            elif rounds:
                continue  # counted in the first round
            _add(found, records, defect)
        if not drop:
            break
        records = records.where(**drop)  # a query may now be without qrels: look again
        rounds += 1
    records.require_triplets()
    if not records.queries.num_rows:
        raise MaghubError("no query is left", where=records.place(layout.QUERIES, 0))
    return records, found


def _add(found: Summary, records: Records, defect: Defect) -> None:
    count = found.counts.setdefault(defect.table, {}).setdefault(defect.kind, {"rows": 0})
    count["rows"] += len(defect.rows)
    place = records.place(defect.table, int(defect.rows[0]))
    found.first.setdefault(f"{defect.table}: {defect.kind}", f"{place}: {defect.message}")


def _error(records: Records, defect: Defect) -> MaghubError:
    more = f" ({len(defect.rows):,} in all)" if len(defect.rows) > 1 else ""
    where = records.place(defect.table, int(defect.rows[0]))
    return MaghubError(defect.message + more, where=where, fix=FATAL)
