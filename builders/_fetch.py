"""Where upstream's files come from: the user's own folder, or a download into the cache.

A source names every file it needs, by its path in the raw folder, as a ``Remote`` (it may be
fetched) or as a word on how a person gets it. With ``--raw-dir`` nothing is ever downloaded or
written there. Without it the files come through the download manager of ``datasets`` into the
caches of Hub and ``datasets``, and the folder given back holds links of upstream's names to them.
What is complete is never fetched again; a connection that breaks is resumed inside the file for
``hf://`` URLs, and at the start of that file for others.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from datasets import DownloadConfig, DownloadManager

from maghub.builders._source import require_raw
from maghub.errors import MaghubError
from maghub.features import cache_folder
from maghub.files import os_errors


@dataclass(frozen=True)
class Remote:
    """A file that upstream lets anybody download.

    Attributes:
        url: ``hf://datasets/ORG/NAME[@REVISION]/PATH`` or ``https://...``.
        sha256: What it must hash to (hex), where that is known.
    """

    url: str
    sha256: str | None = None


def raw_folder(name: str, raw_dir: Path | None, files: Mapping[str, Remote | str]) -> Path:
    """The folder in which every needed file lies under upstream's name.

    Args:
        name: Dataset name.
        raw_dir: The folder given by the user; None downloads.
        files: Path in the folder -> where it may be fetched, or how a person gets it.

    Raises:
        MaghubError: Everything that is missing or cannot be downloaded, at once.
    """
    by_hand = {
        path: f"from {how.url}" if isinstance(how, Remote) else how for path, how in files.items()
    }
    remote = {path: how for path, how in files.items() if isinstance(how, Remote)}
    if raw_dir is not None or len(remote) < len(files):
        return require_raw(name, raw_dir, by_hand)
    folder = cache_folder() / "raw" / name
    problems = []
    for path, file in remote.items():
        try:
            _link(folder / path, _download(file))
        except MaghubError as error:
            problems.append(f"{path}: {error.line()}")
    if problems:
        raise MaghubError(
            f"{name}: {'; '.join(problems)}",
            fix="run it again (what is complete stays), or put the files into one folder and pass "
            "it as --raw-dir",
        )
    return folder


def _download(file: Remote) -> Path:
    """The file in a cache, its checksum compared."""
    manager = DownloadManager(download_config=DownloadConfig(max_retries=3))
    try:
        path = Path(str(manager.download(file.url))).resolve()
    except Exception as error:  # the HTTP clients below it have error types of their own
        reason = " ".join(str(error).split())[:200] or "no reason given"
        what = f"cannot be downloaded ({type(error).__name__}: {reason})"
        raise MaghubError(what, where=file.url) from None
    if file.sha256 is not None:
        with os_errors(path), path.open("rb") as opened:
            found = hashlib.file_digest(opened, "sha256").hexdigest()
        if found != file.sha256:
            path.unlink(missing_ok=True)  # the next run downloads it anew
            what = f"has the checksum {found[:16]}, expected {file.sha256[:16]}"
            raise MaghubError(what, where=file.url)
    return path


def _link(place: Path, target: Path) -> None:
    """Make ``place`` a link to ``target``, replacing an older one atomically."""
    with os_errors(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".link-", dir=place.parent) as spare:
            (Path(spare) / place.name).symlink_to(target)
            os.replace(Path(spare) / place.name, place)
