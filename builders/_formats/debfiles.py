"""Debian packages as archives: the ``data.tar`` inside the ``ar``, read without dpkg.

A ``.deb`` is an ``ar`` file with the members debian-binary, control.tar.* and data.tar.* (deb(5));
xz, gzip and no packing are read, zstd is not.
"""

from __future__ import annotations

import gzip
import lzma
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from ._files import cannot_open, fail
from .archives import Archive, Limits, _Tar
from .tarfiles import Source

MAGIC, HEADER, END = b"!<arch>\n", 60, b"`\n"
LIMITS = Limits(skip_links=True)
_OPENERS: dict[str, Callable[[Any], Any]] = {
    "data.tar": lambda file: file,
    "data.tar.gz": lambda file: gzip.GzipFile(fileobj=file),
    "data.tar.xz": lzma.LZMAFile,
}


class _Deb(_Tar):
    """The files of the package; links, which packages use for duplicates, are passed over."""

    def __init__(self, path: Path, limits: Limits) -> None:
        super().__init__(path, [path], limits, True, None)
        try:
            self.member, self.start = self._find()
        except BaseException:
            self.close()
            raise

    def _find(self) -> tuple[str, int]:
        """Name and place of the data member."""
        if self.file.read(len(MAGIC)) != MAGIC:
            raise fail(self.path, "not a Debian package", 0)
        at = len(MAGIC)
        while at < self.size:
            self.file.seek(at)
            header = self.file.read(HEADER)
            size = header[48:58].strip()
            if len(header) != HEADER or header[58:] != END or not size.isdigit():
                raise fail(self.path, "a damaged member header", at)
            name = header[:16].decode("latin-1").strip().rstrip("/")
            at += HEADER
            if at + int(size) > self.size:
                what = f"the file ends inside {name}: {size.decode()} bytes needed"
                raise fail(self.path, f"{what}, {self.size - at} left", at, "download it again")
            if name in _OPENERS:
                return name, at
            if name.startswith("data.tar"):
                raise fail(self.path, f"{name} is packed in a way that is not read", at)
            at += int(size) + int(size) % 2
        raise fail(self.path, "holds no data.tar", at)

    def _source(self) -> Source:
        self.file.seek(self.start)
        unpacked: IO[bytes] = _OPENERS[self.member](self.file)
        return Source(self.path, unpacked, self.limits.total(self.size))


def open_deb(path: str | os.PathLike[str], limits: Limits = LIMITS) -> Archive:
    """Open a Debian package as an archive."""
    try:
        return _Deb(Path(path), limits)
    except OSError as error:
        raise cannot_open(path, error) from None
