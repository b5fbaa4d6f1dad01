"""What the test Hub keeps, in memory: repos with commits, trees, refs and LFS objects."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

LFS_SUFFIXES = (".parquet", ".arrow", ".bin", ".png")
LFS_FROM_BYTES = 10_000_000
ATTRIBUTES = "".join(f"*{suffix} filter=lfs\n" for suffix in LFS_SUFFIXES).encode()


def git_oid(data: bytes) -> str:
    """What git calls a file of these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def is_lfs(path: str, size: int) -> bool:
    """Whether the Hub would store a file as an LFS object."""
    return path.endswith(LFS_SUFFIXES) or size > LFS_FROM_BYTES


class Blob(NamedTuple):
    """A file in a tree: its git name, size, and SHA-256 where it is an LFS object."""

    oid: str
    size: int
    sha256: str | None = None

    def entry(self, path: str) -> dict[str, object]:
        """The file as the tree endpoints describe it."""
        found: dict[str, object] = {
            "type": "file",
            "path": path,
            "oid": self.oid,
            "size": self.size,
        }
        if self.sha256 is not None:
            found["lfs"] = {"oid": self.sha256, "size": self.size, "pointerSize": 130}
        return found


Tree = dict[str, Blob]


def lfs_blob(sha256: str, size: int) -> Blob:
    """The pointer to an LFS object."""
    return Blob(git_oid(f"oid sha256:{sha256}\nsize {size}\n".encode()), size, sha256)


class Commit(NamedTuple):
    """A state of a repo."""

    oid: str
    parent: str | None
    tree: Tree
    title: str


@dataclass
class Repo:
    """One repo; ``refs`` holds branches, tags and pull requests by the name users give."""

    id: str
    kind: str = "dataset"
    private: bool = False
    gated: str | bool = False
    commits: dict[str, Commit] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    _count: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.commit("main", self.store({}, {".gitattributes": ATTRIBUTES}), "initial commit")

    def find(self, revision: str) -> Commit | None:
        """The commit of a branch, tag, pull request or hash."""
        oid = self.refs.get(revision) or self.tags.get(revision) or revision
        return self.commits.get(oid)

    def commit(self, ref: str, tree: Tree, title: str, parent: str | None = None) -> Commit:
        """Put a new state on top of a branch (on ``parent`` where the branch is new)."""
        parent = self.refs.get(ref, parent)
        seed = f"{self.id} {next(self._count)} {parent} {sorted(tree.items())}"
        made = Commit(hashlib.sha1(seed.encode()).hexdigest(), parent, tree, title)
        self.commits[made.oid] = made
        self.refs[ref] = made.oid
        return made

    def store(self, tree: Tree, files: Mapping[str, bytes | None]) -> Tree:
        """A tree with some files added, replaced or (None) deleted; their bytes are kept."""
        changed = dict(tree)
        for path, data in files.items():
            changed.pop(path, None)
            if data is None:
                continue
            if is_lfs(path, len(data)):
                blob = lfs_blob(hashlib.sha256(data).hexdigest(), len(data))
                self.objects[blob.sha256 or ""] = data
            else:
                blob = Blob(git_oid(data), len(data))
                self.blobs[blob.oid] = data
            changed[path] = blob
        return changed

    def read(self, blob: Blob) -> bytes | None:
        """The bytes of a file; None where the LFS object is lost."""
        if blob.sha256 is not None:
            return self.objects.get(blob.sha256)
        return self.blobs[blob.oid]

    def files(self, revision: str = "main") -> dict[str, bytes | None]:
        """All files of a state but the one that the Hub adds itself."""
        commit = self.find(revision)
        assert commit is not None
        return {p: self.read(b) for p, b in commit.tree.items() if p != ".gitattributes"}

    def history(self, revision: str = "main") -> list[Commit]:
        """Commits from the newest to the first."""
        found, commit = [], self.find(revision)
        while commit is not None:
            found.append(commit)
            commit = self.commits.get(commit.parent or "")
        return found
