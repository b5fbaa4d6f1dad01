"""Checks of a retrieval benchmark: ids, qrels, the two splits, and answers against the qrels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from maghub import layout, schema
from maghub.mkg.derived import answers_of
from maghub.mkg.records import Entity, Records, Relation, record_table, repeated, rows_of
from maghub.mkg.splits import SPLITS, group_codes
from maghub.spec import FolderSpec, Kind
from maghub.validating.opened import REBUILD, Opened
from maghub.validating.report import Findings

Ints = NDArray[np.int64]
_SEPARATOR = "\x1f"
_NAMED = (layout.CORPUS, layout.QUERIES, layout.ENTITIES, layout.RELATIONS)


@dataclass(frozen=True)
class _Read:
    """Columns of a config in memory, and the split of each row as its files have it."""

    table: Opened
    rows: pa.Table
    split: Ints

    def note(self, column: str, kind: str, bad: NDArray[np.bool_], message: str) -> None:
        """Note rows; ``{}`` in the message is the value of the column in the first of them."""

        def text(row: int) -> str:
            return message.format(self.rows[column][row])

        self.table.findings.rows(self.table, column, kind, 0, bad, text)


def check_retrieval(spec: FolderSpec, tables: dict[str, Opened], findings: Findings) -> None:
    """Everything about the tables of a retrieval benchmark, where the folder is one."""
    if not spec.of_kind("corpus"):
        return
    _check_rules(spec, findings)
    for name in _NAMED:
        _check_ids(tables.get(name))
    found = [_benchmark(tables, prefix) for prefix in layout.RULE_PREFIXES.values()]
    for parts in found:
        if parts is not None:
            _check_qrels(*parts)
    plain, group = found
    if plain is not None:
        _check_answers(_read(tables.get(layout.QA), _required("qa")), plain)
    if group is not None:
        _check_groups(group[0])
    if plain is not None and group is not None:
        _check_same(plain, group)


def _required(kind: Kind) -> list[str]:
    return list(schema.required_columns(kind))


def _read(table: Opened | None, columns: Sequence[str]) -> _Read | None:
    """Columns of a table, or None where they cannot be read."""
    if table is None or not table.usable(*columns):
        return None
    batches, codes = [], []
    for group in table.groups(columns):
        batches.append(group.batch)
        code = SPLITS.index(group.split) if group.split in SPLITS else -1
        codes.append(np.full(group.batch.num_rows, code))
    if not table.whole or not batches:
        return None
    return _Read(table, pa.Table.from_batches(batches), np.concatenate(codes))


def _check_ids(table: Opened | None) -> None:
    """Every id once."""
    found = _read(table, [layout.ID])
    if found is None:
        return
    again = repeated(found.rows[layout.ID].combine_chunks())
    found.note(layout.ID, "duplicate", again, "id {} comes twice")


_Parts = tuple[_Read, _Read, _Read, Records]


def _benchmark(tables: dict[str, Opened], prefix: str) -> _Parts | None:
    """Queries, qrels and corpus under one split, as they are and as records."""
    kinds: tuple[Kind, ...] = ("queries", "qrels", "corpus")
    parts = [_read(tables.get(prefix + kind), _required(kind)) for kind in kinds]
    queries, qrels, corpus = parts
    if queries is None or qrels is None or corpus is None:
        return None
    nothing = (record_table(Entity, []), record_table(Relation, []))
    return queries, qrels, corpus, Records(corpus.rows, queries.rows, qrels.rows, *nothing)


def _check_qrels(queries: _Read, qrels: _Read, corpus: _Read, records: Records) -> None:
    """Known ids, each pair once, in the split of the query; every query has some."""
    query, triplet = records.qrel_rows()
    qrels.note(layout.QUERY_ID, "unknown", query < 0, "unknown query id {}")
    qrels.note(layout.CORPUS_ID, "unknown", triplet < 0, "unknown corpus id {}")
    known = query >= 0
    other = known.copy()
    other[known] = queries.split[query[known]] != qrels.split[known]
    qrels.note(layout.QUERY_ID, "split", other, "query {} is in another split")
    pairs = query * (len(corpus.split) + 1) + triplet
    again = known & (triplet >= 0) & repeated(pa.array(pairs))
    qrels.note(layout.QUERY_ID, "repeated", again, "a qrel of query {} comes twice")
    bare = np.ones(len(queries.split), bool)
    bare[query[known & (triplet >= 0)]] = False
    queries.note(layout.ID, "no qrels", bare, "query {} has no qrels")
    _check_masks(queries)


def _check_masks(queries: _Read) -> None:
    """What a query asks for is null, what it tells is not; its id says whether it has a picture."""
    masked = np.asarray(queries.rows[layout.MASKED].fill_null(-1))
    for code, column in enumerate((layout.TAIL_ID, layout.REL_ID)):
        shown = np.asarray(queries.rows[column].is_valid())
        queries.note(column, "shown", shown & (masked == code), "{} is what the query asks for")
        queries.note(column, "hidden", ~shown & (masked == 1 - code), "is null but not masked")
    multimodal = np.asarray(pc.starts_with(queries.rows[layout.ID], layout.MM_ID).fill_null(False))
    wrong = multimodal != np.asarray(queries.rows[layout.IS_MULTIMODAL].fill_null(False))
    queries.note(layout.IS_MULTIMODAL, "modality", wrong, "is {}, its id says otherwise")


def _check_answers(qa: _Read | None, parts: _Parts) -> None:
    """Row i of ``qa`` is query i: its text, its masked part, the answers that its qrels give."""
    queries, _, _, records = parts
    if qa is None:
        return
    if len(qa.split) != len(queries.split):
        what = f"has {len(qa.split):,} rows, there are {len(queries.split):,} queries"
        qa.table.findings.add(qa.table.first_file, what, kind="target rows", fix=REBUILD)
        return
    pairs = ((layout.QUERY_ID, layout.ID), (layout.QUESTION, layout.TEXT))
    for own, column in (*pairs, (layout.MASKED, layout.MASKED)):
        equal = pc.fill_null(pc.equal(qa.rows[own], queries.rows[column]), False)
        qa.note(own, "row", ~np.asarray(equal), f"{{}} is not the {column} of this row's query")
    texts, ids = answers_of(records)
    for column, wanted in ((layout.ANSWERS, texts), (layout.ANSWER_IDS, ids)):
        expected = _joined(pa.chunked_array([pa.array(wanted, pa.list_(pa.string()))]))
        equal = pc.fill_null(pc.equal(_joined(qa.rows[column]), expected), False)
        qa.note(column, "answers", ~np.asarray(equal), "{} is not what the qrels give")


def _joined(lists: pa.ChunkedArray) -> pa.ChunkedArray:
    """A text per list, equal where the lists are."""
    counts = pc.list_value_length(lists).cast(pa.string())
    return pc.binary_join_element_wise(counts, pc.binary_join(lists, _SEPARATOR), _SEPARATOR)


def _check_groups(queries: _Read) -> None:
    """No (head, relation, masked part) in two splits."""
    codes, _ = group_codes(queries.rows)
    first = np.full(codes.max(initial=-1) + 1, -1)
    first[codes[::-1]] = queries.split[::-1]
    torn = first[codes] != queries.split
    what = "query {} is in another split than a query of the same head, relation and masked part"
    queries.note(layout.ID, "group", torn, what)


def _check_same(plain: _Parts, group: _Parts) -> None:
    """The group-safe tables hold the same queries, qrels and corpus."""
    keys = ((layout.ID,), (layout.QUERY_ID, layout.CORPUS_ID), (layout.ID,))
    for own, other, columns in zip(group, plain, keys, strict=False):
        assert isinstance(own, _Read)
        assert isinstance(other, _Read)
        name = other.table.spec.name
        if len(own.split) != len(other.split):
            what = f"has {len(own.split):,} rows, {name} has {len(other.split):,}"
            own.table.findings.add(own.table.first_file, what, kind="same rows", fix=REBUILD)
        mine, theirs = (
            pc.binary_join_element_wise(*(part.rows[c] for c in columns), _SEPARATOR)
            for part in (own, other)
        )
        missing = rows_of(mine, theirs) < 0
        own.note(columns[0], "same rows", missing, f"{{}} is not in {name}")


def _check_rules(spec: FolderSpec, findings: Findings) -> None:
    """Both rules are declared, with the number of queries in each split."""
    rules = {rule.name: rule for rule in spec.query_splits}
    for name, prefix in layout.RULE_PREFIXES.items():
        config = prefix + layout.QUERIES
        if name not in rules or not spec.has(config):
            what = f"split rule {name} or its config {config} is missing"
            findings.add(layout.SPEC_FILE, what, column="query_splits", fix=REBUILD)
            continue
        counts = {split: n for split, n in rules[name].counts.items() if n}
        if counts != spec.config(config).splits:
            what = f"{name} counts {counts}, {config} has {spec.config(config).splits}"
            findings.add(layout.SPEC_FILE, what, column="query_splits", fix=REBUILD)
