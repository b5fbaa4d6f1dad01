"""A dataset repo at one commit as a folder of the client's cache that fills as it is used."""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from maghub import layout
from maghub.hub.failures import HubError, hub_errors
from maghub.hub.remote import DATASET, RemoteRepo
from maghub.progress import track
from maghub.spec import ConfigSpec, FolderSpec, read_spec

_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*(@[^@\s]+)?")
_THREADS = 8


def is_hub_id(name: str) -> bool:
    """Whether a text looks like ``ORG/NAME[@REVISION]`` and is no path of something here."""
    return _ID.fullmatch(name) is not None and not Path(name).exists()


class HubFolder:
    """A repo, opened: ``maghub.json`` and the card are there, other files come when asked for.

    The files are those of ``huggingface_hub``'s cache (links into its blobs), so they are shared
    with ``load_dataset`` and ``snapshot_download``, and what is cached needs no network.

    Attributes:
        folder: The snapshot folder.
        commit: The commit it is a snapshot of.
        spec: Its ``maghub.json``.
    """

    def __init__(self, name: str) -> None:
        self._remote = RemoteRepo(name)
        self.commit = self._resolve()
        self.folder = Path(self._download(layout.SPEC_FILE)).parent
        self._download(layout.CARD_SOURCE_FILE)
        self.spec: FolderSpec = read_spec(self.folder)

    @property
    def repo(self) -> str:
        """``ORG/NAME``."""
        return self._remote.repo

    def _resolve(self) -> str:
        """The commit of the revision: from the Hub, or from the cache where it has no answer."""
        remote = self._remote
        try:
            with hub_errors(str(remote)):
                return remote.api.resolve_revision(
                    remote.repo, repo_type=DATASET, revision=remote.revision
                ).resolved
        except HubError as error:
            if error.missing:
                raise remote.missing_error() from None
            raise

    def _download(self, path: str) -> str:
        args: dict[str, Any] = {"repo_type": DATASET, "revision": self.commit}
        with hub_errors(f"{self._remote}/{path}"):
            return self._remote.api.hf_hub_download(self._remote.repo, path, **args)

    def fetch(self, *configs: ConfigSpec) -> None:
        """Download the files of some configs that are not in the cache yet."""
        missing = [path for path in _paths(configs) if not (self.folder / path).exists()]
        if not missing:
            return
        with ThreadPoolExecutor(_THREADS) as pool:
            for _ in track(pool.map(self._download, missing), "downloading", len(missing)):
                pass

    def whole(self) -> Path:
        """The folder with everything in it."""
        self._download(layout.CARD_FILE)
        self._download(layout.CROISSANT_FILE)
        self._download(layout.PICTURE_FILE)
        self.fetch(*self.spec.configs)
        return self.folder

    def address(self, path: str) -> str:
        """Where to read a file without storing it: here if it is cached, else on the Hub."""
        if (self.folder / path).exists():
            return str(self.folder / path)
        return f"hf://datasets/{self._remote.repo}@{self.commit}/{path}"


def _paths(configs: Iterable[ConfigSpec]) -> list[str]:
    return [entry.path for config in configs for entry in config.files]
