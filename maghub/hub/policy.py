"""What of a folder may leave this machine: the card's policy per part against a repo's visibility.

A ``local`` part is stripped from every push, a ``gated`` one is refused unless the repo is gated or
private, a ``public`` one goes anywhere; without the graph there is nothing to push, so a ``local``
graph is refused. ``clear`` is the only way to make a ``Cleared``, and ``Cleared`` the only thing
that a push takes, so that nothing gets past the policy.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType

from maghub import layout
from maghub.cards import PARTS
from maghub.errors import MaghubError
from maghub.features import cache_folder
from maghub.files import os_errors
from maghub.hub.plan import Local, Plan, Remote, make_plan, read_local
from maghub.hub.remote import Visibility
from maghub.hub.stripping import holds, strip
from maghub.spec import FolderSpec, Policy

METADATA = (
    layout.CARD_FILE,
    layout.SPEC_FILE,
    layout.CARD_SOURCE_FILE,
    layout.CROISSANT_FILE,
    layout.PICTURE_FILE,
)
_OPENNESS: dict[Visibility, int] = {"private": 0, "gated": 1, "public": 2}
_SEAL = object()


class Cleared:
    """A folder as it may be pushed to a repo of one visibility; made by ``clear`` alone.

    Attributes:
        spec: Its ``maghub.json``.
        files: Everything that may be pushed: path in the repo -> file here.
        visibility: The most open repo that it may be pushed to.
        stripped: Parts that were taken out.
        source: The ``maghub.json`` before anything was taken out.
    """

    def __init__(
        self,
        seal: object,
        folder: Path,
        spec: FolderSpec,
        visibility: Visibility,
        stripped: tuple[str, ...],
        source: FolderSpec,
    ) -> None:
        if seal is not _SEAL:
            raise TypeError("only maghub.hub.policy.clear makes a Cleared")
        self.spec, self.source = spec, source
        self.visibility, self.stripped = visibility, stripped
        self.files: Local = MappingProxyType(_files(folder, spec))

    def plan(self, remote: Remote, remote_spec: FolderSpec | None) -> Plan:
        """What a push changes on the Hub.

        Args:
            remote: The files of the repo.
            remote_spec: Its ``maghub.json``, where it has one.
        """
        specs = [self.spec, self.source] + ([remote_spec] if remote_spec else [])
        return make_plan(self.files, remote, _owner(specs))

    def require(self, visibility: Visibility) -> None:
        """Refuse a repo that is more open than the one that this was cleared for."""
        if _OPENNESS[visibility] > _OPENNESS[self.visibility]:
            what = f"the repo became {visibility} while pushing, it was {self.visibility}"
            raise MaghubError(what, fix="check its settings and push again")


def _files(folder: Path, spec: FolderSpec) -> Local:
    """All files that belong to the dataset; data files must be what ``maghub.json`` says."""
    entries = {entry.path: entry for config in spec.configs for entry in config.files}
    found = {}
    for path in (*entries, *METADATA):
        with os_errors(folder / path):
            found[path] = read_local(folder / path)
        if path in entries and found[path].sha256 != entries[path].sha256:
            what = "does not match its checksum in maghub.json"
            raise MaghubError(what, where=folder / path, fix="copy or build it again")
    return found


def _owner(specs: list[FolderSpec]) -> Callable[[str], bool]:
    """Whether a file of a repo belongs to the dataset (as any of these specs describe it).

    Files that a split's pattern finds belong to it: readers would load them.
    """
    configs = [config for spec in specs for config in spec.configs]
    names = {entry.path for config in configs for entry in config.files} | set(METADATA)
    globs = {layout.data_glob(config.name, split) for config in configs for split in config.splits}
    return lambda path: path in names or any(fnmatchcase(path, glob) for glob in globs)


def decide(policy: Policy, visibility: Visibility) -> tuple[list[str], list[str]]:
    """The parts that a repo of that visibility must not hold: (refused, stripped)."""
    refused, stripped = [], []
    for part in PARTS:
        access = getattr(policy, part)
        if access == "local" and part != "graph":
            stripped.append(part)
        elif access == "local" or (access == "gated" and visibility == "public"):
            refused.append(part)
    return refused, stripped


def _refuse(spec: FolderSpec, part: str) -> None:
    access = getattr(spec.policy, part)
    what = f"the policy of its {part} is {access}"
    if access == "local":
        raise MaghubError(f"{what}, so it cannot be pushed", where=spec.name)
    fix = "push it with --private, or make the repo gated in its settings first"
    raise MaghubError(f"{what}, the repo is public", where=spec.name, fix=fix)


@contextmanager
def clear(folder: Path, spec: FolderSpec, visibility: Visibility) -> Iterator[Cleared]:
    """The folder as it may be pushed; where parts are stripped, a rewritten copy (links for what
    did not change) that lives as long as the block.

    Raises:
        MaghubError: The policy forbids the push.
    """
    refused, stripped = decide(spec.policy, visibility)
    for part in refused:
        if holds(spec, part):
            _refuse(spec, part)
    stripped = [part for part in stripped if holds(spec, part)]
    if not stripped:
        yield Cleared(_SEAL, folder, spec, visibility, (), spec)
        return
    base = cache_folder() / "stripped"
    with os_errors(base):
        base.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f"{spec.name}-", dir=base))
    try:
        left = strip(folder, spec, stripped, work)
        yield Cleared(_SEAL, work, left, visibility, tuple(stripped), spec)
    finally:
        shutil.rmtree(work, ignore_errors=True)
