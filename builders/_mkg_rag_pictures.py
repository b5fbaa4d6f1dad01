"""Pictures of MKG-RAG-Bench from the user's own folder: of entities, and augmented for questions.

The released files hold none: the general half names pictures of MarKG (web images), the medical
half those of MIMIC-CXR-JPG (credentialed). Names are url-escaped in the files, on disk or in both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import quote, unquote

from maghub.errors import MaghubError
from maghub.files import os_errors
from maghub.mkg.augment import published

SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp")


def clean_path(path: str) -> str:
    """A relative path: without the leading slash that the medical half has.

    Raises:
        MaghubError: It leads out of the folder.
    """
    parts = PurePosixPath(path.strip().lstrip("/")).parts
    if not parts or ".." in parts or "\0" in path:
        raise MaghubError(f"picture path '{path}' leads out of the folder")
    return "/".join(parts)


@dataclass(frozen=True)
class Folder:
    """The user's folder of pictures.

    Attributes:
        root: The folder, None where there is none: paths stay as the files have them.
    """

    root: Path | None

    def name(self, path: str) -> str:
        """The path as it is on disk, whichever way it is escaped; as it was where it is not there.

        Raises:
            MaghubError: It leads out of the folder.
        """
        path = clean_path(path)
        if self.root is None:
            return path
        for form in (path, unquote(path), quote(path), quote(unquote(path))):
            if ".." not in PurePosixPath(form).parts and (self.root / form).is_file():
                return form
        return path

    def of_entity(self, key: str) -> list[str]:
        """Paths of all pictures in an entity's folder, sorted."""
        folder = self.root / key if self.root is not None else None
        if folder is None or PurePosixPath(key).parts != (key,) or not folder.is_dir():
            return []
        with os_errors(folder):
            names = sorted(path.name for path in folder.iterdir() if path.is_file())
        return [f"{key}/{name}" for name in names if name.lower().endswith(SUFFIXES)]

    def read(self, path: str) -> bytes | None:
        """The bytes, or None where the picture is not there."""
        file = self.root / path if self.root is not None else None
        if file is None or not file.is_file():
            return None
        with os_errors(file):
            return file.read_bytes()


@dataclass(frozen=True)
class BenchmarkPictures:
    """Bytes of pictures by path; those of questions are augmented copies of their head's.

    Attributes:
        folder: Where the pictures are.
        heads: Path of a question's picture -> the paths of its head's pictures, and which of them
            stands in the corpus.
        seed: The one seed.
    """

    folder: Folder
    heads: Mapping[str, tuple[Sequence[str], int]] = field(default_factory=dict)
    seed: int = 0

    def __call__(self, path: str) -> bytes | None:
        if path not in self.heads:
            return self.folder.read(path)
        paths, shown = self.heads[path]
        there = [(one, data) for one in paths if (data := self.folder.read(one)) is not None]
        if not there:
            return None
        at = next((i for i, (one, _) in enumerate(there) if one == paths[shown]), 0)
        return published(path, [data for _, data in there], seed=self.seed, shown=at)
