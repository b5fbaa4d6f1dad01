"""Tables as people have them (CSV, TSV, JSON Lines, Parquet): chosen columns, each cell's place."""

from __future__ import annotations

import codecs
import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from maghub.builders._formats.tables import Column, Layout, Table
from maghub.builders._formats.text import read_jsonl
from maghub.errors import MaghubError, nearest, place
from maghub.files import os_errors

MAX_COLUMNS = 10_000
DELIMITERS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*DELIMITERS, ".jsonl", ".parquet")


@dataclass(frozen=True)
class Wanted:
    """Which columns of a table are read, and as what.

    Attributes:
        fields: What we need, with the names under which it is found without being told.
        required: The fields that must be there.
        given: The user's mapping, field or declared column -> own column.
        declared: Further columns that the card declares.
    """

    fields: Mapping[str, tuple[str, ...]]
    required: tuple[str, ...]
    given: Mapping[str, str]
    declared: tuple[str, ...] = ()

    def choose(self, header: Sequence[str], where: object) -> dict[str, str]:
        """Field or declared column -> the user's column.

        Raises:
            MaghubError: Too many columns, or a mapped, required or declared one is missing.
        """
        if len(header) > MAX_COLUMNS:
            what = f"{len(header):,} columns, at most {MAX_COLUMNS:,} are read"
            spot = place(where, header[MAX_COLUMNS][:40], 0)
            raise MaghubError(what, where=spot, fix="check the delimiter and the line ends")
        chosen = {}
        for name, found_as in (*self.fields.items(), *((name, (name,)) for name in self.declared)):
            own = self.given.get(name) or next((c for c in found_as if c in header), None)
            if own is not None and own not in header:
                raise MaghubError(nearest(own, header, kind="column").line(), where=where)
            if own is not None and header.count(own) > 1:
                raise MaghubError(f"two columns are called '{own[:40]}'", where=where)
            if own is not None:
                chosen[name] = own
            elif name in self.required:
                have = ", ".join(column[:40] for column in header[:10])
                fix = f"name its column with --map {name}=COLUMN; there are: {have}"
                raise MaghubError(f"no column is known to be the {name}", where=where, fix=fix)
            elif name in self.declared:
                fix = f"add it, name it with --map {name}=COLUMN, or take it out of the card"
                raise MaghubError(
                    f"no column {name}, which the card declares", where=where, fix=fix
                )
        return chosen


@dataclass(frozen=True)
class Frame:
    """Chosen columns in memory.

    Attributes:
        where: The file, or what the object is.
        columns: The values by field or declared column, all of one length.
        names: What the user calls each of them.
        numbers: The number of each row in the file, from 1, a header not counted.
        left_out: The user's columns that were not read.
    """

    where: str
    columns: Mapping[str, Sequence[Any]]
    names: Mapping[str, str]
    numbers: Sequence[int]
    left_out: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.numbers)

    def fail(self, field: str, row: int, what: str, fix: str | None = None) -> MaghubError:
        """The error for one cell."""
        spot = place(self.where, self.names[field], self.numbers[row])
        return MaghubError(what, where=spot, fix=fix)

    def text(self, field: str, row: int) -> str:
        """A cell as text; null and NaN are "".

        Raises:
            MaghubError: It holds several values, or what is no text in UTF-8.
        """
        return self.as_text(field, row, self.columns[field][row])

    def as_text(self, field: str, row: int, value: Any) -> str:
        """What a cell holds as text, see ``text``."""
        try:
            return _as_text(value)
        except ValueError as error:
            raise self.fail(field, row, str(error).partition(";")[0]) from None

    def texts(self, field: str) -> list[str]:
        """A whole column as text; "" everywhere where there is no such column."""
        if field not in self.columns:
            return [""] * len(self)
        return [self.text(field, row) for row in range(len(self))]


def _as_text(value: Any) -> str:
    """A value as text; a ValueError says why it is none."""
    if value is None:
        return ""
    if isinstance(value, bytes | bytearray):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            raise ValueError("cell is not UTF-8") from None
    if isinstance(value, list | dict | set) or getattr(value, "ndim", 0) > 0:
        raise ValueError(f"a {type(value).__name__} is not one value")
    try:
        if value != value:
            return ""
    except (TypeError, ArithmeticError):  # NA of pandas, a signalling NaN
        return ""
    text = str(value)
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("half a character (a lone surrogate)") from None
    return text


def select(raw: Mapping[str, Sequence[Any]], where: str, wanted: Wanted) -> Frame:
    """The wanted columns of columns in memory."""
    lengths = {len(values) for values in raw.values()}
    if len(lengths) > 1:
        raise MaghubError(f"columns of different lengths: {sorted(lengths)}", where=where)
    names = wanted.choose(list(raw), where)
    columns = {field: _listed(field, raw[own]) for field, own in names.items()}
    rows = range(1, 1 + (lengths.pop() if lengths else 0))
    return Frame(where, columns, names, rows, _others(raw, names))


