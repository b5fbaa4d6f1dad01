"""What is wrong with records: named with its place, refused or left out, counted either way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from maghub.errors import MaghubError
from maghub.mkg import Entity, Qrel, Records, Relation
from maghub.mkg.defects import find_defects, sound
from tests.helpers.kgrag import parts, small_records

Change = Callable[[dict[str, list]], None]


def broken(change: Change) -> Records:
    own = parts()
    change(own)
    return Records.of(**own)


def lose_qrels(own: dict[str, list]) -> None:
    own["qrels"] = [q for q in own["qrels"] if q.query_id != "text-4"]


FATAL: dict[str, tuple[Change, str, str, str]] = {
    "triplet twice": (
        lambda own: own["triplets"].append(own["triplets"][3]),
        "triplets", "duplicate id", "triplets, row 48: id text-3 comes twice",
    ),
    "query twice": (
        lambda own: own["queries"].insert(4, own["queries"][0]),
        "queries", "duplicate id", "queries, row 4: id text-0 comes twice",
    ),
    "entity twice": (
        lambda own: own["entities"].append(Entity("Q0", "other")),
        "entities", "duplicate id", "entities, row 16: id Q0 comes twice",
    ),
    "relation twice": (
        lambda own: own["relations"].append(Relation("P1", "other")),
        "relations", "duplicate id", "relations, row 2: id P1 comes twice",
    ),
    "unknown query": (
        lambda own: own["qrels"].insert(2, Qrel("mm-999", "mm-0")),
        "qrels", "unknown query", "qrels, row 2: unknown query id mm-999",
    ),
    "unknown triplet": (
        lambda own: own["qrels"].insert(2, Qrel("mm-0", "text-999")),
        "qrels", "unknown triplet", "qrels, row 2: unknown corpus id text-999",
    ),
    "qrel twice": (
        lambda own: own["qrels"].append(own["qrels"][0]),
        "qrels", "repeated qrel", "qrels, row 144: a qrel of text-0 comes twice",
    ),
    "no qrels": (
        lose_qrels, "queries", "query without qrels", "queries, row 8: query text-4 has no qrels",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FATAL)
def test_fatal_defects_are_refused_or_left_out_and_counted(name: str) -> None:
    change, table, kind, line = FATAL[name]
    records = broken(change)
    with pytest.raises(MaghubError) as caught:
        sound(records)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)
    good, found = sound(records, strict=False)
    assert found.counts == {table: {kind: {"rows": 1}}}
    assert found.first == {f"{table}: {kind}": line}
    assert not list(find_defects(good))
    assert getattr(good, table).num_rows == getattr(records, table).num_rows - 1


def test_what_is_nothing_without_a_row_goes_too() -> None:
    own = parts()
    own["qrels"] = [q for q in own["qrels"] if q.query_id != "text-2"]
    own["qrels"].append(Qrel("text-2", "text-999"))  # its only qrel, and that is unknown
    good, found = sound(Records.of(**own), strict=False)
    # the query that is left without any relevant triplet is counted once
    assert found.counts["qrels"] == {"unknown triplet": {"rows": 1}}
    assert found.counts["queries"] == {"query without qrels": {"rows": 1}}
    assert good.queries.num_rows == 95
    assert "text-2" not in good.queries["id"].to_pylist()


def test_many_defects_are_one_line_with_their_number() -> None:
    own = parts()
    own["qrels"] += [Qrel(f"mm-{n}", "mm-0") for n in range(900, 905)]
    with pytest.raises(MaghubError, match=r"unknown query id mm-900 \(5 in all\)\."):
        sound(Records.of(**own))


def test_nothing_left_is_refused() -> None:
    own = parts()
    own["qrels"] = []
    with pytest.raises(MaghubError, match="no query is left"):
        sound(Records.of(**own), strict=False)


MILD: dict[str, tuple[Change, str, str, str]] = {
    "relation without text": (
        lambda own: own["triplets"].__setitem__(5, replace(own["triplets"][5], rel_text="")),
        "triplets", "relation without text", "triplets, row 5: relation P1 has no text",
    ),
    "no picture": (
        lambda own: own["triplets"].__setitem__(40, replace(own["triplets"][40], image_path=None)),
        "triplets", "entity without image",
        "triplets, row 40: entity Q4 of a multimodal triplet has no image",
    ),
    "unknown head": (
        lambda own: own["entities"].pop(0),
        "triplets", "head entity without a row",
        "triplets, row 0: head entity Q0 is not in the table of entities",
    ),
    "unknown relation": (
        lambda own: own["relations"].pop(0),
        "triplets", "relation without a row",
        "triplets, row 0: relation P1 is not in the table of relations",
    ),
    "other form": (
        lambda own: own["qrels"].append(Qrel("text-0", "text-9")),
        "qrels", "qrel of another form",
        "qrels, row 144: the relevant triplet text-9 is not of its query's masked form",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MILD)
def test_mild_defects_are_counted_and_kept(name: str) -> None:
    change, table, kind, line = MILD[name]
    records = broken(change)
    good, found = sound(records)
    assert good is records
    assert found.first[f"{table}: {kind}"] == line
    assert found.counts[table][kind]["rows"] >= 1


def test_sound_records_have_no_defect() -> None:
    records = small_records()
    assert list(find_defects(records)) == []
    assert sound(records)[0] is records
