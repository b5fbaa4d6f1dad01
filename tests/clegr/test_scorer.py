# ruff: noqa: E501  (tables of cases)
"""The D.1 scorer: never an exception for a prediction, nothing miscounted."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, matthews_corrcoef

from maghub.clegr.generate import SetConfig, generate_part
from maghub.clegr.scorer import OUTPUTS, read_predictions, score, score_answer
from maghub.errors import MaghubError

QUESTIONS = [
    row
    for domain in ("subway", "computer-networks")
    for question_set in ("facts", "reasoning")
    for row in generate_part(SetConfig(domain, question_set, graphs=3), 0).questions.to_pylist()
]


@pytest.mark.parametrize(
    ("output", "prediction", "answer", "correct", "parsed"),
    [
        ("String", " Art Deco. ", "art-deco", False, True),
        ("String", "ART-DECO!", "art-deco", True, True),
        ("String", "", "clean", False, False),
        ("String", "?!", "clean", False, False),
        ("Boolean", "Yes.", "True", True, True),
        ("Boolean", "0", "False", True, True),
        ("Boolean", "true", "False", False, True),
        ("Boolean", True, "True", True, True),
        ("Boolean", "maybe", "True", False, False),
        ("Boolean", None, "True", False, False),
        ("Numeric", "12", "12", True, True),
        ("Numeric", 12.0, "12", True, True),
        ("Numeric", "answer: 12", "12", True, True),
        ("Numeric", "3 or 4", "3", True, True),
        ("Numeric", "3 or 4", "34", False, True),
        ("Numeric", "about 1,250 stations", "1250", True, True),
        ("Numeric", "v2 is -7.5e1", "-75", True, True),
        ("Numeric", "seven", "7", False, False),
        ("Numeric", "nan", "7", False, False),
        ("Numeric", "9" * 400, "7", False, False),
        ("List", "Red Line; blue line", "Blue Line, Red Line", True, True),
        ("List", ["Blue Line", ["Red Line"]], "Blue Line, Red Line", True, True),
        ("List", "['Blue Line', 'Red Line']", "Blue Line, Red Line", True, True),
        ("List", "Blue Line", "Blue Line, Red Line", False, True),
        ("List", " ;, ", "Blue Line", False, False),
        ("List", "", "", True, True),
    ],
)
def test_single_answers(
    output: str, prediction: object, answer: str, correct: bool, parsed: bool
) -> None:
    scored = score_answer(output, prediction, answer)
    assert (scored.correct, scored.parsed) == (correct, parsed)


def test_set_scores() -> None:
    precision, recall, f1 = score_answer("List", "a, b, c", "b, c, d, e").predicted
    assert (precision, recall) == (2 / 3, 1 / 2)
    assert f1 == pytest.approx(4 / 7)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner),
    max_leaves=20,
)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(OUTPUTS), ANYTHING, st.text(max_size=30))
def test_no_prediction_raises(output: str, prediction: object, answer: str) -> None:
    scored = score_answer(output, prediction, answer)
    assert not (scored.correct and not scored.parsed)


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize(
    "prediction",
    ["x" * 10_000_000, "1" * 10_000_000, "a, " * 3_000_000, "\ud800\x00\u202e", "２３", "½",
     deep(100_000), Hostile(), 10**6000, [Hostile(), None, {"a": 1}], {3, "b"}, "1e999", "-", "1_0"],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_hostile_predictions(output: str, prediction: object) -> None:
    score_answer(output, prediction, "3")


def test_perfect_predictions() -> None:
    report = score(QUESTIONS, {row["question_id"]: row["answer"] for row in QUESTIONS}).to_dict()
    assert report["accuracy"] == 1.0
    assert report["questions"] == len(QUESTIONS)
    assert report["boolean"]["f1"] == report["boolean"]["mcc"] == 1.0
    assert report["numeric"]["mae"] == report["numeric"]["rmse"] == 0.0
    assert report["list"]["f1"] == 1.0
    for name in ("unparsable", "number_fallback", "missing", "duplicate", "unknown", "unusable"):
        assert report[name] == 0
    assert set(report["by_group"]) == {"FactBased", "ReasoningBased"}
    assert set(report["by_scope"]) == {"Node", "Edge", "Sub-graph"}
    assert set(report["by_subgroup"]) == {
        "Fact", "Aggregation", "Filtering", "PathReasoning", "Topology",
    }  # fmt: skip
    assert sum(part["questions"] for part in report["by_type"].values()) == len(QUESTIONS)
    json.dumps(report, allow_nan=False)


def test_metrics_equal_their_definitions() -> None:
    predictions = {
        row["question_id"]: ["True", "17", "Nowhere"][number % 3]
        for number, row in enumerate(QUESTIONS)
    }
    report = score(QUESTIONS, predictions).to_dict()
    booleans = [row for row in QUESTIONS if row["output_type"] == "Boolean"]
    right = [row["answer"] == "True" for row in booleans]
    found = [
        predictions[row["question_id"]] == "True" or row["answer"] == "False" for row in booleans
    ]
    found = [
        said == "True" if (said := predictions[row["question_id"]]) == "True" else not truth
        for row, truth in zip(booleans, right, strict=True)
    ]
    assert report["boolean"]["f1"] == pytest.approx(f1_score(right, found))
    assert report["boolean"]["mcc"] == pytest.approx(matthews_corrcoef(right, found))
    errors = [
        abs(17 - float(row["answer"]))
        for row in QUESTIONS
        if row["output_type"] == "Numeric" and predictions[row["question_id"]] == "17"
    ]
    assert report["numeric"]["parsed"] == len(errors)
    assert report["numeric"]["mae"] == pytest.approx(sum(errors) / len(errors))
    assert report["numeric"]["rmse"] == pytest.approx(
        (sum(e * e for e in errors) / len(errors)) ** 0.5
    )
    unparsable = sum(
        (row["output_type"] == "Boolean" and predictions[row["question_id"]] != "True")
        or (row["output_type"] == "Numeric" and predictions[row["question_id"]] != "17")
        for row in QUESTIONS
    )
    assert report["unparsable"] == unparsable


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_boolean_metrics_equal_scikit_learn(pairs: list[tuple[bool, bool]]) -> None:
    """For every mix of classes, those with a single one included."""
    base = next(row for row in QUESTIONS if row["output_type"] == "Boolean")
    rows = [
        {**base, "question_id": str(n), "answer": str(right)} for n, (right, _) in enumerate(pairs)
    ]
    report = score(rows, {str(n): found for n, (_, found) in enumerate(pairs)}).to_dict()["boolean"]
    right, found = zip(*pairs, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = {
            "f1": f1_score(right, found, zero_division=0.0),
            "f1_macro": f1_score(right, found, average="macro", zero_division=0.0),
            "mcc": matthews_corrcoef(right, found),
        }
    assert {name: report[name] for name in wanted} == pytest.approx(wanted)


def test_bad_records_are_counted() -> None:
    first, second, *_, last = [row["question_id"] for row in QUESTIONS]
    records: list[object] = [
        {"question_id": first, "prediction": QUESTIONS[0]["answer"]},
        {"question_id": first, "prediction": "again"},
        {"question_id": "nobody", "prediction": "x"},
        {"question_id": second},
        {"prediction": "no id"},
        {"question_id": 7, "prediction": "x"},
        "not a record",
        None,
        {"question_id": last, "answer": QUESTIONS[-1]["answer"]},
    ]
    report = score(QUESTIONS, records).to_dict()
    assert report["duplicate"] == 1
    assert report["unknown"] == 1
    assert report["unusable"] == 4
    assert report["missing"] == len(QUESTIONS) - 3
    assert report["accuracy"] == 2 / len(QUESTIONS)
    assert len(report["problems"]) == 6
    assert all("\n" not in line for line in report["problems"])


def test_prediction_files(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    record = {"question_id": QUESTIONS[0]["question_id"], "prediction": QUESTIONS[0]["answer"]}
    file.write_text(json.dumps(record) + "\nnot json\n\n[]\n")
    report = score(QUESTIONS[:1], read_predictions(file))
    assert (report.overall.correct, report.unusable) == (1, 2)
    assert "p.jsonl, row 2: the line is not JSON" in report.problems[0]
    with pytest.raises(MaghubError, match="cannot be read"):
        list(read_predictions(tmp_path / "none.jsonl"))


def test_unusable_sets_are_one_line() -> None:
    with pytest.raises(MaghubError, match="no questions"):
        score([], {})
    with pytest.raises(MaghubError, match="a question row has no 'answer'"):
        score([{"question_id": "a", "output_type": "String"}], {})
    with pytest.raises(MaghubError, match="two questions have the id"):
        score(QUESTIONS[:1] * 2, {})
    with pytest.raises(MaghubError, match="unknown output type"):
        score_answer("Text", "a", "a")
