"""Opens a dataset by name: a local folder, or a sample that ships with maghub."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from maghub import registry
from maghub.errors import MaghubError, nearest
from maghub.mag import MAG
from maghub.spec import read_spec


def sample_path(name: str) -> Path | None:
    """The folder of a sample dataset bundled with maghub, if there is one of that name."""
    path = Path(str(files("maghub"))) / "samples" / name
    return path if path.is_dir() else None


def resolve(name: str | Path) -> Path:
    """The folder that ``name`` stands for.

    Raises:
        MaghubError: Neither a folder nor a bundled sample; says how to get it.
    """
    text = str(name)
    if Path(text).is_dir():
        return Path(text)
    bundled = sample_path(text.removeprefix("maghub/"))
    if bundled is not None:
        return bundled
    if Path(text).exists():
        raise MaghubError("is not a folder", where=text, fix="give the folder of a built dataset")
    known = registry.names("builders")
    if text in known:
        raise MaghubError(
            f"dataset '{text}' is not built here",
            fix=f"run: maghub build {text} --out {text}, then load the folder",
        )
    raise nearest(text, known, kind="dataset or folder")


def load(name: str | Path) -> MAG:
    """Open a published folder (or a bundled sample by name) for reading.

    Raises:
        MaghubError: No such folder or sample, or its ``maghub.json`` is missing or invalid.
    """
    folder = resolve(name)
    return MAG(folder, read_spec(folder))
