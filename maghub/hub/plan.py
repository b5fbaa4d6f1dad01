"""What a push would change: a pure comparison of a local folder with a remote tree."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_BLOCK = 1 << 22


class LocalFile(NamedTuple):
    """A file here: where it lies, its size and both names the Hub may know its contents by."""

    path: Path
    size: int
    sha256: str
    git_oid: str


class RemoteFile(NamedTuple):
    """A file in a commit: ``content`` is its SHA-256 where it is an LFS object, else its git id."""

    size: int
    content: str


Local = Mapping[str, LocalFile]
Remote = Mapping[str, RemoteFile]


def read_local(path: Path) -> LocalFile:
    """Size and checksums of a file, read once."""
    size = path.stat().st_size
    sha256, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            sha256.update(block)
            git.update(block)
    return LocalFile(path, size, sha256.hexdigest(), git.hexdigest())


def same(local: LocalFile | None, remote: RemoteFile | None) -> bool:
    """Whether both are absent, or hold the same bytes."""
    if local is None or remote is None:
        return local is remote
    return local.size == remote.size and remote.content in (local.sha256, local.git_oid)


@dataclass(frozen=True)
class Plan:
    """Paths by what happens to them; each list is sorted, no path stands in two of them."""

    adds: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    deletes: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()

    @property
    def uploads(self) -> tuple[str, ...]:
        """Everything that must be sent."""
        return tuple(sorted((*self.adds, *self.updates)))

    @property
    def empty(self) -> bool:
        """Whether the remote already is what it should be."""
        return not (self.adds or self.updates or self.deletes)


def make_plan(local: Local, remote: Remote, owned: Callable[[str], bool]) -> Plan:
    """Compare a folder with a remote tree.

    Args:
        local: What the repo should hold.
        remote: What it holds.
        owned: Whether a remote file belongs to the dataset; only such files are ever deleted.
    """
    both = sorted(local.keys() & remote.keys())
    return Plan(
        adds=tuple(sorted(local.keys() - remote.keys())),
        updates=tuple(path for path in both if not same(local[path], remote[path])),
        deletes=tuple(sorted(path for path in remote.keys() - local.keys() if owned(path))),
        unchanged=tuple(path for path in both if same(local[path], remote[path])),
    )


def overwritten(
    plan: Plan, local: Local, remote: Remote, known: Mapping[str, Iterable[str]]
) -> list[str]:
    """Paths whose remote contents nobody here has seen and that the plan would replace or delete.

    Args:
        plan: The plan.
        local: What the repo should hold.
        remote: What it holds.
        known: For each path the contents (SHA-256 or git id) that we wrote or read before.
    """
    touched = (*plan.updates, *plan.deletes)
    return sorted(path for path in touched if remote[path].content not in known.get(path, ()))


def batches(paths: Iterable[str], local: Local, max_files: int, max_bytes: int) -> list[list[str]]:
    """Uploads in groups of at most so many files and bytes (a larger file goes alone)."""
    groups: list[list[str]] = []
    size = 0
    for path in paths:
        size += local[path].size
        if not groups or len(groups[-1]) >= max_files or size > max_bytes:
            groups.append([])
            size = local[path].size
        groups[-1].append(path)
    return groups
