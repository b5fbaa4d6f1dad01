"""Scoring predictions as the paper does (D.1, D.2): what cannot be read is wrong, never an error.

Beyond the paper: the number fallback takes the first well-formed number (the released one glues
all digits together), and both fallbacks and unparsable predictions are counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from maghub.clegr.answers import as_boolean, as_number, as_set, as_text, normalise
from maghub.clegr.external import json_lines
from maghub.clegr.template import BOOLEAN, LIST, NUMERIC, STRING
from maghub.errors import MaghubError, nearest

OUTPUTS: Final = (STRING, BOOLEAN, NUMERIC, LIST)
_OUTCOMES: Final = ((True, True), (True, False), (False, True), (False, False))
"""(answer, prediction): true positive, false negative, false positive, true negative."""


@dataclass(frozen=True)
class Scored:
    """One prediction against its answer.

    Attributes:
        correct: Whether it is right.
        parsed: Whether the prediction could be read at all.
        fallback: Whether a number had to be searched for in the text.
        predicted: The prediction as read: a boolean, a number, or (precision, recall, f1).
        answer: The answer as read.
    """

    correct: bool
    parsed: bool
    fallback: bool = False
    predicted: Any = None
    answer: Any = None


def _score_string(prediction: str, answer: str) -> Scored:
    found = normalise(prediction)
    return Scored(bool(found) and found == normalise(answer), bool(found))


def _score_boolean(prediction: str, answer: str) -> Scored:
    found, right = as_boolean(prediction), as_boolean(answer)
    return Scored(found is not None and found == right, found is not None, False, found, right)


def _score_number(prediction: str, answer: str) -> Scored:
    found, fallback = as_number(prediction)
    right, _ = as_number(answer)
    if found is None or right is None:
        return Scored(False, found is not None, fallback, found, right)
    return Scored(bool(np.isclose(found, right)), True, fallback, found, right)


def _score_list(prediction: str, answer: str) -> Scored:
    found, right = as_set(prediction), as_set(answer)
    both = len(found & right)
    precision = both / len(found) if found else float(not right)
    recall = both / len(right) if right else float(not found)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    parsed = bool(found) or not right
    return Scored(found == right, parsed, False, (precision, recall, f1), right)


_SCORERS: Final[Mapping[str, Callable[[str, str], Scored]]] = {
    STRING: _score_string,
    BOOLEAN: _score_boolean,
    NUMERIC: _score_number,
    LIST: _score_list,
}


def score_answer(output_type: str, prediction: object, answer: object) -> Scored:
    """Score one prediction; any object may be predicted.

    Raises:
        MaghubError: For an unknown output type (never for a prediction).
    """
    if output_type not in _SCORERS:
        raise nearest(output_type, OUTPUTS, kind="output type")
    return _SCORERS[output_type](as_text(prediction), as_text(answer))


@dataclass
class Bucket:
    """Scores of one slice of the questions."""

    questions: int = 0
    correct: int = 0
    unparsable: int = 0
    fallback: int = 0
    missing: int = 0
    scored: dict[str, list[Scored]] = field(default_factory=dict)

    def add(self, output_type: str, scored: Scored, missing: bool) -> None:
        """Add one question."""
        self.questions += 1
        self.correct += scored.correct
        self.missing += missing
        self.unparsable += not scored.parsed and not missing
        self.fallback += scored.fallback
        self.scored.setdefault(output_type, []).append(scored)

    def report(self) -> dict[str, Any]:
        """Accuracy, counts, and the metrics of each output type in the slice."""
        metrics: dict[str, Any] = {
            "questions": self.questions,
            "accuracy": self.correct / self.questions if self.questions else 0.0,
            "unparsable": self.unparsable,
            "number_fallback": self.fallback,
            "missing": self.missing,
        }
        for output, measure in ((BOOLEAN, _booleans), (NUMERIC, _numbers), (LIST, _sets)):
            if output in self.scored:
                metrics[output.lower()] = measure(self.scored[output])
        return metrics


def _booleans(scored: list[Scored]) -> dict[str, float]:
    """F1 (of True, and macro) and MCC; an unparsable answer counts as the wrong one.

    As scikit-learn defines them; a metric that would divide by zero is 0.
    """
    known = [one for one in scored if one.answer is not None]
    pairs = [(one.answer, one.predicted if one.parsed else not one.answer) for one in known]
    tp, fn, fp, tn = (pairs.count(pair) for pair in _OUTCOMES)
    product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    true, false = _f1(tp, fp, fn), _f1(tn, fn, fp)
    seen = [f1 for f1, count in ((true, tp + fp + fn), (false, tn + fp + fn)) if count]
    return {
        "questions": len(scored),
        "f1": true,
        "f1_macro": sum(seen) / len(seen) if seen else 0.0,
        "mcc": (tp * tn - fp * fn) / math.sqrt(product) if product else 0.0,
    }


def _f1(hits: int, false_alarms: int, misses: int) -> float:
    total = 2 * hits + false_alarms + misses
    return 2 * hits / total if total else 0.0


def _numbers(scored: list[Scored]) -> dict[str, float | None]:
    """MAE and RMSE over the predictions that could be read; None where there is none."""
    pairs = [
        (one.predicted, one.answer)
        for one in scored
        if one.predicted is not None and one.answer is not None
    ]
    if not pairs:
        return {"questions": len(scored), "parsed": 0, "mae": None, "rmse": None}
    found, right = np.asarray(pairs, dtype=np.longdouble).T
    error = np.abs(found - right)
    return {
        "questions": len(scored),
        "parsed": len(pairs),
        "mae": float(error.mean()),
        "rmse": float(np.sqrt((error**2).mean())),
    }


def _sets(scored: list[Scored]) -> dict[str, float]:
    """Mean precision, recall and F1 of sets."""
    precision, recall, f1 = np.mean([one.predicted for one in scored], axis=0).tolist()
    return {"questions": len(scored), "precision": precision, "recall": recall, "f1": f1}


@dataclass
class Report:
    """Scores of a prediction file.

    Attributes:
        overall: All questions.
        by: Slices by ``type``, ``group``, ``subgroup`` and ``scope``.
        duplicate: Predictions for a question that already had one (the first counts).
        unknown: Predictions whose question id the set does not have.
        unusable: Records without a question id.
        problems: The first of these, one line each.
    """

    overall: Bucket = field(default_factory=Bucket)
    by: dict[str, dict[str, Bucket]] = field(
        default_factory=lambda: {name: {} for name in ("type", "group", "subgroup", "scope")}
    )
    duplicate: int = 0
    unknown: int = 0
    unusable: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, question: Mapping[str, Any], scored: Scored, missing: bool) -> None:
        """Add one question to every slice it belongs to."""
        output = question["output_type"]
        self.overall.add(output, scored, missing)
        for name, values in (
            ("type", [question["question_type"]]),
            ("group", [question["question_group"]]),
            ("subgroup", question["question_subgroups"]),
            ("scope", [question["scope"]]),
        ):
            for value in values:
                self.by[name].setdefault(value, Bucket()).add(output, scored, missing)

    def problem(self, line: str) -> None:
        """Keep a problem; beyond the first twenty only the counts tell."""
        if len(self.problems) < 20:
            self.problems.append(line)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON values."""
        result = self.overall.report()
        for name in ("duplicate", "unknown", "unusable"):
            result[name] = getattr(self, name)
        for name, buckets in self.by.items():
            result[f"by_{name}"] = {key: buckets[key].report() for key in sorted(buckets)}
        result["problems"] = list(self.problems)
        return result


