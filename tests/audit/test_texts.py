"""What counts as the same text, and near-equal texts where most texts look alike."""

from __future__ import annotations

import itertools
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from maghub.audit import run
from maghub.audit.subject import normalised
from maghub.audit.texts import ALIKE, EXACT, candidates, signatures
from tests.helpers.graphs import random_toy, write_toy


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Red  Mug!", "red mug"),
        ("ＲＥＤ ＭＵＧ", "red mug"),
        ("straße (1)", "STRASSE 1"),
        ("snow\N{VARIATION SELECTOR-16}man", "snow man"),
        ("„Buch“ — 2", "buch 2"),
    ],
)
def test_case_punctuation_and_compatibility_forms_do_not_count(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("राम", "रोम"),
        ("किताब", "काताब"),
        ("C++", "C#"),
        ("x + 1", "x - 1"),
        ("😀", "😁"),
        ("naïve", "naive"),
    ],
)
def test_marks_and_symbols_do(one: str, other: str) -> None:
    assert normalised(one) != normalised(other) != ""


def test_texts_in_other_scripts_and_of_emoji_alone_are_texts(tmp_path: Path) -> None:
    toy = random_toy(40)
    toy.texts = [f"र{mark}म" for mark in "ािीुूेैोौृ"] + [chr(0x1F600 + i) for i in range(30)]
    write_toy(toy, tmp_path / "toy")
    report = run(tmp_path / "toy")
    assert report.check(EXACT).count == 0
    assert "text 100.0%" in report.check("modalities alive").summary


@pytest.mark.parametrize("column", ["texts", "images"])
def test_a_modality_of_a_single_node_is_not_the_same_for_all(tmp_path: Path, column: str) -> None:
    toy = random_toy(40)
    one = next(value for value in getattr(toy, column) if value)
    setattr(toy, column, [one] + [None if column == "images" else ""] * 39)
    write_toy(toy, tmp_path / "toy")
    assert report_says(tmp_path / "toy") == []
    setattr(toy, column, [one, one] + [None if column == "images" else ""] * 38)
    write_toy(toy, tmp_path / "twice")
    assert report_says(tmp_path / "twice") == [f"{column.removesuffix('s')}: the same for all"]


def report_says(folder: Path) -> list[str]:
    lines = [example.text for example in run(folder).check("modalities alive").examples]
    return [line for line in lines if line.endswith("the same for all")]


def test_texts_of_one_template_are_compared_in_little_memory() -> None:
    texts = [
        f"product number {i} of kind {i % 7} with some words, as all have" for i in range(5_000)
    ]
    codes = (np.arange(len(texts)) % 3).astype(np.int8)
    found = signatures(texts, 0)
    tracemalloc.start()
    try:
        pairs = candidates(found, codes)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Comparing all pairs of a band at once took 512 bytes per pair.
    assert len(pairs) > 100_000
    assert peak < 30e6
    few = candidates(found[:300], codes[:300])
    agree = (found[:300, None] == found[None, :300]).mean(axis=2)
    for a, b in few.tolist():
        assert codes[a] != codes[b]
        assert agree[a, b] >= ALIKE - 0.25
    # Where a band holds few nodes, every pair that agrees in it and in the whole is there.
    bands = found[:300].reshape(300, 16, 4)
    keyed = {frozenset(pair) for pair in few.tolist()}
    for band in range(16):
        groups = itertools.groupby(
            sorted(range(300), key=lambda i, b=band: bands[i, b].tolist()),
            key=lambda i, b=band: bands[i, b].tolist(),
        )
        for _, members in groups:
            same = list(members)
            if len(same) > 16:
                continue
            for a, b in itertools.combinations(same, 2):
                if codes[a] != codes[b] and agree[a, b] >= ALIKE - 0.25:
                    assert frozenset((a, b)) in keyed