def _listed(field: str, values: Sequence[Any] | pa.ChunkedArray) -> Sequence[Any]:
    """Plain values; pictures in Arrow memory stay there."""
    if field == "image" or not isinstance(values, pa.ChunkedArray):
        return values
    plain: list[Any] = values.to_pylist()
    return plain


def read_frame(path: Path, wanted: Wanted) -> Frame:
    """The wanted columns of a file.

    Raises:
        MaghubError: Unknown or damaged file, a column is missing, a cell is not UTF-8.
    """
    suffix = path.suffix.lower()
    if suffix in DELIMITERS:
        return _delimited(path, DELIMITERS[suffix], wanted)
    if suffix == ".jsonl":
        return _json_lines(path, wanted)
    if suffix == ".parquet":
        return _parquet(path, wanted)
    known = ", ".join(SUFFIXES)
    raise MaghubError(f"not a table I can read ({known})", where=path, fix="convert it to one")


def _others(header: Iterable[str], names: Mapping[str, str]) -> tuple[str, ...]:
    chosen = set(names.values())
    return tuple(column for column in header if column not in chosen)


def _delimited(path: Path, delimiter: str, wanted: Wanted) -> Frame:
    if not _is_utf8(path):
        raise _not_utf8(path, _delimited_cells(path, delimiter))
    layout = Layout(delimiter=delimiter)
    header = Table(path, layout=layout).header
    names = wanted.choose(header, path)
    table = Table(path, [Column(own) for own in dict.fromkeys(names.values())], layout)
    columns: dict[str, list[str]] = {field: [] for field in names}
    count = 0
    for count, row in enumerate(table, 1):  # noqa: B007
        for field, own in names.items():
            columns[field].append(row.cells[own])
    return Frame(str(path), columns, names, range(1, count + 1), _others(header, names))


def _json_lines(path: Path, wanted: Wanted) -> Frame:
    if not _is_utf8(path):
        raise _not_utf8(path, _json_cells(path))
    records = list(read_jsonl(path))
    header: dict[str, None] = {}
    for record in records:
        header |= dict.fromkeys(record.values)
        if len(header) > MAX_COLUMNS:
            break  # ``choose`` refuses it
    names = wanted.choose(list(header), path)
    columns = {field: [r.values.get(own) for r in records] for field, own in names.items()}
    numbers = [record.number for record in records]
    return Frame(str(path), columns, names, numbers, _others(header, names))


def _parquet(path: Path, wanted: Wanted) -> Frame:
    with os_errors(path):
        try:
            file = pq.ParquetFile(path)
            header = file.schema_arrow.names
            names = wanted.choose(header, path)
            table = file.read(list(dict.fromkeys(names.values())))
        except pa.ArrowException as error:
            raise MaghubError(f"not a whole Parquet file ({error})", where=path) from None
    columns = {field: _values(path, own, table[own]) for field, own in names.items()}
    rows = range(1, table.num_rows + 1)
    return Frame(str(path), columns, names, rows, _others(header, names))


def _values(path: Path, name: str, column: pa.ChunkedArray) -> list[Any]:
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        cells = column.cast(pa.binary()).to_pylist()
    decoded = ((row, [(name, _escaped(cell or b""))]) for row, cell in enumerate(cells, 1))
    raise _not_utf8(path, decoded)


def _is_utf8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    with os_errors(path), path.open("rb") as file:
        try:
            while block := file.read(1 << 20):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def _escaped(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _not_utf8(path: Path, rows: Iterable[tuple[int, Iterable[tuple[str, object]]]]) -> MaghubError:
    """The error for the first cell in which undecodable bytes stand (as lone surrogates)."""
    for row, cells in rows:
        for column, cell in cells:
            if any("\udc80" <= c <= "\udcff" for c in str(cell)):
                spot = place(path, _readable(column), row)
                return MaghubError("cell is not UTF-8", where=spot, fix="save the file as UTF-8")
    return MaghubError("is not UTF-8", where=path, fix="save the file as UTF-8")


def _readable(text: str) -> str:
    return os.fsencode(text[:40]).decode("utf-8", "replace")


def _delimited_cells(path: Path, delimiter: str) -> Iterator[tuple[int, list[tuple[str, object]]]]:
    """Rows of named cells, row 0 the header; the reading of ``Table`` without its checks."""
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        header: list[str] = []
        rows = (cells for cells in csv.reader(file, delimiter=delimiter) if cells)
        try:
            for number, cells in enumerate(rows):
                header = header or [cell.strip() for cell in cells]
                yield number, list(zip(header, cells, strict=False))
        except csv.Error:
            return


def _json_cells(path: Path) -> Iterator[tuple[int, list[tuple[str, object]]]]:
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
        for number, line in enumerate(file, 1):
            try:
                value = json.loads(line)
            except ValueError:
                value = None
            yield number, list(value.items()) if isinstance(value, dict) else [("-", line)]
