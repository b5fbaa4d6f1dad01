"""Records: ids, rows as Arrow tables and back, chosen rows remember where they came from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maghub import schema
from maghub.errors import MaghubError
from maghub.mkg import (
    QA,
    Entity,
    Qrel,
    Query,
    Records,
    Relation,
    Triplet,
    record_id,
    record_table,
    records_of,
)
from maghub.mkg.records import KINDS, rows_of
from tests.helpers.kgrag import parts, small_records

WORDS = st.text(max_size=8)
IDS = st.from_regex(r"(text|mm)-\d{1,6}", fullmatch=True)
MASKS = st.sampled_from(["tail", "relation"])
ROWS = {
    Triplet: st.builds(Triplet, IDS, *[WORDS] * 6, st.none() | WORDS),
    Query: st.builds(
        Query, IDS, WORDS, MASKS, WORDS, st.none() | WORDS, st.none() | WORDS, st.none() | WORDS
    ),
    Qrel: st.builds(Qrel, IDS, IDS, st.integers(1, 3)),
    QA: st.builds(QA, IDS, WORDS, *[st.lists(WORDS, max_size=3).map(tuple)] * 2, MASKS),
    Entity: st.builds(Entity, WORDS, WORDS, WORDS, st.lists(WORDS, max_size=2).map(tuple)),
    Relation: st.builds(Relation, WORDS, WORDS, WORDS),
}


@pytest.mark.parametrize("kind", ROWS)
def test_records_survive_the_way_through_arrow(kind: type) -> None:
    @settings(max_examples=20, deadline=None)
    @given(rows=st.lists(ROWS[kind], max_size=4))
    def check(rows: list) -> None:
        table = record_table(kind, rows)
        assert table.column_names == list(schema.required_columns(KINDS[kind]))
        assert records_of(kind, table) == rows

    check()


def test_ids_say_the_modality() -> None:
    assert [record_id(7, multimodal=m) for m in (False, True)] == ["text-7", "mm-7"]
    shown = Triplet("mm-7", "Q1", "P1", "Q2", "pencil", "", "drawing", "Q1/a.jpg")
    assert shown.is_multimodal
    assert shown.text == "pencil drawing"  # a relation without words
    assert record_table(Triplet, [shown])["text"].to_pylist() == ["pencil drawing"]
    assert not Query("text-0", "?", "tail", "Q1", "P1", None).is_multimodal


def test_a_record_with_an_unknown_mask_is_refused() -> None:
    with pytest.raises(ValueError, match="head"):
        record_table(Query, [Query("text-0", "?", "head", "Q1", "P1", None)])  # type: ignore[arg-type]


def test_rows_of_ids() -> None:
    known = pa.chunked_array([["a", "b"], ["c", "b"]])
    found = rows_of(pa.chunked_array([["b", "x"], ["c"]]), known)
    assert found.dtype == np.int64
    assert found.tolist() == [1, -1, 2]
    assert rows_of(pa.chunked_array([[]], pa.string()), known).tolist() == []


def test_an_empty_graph_is_refused() -> None:
    with pytest.raises(MaghubError, match="the knowledge graph holds no triplet"):
        Records.of(**{**parts(), "triplets": []})


def test_chosen_rows_remember_their_place() -> None:
    records = small_records()
    assert records.place("queries", 5) == "queries, row 5"
    odd = np.arange(records.queries.num_rows) % 2 == 1
    half = records.where(queries=odd)
    quarter = half.where(queries=np.arange(half.queries.num_rows) % 2 == 1)
    ids = records.queries["id"].to_pylist()
    for row, key in enumerate(quarter.queries["id"].to_pylist()):
        assert quarter.place("queries", row) == f"queries, row {ids.index(key)}"


def test_importing_maghub_imports_none_of_it() -> None:
    import subprocess
    import sys

    code = "import maghub, sys; print([m for m in ('torch', 'maghub.mkg') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert Path(sys.executable).exists()
