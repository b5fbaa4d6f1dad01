"""Pictures of nodes in an archive or a folder, read by name, also from worker processes."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from maghub.builders._formats.archives import Index, open_archive
from maghub.files import os_errors

SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff")


class ArchivePictures:
    """Upstream bytes of each node's picture; each process opens the archive for itself.

    A ``.tar.gz`` is unpacked once, for all processes, into a temporary plain tar that is removed
    with this object.

    Args:
        paths: A folder, a zip, a tar, or the parts of one in order.
        keys: The name of each node's picture without folder and suffix, in node order.
        others: Other ways in which upstream is said to name them; that which finds most pictures
            holds, an earlier one where two find as many.
    """

    def __init__(
        self, paths: Path | Sequence[Path], keys: Sequence[str], *others: Sequence[str]
    ) -> None:
        self.paths: Path | Sequence[Path] = paths
        self._unpack()
        self.keys = tuple(keys)
        if others:
            self.keys = max((self.keys, *map(tuple, others)), key=self._found)

    def _unpack(self) -> None:
        """Make ``paths`` a plain tar where it is a packed one."""
        with open_archive(self.paths) as archive:
            if not archive.packed:
                return
            folder = Path(tempfile.mkdtemp(prefix="maghub-pictures-"))
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            plain = folder / Path(archive.path.name.partition(".")[0]).with_suffix(".tar")
            with os_errors(plain), plain.open("wb") as file:
                archive.unpack(file)
        self.paths = plain

    def __getstate__(self) -> dict[str, object]:
        return {"paths": self.paths, "keys": self.keys}

    @cached_property
    def index(self) -> Index:
        """The pictures by name; a damaged archive shows here."""
        return open_archive(self.paths).index(suffixes=SUFFIXES)

    def __call__(self, node: int) -> bytes | None:
        """The bytes of a node's picture, or None where there is none."""
        return self.index.read(self.keys[node])

    def _found(self, keys: Sequence[str]) -> int:
        return sum(key in self.index for key in set(keys))

    @property
    def foreign(self) -> int:
        """How many pictures belong to no node."""
        return len(self.index) - self._found(self.keys)
