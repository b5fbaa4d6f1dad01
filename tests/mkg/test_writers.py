"""What every question must satisfy, and the offline writer."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from maghub.errors import MaghubError
from maghub.mkg.prompts import data_text, described, fill, prompts
from maghub.mkg.rule_writer import RuleWriter
from maghub.mkg.writers import (
    GIVES_ANSWER,
    NAMES_HEAD,
    NO_IMAGE_WORD,
    NOT_ONE_LINE,
    Task,
    objection,
    open_writer,
)
from tests.helpers.kg_folders import says

TAIL = Task("k", "tail", "Eiffel Tower", "located in", "", "", "", "", ("Paris", "Île-de-France"))
RELATION = Task("k", "relation", "penicillin", "", "infection", "", "", "", ("used to treat",))
SHOWN = replace(TAIL, grounded=True)


@pytest.mark.parametrize(
    ("task", "question", "wanted"),
    [
        (TAIL, "Where is the Eiffel Tower?", None),
        (TAIL, "Is the Eiffel Tower in PARIS?", GIVES_ANSWER),
        (TAIL, "Is it in ile-de-france or île de france?", GIVES_ANSWER),
        (TAIL, "Who are the Parisians?", None),
        (RELATION, "How is penicillin related to infection?", None),
        (RELATION, "Is penicillin used  to  treat infection?", GIVES_ANSWER),
        (SHOWN, "In which city is the landmark in [Image]?", None),
        (SHOWN, "In which city is this?", NO_IMAGE_WORD),
        (SHOWN, "In which city is [Image], the Eiffel tower?", NAMES_HEAD),
        (SHOWN, "Is [Image] in Paris?", GIVES_ANSWER),
        (replace(SHOWN, answers=("image",)), "Where is [Image]?", None),  # the mark is no answer
        (replace(SHOWN, answers=("image",)), "Which image is [Image]?", GIVES_ANSWER),
        (TAIL, "", NOT_ONE_LINE),
        (TAIL, "two\nlines", NOT_ONE_LINE),
        (TAIL, "two\u2028lines", NOT_ONE_LINE),
        (TAIL, "long " * 100, NOT_ONE_LINE),
    ],
)
def test_objections(task: Task, question: str, wanted: str | None) -> None:
    assert objection(task, question) == wanted


NAME = st.one_of(
    st.text(min_size=1, max_size=10),
    st.sampled_from(["part", "subject", "relationship", "the subject", "Image", "city", "What"]),
)


@given(NAME, NAME, NAME, st.lists(NAME, min_size=1, max_size=3), st.booleans(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_no_question_of_the_rules_gives_anything_away(
    head: str, label: str, tail: str, answers: list[str], grounded: bool, mask_tail: bool
) -> None:
    mask = "tail" if mask_tail else "relation"
    task = Task("k", mask, head, label, tail, "", "", "", tuple(answers), grounded)  # type: ignore[arg-type]
    (outcome,) = RuleWriter(0).write([task])
    if outcome.value is None:
        assert outcome.reason
        return
    question = outcome.value.replace("[Image]", " ")
    assert not any(says(question, answer) for answer in answers)
    if grounded:
        assert "[Image]" in outcome.value
        assert not says(question, head)


DATA = yaml.safe_load(data_text("rule_writer.yaml"))


def test_every_template_is_one_question_about_the_head() -> None:
    for questions in DATA["tail"].values():
        assert len(set(questions)) == len(questions)
        for question in questions:
            assert re.findall(r"\{(\w+)\}", question) == ["head"]
            assert question.endswith("?")
            assert question[0].isupper()


@pytest.mark.parametrize(
    ("label", "wanted"),
    [
        ("located near to", {"What is X located near to?", "X is located near to what?"}),
        ("has wing", {"Which wing does X have?", "What does X have as its wing?"}),
        ("carries", {"What does X carry?", "What is it that X carries?"}),
        ("treats acute", {"What does X treat acute?", "What is it that X treats acute?"}),
        ("finding site", {"What is the finding site of X?", "Which finding site does X have?"}),
        ("status", {"What is the status of X?", "Which status does X have?"}),
        ("driving side", {q.replace("{head}", "X") for q in DATA["tail"]["driving side"]}),
        ("Driving-Side", {q.replace("{head}", "X") for q in DATA["tail"]["driving side"]}),
    ],
)
def test_grammar_of_labels(label: str, wanted: set[str]) -> None:
    tasks = [Task(str(i), "tail", "X", label, "", "", "", "", ("answer",)) for i in range(20)]
    assert {one.value for one in RuleWriter(0).write(tasks)} == wanted


def test_another_template_is_taken_where_one_gives_the_answer_away() -> None:
    template = "What larger whole does X belong to?"
    for key in range(20):
        task = Task(str(key), "tail", "X", "part of", "", "", "", "", ("whole",))
        (outcome,) = RuleWriter(0).write([task])
        assert outcome.value == "What is X a part of?" != template


def test_draws_depend_on_the_form_and_the_seed_alone() -> None:
    tasks = [Task(str(i), "tail", f"X{i}", "genre", "", "", "", "", ("y",)) for i in range(30)]
    first = RuleWriter(0).write(tasks)
    assert RuleWriter(0).write(tasks[::-1])[::-1] == first
    assert RuleWriter(1).write(tasks) != first


def test_no_value_is_taken_for_a_place() -> None:
    assert fill("{head}: {tail} {x}", head="{tail}", tail="T") == "{tail}: T {x}"


def test_prompts_leave_nothing_open() -> None:
    said = prompts()
    filled = fill(said["filter"]["user"], head="a {b}", relation="r", tail="t")
    assert filled == "Head: a {b}\nRelation: r\nTail: t"
    for mask in ("tail", "relation"):
        text = fill(said["question"][mask], head="H", relation="R", tail="T")
        assert "{" not in text
        assert "[Mask]" in text
        assert ("R" in text.replace("Relation", ""), "T\n" in text) == (
            mask == "tail",
            mask == "relation",
        )


def test_descriptions_are_short() -> None:
    assert described("Sun", "sun") == "Sun"
    assert described("Sun", " our\nstar ") == "Sun (our star)"
    assert len(described("Sun", "x" * 1000)) < 320


@pytest.mark.parametrize("name", ["rules", "rule:x", "openia:gpt", "", "gpt-5"])
def test_unknown_writers(name: str) -> None:
    with pytest.raises(MaghubError) as error:
        open_writer(name)
    line = error.value.line()
    assert f"unknown writer '{name}'" in line
    assert "\n" not in line
    assert "rule" in line or "openai:MODEL" in line


@pytest.mark.parametrize("name", ["openai:", "local:"])
def test_a_model_must_be_named(name: str) -> None:
    with pytest.raises(MaghubError, match="names no model"):
        open_writer(name)
