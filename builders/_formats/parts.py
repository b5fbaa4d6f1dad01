"""Files that upstream cut into parts, to be read one after the other as one file."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import IO

from maghub.errors import MaghubError


class _Parts(io.RawIOBase):
    """Several files as one, seekable."""

    def __init__(self, paths: list[Path]) -> None:
        self.files = [path.open("rb") for path in paths]
        self.ends: list[int] = []
        for file in self.files:
            self.ends.append((self.ends[-1] if self.ends else 0) + os.fstat(file.fileno()).st_size)
        self.at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        for file in self.files:
            file.close()
        super().close()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self.at, os.SEEK_END: self.ends[-1]}[whence]
        if base + offset < 0:
            raise OSError("a position before the start")
        self.at = base + offset
        return self.at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        for number, (file, end) in enumerate(zip(self.files, self.ends, strict=True)):
            if self.at < end:
                file.seek(self.at - (self.ends[number - 1] if number else 0))
                count = file.readinto(buffer)
                self.at += count
                return count
        return 0


def open_parts(paths: list[Path]) -> IO[bytes]:
    return io.BufferedReader(_Parts(paths), 1 << 16)  # type: ignore[return-value]


def find_parts(folder: str | os.PathLike[str], name: str) -> list[Path]:
    """The file ``name`` in a folder, or the parts it was cut into, in order; empty if neither.

    Parts are ``{name or its stem}`` + ``_part`` or ``.part`` + letters or digits, as in
    ``RedditMImages_parta``. A missing one in between is an error.
    """
    folder = Path(folder)
    if (folder / name).exists():
        return [folder / name]
    bare = re.sub(r"\.(tar\.gz|tgz|tar|zip)$", "", name)
    pattern = re.compile(rf"(?:{re.escape(name)}|{re.escape(bare)})[._-]?part[._-]?([a-z]+|\d+)")
    found = {}
    for file in sorted(folder.iterdir()) if folder.is_dir() else []:
        if match := pattern.fullmatch(file.name):
            found[_ordinal(match[1])] = file
    if not found:
        return []
    first = 1 if 1 in found and 0 not in found and found[1].name[-1].isdigit() else 0
    missing = [n for n in range(first, max(found)) if n not in found]
    if missing:
        what = f"part {missing[0] - first + 1} of {name} is missing"
        raise MaghubError(what, where=folder, fix=f"there are {[f.name for f in found.values()]}")
    return [found[n] for n in sorted(found)]


def _ordinal(text: str) -> int:
    if text.isdigit():
        return int(text)
    value = 0
    for letter in text:
        value = value * 26 + ord(letter) - ord("a")
    return value
