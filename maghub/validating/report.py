"""What validation found: problems with file, column and first row, collected without repeats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maghub.errors import MaghubError, place

if TYPE_CHECKING:
    from maghub.validating.opened import Opened


@dataclass(frozen=True)
class Problem:
    """One kind of problem in one column of one table.

    Attributes:
        file: Path relative to the folder.
        column: Column, or field of a JSON or YAML file; None where the whole file is meant.
        row: First offending row within the file, from 0; None where no row is to blame.
        message: What is wrong, without a final full stop.
        fix: What to do about it.
        count: Rows (or values) with this problem over all files of the table.
    """

    file: str
    column: str | None
    row: int | None
    message: str
    fix: str | None = None
    count: int = 1

    def line(self) -> str:
        """The problem on one line, as the CLI prints it."""
        what = self.message + (f" ({self.count:,} in all)" if self.count > 1 else "")
        return MaghubError(what, where=place(self.file, self.column, self.row), fix=self.fix).line()


@dataclass(frozen=True)
class Report:
    """Result of ``validate``: all problems in a fixed order, and how much was looked at."""

    folder: str
    problems: list[Problem] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """Plain data for ``--json``."""
        problems = [asdict(problem) for problem in self.problems]
        return {"folder": self.folder, "ok": self.ok, "checked": self.checked, "problems": problems}


def rowwise(form: str, *columns: NDArray[np.int64]) -> Callable[[int], str]:
    """A message with the values of the offending row in place of each ``{}``."""
    parts = form.split("{}")

    def text(index: int) -> str:
        values = [str(column[index]) for column in columns]
        pairs = zip_longest(parts, values[: len(parts) - 1], fillvalue="")
        return "".join(part + value for part, value in pairs)

    return text


class Findings:
    """Collects problems; the same kind in the same column of a table is kept once and counted."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str | None, str], Problem] = {}

    def add(
        self,
        file: str,
        message: str,
        *,
        column: str | None = None,
        row: int | None = None,
        fix: str | None = None,
        kind: str | None = None,
        count: int = 1,
    ) -> None:
        """Note one problem; a second one of the same file, column and kind is dropped."""
        problem = Problem(file, column, row, message, fix, count)
        self._found.setdefault((file, column, kind or message), problem)

    def rows(
        self,
        table: Opened,
        column: str,
        kind: str,
        start: int,
        bad: NDArray[np.bool_],
        message: Callable[[int], str] | str,
        fix: str | None = None,
    ) -> None:
        """Note the rows ``start + flatnonzero(bad)`` of a table; the first one is described.

        Args:
            table: Where the rows are.
            column: The column to blame.
            kind: Rows of one kind are one problem, however many calls note them.
            start: Row of the table (over all its files) that ``bad[0]`` stands for.
            bad: Which rows are wrong.
            message: The message, or a function of the index into ``bad`` that gives it.
            fix: What to do.
        """
        count = int(np.count_nonzero(bad))
        if not count:
            return
        key = (f"{table.spec.name}/", column, kind)
        if known := self._found.get(key):
            self._found[key] = replace(known, count=known.count + count)
            return
        index = int(np.argmax(bad))
        file, row = table.locate(start + index)
        text = message if isinstance(message, str) else message(index)
        self._found[key] = Problem(file, column, row, text, fix, count)

    def problems(self) -> list[Problem]:
        """Everything noted, in the order it was first seen."""
        return list(self._found.values())
