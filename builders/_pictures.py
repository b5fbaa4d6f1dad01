"""Pictures of nodes in an archive or a folder, read by name, also from worker processes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from maghub.builders._formats.archives import Index, open_archive

SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff")


class ArchivePictures:
    """Upstream bytes of each node's picture; each process opens the archive for itself.

    Args:
        paths: A folder, a zip, a tar, or the parts of one in order.
        keys: The name of each node's picture without folder and suffix, in node order.
    """

    def __init__(self, paths: Path | Sequence[Path], keys: Sequence[str]) -> None:
        self.paths = paths
        self.keys = tuple(keys)

    def __getstate__(self) -> dict[str, object]:
        return {"paths": self.paths, "keys": self.keys}

    @cached_property
    def index(self) -> Index:
        """The pictures by name; a damaged archive shows here."""
        return open_archive(self.paths).index(suffixes=SUFFIXES)

    def __call__(self, node: int) -> bytes | None:
        """The bytes of a node's picture, or None where there is none."""
        return self.index.read(self.keys[node])

    @property
    def foreign(self) -> int:
        """How many pictures belong to no node."""
        return len(self.index) - sum(key in self.index for key in set(self.keys))