def score(
    questions: Iterable[Mapping[str, Any]],
    predictions: Mapping[str, object] | Iterable[object],
) -> Report:
    """Score predictions against the questions of a set.

    Args:
        questions: Question rows.
        predictions: Prediction by question id, or records ``{"question_id", "prediction"}``
            (``answer`` and ``output`` are taken too).

    Returns:
        The report. A question without a prediction is wrong and counted as missing; doubled,
        unknown and unusable records are counted.

    Raises:
        MaghubError: When there are no questions, or two of them share an id.
    """
    report = Report()
    given = _by_id(predictions, report)
    seen: set[str] = set()
    for question in questions:
        try:
            key = question["question_id"]
            scored = score_answer(question["output_type"], given.get(key), question["answer"])
            report.add(question, scored, key not in given)
        except KeyError as problem:
            raise MaghubError(f"a question row has no {problem}") from problem
        if key in seen:
            raise MaghubError(f"two questions have the id '{key}'")
        seen.add(key)
    if not seen:
        raise MaghubError("there are no questions to score", fix="check the set and the split")
    for key in given:
        if key not in seen:
            report.unknown += 1
            report.problem(f"unknown question id '{key[:80]}'")
    return report


def read_predictions(path: Path) -> Iterator[dict[str, Any] | MaghubError]:
    """Records of a JSON-lines file of predictions; a bad line is passed on and counted."""
    return (record for _, record in json_lines(Path(path)))


def _by_id(
    predictions: Mapping[str, object] | Iterable[object], report: Report
) -> dict[str, object]:
    """Predictions by question id; doubled and unusable records are counted."""
    if isinstance(predictions, Mapping):
        return {as_text(key): value for key, value in predictions.items()}
    given: dict[str, object] = {}
    for number, record in enumerate(predictions, start=1):
        if isinstance(record, MaghubError):
            report.unusable += 1
            report.problem(str(record))
            continue
        key = record.get("question_id") if isinstance(record, Mapping) else None
        if not isinstance(key, str) or not isinstance(record, Mapping):
            report.unusable += 1
            report.problem(f"record {number} has no question_id")
            continue
        if key in given:
            report.duplicate += 1
            report.problem(f"record {number} predicts '{key[:80]}' again; the first one counts")
            continue
        names = ("prediction", "answer", "output")
        given[key] = next((record[name] for name in names if name in record), None)
    return given
