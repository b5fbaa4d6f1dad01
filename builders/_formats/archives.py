"""Archives and folders of files, read without unpacking: in their own order, or by name.

A tar, a ``.tar.gz``, either of them cut into parts (``RedditMImages_parta``, ``_partb``, ...), a
zip or a folder; what it is is seen from its first bytes, not from its name. Nothing is ever written
to a path that comes from an archive; a member that names a place outside (absolute, ``..``, a
drive), a link or a device makes the archive refused as a whole.

For reading by name a plain tar is indexed by offset and a zip by its directory. A ``.tar.gz`` has
no random access: its first use by name unpacks it once, in one sequential pass, into an unnamed
temporary plain tar, which is gone when the archive is closed.
"""

from __future__ import annotations

import gzip
import os
import re
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from maghub.errors import MaghubError

from ._files import cannot_open, fail, unzipped
from .parts import open_parts
from .tarfiles import Source, walk_tar

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Limits:
    """How much an archive may ask for before it is taken for a bomb.

    Args:
        members: Files in it.
        member_bytes: Bytes of one file.
        ratio: Bytes unpacked per byte of archive (images hardly compress).
        free_bytes: Bytes unpacked in any case.
        skip_links: Pass over links (Debian packages use them for duplicates), do not refuse them.
    """

    members: int = 5_000_000
    member_bytes: int = 256 << 20
    ratio: int = 100
    free_bytes: int = 64 << 20
    skip_links: bool = False

    def total(self, archive_bytes: int) -> int:
        """How many bytes an archive of this size may unpack to."""
        return max(self.free_bytes, self.ratio * archive_bytes)


class _Place(NamedTuple):
    """Where a file is: an offset in the tar, or a position in the zip's directory."""

    name: str
    offset: int
    size: int


def stem(name: str) -> str:
    """The default key of a file: its name without folders and suffix."""
    return PurePosixPath(name).stem


def parent(name: str) -> str:
    """The name of the folder of a file, the key where one folder holds the images of one entity."""
    return PurePosixPath(name).parent.name


class Index:
    """Random access to the files of an archive by key."""

    def __init__(self, archive: Archive, places: dict[str, list[_Place]]) -> None:
        self._archive, self._places = archive, places

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    @property
    def shared(self) -> int:
        """How many keys have more than one file."""
        return sum(len(places) > 1 for places in self._places.values())

    def names(self, key: str) -> list[str]:
        """The names of the files with this key, sorted."""
        return [place.name for place in self._places.get(key, [])]

    def read(self, key: str, which: int = 0) -> bytes | None:
        """The bytes of the file with this key (the first by name if there are more), or None."""
        places = self._places.get(key, [])
        return self._archive._read(places[which]) if which < len(places) else None


class Archive:
    """A set of named files; use it in a ``with`` block, or close it."""

    packed = False  # whether it must be unpacked before it can be read by name

    def __init__(self, path: Path, limits: Limits) -> None:
        self.path, self.limits = path, limits

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release files and temporary space."""

    def members(self) -> Iterator[tuple[str, bytes]]:
        """Name and bytes of every file, in the archive's own order (a folder: sorted)."""
        raise NotImplementedError

    def index(
        self, key: Callable[[str], str] = stem, suffixes: Sequence[str] | None = None
    ) -> Index:
        """An index by key.

        Args:
            key: Makes the key from a name; see :func:`stem` and :func:`parent`.
            suffixes: Only files that end so (lower case, with the dot).
        """
        places: dict[str, list[_Place]] = {}
        last: dict[str, _Place] = {}
        for place in self._scan():  # a name that comes twice: the later one holds, as unpacked
            if suffixes is None or PurePosixPath(place.name).suffix.lower() in suffixes:
                last[place.name] = place
        for name in sorted(last):
            places.setdefault(key(name), []).append(last[name])
        return Index(self, places)

    def unpack(self, plain: IO[bytes]) -> int:
        """Write what is ``packed`` as a plain tar; how many bytes that has."""
        raise NotImplementedError

    def _scan(self) -> Iterator[_Place]:
        raise NotImplementedError

    def _read(self, place: _Place) -> bytes:
        raise NotImplementedError

    def _safe(self, name: str) -> str:
        """The name in normal form, or the refusal of one that could leave a folder."""
        shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        parts = [part for part in re.split(r"[/\\]", shown) if part not in ("", ".")]
        outside = not parts or ".." in parts or shown[:1] in ("/", "\\")
        if outside or "\0" in shown or re.match(r"[A-Za-z]:", shown):
            raise fail(self.path, f"member {shown[:80]!r} would leave its folder: refused")
        return "/".join(parts)

    def _counted(self, places: Iterator[_Place]) -> Iterator[_Place]:
        for number, place in enumerate(places):
            if number >= self.limits.members:
                raise fail(self.path, f"more than {self.limits.members} members: refused")
            yield place._replace(name=self._safe(place.name))


