"""The per-template majority baseline: what one reaches who knows the templates and no graph."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any


def majority_answers(training: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The most common training answer per question type; of equally common ones the first seen."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for row in training:
        seen[row["question_type"]][row["answer"]] += 1
    return {kind: counts.most_common(1)[0][0] for kind, counts in seen.items()}


def majority_predictions(
    training: Iterable[Mapping[str, Any]], questions: Iterable[Mapping[str, Any]]
) -> dict[str, str]:
    """Predictions by question id; a type without training questions is predicted ''."""
    answers = majority_answers(training)
    return {row["question_id"]: answers.get(row["question_type"], "") for row in questions}
