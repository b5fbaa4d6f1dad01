"""The two split rules and what leaks, against plain Python."""

from __future__ import annotations

import hashlib
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maghub.errors import MaghubError
from maghub.mkg import Query, Records, record_table
from maghub.mkg.splits import (
    SPLITS,
    form_codes,
    group_codes,
    group_split,
    leak_sentence,
    leaks,
    merged_qids,
    released_split,
)
from tests.helpers.kgrag import parts, small_records

QUERIES = st.lists(
    st.tuples(
        st.sampled_from(["text", "mm"]),
        st.sampled_from(["tail", "relation"]),
        st.integers(0, 4),
        st.integers(0, 2),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=60,
)


def queries_of(drawn: list[tuple[str, str, int, int, int]]) -> list[Query]:
    numbers: dict[str, int] = defaultdict(int)
    made = []
    for kind, masked, head, rel, tail in drawn:
        key = f"{kind}-{numbers[kind]}"
        numbers[kind] += 1
        known = (f"P{rel}", None) if masked == "tail" else (None, f"Q{tail}")
        made.append(Query(key, "?", masked, f"Q{head}", *known))  # type: ignore[arg-type]
    return made


def test_text_qids_follow_the_largest_multimodal_one() -> None:
    assert merged_qids(["mm-0", "text-0", "mm-41", "text-7"]).tolist() == [0, 42, 41, 49]
    assert merged_qids(["text-3"]).tolist() == [3]
    with pytest.raises(
        MaghubError, match="queries, row 1: query id 'x-1' is neither text-N nor mm-N"
    ):
        merged_qids(["mm-0", "x-1"])


@settings(max_examples=40, deadline=None)
@given(text=st.integers(0, 60), multimodal=st.integers(0, 60), seed=st.integers(0, 9))
def test_released_rule(text: int, multimodal: int, seed: int) -> None:
    """Sort by sha1("markg_v1::{qid}") in hex, cut 8:1:1; whatever the order of the rows."""
    ids = [f"mm-{n}" for n in range(multimodal)] + [f"text-{n}" for n in range(text)]
    np.random.default_rng(seed).shuffle(ids)

    def number(key: str) -> int:
        kind, n = key.split("-")
        return int(n) + (multimodal if kind == "text" else 0)

    order = sorted(ids, key=lambda k: hashlib.sha1(f"markg_v1::{number(k)}".encode()).hexdigest())
    cut = [len(ids) * 8 // 10, len(ids) * 9 // 10]
    wanted = {key: (i >= cut[0]) + (i >= cut[1]) for i, key in enumerate(order)}
    assert released_split(ids).tolist() == [wanted[key] for key in ids]


@settings(max_examples=60, deadline=None)
@given(drawn=QUERIES)
def test_group_split_tears_nothing_and_is_near_8_1_1(drawn: list) -> None:
    queries = queries_of(drawn)
    table = record_table(Query, queries)
    codes = group_split(table)
    sides = defaultdict(set)
    for query, code in zip(queries, codes.tolist(), strict=True):
        sides[query.head_id, query.rel_id, query.masked].add(code)
        sides[query.head_id, query.rel_id, query.tail_id, query.masked].add(code)
    assert all(len(found) == 1 for found in sides.values())
    largest = np.bincount(group_codes(table)[0]).max()
    for code, share in enumerate((0.8, 0.1, 0.1)):
        assert abs((codes == code).sum() - share * len(queries)) <= largest + 1
    order = np.random.default_rng(0).permutation(len(queries))  # rows in any order
    assert (group_split(table.take(order)) == codes[order]).all()


def test_masked_forms_and_groups() -> None:
    queries = [
        Query("text-0", "?", "tail", "Q1", "P1", None),
        Query("mm-0", "?", "tail", "Q1", "P1", None),
        Query("text-1", "?", "relation", "Q1", None, "Q2"),
        Query("text-2", "?", "relation", "Q1", None, "Q3"),
        Query("text-3", "?", "tail", "Q1", "P2", None),
    ]
    table = record_table(Query, queries)
    assert form_codes(table).tolist() == [0, 0, 1, 2, 3]
    assert group_codes(table)[0].tolist() == [0, 0, 1, 1, 2]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000))
def test_leaks_equal_a_plain_count(seed: int) -> None:
    own = parts()
    records = Records.of(**own)
    rng = np.random.default_rng(seed)
    split = rng.integers(0, 3, len(own["queries"])).astype(np.int8)
    ids = {t.id: (t.head_id, t.rel_id, t.tail_id) for t in own["triplets"]}
    relevant = defaultdict(set)
    for qrel in own["qrels"]:
        relevant[qrel.query_id].add(ids[qrel.corpus_id])
    train = [q for q, code in zip(own["queries"], split, strict=True) if code == 0]
    forms = {(q.head_id, q.rel_id, q.tail_id) for q in train}
    groups = {(q.head_id, q.rel_id, q.masked) for q in train}
    known = set().union(*(relevant[q.id] for q in train))
    for code in (1, 2):
        asked = [q for q, own_code in zip(own["queries"], split, strict=True) if own_code == code]
        assert leaks(records, split)[SPLITS[code]] == {
            "queries": len(asked),
            "masked form in train": sum((q.head_id, q.rel_id, q.tail_id) in forms for q in asked),
            "group in train": sum((q.head_id, q.rel_id, q.masked) in groups for q in asked),
            "relevant triplet in train": sum(bool(relevant[q.id] & known) for q in asked),
        }


def test_the_released_rule_leaks_and_ours_does_not() -> None:
    records = small_records()
    ids = records.queries["id"]
    counted = {
        "released": leaks(records, released_split(ids)),
        "group_split": leaks(records, group_split(records.queries)),
    }
    assert counted["released"]["test"]["masked form in train"] > 0
    for split in ("validation", "test"):
        assert counted["group_split"][split]["masked form in train"] == 0
        assert counted["group_split"][split]["group in train"] == 0
    sentence = leak_sentence(counted)
    leaked = counted["released"]["test"]
    said = (
        f"Under `released` {leaked['masked form in train']} of {leaked['queries']} test questions"
    )
    assert sentence.startswith(said)