class _Tar(Archive):
    def __init__(
        self, path: Path, parts: list[Path], limits: Limits, packed: bool, spool: PathLike | None
    ) -> None:
        super().__init__(path, limits)
        self.file = open_parts(parts)
        self.size = sum(part.stat().st_size for part in parts)
        self.packed, self.spool = packed, spool
        self.plain: IO[bytes] | None = None if packed else self.file
        self.plain_size = self.size

    def close(self) -> None:
        for file in (self.plain, self.file):
            if file is not None:
                file.close()

    def _source(self) -> Source:
        self.file.seek(0)
        if not self.packed:
            return Source(self.path, self.file, self.size, self.size)
        unpacked: IO[bytes] = gzip.GzipFile(fileobj=self.file)  # type: ignore[assignment]
        return Source(self.path, unpacked, self.limits.total(self.size))

    def members(self) -> Iterator[tuple[str, bytes]]:
        source = self._source()
        entries = walk_tar(source, self.limits.member_bytes, self.limits.skip_links)
        for place in self._counted(_Place(e.name, e.offset, e.size) for e in entries):
            yield place.name, source.read(place.size)
        for _ in source.rest() if self.packed else ():
            pass  # the checksum of a gzip file is at its end

    def _scan(self) -> Iterator[_Place]:
        if self.plain is None:
            plain = tempfile.TemporaryFile(dir=self.spool)  # noqa: SIM115 (lives as long as self)
            try:
                self.plain_size = self.unpack(plain)
            except MaghubError:
                plain.close()
                raise
            self.plain = plain
        assert self.plain is not None
        self.plain.seek(0)
        source = Source(self.path, self.plain, self.plain_size, self.plain_size)
        entries = walk_tar(source, self.limits.member_bytes, self.limits.skip_links)
        yield from self._counted(_Place(e.name, e.offset, e.size) for e in entries)

    def unpack(self, plain: IO[bytes]) -> int:
        source = self._source()
        try:
            for chunk in source.rest():
                plain.write(chunk)
        except OSError as error:
            raise fail(self.path, f"cannot be unpacked ({error})") from None
        return source.position

    def _read(self, place: _Place) -> bytes:
        assert self.plain is not None
        self.plain.seek(place.offset)
        return self.plain.read(place.size)


