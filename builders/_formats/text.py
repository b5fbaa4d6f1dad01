"""Text files of upstream, line by line: declared encodings, gzip, JSON Lines, cell values."""

from __future__ import annotations

import ast
import codecs
import gzip
import io
import json
import os
import re
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maghub.errors import MaghubError, place

from ._files import cannot_open, fail

MAX_LINE = 256 << 20
_DAMAGED = (gzip.BadGzipFile, EOFError, zlib.error)


def line_limit(path: Path) -> int:
    """How long a line or cell may be: as the file, or 64 times that where it is compressed."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise cannot_open(path, error) from None
    return min(MAX_LINE, max(1 << 20, size * (64 if path.suffix == ".gz" else 1)))


def detect_encoding(path: Path, encodings: Sequence[str]) -> str:
    """The first of the encodings that fits the whole file; one pass in blocks if there are two."""
    if len(encodings) == 1:
        return encodings[0]
    error: UnicodeDecodeError | None = None
    for encoding in encodings:
        decoder = codecs.getincrementaldecoder(encoding)()
        try:
            with _open_binary(path) as file:
                while block := file.read(1 << 20):
                    decoder.decode(block)
            decoder.decode(b"", final=True)
            return encoding
        except UnicodeDecodeError as failed:
            error = failed
        except _DAMAGED as damage:
            raise fail(path, f"a damaged gzip file ({damage})") from None
    raise fail(path, f"is neither of {', '.join(encodings)} ({error and error.reason})")


@contextmanager
def _open_binary(path: Path) -> Iterator[Any]:
    try:
        file: Any = gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # noqa: SIM115
    except OSError as error:
        raise cannot_open(path, error) from None
    with file:
        yield file


def raw_lines(path: Path, encoding: str) -> Iterator[str]:
    """Lines with their line ends, as the csv module wants them; without a byte order mark."""
    limit, number = line_limit(path), 0
    with _open_binary(path) as file:
        if encoding.replace("_", "-").lower() in ("utf-8", "utf8"):
            encoding = "utf-8-sig"
        text = io.TextIOWrapper(file, encoding=encoding, newline="")
        try:
            while line := text.readline(limit):
                number += 1
                if len(line) >= limit and not line.endswith(("\n", "\r")):
                    raise fail(path, f"line {number} is longer than {limit} characters")
                yield line
        except UnicodeDecodeError as error:
            row = _first_bad_line(path, encoding, limit)
            what = f"not {error.encoding} ({error.reason})"
            raise MaghubError(what, where=place(path, row=row)) from None
        except _DAMAGED as error:
            raise fail(path, f"a damaged gzip file after line {number} ({error})") from None


def _first_bad_line(path: Path, encoding: str, limit: int) -> int:
    number = 0
    with _open_binary(path) as file:
        while line := file.readline(limit):
            number += 1
            try:
                line.decode(encoding)
            except UnicodeDecodeError:
                break
    return number


def read_lines(
    path: str | os.PathLike[str], encodings: Sequence[str] = ("utf-8",)
) -> Iterator[tuple[int, str]]:
    """Pairs of a row number (from 1) and a line without its line end; blank lines are left out."""
    path = Path(path)
    for number, line in enumerate(raw_lines(path, detect_encoding(path, encodings)), 1):
        if stripped := line.rstrip("\r\n"):
            yield number, stripped


@dataclass(frozen=True)
class Record:
    """One object of a JSON Lines file; ``number`` is its line, from 1."""

    path: Path
    number: int
    values: dict[str, Any]

    def fail(self, key: str | None, what: str) -> MaghubError:
        """The error for this record."""
        return MaghubError(what, where=place(self.path, key, self.number))

    def first(self, *keys: str) -> Any:
        """The value of the first of these keys that is there (``id`` or ``asin``)."""
        for key in keys:
            if key in self.values:
                return self.values[key]
        raise self.fail(" or ".join(keys), f"no such key; it has {', '.join(self.values)[:80]}")

    def text(self, *keys: str) -> str:
        """The value of the first of these keys as text: a string, or a list of strings joined."""
        value = self.first(*keys)
        parts = value if isinstance(value, list) else [value]
        for part in parts:
            if part is not None and not isinstance(part, str | int | float):
                raise self.fail(keys[0], f"expected text, found a {type(part).__name__}")
        return " ".join(filter(None, (clean_text(part) for part in parts)))

    def identifier(self, *keys: str) -> str:
        """The value of the first of these keys as an id: a non-empty string, or an integer."""
        value = self.first(*keys)
        if type(value) is int or (isinstance(value, str) and value):
            return str(value)
        raise self.fail(keys[0], f"{str(value)[:40]!r} is not an id")


def read_jsonl(
    path: str | os.PathLike[str], encodings: Sequence[str] = ("utf-8",)
) -> Iterator[Record]:
    """The objects of a JSON Lines file, one at a time."""
    path = Path(path)
    for number, line in read_lines(path, encodings):
        if line.isspace():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise MaghubError(f"not JSON ({error})", where=place(path, row=number)) from None
        if type(value) is not dict:
            what = f"expected a JSON object, found a {type(value).__name__}"
            raise MaghubError(what, where=place(path, row=number))
        yield Record(path, number, value)


def clean_text(value: object) -> str:
    """A text value for a table: "" for what stands for no text, lone surrogates replaced.

    Upstream writes missing text as null, ``NaN`` or the literal words ``None`` and ``nan``.
    """
    if value is None or value != value:
        return ""
    text = str(value).strip()
    if text in ("None", "nan", "NaN", "null"):
        return ""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


def _unescaped(literal: str, at: int) -> str:
    body = literal.lstrip("bu")[1:-1]
    if "\\" not in body:
        return body
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an unknown escape such as \\d stays as it is
            return str(ast.literal_eval(literal.lstrip("bu")))
    except (ValueError, SyntaxError):
        raise ValueError(f"a broken string at character {at}") from None


_ITEM = re.compile(
    r"""\s*(?:(?P<text>[bu]?(?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"))|(?P<number>-?[0-9]{1,18})
    |None|nan)\s*(?:,\s*|\Z)""",
    re.DOTALL | re.VERBOSE,
)


def parse_list(text: str) -> list[str | int]:
    """A list of strings or integers written in Python, such as ``['B0001', 'B0002']``.

    An empty cell, ``nan``, ``None`` and ``[]`` are the empty list; None inside is left out. Not
    ``ast.literal_eval``: that can exhaust memory and the C stack on foreign text.

    Raises:
        ValueError: if it is anything else.
    """
    body = text.strip()
    if body in ("", "nan", "None", "[]"):
        return []
    if body[0] != "[" or body[-1] != "]":
        raise ValueError(f"not a list: {body[:40]!r}")
    items: list[str | int] = []
    inner, at = body[1:-1].strip(), 0
    while at < len(inner):
        match = _ITEM.match(inner, at)
        if match is None:
            raise ValueError(f"not a list of strings or integers at character {at + 1}")
        if match["number"]:
            items.append(int(match["number"]))
        elif match["text"]:
            items.append(_unescaped(match["text"], at + 1))
        at = match.end()
    return items
