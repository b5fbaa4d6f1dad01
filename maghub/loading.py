"""Opens a dataset by name: a local folder, a bundled sample, or a repo on the Hub."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from maghub import registry
from maghub.errors import MaghubError, nearest
from maghub.mag import MAG
from maghub.spec import FolderSpec, read_spec

if TYPE_CHECKING:
    from maghub.hub.opening import HubFolder

OWN = "maghub/"
_LONGEST_PATH, _LONGEST_PART = 4_095, 255  # bytes that file systems take


def sample_path(name: str) -> Path | None:
    """The folder of a sample dataset bundled with maghub, if there is one of that name."""
    path = Path(str(files("maghub"))) / "samples" / name
    return path if path.is_dir() else None


def _local(text: str) -> Path | None:
    """The local folder that a name stands for."""
    return Path(text) if Path(text).is_dir() else sample_path(text)


def _from_hub(text: str) -> HubFolder | Path | None:
    """A repo on the Hub; the bundled sample of that name where the Hub cannot give it.

    Raises:
        MaghubError: It looks like a repo but there is none, or the Hub cannot be reached.
    """
    from maghub.hub.failures import HubError
    from maghub.hub.opening import HubFolder, is_hub_id

    if not is_hub_id(text):
        return None
    try:
        return HubFolder(text)
    except HubError as error:
        bundled = sample_path(text.removeprefix(OWN)) if text.startswith(OWN) else None
        if bundled is not None and (error.missing or error.unreachable):
            return bundled
        if error.missing:
            raise MaghubError(f"is no folder here, and {error.what}", where=text) from None
        raise


def _unknown(text: str) -> MaghubError:
    """The error for a name that stands for nothing."""
    if Path(text).exists():
        return MaghubError("is not a folder", where=text, fix="give the folder of a built dataset")
    known = registry.names("builders")
    if text in known:
        return MaghubError(
            f"dataset '{text}' is not built here",
            fix=f"run: maghub build {text} --out {text}, then load the folder",
        )
    if "/" in text or text.startswith("."):
        fix = "check the path, or give the name of a dataset (maghub list)"
        return MaghubError("there is no such folder", where=text, fix=fix)
    return nearest(text, known, kind="dataset or folder")


def _can_name(text: str) -> bool:
    """Whether an operating system could have a file of that name."""
    try:
        parts = os.fsencode(text).split(b"/")
    except UnicodeEncodeError:  # half a character
        return False
    fits = len(text) <= _LONGEST_PATH and max(map(len, parts)) <= _LONGEST_PART
    return fits and bool(text.strip()) and "\0" not in text


def _find(name: object) -> tuple[str, HubFolder | Path | None]:
    """The text of a name, and what it stands for.

    Raises:
        MaghubError: It is no name at all.
    """
    if not (isinstance(name, (str, Path)) and _can_name(str(name))):
        shown = ascii(name)[:80]
        raise MaghubError(f"{shown} is no dataset", fix="give a folder, a name or ORG/NAME")
    text = str(name)
    return text, _local(text) or _from_hub(text)


def resolve(name: str | Path) -> Path:
    """The folder that ``name`` stands for; a repo on the Hub is downloaded into the cache.

    Raises:
        MaghubError: Neither a folder, a bundled sample nor a repo; says how to get it.
    """
    text, found = _find(name)
    if found is None:
        raise _unknown(text)
    return found if isinstance(found, Path) else found.whole()


def load(name: str | Path) -> MAG:
    """Open a published folder for reading: a local one, a bundled sample by its name, or a repo on
    the Hub (``ORG/NAME[@REVISION]``), whose tables are downloaded when they are first read.

    Returns:
        A ``MAG``; of a retrieval benchmark a ``maghub.mkg.benchmark.KGRag``.

    Raises:
        MaghubError: There is no such thing, or its ``maghub.json`` is missing or invalid.
    """
    text, found = _find(name)
    if found is None:
        raise _unknown(text)
    if isinstance(found, Path):
        return _opened(found, read_spec(found), None)
    return _opened(found.folder, found.spec, found)


def _opened(folder: Path, spec: FolderSpec, hub: HubFolder | None) -> MAG:
    """The object for a folder of this kind."""
    if spec.of_kind("corpus"):
        from maghub.mkg.benchmark import KGRag

        return KGRag(folder, spec, hub)
    return MAG(folder, spec, hub)