class _Zip(Archive):
    def __init__(self, path: Path, parts: list[Path], limits: Limits) -> None:
        super().__init__(path, limits)
        self.file = open_parts(parts)
        self.left = limits.total(sum(part.stat().st_size for part in parts))
        try:
            self.zip = zipfile.ZipFile(self.file)
        except Exception as error:  # zipfile lets struct, value and decoding errors through
            self.file.close()
            raise fail(path, f"a damaged zip file ({type(error).__name__}: {error})") from None
        self.infos = self.zip.infolist()

    def close(self) -> None:
        self.zip.close()
        self.file.close()

    def members(self) -> Iterator[tuple[str, bytes]]:
        for place in self._scan():
            yield place.name, self._read(place)

    def _scan(self) -> Iterator[_Place]:
        files = [(at, info) for at, info in enumerate(self.infos) if info.filename[-1:] != "/"]
        total = 0
        for _, info in files:
            mode = info.external_attr >> 16
            kind = stat.S_IFMT(mode) if info.create_system == 3 else 0
            name = info.filename[:80]
            if kind not in (0, stat.S_IFREG):
                raise fail(self.path, f"member {name!r} is a link or a device: refused")
            if info.flag_bits & 1 or info.compress_type not in (0, zipfile.ZIP_DEFLATED):
                raise fail(self.path, f"member {name!r} is encrypted or packed in a rare way")
            total += info.file_size
            if info.file_size > self.limits.member_bytes or total > self.left:
                raise fail(self.path, f"member {name!r} unpacks to too much: refused")
        yield from self._counted(_Place(i.filename, at, i.file_size) for at, i in files)

    def _read(self, place: _Place) -> bytes:
        try:
            return unzipped(self.zip, self.infos[place.offset])
        except Exception as error:  # as above, and zlib errors
            why = f"{type(error).__name__}: {error}"[:120]
            what = f"member {place.name[:80]!r} is damaged ({why})"
            raise fail(self.path, what) from None


class _Folder(Archive):
    def members(self) -> Iterator[tuple[str, bytes]]:
        for place in self._scan():
            yield place.name, self._read(place)

    def _scan(self) -> Iterator[_Place]:
        yield from self._counted(self._walk())

    def _walk(self) -> Iterator[_Place]:
        for root, folders, names in os.walk(self.path):
            folders.sort()
            links = {name for name in (*folders, *names) if Path(root, name).is_symlink()}
            if links and not self.limits.skip_links:
                raise fail(Path(root, min(links)), "is a symbolic link: refused")
            for name in sorted(set(names) - links):
                file = Path(root, name)
                info = file.lstat()
                if not stat.S_ISREG(info.st_mode) or info.st_size > self.limits.member_bytes:
                    raise fail(file, "is not a plain file, or one that is too large: refused")
                yield _Place(file.relative_to(self.path).as_posix(), 0, info.st_size)

    def _read(self, place: _Place) -> bytes:
        file = self.path / place.name
        try:
            with open(os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as opened:
                return opened.read(place.size)  # more would be allocated in full
        except OSError as error:
            raise cannot_open(file, error) from None


def open_archive(
    paths: PathLike | Sequence[PathLike],
    limits: Limits = Limits(),
    *,
    spool: PathLike | None = None,
) -> Archive:
    """Open a folder, a zip, a tar, a ``.tar.gz``, or the parts of one in their order.

    Args:
        paths: One path, or the parts (see ``find_parts``).
        limits: What is refused as a bomb.
        spool: Where a ``.tar.gz`` is unpacked for reading by name; the system's temporary folder
            by default.
    """
    single = isinstance(paths, str | os.PathLike)
    parts = [Path(paths)] if single else [Path(path) for path in paths]  # type: ignore
    if not parts:
        raise MaghubError("no archive was given")
    if parts[0].is_dir() and len(parts) == 1:
        return _Folder(parts[0], limits)
    try:
        with open_parts(parts) as file:
            start = file.read(262 + 3)
    except OSError as error:
        raise cannot_open(parts[0], error) from None
    if start[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return _Zip(parts[0], parts, limits)
    if start[:2] == b"\x1f\x8b":
        return _Tar(parts[0], parts, limits, True, spool)
    if start[257:262] == b"ustar" or parts[0].suffix == ".tar":
        return _Tar(parts[0], parts, limits, False, spool)
    shown = "an HTML page" if start.lstrip()[:1] == b"<" else "not one"
    raise fail(parts[0], f"expected a tar, a tar.gz or a zip, this is {shown}", 0)
