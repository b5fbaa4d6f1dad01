"""Reports as Markdown and as rows for the terminal."""

from __future__ import annotations

import re

from maghub.reporting.model import Report
from maghub.reporting.sheets import ABOUT, Entry, Sheet, note_text, sheet

MOST_COLUMNS = 12
"""A terminal shows wider tables turned: a column per model, a row per metric."""
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~])")


def terminal(found: Sheet) -> tuple[list[str], list[list[str]], list[str]]:
    """(header, rows, lines below) of a table; ``[a]`` refers to a note, ``*`` marks the best."""
    rows = [[_plain(entry) for entry in row] for row in found.rows]
    below = [f"[{note.letter}] {note_text(note)}" for note in found.notes]
    best = any(entry.best for row in found.rows for entry in row)
    star = ["* the best of the rows without noise that no note forbids to compare"] if best else []
    below = [*below, *star, *found.lines]
    if len(found.header) <= MOST_COLUMNS:
        return list(found.header), rows, below
    turned = [list(row) for row in zip(found.header, *rows, strict=True)]
    return turned[0], turned[1:], below


def _plain(entry: Entry) -> str:
    letters = f" [{' '.join(entry.letters)}]" if entry.letters else ""
    return f"{entry.text}{'*' if entry.best else ''}{letters}"


def to_markdown(report: Report) -> str:
    """The report in GitHub's Markdown: one table per dataset and task, the best in bold."""
    parts = ["# Results", "", ABOUT.replace("Best:", "Bold:"), ""]
    for block in report.blocks:
        parts += _table(sheet(block))
    return "\n".join(parts)


def _table(found: Sheet) -> list[str]:
    lines = [f"## {escape(found.title)}", ""]
    lines.append("| " + " | ".join(escape(name) for name in found.header) + " |")
    lines.append("| " + " | ".join("---:" if right else "---" for right in found.numeric) + " |")
    lines += ["| " + " | ".join(_cell(entry) for entry in row) + " |" for row in found.rows]
    lines.append("")
    for note in found.notes:
        lines += [f"<sup>{note.letter}</sup> {escape(note_text(note))}", ""]
    for line in found.lines:
        lines += [escape(line), ""]
    return lines


def _cell(entry: Entry) -> str:
    text = escape(entry.text)
    if entry.best:
        text = f"**{text}**"
    return text + (f" <sup>{' '.join(entry.letters)}</sup>" if entry.letters else "")


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
