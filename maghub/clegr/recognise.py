"""Recognising a question's template and arguments from its text alone, with or without suffix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from maghub.clegr.arguments import NODE_SLOTS, VALUE_SLOTS
from maghub.clegr.index import Index
from maghub.clegr.schema import LINE_VALUES
from maghub.clegr.solver import Arguments
from maghub.clegr.template import SUFFIXES, Template
from maghub.clegr.templates import ALL_TEMPLATES

_MISSING = object()
_LONGEST = 2_000
"""Characters of the longest question that is looked at."""


@dataclass(frozen=True)
class Recognised:
    """A template and its arguments; ``arguments`` is None when it names an unknown entity."""

    template: Template
    arguments: Arguments | None
    unknown: str = ""


def without_suffix(text: str) -> str:
    """The question without its answer-format suffix and outer white space."""
    text = text.strip()
    for suffix in SUFFIXES.values():
        if text.endswith(suffix.strip()):
            return text[: -len(suffix.strip())].rstrip()
    return text


@cache
def _pieces(domain: str) -> tuple[tuple[Template, tuple[str, ...]], ...]:
    """Templates of a domain with the fixed pieces of their wording; the longest first."""
    known = [t for t in ALL_TEMPLATES if t.domain == domain]
    known.sort(key=lambda t: -len(t.wording))
    return tuple((t, tuple(t.wording.split("{}"))) for t in known)


def recognise(index: Index, text: str) -> list[Recognised]:
    """All readings of a question's text: those with known arguments, else those without.

    Several templates share a wording (a true and a free draw of one question); their answers
    agree, except that existence is told by the name alone.
    """
    text = without_suffix(text)
    if len(text) > _LONGEST:
        return []
    good: list[Recognised] = []
    bad: list[Recognised] = []
    for template, pieces in _pieces(index.graph.domain):
        if not text.startswith(pieces[0]) or not text.endswith(pieces[-1]):
            continue
        for values in _fill(text[len(pieces[0]) :], pieces[1:]):
            found = _arguments(index, template, values)
            (bad if found.arguments is None else good).append(found)
    return good or bad


def _fill(text: str, pieces: tuple[str, ...]) -> Iterator[list[str]]:
    """Every way of cutting ``text`` into values followed by the fixed pieces."""
    if not pieces:
        if not text:
            yield []
        return
    piece, rest = pieces[0], pieces[1:]
    if not rest:
        end = len(text) - len(piece)
        if end > 0 and text.endswith(piece):
            yield [text[:end]]
        return
    at = text.find(piece, 1)
    while at >= 0:
        for values in _fill(text[at + len(piece) :], rest):
            yield [text[:at], *values]
        at = text.find(piece, at + 1)


def _arguments(index: Index, template: Template, values: list[str]) -> Recognised:
    """Look the values up in the graph."""
    found: list[Any] = []
    for slot, value in zip(template.slots, values, strict=True):
        argument = _lookup(index, slot, value)
        if argument is _MISSING:
            return Recognised(template, None, f"unknown {slot} '{value[:60]}'")
        found.append(argument)
    return Recognised(template, tuple(found))


def _lookup(index: Index, slot: str, value: str) -> object:
    """A node or line number, or the attribute value itself."""
    if slot in NODE_SLOTS:
        return index.node_by_name.get(value, _MISSING)
    if slot == "line":
        return index.line_by_name.get(value, _MISSING)
    if slot == "fake":
        return _MISSING if value in index.node_by_name else value
    if slot == "color":
        return value if value in index.lines["color"] or value in LINE_VALUES["color"] else _MISSING
    known = value in VALUE_SLOTS[slot] or value in index.nodes[slot]
    return value if known else _MISSING
