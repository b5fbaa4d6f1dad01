"""How commands speak: tables for people, JSON for machines, one line for errors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

HTML, MARKDOWN = (".html", ".htm"), (".md", ".markdown")
"""Endings of files that commands write."""

console = Console(highlight=False, soft_wrap=False)
errors = Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(data: Any) -> None:
    """JSON on standard output, Unicode kept."""
    print(json.dumps(data, indent=2, ensure_ascii=False, default=str))


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[object]], title: str | None = None
) -> None:
    """A plain table; columns of numbers are right-aligned."""
    table = Table(title=title and _cell(title), title_justify="left")
    for index, name in enumerate(header):
        numeric = bool(rows) and all(_is_number(row[index]) for row in rows)
        table.add_column(_cell(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    console.print(table)


def _is_number(value: object) -> bool:
    text = str(value).replace(",", "").replace("±", "").replace(" ", "").replace(".", "")
    return isinstance(value, (int, float)) or text.lstrip("-").isdigit()


def _cell(value: object) -> str:
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return text.replace("[", "\\[")


def print_error(message: str) -> None:
    """One line on standard error."""
    errors.print(f"error: {message}", markup=False, style="red")
