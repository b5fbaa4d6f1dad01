"""A dataset repo on the Hub: thin calls of ``HfApi``, every failure a one-line error."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, get_token, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils import validate_repo_id

from maghub import layout
from maghub.errors import MaghubError
from maghub.hub.failures import TOKEN, HubError, hub_errors
from maghub.hub.plan import RemoteFile
from maghub.spec import FolderSpec, parse_spec

DATASET: Any = "dataset"
MAIN = "main"
Visibility = Literal["public", "gated", "private"]


class Head(NamedTuple):
    """A repo at the tip of a branch."""

    commit: str
    visibility: Visibility


class Committed(NamedTuple):
    """What a commit gave: its hash and, for a pull request, the revision and address."""

    commit: str
    pr_revision: str | None = None
    pr_url: str | None = None


def parse_id(name: str) -> tuple[str, str | None]:
    """``ORG/NAME[@REVISION]`` as repo id and revision.

    Raises:
        MaghubError: It is no such thing.
    """
    repo, _, revision = name.partition("@")
    with hub_errors(name):
        validate_repo_id(repo)
    if repo.count("/") != 1 or (not revision and "@" in name):
        raise MaghubError("is no name of a Hub repo", where=name, fix="give ORG/NAME")
    return repo, revision or None


class RemoteRepo:
    """One dataset repo and a branch, tag or commit of it."""

    def __init__(self, repo: str, revision: str | None = None) -> None:
        own, at = parse_id(repo)
        if at is not None and revision is not None and at != revision:
            raise MaghubError("names two revisions", where=repo, fix="give one")
        self.repo, self.revision = own, revision or at or MAIN
        self.api = HfApi(library_name="maghub")
        self._args: dict[str, Any] = {"repo_id": own, "repo_type": DATASET}

    @property
    def endpoint(self) -> str:
        """Address of the Hub."""
        return self.api.endpoint

    def __str__(self) -> str:
        return self.repo if self.revision == MAIN else f"{self.repo}@{self.revision}"

    def head(self, revision: str | None = None) -> Head | None:
        """The newest commit and who may see the repo; None where there is no such repo."""
        try:
            with hub_errors(str(self)):
                info = self.api.repo_info(revision=revision or self.revision, **self._args)
        except HubError as error:
            if error.missing:
                return None
            raise
        kind: Visibility = "private" if info.private else "gated" if info.gated else "public"
        return Head(str(info.sha), kind)

    def require_token(self) -> None:
        """Refuse early what cannot succeed without a token."""
        if get_token() is None:
            raise HubError("pushing needs a token", where=self.repo, fix=TOKEN, status=401)

    def is_model(self) -> bool:
        """Whether a model repo has this name."""
        with hub_errors(self.repo):
            return self.api.repo_exists(self.repo, repo_type="model")

    def missing_error(self) -> HubError:
        """The error for a repo that does not exist, with what may be meant."""
        what, fix = "there is no such dataset on the Hub (or you may not see it)", None
        if self.is_model():
            what, fix = "is a model repo, not a dataset", "choose another name"
        return HubError(
            what, where=self.repo, fix=fix or "check the name", status=404, missing=True
        )

    def create(self, *, private: bool) -> None:
        """Make the repo.

        Raises:
            HubError: No token, no write right, or the name is taken by a model repo.
        """
        with hub_errors(self.repo):
            try:
                self.api.create_repo(private=private, **self._args)
            except HfHubHTTPError as error:
                if error.response.status_code != 409:
                    raise
        if self.head(MAIN) is None:
            what = "the name is taken"
            what += " by a model repo" if self.is_model() else " by a repo that you may not see"
            fix = "choose another name"
            raise HubError(what, where=self.repo, fix=fix, status=409)

    def branch_head(self) -> Head | None:
        """The tip of the branch, made from the main one where it does not exist."""
        try:
            return self.head()
        except HubError as error:
            if error.status != 404:
                raise
        with hub_errors(str(self)):
            self.api.create_branch(branch=self.revision, exist_ok=True, **self._args)
        return self.head()

    def tree(self, commit: str) -> dict[str, RemoteFile]:
        """All files of a commit."""
        with hub_errors(str(self)):
            items = self.api.list_repo_tree(recursive=True, revision=commit, **self._args)
            return {
                item.path: RemoteFile(item.size, item.lfs.sha256 if item.lfs else item.blob_id)
                for item in items
                if isinstance(item, RepoFile)
            }

    def spec(self, commit: str) -> FolderSpec:
        """The ``maghub.json`` of a commit, not kept in any cache."""
        with tempfile.TemporaryDirectory(prefix="maghub-") as work, hub_errors(str(self)):
            args = {**self._args, "revision": commit, "local_dir": work}
            path = self.api.hf_hub_download(filename=layout.SPEC_FILE, **args)
            text = Path(path).read_text(encoding="utf-8")
        return parse_spec(text, f"{self.repo}/{layout.SPEC_FILE}")

    def preupload(self, additions: Sequence[CommitOperationAdd], *, create_pr: bool) -> None:
        """Upload LFS objects; those the Hub has are skipped."""
        with hub_errors(str(self)):
            self.api.preupload_lfs_files(
                additions=additions,
                free_memory=False,
                revision=self.revision,
                create_pr=create_pr,
                **self._args,
            )

    def commit(
        self,
        operations: Sequence[CommitOperationAdd | CommitOperationDelete],
        message: str,
        parent: str,
        *,
        create_pr: bool,
    ) -> Committed:
        """One commit on top of ``parent``; refused (412) where that is not the newest any more."""
        with hub_errors(str(self)):
            info = self.api.create_commit(
                operations=operations,
                commit_message=message,
                parent_commit=parent,
                revision=self.revision,
                create_pr=create_pr,
                **self._args,
            )
        return Committed(info.oid, info.pr_revision, info.pr_url)

    def stored(self, path: str, commit: str) -> tuple[int | None, str | None]:
        """Size and content id of a file as it would be downloaded."""
        args = {"repo_type": DATASET, "revision": commit, "endpoint": self.endpoint}
        url = hf_hub_url(self.repo, path, **args)
        with hub_errors(f"{self.repo}/{path}"):
            found = self.api.get_hf_file_metadata(url=url)
        return found.size, found.etag

    def tag(self, name: str, commit: str) -> bool:
        """Name a commit; False where the name already stands for one."""
        with hub_errors(str(self)):
            try:
                self.api.create_tag(tag=name, revision=commit, **self._args)
            except HfHubHTTPError as error:
                if error.response.status_code != 409:
                    raise
                return False
        return True
