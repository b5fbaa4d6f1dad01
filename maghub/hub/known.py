"""What this machine has last seen of a repo, so that nobody's work is overwritten unseen.

Per folder and branch one small file in maghub's cache says which contents of which paths we wrote
or read. It is written before a commit is sent (with what is about to be there) and after it
succeeded, so that a push that was killed in between still knows its own work.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from maghub.features import cache_folder
from maghub.files import os_errors, write_text
from maghub.hub.plan import Local, Remote
from maghub.hub.remote import RemoteRepo

Known = Mapping[str, set[str]]


def _path(folder: Path, remote: RemoteRepo) -> Path:
    identity = [os.path.realpath(folder), remote.endpoint, remote.repo, remote.revision]
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()
    return cache_folder() / "hub" / f"{digest}.json"


def read_known(folder: Path, remote: RemoteRepo) -> Known | None:
    """Contents per path that we know; None where this folder never met that repo."""
    try:
        data = json.loads(_path(folder, remote).read_text("utf-8"))
        return {path: set(contents) for path, contents in data.items()}
    except (OSError, ValueError, AttributeError, TypeError):  # none, or not what we wrote
        return None


def write_known(folder: Path, remote: RemoteRepo, known: Known) -> None:
    """Remember contents per path."""
    path = _path(folder, remote)
    with os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        data = {name: sorted(contents) for name, contents in sorted(known.items())}
        write_text(path, json.dumps(data))


def seen(tree: Remote) -> Known:
    """Everything in a remote tree, as known."""
    return {path: {file.content} for path, file in tree.items()}


def with_own(known: Known, files: Local) -> Known:
    """What was known and what we are about to write."""
    own = {path: {file.sha256, file.git_oid} for path, file in files.items()}
    return {path: known.get(path, set()) | own.get(path, set()) for path in {*known, *own}}
