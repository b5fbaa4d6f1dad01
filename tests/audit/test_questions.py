"""Question sets: what is asked twice in other words, graphs in two splits, vectors of elements."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

import maghub
from maghub import registry
from maghub.audit import run
from maghub.audit.checks import OF_GRAPHS
from maghub.cli.app import app
from maghub.encoding.base import Encoder
from maghub.mkg import write_benchmark
from tests.helpers import audited
from tests.helpers.audited import MANY, ids, starting
from tests.helpers.folders import change_table, read_rows
from tests.helpers.kgrag import BUILDER, own_card, picture, small_records
from tests.helpers.real import real
from tests.helpers.stand_in import StandIn

SET = "subway-reasoning"
GRAPHS = "subway-reasoning-graphs"
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("questions") / "clegr"
    options = {"domain": "subway", "question_set": "reasoning", "size": "small"}
    maghub.build("clegr", folder, graphs=40, **options)
    return folder


@pytest.fixture
def clegr(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "clegr"))


def change_rows(folder: Path, config: str, split: str, change: Callable[[Rows], object]) -> None:
    """Change the rows of a split in place."""

    def changed(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        change(rows)
        return pa.Table.from_pylist(rows, table.schema)

    change_table(folder, config, changed, split)


def first_row(folder: Path, split: str) -> int:
    """The number of the first row of a split among all rows of the set."""
    splits = maghub.load(folder).spec.config(SET).splits
    names = list(splits)
    return sum(splits[name] for name in names[: names.index(split)])


def test_a_clean_set_has_no_failure_and_says_what_does_not_apply(built: Path) -> None:
    report = run(built)
    assert [check.name for check in report.checks if check.verdict == "fail"] == []
    assert starting(report, "one fact asked in two splits").verdict == "ok"
    assert starting(report, "graphs in two splits").total == 16
    assert starting(report, "one question, two answers").count == 0
    skipped = {check.name: check.summary for check in report.checks if check.verdict == "skipped"}
    assert set(OF_GRAPHS) <= set(skipped)
    assert skipped[f"equal texts across splits: {SET}"] == "the same words are about another graph"


def swapped(row: dict[str, Any]) -> dict[str, Any]:
    one, other = row["arguments"]
    text = row["question"].replace(f"{one} and {other}", f"{other} and {one}")
    assert text != row["question"]
    return row | {"question": text, "arguments": [other, one]}


def test_a_fact_asked_again_in_other_words_is_found(clegr: Path) -> None:
    train = read_rows(clegr, SET, "train")
    pairs = [row for row in train if row["question_type"] == "StationPairAdjacent"][:10]
    single = [row for row in train if row["question_type"] == "StationTwoHops"][:10]
    planted = [swapped(row) for row in pairs]
    planted += [row | {"question": f"Say how far one gets: {i}?"} for i, row in enumerate(single)]

    def plant(rows: Rows) -> None:
        for i, row in enumerate(planted):
            rows[5 * i] = row | {"question_id": rows[5 * i]["question_id"]}

    change_rows(clegr, SET, "test", plant)
    report = run(clegr, examples=MANY)
    found = starting(report, "one fact asked in two splits")
    start = first_row(clegr, "test")
    assert ids(found) == {start + 5 * i for i in range(len(planted))}
    assert found.verdict in ("warn", "fail")
    assert all("(test)" in e.text and "(train)" in e.text for e in found.examples)
    assert starting(report, "graphs in two splits").verdict == "fail"


def test_a_graph_under_another_name_is_found(clegr: Path) -> None:
    other = read_rows(clegr, GRAPHS, "train")[0]

    def plant(rows: Rows) -> None:
        nodes = other["node_texts"][::-1]
        rows[2] |= {"node_texts": nodes, "edge_texts": other["edge_texts"]}

    change_rows(clegr, GRAPHS, "test", plant)
    found = starting(run(clegr), "graphs in two splits")
    assert (found.count, found.total, found.verdict) == (1, 16, "fail")
    assert found.examples[0].text.startswith(read_rows(clegr, GRAPHS, "test")[2]["graph_id"])


def test_two_answers_and_one_answer_for_all_are_found(clegr: Path) -> None:
    def plant(rows: Rows) -> None:
        row = rows[0]
        rows[1] = row | {"question_id": rows[1]["question_id"], "answer": "quite another"}
        rows[1]["answer_list"] = []
        for row in rows:
            if row["question_type"] == "LineTotalSizeCount":
                row["answer"] = "7"

    for split in ("train", "validation", "test"):
        change_rows(clegr, SET, split, plant)
    report = run(clegr, examples=MANY)
    answers = starting(report, "one question, two answers")
    assert answers.count == 6
    assert ids(answers) == {first_row(clegr, s) for s in ("train", "validation", "test")}
    guess = starting(report, "answers known from the template")
    assert guess.verdict == "warn"
    assert any(example.text.startswith("LineTotalSizeCount: ") for example in guess.examples)


class Projector(StandIn):
    """Vectors that depend on the words."""

    spec = StandIn.spec.model_copy(update={"dim": {"text": 64}})

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return audited.projected(list(texts)).astype(np.float32)


@pytest.mark.parametrize("shuffle", [False, True])
def test_vectors_of_elements_must_be_those_of_their_sentences(
    clegr: Path, shuffle: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder: type[Encoder] = Projector
    monkeypatch.setattr(registry, "get", lambda group, name: encoder)
    maghub.encode(clegr, "projector")
    (config,) = maghub.load(clegr).spec.of_kind("element_embeddings")
    if shuffle:

        def mix(table: pa.Table) -> pa.Table:
            order = np.random.default_rng(1).permutation(len(table))
            place = table.column_names.index("text")
            return table.set_column(place, table.schema.field("text"), table["text"].take(order))

        change_table(clegr, config.name, mix)
    report = run(clegr)
    match = report.check(f"vectors match their rows: {config.name} text")
    assert match.verdict == ("fail" if shuffle else "ok"), match
    shared = report.check(f"vectors shared by different inputs: {config.name} text")
    assert shared.verdict == "ok"


def test_analogies_that_ask_one_fact_are_found(tmp_path: Path) -> None:
    from tests.helpers.questions import write_analogies

    planted = write_analogies(tmp_path / "mars")
    report = run(tmp_path / "mars", examples=MANY)
    found = starting(report, "one fact asked in two splits")
    assert ids(found) == planted
    for name in ("graphs in two splits", "one question, two answers", "equal texts across splits"):
        assert report.check(f"{name}: mars").verdict == "skipped"


def test_queries_that_mask_one_triplet_are_found_unless_the_split_keeps_them_together(
    tmp_path: Path,
) -> None:
    out = tmp_path / "rag"
    write_benchmark(small_records(), own_card(), out, builder=BUILDER, pictures=picture)
    report = run(out, examples=MANY)
    splits = {name: read_rows(out, "queries", name) for name in ("train", "validation", "test")}
    forms = {
        name: [tuple(row[c] for c in ("masked", "head_id", "rel_id", "tail_id")) for row in rows]
        for name, rows in splits.items()
    }
    wanted, start = set(), len(forms["train"])
    for name in ("validation", "test"):
        others = {form for other, own in forms.items() if other != name for form in own}
        wanted |= {start + i for i, form in enumerate(forms[name]) if form in others}
        start += len(forms[name])
    assert wanted
    found = report.check("one fact asked in two splits: queries")
    assert ids(found) == wanted
    assert report.check("one fact asked in two splits: group-queries").count == 0


def test_analogies_of_mars_that_ask_one_fact_are_counted(tmp_path: Path) -> None:
    """191 by a separate count of (question, relation) over the three files of the authors."""
    source = real("markg_mars")
    maghub.build("markg", tmp_path / "markg", source)
    parts = {
        part: [json.loads(line) for line in (source / "MARS" / f"{part}.json").open("rb")]
        for part in ("train", "dev", "test")
    }
    asked = {part: [(r["question"], r["relation"]) for r in rows] for part, rows in parts.items()}
    expected = 0
    for part in ("dev", "test"):
        others = {fact for other, facts in asked.items() if other != part for fact in facts}
        expected += sum(fact in others for fact in asked[part])
    found = run(tmp_path / "markg").check("one fact asked in two splits: mars")
    assert (found.count, found.total, found.verdict) == (expected, 2_382, "fail")
    assert expected == 191


def test_the_command_takes_a_question_set(built: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = CliRunner().invoke(app, ["audit", str(built), "--json", "--html", str(page)])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["node_split"] is None
    assert "one fact asked in two splits" in page.read_text("utf-8")
