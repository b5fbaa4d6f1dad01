"""Masked forms against a plain dictionary, on made-up graphs."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maghub.mkg.kg import EntityPictures, KnowledgeGraph, Named, read_graph
from maghub.mkg.masking import HIDDEN, RELATION, TAIL, masked_forms
from maghub.mkg.text import plain, says
from tests.helpers.graphs import png
from tests.helpers.kg_folders import Graph, write_graph
from tests.helpers.kg_folders import says as says_by_words

NAMES = ["Sun", "sun", "SUN!", "star", "moon", "Île", "île", "猫", "", "...", "!"]


def graph_of(
    triplets: list[tuple[int, int, int]], names: list[str], relations: list[str], shown: set[int]
) -> KnowledgeGraph:
    heads, rels, tails = (np.asarray(column) for column in zip(*triplets, strict=True))
    pictures = np.asarray([int(i in shown) for i in range(len(names))])
    return KnowledgeGraph(
        Path("."),
        None,  # type: ignore[arg-type]
        Named([f"Q{i}" for i in range(len(names))], names, [""] * len(names)),
        Named([f"P{i}" for i in range(len(relations))], relations, [""] * len(relations)),
        heads,
        rels,
        tails,
        pictures,
        np.zeros(len(names), bool),
    )


def word(name: str) -> str:
    return plain(name) or name


@st.composite
def graphs(draw: st.DrawFn) -> tuple[KnowledgeGraph, np.ndarray]:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6))
    relations = draw(st.lists(st.sampled_from(["is", "Is", "of"]), min_size=1, max_size=3))
    end, rel = st.integers(0, len(names) - 1), st.integers(0, len(relations) - 1)
    triplets = draw(st.lists(st.tuples(end, rel, end), min_size=1, max_size=20, unique=True))
    shown = draw(st.sets(end))
    asked = draw(st.lists(st.booleans(), min_size=len(triplets), max_size=len(triplets)))
    return graph_of(triplets, names, relations, shown), np.asarray(asked)


@given(graphs())
@settings(max_examples=150, deadline=None)
def test_forms_equal_a_dictionary(made: tuple[KnowledgeGraph, np.ndarray]) -> None:
    graph, asked = made
    wanted: dict[tuple[int, int, int, int], list[int]] = defaultdict(list)
    in_words: dict[tuple[object, ...], set[tuple[int, int, int, int]]] = defaultdict(set)
    shown: dict[tuple[object, ...], set[tuple[int, int, int, int]]] = defaultdict(set)
    for row in range(len(graph)):
        h, r, t = int(graph.heads[row]), int(graph.rels[row]), int(graph.tails[row])
        for form, words in (
            ((TAIL, h, r, HIDDEN), (TAIL, word(graph.relations.names[r]))),
            ((RELATION, h, HIDDEN, t), (RELATION, word(graph.entities.names[t]))),
        ):
            wanted[form].append(row)
            in_words[(word(graph.entities.names[h]), *words)].add(form)
            shown[(h, *words)].add(form)
    twice = {
        form
        for pictured, groups in ((False, in_words), (True, shown))
        for forms in groups.values()
        for form in forms
        if len(forms) > 1 and bool(graph.pictures[form[1]]) is pictured
    }
    keep = {form: rows for form, rows in wanted.items() if any(asked[row] for row in rows)}
    forms = masked_forms(graph, asked)
    found = {}
    for i in range(len(forms)):
        key = (int(forms.mask[i]), int(forms.heads[i]), int(forms.rels[i]), int(forms.tails[i]))
        found[key] = forms.positives(i).tolist()
        assert bool(forms.ambiguous[i]) is (key in twice)
    assert found == keep
    assert len(forms) == len(keep)
    order = [(forms.positives(i)[0], forms.mask[i]) for i in range(len(forms))]
    assert order == sorted(order)


@given(graphs())
@settings(max_examples=30, deadline=None)
def test_the_head_is_never_masked_and_exactly_one_other_part_is(
    made: tuple[KnowledgeGraph, np.ndarray],
) -> None:
    graph, _ = made
    forms = masked_forms(graph, np.ones(len(graph), bool))
    assert (forms.heads >= 0).all()
    assert ((forms.rels == HIDDEN) != (forms.tails == HIDDEN)).all()
    members = Counter(forms.members.tolist())
    assert members == dict.fromkeys(range(len(graph)), 2)  # each triplet in one form of each kind


@given(st.text(max_size=12), st.text(max_size=6))
@settings(max_examples=200, deadline=None)
def test_says_agrees_with_words_one_after_the_other(text: str, name: str) -> None:
    unspaced = any("\u0e00" <= c <= "\u0eff" or "\u1000" <= c <= "\u9fff" for c in name)
    if not unspaced and any(c.isalnum() for c in name):
        assert says(text, name) is says_by_words(text, name)


@pytest.mark.parametrize(
    ("text", "name", "wanted"),
    [
        ("Who sees the SUN?", "sun", True),
        ("Who sees the sunset?", "sun", False),
        ("What is Côte d’Ivoire?", "côte d'ivoire", True),
        ("Is it part of it?", "part of", True),
        ("What does ﬁre do?", "fire", True),  # a ligature
        ("北京市在哪里", "北京", True),  # no blanks between words
        ("anything", "", False),
        ("is it C++ or C?", "C++", True),
        ("one... two", "...", True),  # no word in it: compared as it is
        ("what is 🎈?", "🎈", True),
        ("what is 🎈?", "🚀", False),
    ],
)
def test_says(text: str, name: str, wanted: bool) -> None:
    assert says(text, name) is wanted


def test_reading_a_graph(tmp_path: Path) -> None:
    graph = Graph(
        [("Q1", "P1", "Q2"), ("Q2", "P2", "Q1"), ("Q1", "P2", "Q3")],
        {"Q1": " Sun ", "Q2": "star", "Q3": ""},
        {"P1": "is a", "P2": ""},
        {"Q1": "our star", "P1": "what it is"},
        {"Q2": [None, png(1), png(2)]},  # the first could not be read when the graph was built
    )
    folder = write_graph(graph, tmp_path / "kg")
    read = read_graph(folder)
    assert [read.ids(row) for row in range(3)] == graph.triplets
    assert read.words(0) == ("Sun", "is a", "star")
    assert read.entities.descriptions == ["our star", "", ""]
    assert read.pictures.tolist() == [0, 2, 0]
    assert EntityPictures(read)(1) == [png(1), png(2)]
    assert read.counts["relations without a text"] == 1
    assert read.counts["entities without a text"] == 1
    one = read_graph(write_graph(graph, tmp_path / "one", several=False))
    assert one.pictures.tolist() == [0, 0, 0]
