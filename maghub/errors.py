"""One error type for everything a user can cause: what was wrong, where, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_TYPED = ("maghub ", "pip ", "-")
"""Fixes that begin so are typed as they stand: no capital at the start."""


class MaghubError(Exception):
    """A problem the user can understand and act on; the CLI prints it as one line.

    Args:
        what: What was wrong, without a final full stop.
        where: The place: a file, optionally with column and row.
        fix: What to do about it.
    """

    def __init__(self, what: str, *, where: object = None, fix: str | None = None) -> None:
        self.what = what
        self.where = None if where is None else str(where)
        self.fix = fix
        super().__init__(self.line())

    def line(self) -> str:
        """The whole error on one line."""
        text = f"{self.where}: {self.what}" if self.where else self.what
        if self.fix:
            first = self.fix[0] if self.fix.startswith(_TYPED) else self.fix[0].upper()
            text += f". {first}{self.fix[1:]}"
        return " ".join(text.split())


class MissingExtra(MaghubError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"this needs the package {package}, which is not installed",
            fix=f"run: pip install 'maghub[{extra}]'",
        )


def first_line(error: BaseException) -> str:
    """What an error says, on one line and without a full stop; its type where it says nothing."""
    text = error.what if isinstance(error, MaghubError) else str(error)
    return (text.splitlines() or [type(error).__name__])[0].rstrip(".")


def root_cause(error: BaseException) -> BaseException:
    """What an error began with: ``datasets`` itself says only that there was one."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def place(file: object, column: str | None = None, row: int | None = None) -> str:
    """Name a place in a data file, e.g. ``edges/full.parquet, column dst, row 7``."""
    parts = [str(file)]
    if column is not None:
        parts.append(f"column {column}")
    if row is not None:
        parts.append(f"row {row}")
    return ", ".join(parts)


def nearest(name: str, known: Iterable[str], *, kind: str) -> MaghubError:
    """The error for an unknown name, with the nearest known ones."""
    names = sorted(known)
    lowered = {own.lower(): own for own in names}
    close = difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.5)
    if close:
        fix = f"did you mean {' or '.join(lowered[own] for own in close)}?"
    elif names:
        fix = f"known: {', '.join(names[:20])}" + (", ..." if len(names) > 20 else "")
    else:
        fix = f"no {kind} is registered"
    return MaghubError(f"unknown {kind} '{name}'", fix=fix)
