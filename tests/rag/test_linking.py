"""Names in questions, against a search for every name in every question."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from maghub.baselines.rag.linking import LONGEST, NameLinker

WORDS = st.sampled_from(["a", "b", "c", "New", "york", "é", "of"])
NAMES = st.lists(st.lists(WORDS, max_size=4).map(" ".join), max_size=8)
TEXTS = st.lists(st.lists(WORDS, max_size=12).map("-".join), max_size=6)


def slow(names: list[str], text: str) -> set[tuple[int, int]]:
    """(entity, words) of names that stand in a text and in no longer match."""
    words = text.lower().replace("-", " ").split()
    spans = []
    for entity, name in enumerate(names):
        own = name.lower().split()
        for start in range(len(words) - len(own) + 1):
            if own and words[start : start + len(own)] == own:
                spans.append((start, start + len(own), entity))
    return {
        (entity, end - start)
        for start, end, entity in spans
        if not any(s <= start and end <= e and e - s > end - start for s, e, _ in spans)
    }


@settings(deadline=None, max_examples=80)
@given(names=NAMES, texts=TEXTS)
def test_names_are_those_that_a_slow_search_finds(names: list[str], texts: list[str]) -> None:
    found = NameLinker(names).link(texts)
    for q, text in enumerate(texts):
        own = found.query == q
        pairs = set(zip(found.entity[own].tolist(), found.words[own].tolist(), strict=True))
        wanted = slow(names, text)
        assert {entity for entity, _ in pairs} == {entity for entity, _ in wanted}
        assert pairs <= wanted
        assert len(pairs) == own.sum()


def test_words_case_punctuation_and_the_mark_of_a_picture() -> None:
    names = ["image", "People's Republic of China", "China", "CHINA", "", "...", "Zürich"]
    linker = NameLinker(names)
    asked = ["[Image] what?", "in PEOPLE'S republic, of China?", "china; zürich", ""]
    found = linker.link(asked)
    pairs = list(zip(found.query.tolist(), found.entity.tolist(), strict=True))
    assert pairs == [(1, 1), (2, 2), (2, 3), (2, 6)]


def test_a_name_never_runs_over_the_end_of_a_question() -> None:
    found = NameLinker(["b c", "c"]).link(["a b", "c d"])
    assert list(zip(found.query.tolist(), found.entity.tolist(), strict=True)) == [(1, 1)]


def test_nothing_to_find_and_names_that_are_too_long() -> None:
    long = " ".join(["w"] * (LONGEST + 1))
    for names, texts in (([], ["a"]), (["a"], []), ([long], [long]), (["", " "], ["x"])):
        assert len(NameLinker(names).link(texts).query) == 0
    just = " ".join(str(i) for i in range(LONGEST))
    assert NameLinker([just]).link([just]).words.tolist() == [LONGEST]
    assert NameLinker(["a"]).link(["a"]).query.dtype == np.int64
