"""Walks a plain tar stream: members in order with their offsets, nothing else.

``tarfile`` keeps an object of a kilobyte for every member and reads what a damaged size field asks
for; here a member costs nothing once it is passed, and no length is believed before it was compared
with a limit. Headers are parsed by ``tarfile.TarInfo.frombuf``; GNU long names and the ``path`` and
``size`` of pax headers are understood; links, devices and sparse files are refused.
"""

from __future__ import annotations

import lzma
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from ._files import fail

BLOCK = 512
CHUNK = 1 << 20
DAMAGED = (EOFError, ValueError, zlib.error, lzma.LZMAError, OSError)
_REFUSED = {
    tarfile.LNKTYPE: "a hard link", tarfile.SYMTYPE: "a symbolic link", tarfile.FIFOTYPE: "a pipe",
    tarfile.CHRTYPE: "a device", tarfile.BLKTYPE: "a device",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}  # fmt: skip
_LINKS = (tarfile.LNKTYPE, tarfile.SYMTYPE)
_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
_EXTENSIONS = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, b"x", b"X", b"g")


class Source:
    """A stream read forward, whose position is known and whose total is limited.

    Args:
        path: The archive, for errors.
        file: Read from its current position; offsets count from there.
        limit: How many bytes it may give at most (a bomb gives more).
        size: How many bytes there are, if known; then skipping seeks.
    """

    def __init__(self, path: object, file: IO[bytes], limit: int, size: int | None = None) -> None:
        self.path, self.file, self.limit, self.size = path, file, limit, size
        self.position = 0

    def chunks(self, count: int) -> Iterator[bytes]:
        """Exactly the next ``count`` bytes, in chunks."""
        start, end = self.position, self.position + count
        if end > self.limit:
            raise fail(self.path, f"unpacks to more than {self.limit} bytes: refused", start)
        if self.size is not None and end > self.size:
            raise fail(self.path, f"the archive ends inside a member of {count} bytes", start)
        if self.size is not None:  # the file may also be read by name in between
            self.file.seek(start)
        while self.position < end:
            try:
                chunk = self.file.read(min(CHUNK, end - self.position))
            except DAMAGED as error:
                raise fail(self.path, f"damaged ({error})", self.position) from None
            if not chunk:
                raise fail(self.path, "the archive is truncated", self.position)
            self.position += len(chunk)
            yield chunk

    def read(self, count: int) -> bytes:
        """Exactly the next ``count`` bytes."""
        return b"".join(self.chunks(count))

    def rest(self) -> Iterator[bytes]:
        """All that follows in a packed stream, in chunks, up to its proper end."""
        while True:
            if self.position >= self.limit:
                raise fail(self.path, f"unpacks to more than {self.limit} bytes: refused")
            try:
                chunk = self.file.read(CHUNK)
            except DAMAGED as error:
                raise fail(self.path, f"damaged ({error})", self.position) from None
            if not chunk:
                return
            self.position += len(chunk)
            yield chunk

    def skip_to(self, position: int) -> None:
        """Go forward to this position."""
        if self.size is None:
            for _ in self.chunks(position - self.position):
                pass
        else:
            if position > self.size:
                raise fail(self.path, "the archive ends inside a member", self.position)
            self.position = position


@dataclass(frozen=True, slots=True)
class TarEntry:
    """A regular file of a tar: its name, where its bytes start in the stream, how many they are."""

    name: str
    offset: int
    size: int


def walk_tar(source: Source, max_member: int, skip_links: bool = False) -> Iterator[TarEntry]:
    """Yield the regular files of a tar in order; names are as stored, not yet checked for safety.

    While it waits, the source stands at the first byte of the entry and may be read up to its end.
    """
    long_name: str | None = None
    pax: dict[str, str] = {}
    while True:
        at = source.position
        header = source.read(BLOCK)
        if not header.strip(b"\0"):
            return  # the end-of-archive marker; a file without one is truncated
        try:
            info = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        except (tarfile.HeaderError, ValueError, OverflowError) as error:
            raise fail(source.path, f"not a tar header ({error})", at) from None
        if not 0 <= info.size <= max_member:
            raise fail(source.path, f"a member of {info.size} bytes: refused", at)
        if info.type in _EXTENSIONS:
            if info.size > CHUNK:
                raise fail(source.path, f"a name of {info.size} bytes: refused", at)
            raw = source.read(-(-info.size // BLOCK) * BLOCK)[: info.size]
            if info.type == tarfile.GNUTYPE_LONGNAME:
                long_name = raw.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
            elif info.type in (b"x", b"X"):
                pax = _pax_records(source.path, raw, at)
            continue

        name, size = pax.get("path", long_name or info.name), info.size
        shown = name[:80].encode("utf-8", "replace").decode()
        if skip_links and info.type in _LINKS:
            long_name, pax = None, {}
            continue
        if info.type in _REFUSED or any(key.startswith("GNU.sparse") for key in pax):
            what = _REFUSED.get(info.type, "a sparse file")
            raise fail(source.path, f"member {shown!r} is {what}: refused", at)
        is_folder = info.type == tarfile.DIRTYPE or name.endswith("/")
        if info.type not in _FILES and not is_folder:
            raise fail(source.path, f"member {shown!r} has the unknown type {info.type!r}", at)
        if "size" in pax:
            if not pax["size"].isdigit() or not int(pax["size"][:20]) <= max_member:
                raise fail(source.path, f"member {shown!r} has an unbelievable size", at)
            size = int(pax["size"])
        end = source.position + -(-size // BLOCK) * BLOCK
        if not is_folder:
            yield TarEntry(name, source.position, size)
        source.skip_to(end)
        long_name, pax = None, {}


def _pax_records(path: object, raw: bytes, at: int) -> dict[str, str]:
    """The records ``length key=value newline`` of a pax header."""
    records: dict[str, str] = {}
    place = 0
    while place < len(raw) and raw[place : place + 1] != b"\0":
        digits, _, _ = raw[place : place + 20].partition(b" ")
        length = int(digits) if digits.isdigit() else 0
        record = raw[place + len(digits) + 1 : place + length - 1]
        key, equals, value = record.partition(b"=")
        if place + length > len(raw) or length <= len(digits) + 2 or not equals:
            raise fail(path, "a damaged pax header", at)
        records[key.decode("utf-8", "replace")] = value.decode("utf-8", "surrogateescape")
        place += length
    return records
