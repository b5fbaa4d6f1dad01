"""``maghub.pull``: a dataset repo from the Hub as a published folder of one's own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download

from maghub.errors import MaghubError
from maghub.files import os_errors, staged_folder
from maghub.hub.failures import hub_errors
from maghub.hub.known import seen, write_known
from maghub.hub.plan import read_local, same
from maghub.hub.policy import METADATA
from maghub.hub.remote import DATASET, RemoteRepo
from maghub.hub.sending import again
from maghub.layout import SPEC_FILE
from maghub.spec import read_spec


def pull(
    repo: str,
    out: str | Path | None = None,
    *,
    revision: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Download a dataset repo into a folder; it appears complete and checked, or not at all.

    What was downloaded before an interruption stays in a hidden folder beside ``out`` and is not
    downloaded again.

    Args:
        repo: ``ORG/NAME[@REVISION]``.
        out: The folder to make; the name of the repo if None.
        revision: Branch, tag or commit.
        overwrite: Replace an existing folder.

    Returns:
        The folder.

    Raises:
        MaghubError: No such repo, no answer, a damaged file, or the disk refuses.
    """
    remote = RemoteRepo(repo, revision)
    target = Path(os.path.abspath(out or remote.repo.rpartition("/")[2]))
    if not overwrite and target.exists() and (target.is_file() or any(target.iterdir())):
        fix = "choose another folder, or pass --overwrite"
        raise MaghubError("already exists", where=target, fix=fix)
    head = again(remote.head)
    if head is None:
        raise remote.missing_error()
    tree = again(remote.tree, head.commit)
    if SPEC_FILE not in tree:
        raise MaghubError(f"holds no {SPEC_FILE}, so it is no dataset of maghub", where=remote)
    partial = target.parent / f".{target.name}.pull"
    again(_download, remote, head.commit, list(METADATA), partial)
    spec = read_spec(partial)
    paths = [*METADATA, *(entry.path for config in spec.configs for entry in config.files)]
    if absent := [path for path in paths if path not in tree]:
        raise MaghubError(f"has no file {absent[0]}, which its {SPEC_FILE} names", where=remote)
    again(_download, remote, head.commit, paths, partial)
    for path in paths:
        with os_errors(partial / path):
            if not same(read_local(partial / path), tree.get(path)):
                (partial / path).unlink()
                raise MaghubError("was damaged on its way", where=path, fix="pull again")
    with staged_folder(target, overwrite=overwrite) as staging:
        for path in paths:
            (staging / path).parent.mkdir(parents=True, exist_ok=True)
            os.replace(partial / path, staging / path)
    shutil.rmtree(partial, ignore_errors=True)
    write_known(target, remote, seen(tree))
    return target


def _download(remote: RemoteRepo, commit: str, paths: list[str], folder: Path) -> None:
    """Files of a commit into a folder; those that are there already are left."""
    args: dict[str, Any] = {"repo_type": DATASET, "revision": commit, "local_dir": folder}
    with hub_errors(str(remote)):
        snapshot_download(remote.repo, allow_patterns=paths, library_name="maghub", **args)
