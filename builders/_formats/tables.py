"""Streaming readers of CSV and TSV as upstream ships them.

Encodings are tried in the order the source declares (SemArt: UTF-8, then Latin-1), a byte order
mark is dropped, rows may end in LF or CRLF, quoted cells may hold newlines, a cell may be as long
as the file. A row with too few or too many cells is an error with its row number, unless the source
names a repair for it; repairs are counted. ``.gz`` is unpacked while reading (OGB).
"""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from maghub.errors import MaghubError, place

from ._files import fail
from .text import detect_encoding, line_limit, parse_list, raw_lines

Repair = Callable[[list[str], int], list[str] | None]


@dataclass(frozen=True)
class Column:
    """A column to read.

    Args:
        name: What it is called from here on.
        aliases: What upstream may call it, if not ``name``; the first one present wins.
        required: Whether a file without it is an error.
    """

    name: str
    aliases: tuple[str, ...] = ()
    required: bool = True


@dataclass(frozen=True)
class Layout:
    """How a source writes its tables.

    Args:
        delimiter: One character.
        encodings: Tried in this order.
        quoting: "minimal" (CSV rules), "none" (quotes are text), or "auto": minimal unless that
            leaves a row with the wrong number of cells, then none (stray quotes in SemArt).
        header: Names of the columns where the file has no header row.
        repairs: By name, functions of (cells, wanted) for rows of the wrong length; the first that
            returns a row wins and is counted.
    """

    delimiter: str = ","
    encodings: tuple[str, ...] = ("utf-8",)
    quoting: str = "minimal"
    header: tuple[str, ...] | None = None
    repairs: Mapping[str, Repair] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One data row; ``number`` counts from 1 and leaves the header out."""

    path: Path
    number: int
    cells: dict[str, str]

    def __getitem__(self, column: str) -> str:
        return self.cells[column]

    def get(self, column: str, default: str = "") -> str:
        """The cell, or the default where the file has no such column."""
        return self.cells.get(column, default)

    def fail(self, column: str | None, what: str) -> MaghubError:
        """The error for this row."""
        return MaghubError(what, where=place(self.path, column, self.number))

    def integer(self, column: str, low: int = 0, high: int = (1 << 63) - 1) -> int:
        """The cell as an integer between ``low`` and ``high``."""
        text = self.cells[column].strip()
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", text) or not low <= int(text) <= high:
            raise self.fail(column, f"{text[:40]!r} is not an integer from {low} to {high}")
        return int(text)

    def list(self, column: str) -> list[str | int]:
        """The cell as a list written in Python; see :func:`parse_list`."""
        try:
            return parse_list(self.cells[column])
        except ValueError as error:
            raise self.fail(column, str(error)) from None


class Table:
    """A delimited text file, read row by row.

    Iterating opens the file anew; ``repairs`` then holds how often each repair was used.

    Args:
        path: The file; ``.gz`` is unpacked while reading.
        columns: The columns to read; None reads all under their own names.
        layout: How the source writes its tables.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        columns: Sequence[Column] | None = None,
        layout: Layout = Layout(),
    ) -> None:
        self.path = Path(path)
        self.layout = layout
        self.repairs: Counter[str] = Counter()
        self.encoding = detect_encoding(self.path, layout.encodings)
        self.quoting = layout.quoting
        if layout.quoting == "auto":
            self.quoting = "minimal" if self._fits("minimal") else "none"
        self.header = self._header()
        self.columns = self._choose(columns)

    def _choose(self, columns: Sequence[Column] | None) -> dict[str, int]:
        known: dict[str, int] = {}
        for index, name in enumerate(self.header):
            if name in known:
                raise fail(self.path, f"two columns are called {name[:40]!r}")
            known[name] = index
        if columns is None:
            return known
        chosen = {}
        for column in columns:
            found = [known[name] for name in (column.name, *column.aliases) if name in known]
            if found:
                chosen[column.name] = found[0]
            elif column.required:
                names = " or ".join((column.name, *column.aliases))
                have = ", ".join(name[:40] for name in self.header[:20])
                raise MaghubError(f"no column {names}; it has {have}", where=self.path)
        return chosen

    def _header(self) -> list[str]:
        if self.layout.header is not None:
            return list(self.layout.header)
        for cells in self._records(self.quoting):
            return [cell.strip() for cell in cells]
        raise fail(self.path, "is empty: not even a header row")

    def _fits(self, quoting: str) -> bool:
        try:
            width = len(self.layout.header) if self.layout.header else None
            for cells in self._records(quoting):
                width = width or len(cells)
                if cells and len(cells) != width:
                    return False
        except MaghubError:
            return False
        return True

    def _records(self, quoting: str) -> Iterator[list[str]]:
        """Rows as lists of cells; the csv module's global cell limit is set only while it runs."""
        records = csv.reader(
            raw_lines(self.path, self.encoding),
            delimiter=self.layout.delimiter,
            quoting=csv.QUOTE_MINIMAL if quoting == "minimal" else csv.QUOTE_NONE,
            strict=True,
        )
        own_limit = line_limit(self.path)
        row = 0 if self.layout.header is None else 1  # the header row is row 0
        while True:
            limit = csv.field_size_limit(own_limit)
            try:
                cells = next(records, None)
            except csv.Error as error:
                what = f"broken quoting or cell up to line {records.line_num} ({error})"
                raise MaghubError(what, where=place(self.path, row=row)) from None
            finally:
                csv.field_size_limit(limit)
            if cells is None:
                return
            row += bool(cells)
            yield [_unquoted(cell) for cell in cells] if quoting == "none" else cells

    def __iter__(self) -> Iterator[Row]:
        self.repairs = Counter()
        records = self._records(self.quoting)
        if self.layout.header is None:
            next(records, None)
        width, number = len(self.header), 0
        for cells in records:
            if not cells:  # a blank line
                continue
            number += 1
            if len(cells) != width:
                cells = self._repaired(cells, width, number)
            yield Row(self.path, number, {name: cells[at] for name, at in self.columns.items()})

    def _repaired(self, cells: list[str], width: int, number: int) -> list[str]:
        for name, repair in self.layout.repairs.items():
            repaired = repair(cells, width)
            if repaired is not None and len(repaired) == width:
                self.repairs[name] += 1
                return repaired
        where = place(self.path, self.header[min(len(cells), width) - 1], number)
        raise MaghubError(f"{len(cells)} cells, expected {width}", where=where)


def _unquoted(cell: str) -> str:
    """A cell that is quoted as a whole, without its quotes (for files read with quotes as text)."""
    inner = cell[1:-1].replace('""', "")
    if len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in inner:
        return cell[1:-1].replace('""', '"')
    return cell


def join_extra(column: int, delimiter: str) -> Repair:
    """A repair: stray delimiters belong to the text in this column (counted from 0)."""

    def repair(cells: list[str], width: int) -> list[str] | None:
        extra = len(cells) - width
        if extra <= 0:
            return None
        end = column + extra + 1
        return [*cells[:column], delimiter.join(cells[column:end]), *cells[end:]]

    return repair


def split_number_and_text(cells: list[str], width: int) -> list[str] | None:
    """A repair: the delimiter between a number and a text is missing (Flickr30k, one known row)."""
    match = re.fullmatch(r"\s*(\d+)\s+(.+)", cells[-1], re.DOTALL)
    if len(cells) != width - 1 or match is None:
        return None
    return [*cells[:-1], match[1], match[2]]
