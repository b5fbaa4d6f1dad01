"""Looking into validation reports and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from maghub.errors import MaghubError
from maghub.validation import Problem, Report


def lines(report: Report) -> list[str]:
    """All problems as the CLI prints them."""
    return [problem.line() for problem in report.problems]


def found(report: Report, file: str, column: str | None, text: str) -> Problem:
    """The one problem of a place whose message holds a text; shows all lines if there is none."""
    here = [p for p in report.problems if (p.file, p.column) == (file, column)]
    hits = [problem for problem in here if text in problem.message]
    assert len(hits) == 1, "\n".join([f"{file}, {column}, {text!r} in:", *lines(report)])
    return hits[0]


def one_line(error: MaghubError, *words: str) -> None:
    """The error is one line that holds these words."""
    line = error.line()
    assert "\n" not in line
    assert not [word for word in words if word not in line], line


def refusal(call: Callable[..., object], *args: Any, **options: Any) -> str:
    """The error that a call ends in, one line."""
    with pytest.raises(MaghubError) as caught:
        call(*args, **options)
    text = str(caught.value)
    assert "\n" not in text
    return text
