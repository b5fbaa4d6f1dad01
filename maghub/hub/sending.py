"""One push of a cleared folder: plan, upload, one commit, check; if need be on a fresh head."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from huggingface_hub import CommitOperationAdd, CommitOperationDelete
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from maghub.errors import MaghubError
from maghub.hub.failures import HubError
from maghub.hub.known import Known, read_known, seen, with_own, write_known
from maghub.hub.plan import Plan, Remote, batches, overwritten, same
from maghub.hub.policy import METADATA, Cleared
from maghub.hub.remote import MAIN, Committed, Head, RemoteRepo
from maghub.layout import SPEC_FILE
from maghub.progress import track
from maghub.spec import FolderSpec

ATTEMPTS = 5
BATCH_FILES, BATCH_BYTES = 64, 1 << 30
MAX_COMMIT_FILES = 25_000
_CHECKING_THREADS = 8
_PLAN_AGAIN = (400, 404, 409, 412, 422)
"""Refusals of a commit that a new plan on the newest head, with fresh uploads, may get around."""

T = TypeVar("T")


def again(call: Callable[..., T], *args: object, also: Collection[int] = ()) -> T:
    """Call, a few times if the error may pass (or its HTTP status is one of ``also``)."""

    def worth_it(error: BaseException) -> bool:
        return isinstance(error, HubError) and (error.transient or error.status in also)

    retrying = Retrying(
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.5, max=8),
        retry=retry_if_exception(worth_it),
        reraise=True,
    )
    return retrying(call, *args)


def open_branch(remote: RemoteRepo, *, private: bool) -> Head:
    """The tip of the branch; repo and branch are made where they do not exist."""
    head = remote.head(MAIN)
    if head is None:
        remote.create(private=private)
        head = remote.head(MAIN)
    if head is not None and remote.revision != MAIN:
        head = remote.branch_head()
    if head is None:
        raise remote.missing_error()
    return head


def _is_prose(path: str) -> bool:
    """Whether a file is what a repo may hold before its data: a licence, a card, .gitattributes."""
    return "/" not in path and path.rpartition(".")[2] in ("md", "txt", "gitattributes", path)


class Job:
    """One push of a cleared folder; ``run`` may plan several times, each on a fresh head."""

    def __init__(
        self,
        folder: Path,
        remote: RemoteRepo,
        cleared: Cleared,
        *,
        create_pr: bool,
        overwrite: bool,
    ) -> None:
        self.folder, self.remote, self.cleared = folder, remote, cleared
        self.create_pr, self.overwrite = create_pr, overwrite
        self.plan = Plan()
        self._known: Known | None = None

    # -- planning ----------------------------------------------------------------------------

    def make_plan(self, head: Head | None) -> Plan:
        """The plan on top of a head.

        Raises:
            MaghubError: The repo holds something else, or work that nobody here has seen.
        """
        if head is None:
            return self.cleared.plan({}, None)
        self.cleared.require(head.visibility)
        tree = self.remote.tree(head.commit)
        spec = self._remote_spec(head.commit, tree)
        plan = self.cleared.plan(tree, spec)
        if self._known is None:
            self._known = self._first_known(tree, spec)
        if unseen := overwritten(plan, self.cleared.files, tree, self._known):
            more = f" and {len(unseen) - 3} more" if len(unseen) > 3 else ""
            raise MaghubError(
                f"{', '.join(unseen[:3])}{more} changed on the Hub since this folder was last "
                "pushed or pulled",
                where=self.remote,
                fix=f"see: maghub diff {self.folder} {self.remote}; then pull and merge it, or "
                "push with --overwrite",
            )
        return plan

    def _remote_spec(self, commit: str, tree: Remote) -> FolderSpec | None:
        """What the repo says it holds; a repo of something else is refused."""
        if SPEC_FILE not in tree:
            if data := sorted(path for path in tree if not _is_prose(path)):
                what = f"holds data ({data[0]}) but no {SPEC_FILE}, so it is no dataset of maghub"
                raise MaghubError(what, where=self.remote, fix="choose another name")
            return None
        if same(self.cleared.files[SPEC_FILE], tree[SPEC_FILE]):
            return self.cleared.spec
        try:
            spec = self.remote.spec(commit)
        except HubError:
            raise
        except MaghubError:
            if not self.overwrite:
                raise
            return None
        if spec.name != self.cleared.spec.name:
            what = f"holds the dataset {spec.name}, the folder is {self.cleared.spec.name}"
            raise MaghubError(what, where=self.remote, fix="choose another name")
        return spec

    def _first_known(self, tree: Remote, spec: FolderSpec | None) -> Known:
        """What may be replaced: all that is there, unless this folder has met the repo before."""
        known = None if self.overwrite else read_known(self.folder, self.remote)
        if known is not None:
            return known
        names = [config.name for config in spec.configs] if spec else []
        gone = [name for name in names if not self.cleared.source.has(name)]
        if gone and not self.overwrite:
            what = f"holds the config {gone[0]}, which this folder lacks"
            fix = "pull it first, or push with --overwrite to delete it there"
            raise MaghubError(what, where=self.remote, fix=fix)
        return seen(tree)

    # -- sending -----------------------------------------------------------------------------

    def run(self, *, private: bool) -> Committed:
        """Push; the commit that holds the folder afterwards."""
        return again(self._once, private, also=_PLAN_AGAIN)

    def _once(self, private: bool) -> Committed:
        """Plan on the newest commit, upload and commit."""
        head = open_branch(self.remote, private=private)
        plan = self.make_plan(head)
        if plan.empty:
            self.plan = plan if self.plan.empty else self.plan
            return Committed(head.commit)
        self.plan = plan
        if len(plan.uploads) > MAX_COMMIT_FILES:
            what = f"{len(plan.uploads):,} files, one commit takes {MAX_COMMIT_FILES:,}"
            raise MaghubError(what, where=self.folder, fix="build it with larger shards")
        operations: list[CommitOperationAdd | CommitOperationDelete] = []
        groups = batches(plan.uploads, self.cleared.files, BATCH_FILES, BATCH_BYTES)
        for group in track(groups, "uploading", len(groups)):
            operations += self._upload(group)
        operations += [CommitOperationDelete(path, is_folder=False) for path in plan.deletes]
        assert self._known is not None
        self._known = with_own(self._known, self.cleared.files)
        write_known(self.folder, self.remote, self._known)
        if (now := self.remote.head(MAIN)) is not None:  # uploading may have taken hours
            self.cleared.require(now.visibility)
        return self._commit(operations, head)

    def _upload(self, paths: Sequence[str]) -> list[CommitOperationAdd]:
        """Upload what the Hub lacks of a batch; what is uploaded must be what was cleared."""
        operations = []
        for path in paths:
            file = self.cleared.files[path].path
            if not file.is_file():
                raise MaghubError("vanished while it was being pushed", where=file)
            data = file.read_bytes() if path in METADATA else str(file)
            operations.append(CommitOperationAdd(path, data))
        self.remote.preupload(operations, create_pr=self.create_pr)
        for operation in operations:
            wanted = self.cleared.files[operation.path_in_repo]
            if operation.upload_info.sha256.hex() != wanted.sha256:
                fix = "push again when nothing writes to the folder"
                raise MaghubError("changed while it was being pushed", where=wanted.path, fix=fix)
        return operations

    def _commit(
        self, operations: Sequence[CommitOperationAdd | CommitOperationDelete], head: Head
    ) -> Committed:
        message = f"maghub push: {self.cleared.spec.name} {self.cleared.spec.dataset_version}"
        try:
            return self.remote.commit(operations, message, head.commit, create_pr=self.create_pr)
        except HubError as error:
            if self.create_pr and error.transient and error.status != 429:
                what = "the answer was lost, so the pull request may or may not exist"
                fix = "look at the pull requests of the repo before you push again"
                raise MaghubError(what, where=self.remote, fix=fix) from None
            raise

    # -- checking ----------------------------------------------------------------------------

    def verify(self, commit: str) -> None:
        """Compare the remote tree with the folder, and ask for the head of every file: what the Hub
        has lost is sent again, once.

        Raises:
            MaghubError: The commit is not what was pushed.
        """
        tree = again(self.remote.tree, commit)
        files = self.cleared.files
        if wrong := [path for path, file in files.items() if not same(file, tree.get(path))]:
            what = f"{wrong[0]} on the Hub is not what was pushed"
            raise MaghubError(what, where=self.remote, fix="push again")
        if lost := self._lost(tuple(files), commit):
            again(self._upload, lost)
            if lost := self._lost(lost, commit):
                what = f"the Hub has lost {lost[0]}"
                raise MaghubError(what, where=self.remote, fix="push again")
        if not self.create_pr:
            write_known(self.folder, self.remote, seen(tree))

    def _lost(self, paths: Sequence[str], commit: str) -> list[str]:
        """Files that cannot be downloaded, or not with their size and checksum."""

        def stands(path: str) -> bool:
            file = self.cleared.files[path]
            try:
                size, content = again(self.remote.stored, path, commit)
            except HubError as error:
                if error.status == 404:
                    return False
                raise
            return size == file.size and content in (file.sha256, file.git_oid)

        with ThreadPoolExecutor(_CHECKING_THREADS) as pool:
            found = list(pool.map(stands, paths))
        return [path for path, good in zip(paths, found, strict=True) if not good]
