"""Judging one given answer against the graph: agree, ambiguous, disagree or unrecognised."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from maghub.clegr.answers import as_boolean, as_number, as_text
from maghub.clegr.index import Index
from maghub.clegr.paths import TooManyStatesError
from maghub.clegr.questions import answer_text
from maghub.clegr.recognise import Recognised, recognise
from maghub.clegr.routes import count_routes
from maghub.clegr.solver import Answer, Arguments
from maghub.clegr.template import BOOLEAN, LIST, NUMERIC, Template, well_posed_answer

AGREE, DISAGREE, UNRECOGNISED = "agree", "disagree", "unrecognised"
_ROUTES: Final = 10**9
_STEPS: Final = 1_000_000


@dataclass(frozen=True)
class Verdict:
    """What became of one question.

    Attributes:
        outcome: ``agree``, ``disagree`` or ``unrecognised``.
        ambiguous: Whether the graph allows several answers, the given one among them.
        type: The recognised question type; empty where there is none.
        expected: The answers the graph allows, as text.
        reason: Why the question was not recognised.
    """

    outcome: str
    ambiguous: bool = False
    type: str = ""
    expected: str = ""
    reason: str = ""


def judge(index: Index, text: str, given: object, semantics: str) -> Verdict:
    """Re-derive the answer of a question from its text and compare.

    Args:
        index: The graph.
        text: The question, with or without suffix.
        given: The answer to check, as a JSON value or its text.
        semantics: ``compat`` or ``well_posed``.
    """
    found = recognise(index, text)
    if not found:
        return Verdict(UNRECOGNISED, reason="no template has this wording")
    verdicts = [_one(index, reading, given, semantics) for reading in found]
    for outcome in (AGREE, DISAGREE):
        for verdict in sorted(verdicts, key=lambda v: v.ambiguous):
            if verdict.outcome == outcome:
                return verdict
    return verdicts[0]


def _one(index: Index, reading: Recognised, given: object, semantics: str) -> Verdict:
    template, args = reading.template, reading.arguments
    if args is None:
        return Verdict(UNRECOGNISED, type=template.name, reason=reading.unknown)
    value = _canonical(template, given)
    if semantics == "well_posed":
        return _well_posed(index, template, args, value)
    return _compat(index, template, args, value)


def _well_posed(index: Index, template: Template, args: Arguments, value: object) -> Verdict:
    """Exactly one answer, and that one; a question with several is ambiguous and disagrees."""
    index.too_many_routes = False
    answer = well_posed_answer(template, index, args)
    if answer is not None:
        outcome = AGREE if value == _canonical(template, answer) else DISAGREE
        return Verdict(outcome, type=template.name, expected=answer_text(answer))
    compat = _compat(index, template, args, value)
    if compat.outcome == UNRECOGNISED:
        return compat
    expected = f"no single answer ({compat.expected})"
    return Verdict(DISAGREE, compat.outcome == AGREE, template.name, expected)


def _compat(index: Index, template: Template, args: Arguments, value: object) -> Verdict:
    """The first answer, or another valid one (reported as ambiguous)."""
    name = template.name
    first = template.solve(index, args) if name != "DistinctRoutes" else _routes(index, args)
    if first is None and name == "DistinctRoutes":
        return Verdict(UNRECOGNISED, type=name, reason="too many routes to count")
    try:
        valid = template.readings(index, args) if template.readings else set()
    except TooManyStatesError:
        if first is not None and value == _canonical(template, first):
            return Verdict(AGREE, True, name, answer_text(first))
        return Verdict(UNRECOGNISED, type=name, reason="too many shortest paths to compare")
    answers = {answer for answer in {*valid, first} if answer is not None}
    expected = " | ".join(sorted(map(answer_text, answers))) or "no answer"
    if any(value == _canonical(template, answer) for answer in answers):
        return Verdict(AGREE, len(answers) > 1, name, expected)
    others = template.stored(index, args) if template.stored else set()
    if any(value == _canonical(template, answer) for answer in others if answer is not None):
        return Verdict(AGREE, True, name, expected)
    return Verdict(DISAGREE, type=name, expected=expected)


def _routes(index: Index, args: Arguments) -> int | None:
    return count_routes(index, args[0], args[1], _ROUTES, _STEPS)


def _canonical(template: Template, value: Answer | object) -> object:
    """An answer in a form that compares: boolean, number, set of names, or text."""
    if template.output == LIST:
        return frozenset(_items(value))
    text = as_text(value).strip()
    if template.output == BOOLEAN:
        return as_boolean(text)
    if template.output == NUMERIC:
        number, fallback = as_number(text)
        return None if fallback else number
    return text


def _items(value: object) -> Iterable[str]:
    """The names of a list answer: a list, the text of a Python list or set, or comma-separated."""
    if isinstance(value, list | tuple | set | frozenset):
        return [as_text(item).strip() for item in value]
    text = as_text(value).strip()
    if text[:1] in "[{(" and text:
        try:
            literal = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            literal = None
        if isinstance(literal, list | tuple | set):
            return [as_text(item).strip() for item in literal]
    return [] if text in ("", "set()") else [item.strip() for item in text.split(",")]
