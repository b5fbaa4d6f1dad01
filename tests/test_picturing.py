"""The picture of the statistics: to scale, small, whole XML for any names; a browser shows it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maghub
from maghub.layout import CARD_FILE, PICTURE_FILE
from maghub.loading import sample_path
from maghub.picturing import MOST_ROWS, render_picture
from maghub.spec import FolderSpec, read_spec
from tests.audit.test_audit_page import browse
from tests.helpers.folders import change_spec, write_valid
from tests.helpers.reports import found

SVG = "{http://www.w3.org/2000/svg}"
BLUE = (0x3B, 0x6F, 0xB6)


@pytest.fixture(scope="module")
def spec() -> FolderSpec:
    emoji = sample_path("emoji")
    assert emoji is not None
    return read_spec(emoji)


def with_classes(spec: FolderSpec, classes: dict[str, int]) -> FolderSpec:
    assert spec.statistics is not None
    statistics = spec.statistics.model_copy(update={"classes": classes, "degrees": {}})
    return spec.model_copy(update={"statistics": statistics})


def bars(text: str) -> list[tuple[str, float, str]]:
    """Name, length and count of each bar."""
    (group,) = ET.fromstring(text).iter(f"{SVG}g")
    items = list(group)
    found = []
    for place, item in enumerate(items):
        if item.tag == f"{SVG}rect":
            name, count = items[place - 1].text, items[place + 1].text
            found.append((name or "", float(item.attrib["width"]), count or ""))
    return found


def test_bars_are_the_counts_to_scale(spec: FolderSpec) -> None:
    assert spec.statistics is not None
    drawn = bars(render_picture(spec))
    counts = [*spec.statistics.degrees.items(), *spec.statistics.classes.items()]
    assert [(name, count) for name, _, count in drawn] == [(n, f"{c:,}") for n, c in counts]
    for part in (spec.statistics.degrees, spec.statistics.classes):
        lengths = {name: length for name, length, _ in drawn if name in part}
        longest = max(part.values())
        for name, count in part.items():
            assert lengths[name] == pytest.approx(150 * count / longest, abs=0.06)


def test_the_smallest_shows_and_nothing_does_not(spec: FolderSpec) -> None:
    drawn = bars(render_picture(with_classes(spec, {"a": 1_000_000, "b": 1, "c": 0})))
    assert drawn == [("a", 150, "1,000,000"), ("b", 1, "1"), ("c", 0, "0")]


def test_many_classes_are_the_greatest_and_the_rest(spec: FolderSpec) -> None:
    classes = {f"class {i} {'x' * i}": (i * 37) % 500 for i in range(500)}
    text = render_picture(with_classes(spec, classes))
    drawn = bars(text)
    assert len(drawn) == MOST_ROWS
    assert drawn[0][2] == "499"
    assert drawn[-1][0] == f"{500 - MOST_ROWS + 1} more together"
    total = sum(int(count.replace(",", "")) for _, _, count in drawn)
    assert total == sum(classes.values())
    assert len(text.encode()) < 20_000


NAMES = st.text(max_size=40) | st.sampled_from(
    ["<b>&", "]]>", "\x00", "\ufffe", "a\x85b", "\ud800"]
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(NAMES, st.integers(0, 10**12), max_size=40))
def test_any_names_give_whole_small_xml(classes: dict[str, int]) -> None:
    emoji = sample_path("emoji")
    assert emoji is not None
    text = render_picture(with_classes(read_spec(emoji), classes))
    data = text.encode("utf-8")
    ET.fromstring(data)
    assert len(data) < 20_000
    assert "<b>" not in text


def test_a_folder_without_a_graph_shows_its_tables(tmp_path: Path) -> None:
    options = {"domain": "subway", "question_set": "facts", "size": "small", "graphs": 5}
    spec = maghub.build("clegr", tmp_path / "clegr", **options)
    text = (tmp_path / "clegr" / PICTURE_FILE).read_text("utf-8")
    assert [(name, count) for name, _, count in bars(text)] == [
        ("subway-facts", f"{spec.config('subway-facts').rows:,}"),
        ("subway-facts-graphs", "5"),
    ]
    card = (tmp_path / "clegr" / CARD_FILE).read_text("utf-8")
    assert f"![rows by config]({PICTURE_FILE})" in card


def test_lengths_of_texts_outside_a_graph_are_counted(tmp_path: Path) -> None:
    options = {"domain": "subway", "question_set": "facts", "size": "small", "graphs": 5}
    spec = maghub.build("clegr", tmp_path / "clegr", **options)
    mag = maghub.load(tmp_path / "clegr")
    questions = list(mag.table("subway-facts")["question"])
    own = spec.text_lengths["subway-facts.question"]
    words = sorted(len(text.split()) for text in questions)
    assert own.texts == len(questions)
    assert (own.words["p0"], own.words["p100"]) == (words[0], words[-1])
    assert own.chars["p100"] == max(map(len, questions))
    sentences = [t for texts in mag.table("subway-facts-graphs")["node_texts"] for t in texts]
    assert spec.text_lengths["subway-facts-graphs.node_texts"].texts == len(sentences)
    assert "subway-facts.question_type" not in spec.text_lengths
    text = (tmp_path / "clegr" / CARD_FILE).read_text("utf-8")
    assert f"| `subway-facts.question` | {len(questions):,} |" in text
    assert maghub.validate(tmp_path / "clegr").ok
    change_spec(tmp_path / "clegr", lambda data: data.pop("text_lengths"), readme=True)
    found(maghub.validate(tmp_path / "clegr"), "maghub.json", "text_lengths", "not what the tables")


def test_words_of_nodes_are_what_stands_between_blanks(tmp_path: Path) -> None:
    write_valid(tmp_path / "toy")
    stored = read_spec(tmp_path / "toy").statistics
    assert stored is not None
    words = sorted(len(text.split()) for text in maghub.load(tmp_path / "toy").nodes["text"])
    assert (stored.text_words["p0"], stored.text_words["p100"]) == (words[0], words[-1])


def test_a_stale_or_missing_picture_is_a_problem(tmp_path: Path) -> None:
    folder = tmp_path / "toy"
    write_valid(folder)
    picture = folder / PICTURE_FILE
    picture.write_text(picture.read_text("utf-8").replace("nodes", "knots"), "utf-8")
    found(maghub.validate(folder), PICTURE_FILE, None, "is not what maghub.json gives")
    picture.unlink()
    found(maghub.validate(folder), PICTURE_FILE, None, "is missing")


@pytest.mark.integration
def test_a_browser_shows_it_as_the_readme_links_it(tmp_path: Path) -> None:
    folder = tmp_path / "toy"
    write_valid(folder)
    (link,) = re.findall(r"!\[([^]]+)\]\(([^)]+)\)", (folder / CARD_FILE).read_text("utf-8"))
    assert link == ("nodes by degree and nodes by class", PICTURE_FILE)
    page = folder / "page.html"
    policy = "default-src 'none'; img-src 'self' file:; style-src 'none'"
    page.write_text(
        f'<!doctype html><meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<link rel="icon" href="data:,"><img src="{link[1]}" alt="{link[0]}">',
        "utf-8",
    )
    console, shot = browse(page, tmp_path)
    assert [line for line in console if PICTURE_FILE in line] == []
    drawn = bars((folder / PICTURE_FILE).read_text("utf-8"))
    wanted = sum(length for _, length, _ in drawn) * 14
    assert (shot == BLUE).all(axis=2).sum() == pytest.approx(wanted, rel=0.05)
    assert len(np.unique(shot.reshape(-1, 3), axis=0)) > 10  # and names beside them
