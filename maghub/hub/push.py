"""``maghub.push``: a published folder to the Hub, in one commit, whatever happens on the way."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from maghub.errors import MaghubError
from maghub.hub.failures import HubError
from maghub.hub.plan import Plan
from maghub.hub.policy import METADATA, Cleared, clear
from maghub.hub.remote import MAIN, Head, RemoteRepo, Visibility
from maghub.hub.sending import Job, again
from maghub.spec import read_spec
from maghub.validation import validate

_COMMIT_ID = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class PushResult:
    """What a push did, or (``dry_run``) would do.

    Attributes:
        repo: The repo id.
        revision: The branch.
        visibility: Who may see it.
        plan: Paths by what happened to them.
        sent: Bytes of the files that were added or updated.
        stripped: Parts that the policy kept back.
        ignored: Files of the folder that do not belong to the dataset.
        commit: The commit that holds the folder; None in a dry run.
        tag: The version's tag; None where another commit has it (or none was set).
        pr_url: Address of the pull request.
        dry_run: Nothing was changed.
    """

    repo: str
    revision: str
    visibility: Visibility
    plan: Plan
    sent: int
    stripped: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    commit: str | None = None
    tag: str | None = None
    pr_url: str | None = None
    dry_run: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain data for ``--json``."""
        return asdict(self)


def _find_branch(remote: RemoteRepo) -> Head | None:
    """The tip of the branch, or of the main one where the branch is yet to be made."""
    try:
        return remote.head()
    except HubError as error:
        if remote.revision == MAIN or error.status != 404:
            raise
        return remote.head(MAIN)


def _require_valid(folder: Path) -> None:
    report = validate(folder)
    if not report.ok:
        more = len(report.problems) - 1
        what = f"is not valid: {report.problems[0].line()}" + (
            f" (and {more} more)" if more else ""
        )
        raise MaghubError(what, where=folder, fix=f"see: maghub validate {folder}")


def _ignored(folder: Path, cleared: Cleared) -> tuple[str, ...]:
    """Files of the folder that are no part of the dataset; hidden ones are not mentioned."""
    entries = {entry.path for config in cleared.source.configs for entry in config.files}
    found = []
    for base, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        place = Path(base).relative_to(folder)
        found += [(place / name).as_posix() for name in files if not name.startswith(".")]
    return tuple(sorted(set(found) - entries - set(METADATA)))


def push(
    folder: str | Path,
    repo: str,
    *,
    private: bool = False,
    revision: str | None = None,
    dry_run: bool = False,
    create_pr: bool = False,
    overwrite: bool = False,
) -> PushResult:
    """Make a dataset repo on the Hub equal to a published folder, in one commit.

    Only what differs is sent; a push that was interrupted goes on where it stopped when it is run
    again. Files in the repo that do not belong to the dataset stay. The version of the dataset is
    tagged once (``v1.0.0``); a tag is never moved. Readers see the old state or the new one.

    Args:
        folder: A published folder; it is validated first.
        repo: ``ORG/NAME``; made where it does not exist.
        private: Make it private where it does not exist.
        revision: Branch to push to; made where it does not exist.
        dry_run: Change nothing, tell what would change.
        create_pr: Open a pull request instead of committing.
        overwrite: Replace what changed on the Hub since the last push or pull of this folder.

    Raises:
        MaghubError: The folder is not valid, its policy forbids the push, the repo holds other
            work, or the Hub refuses or cannot be reached.
    """
    path, remote = Path(folder), RemoteRepo(repo, revision)
    _require_branch(remote, create_pr)
    head = again(_find_branch, remote)
    visibility: Visibility = head.visibility if head else "private" if private else "public"
    if private and visibility != "private":
        what, fix = f"exists and is {visibility}", "make it private in its settings first"
        raise MaghubError(what, where=remote, fix=fix)
    if not dry_run:
        remote.require_token()
    _require_valid(path)
    with clear(path, read_spec(path), visibility) as cleared:
        job = Job(path, remote, cleared, create_pr=create_pr, overwrite=overwrite)
        if dry_run:
            return _result(job, again(job.make_plan, head), dry_run=True)
        done = job.run(private=private)
        job.verify(done.commit)
        tag = None
        if not create_pr and remote.revision == MAIN:
            name = f"v{cleared.spec.dataset_version}"
            tag = name if again(remote.tag, name, done.commit) else None
        return _result(job, job.plan, commit=done.commit, tag=tag, pr_url=done.pr_url)


def compare(folder: str | Path, repo: str, *, revision: str | None = None) -> PushResult:
    """What a push would change, without validating the folder.

    Raises:
        MaghubError: There is no such repo, or the Hub cannot be reached.
    """
    path, remote = Path(folder), RemoteRepo(repo, revision)
    head = again(remote.head)
    if head is None:
        raise remote.missing_error()
    with clear(path, read_spec(path), head.visibility) as cleared:
        job = Job(path, remote, cleared, create_pr=False, overwrite=True)
        return _result(job, again(job.make_plan, head), dry_run=True)


def _require_branch(remote: RemoteRepo, create_pr: bool) -> None:
    if _COMMIT_ID.fullmatch(remote.revision):
        raise MaghubError("is a commit", where=remote.revision, fix="push to a branch")
    if create_pr and remote.revision != MAIN:
        raise MaghubError("a pull request goes to the main branch", fix="leave --revision out")


def _result(job: Job, plan: Plan, **more: Any) -> PushResult:
    cleared = job.cleared
    return PushResult(
        repo=job.remote.repo,
        revision=job.remote.revision,
        visibility=cleared.visibility,
        plan=plan,
        sent=sum(cleared.files[path].size for path in plan.uploads),
        stripped=cleared.stripped,
        ignored=_ignored(job.folder, cleared),
        **more,
    )
