"""Random sequences of changes, faults, pushes and other people's commits."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from maghub.errors import MaghubError
from maghub.hub import push as push_module
from maghub.layout import CARD_FILE, SPEC_FILE
from tests.hub.client import in_process
from tests.hub.faults import BATCH, COMMIT, PREUPLOAD, UPLOAD
from tests.hub.folders import contents, make_variants, replace
from tests.hub.server import HubServer
from tests.hub.store import Commit

pytestmark = pytest.mark.integration
REPO = "maghub/toy"
FAULTS = [
    ("drop", "PUT", UPLOAD),
    ("drop", "POST", COMMIT),
    ("status", "PUT", UPLOAD),
    ("status", "POST", PREUPLOAD),
    ("status", "POST", BATCH),
    ("status", "POST", COMMIT),
    ("status", "GET", "/api/datasets/"),
    ("status", "HEAD", "/resolve/"),
    ("lose_answer", "POST", COMMIT),
    ("lose_answer", "PUT", UPLOAD),
    ("lose_answer", "POST", "/(tag|create)"),
    ("lose_object", "PUT", UPLOAD),
    ("lose_object", "POST", COMMIT),
]


class Pushing(RuleBasedStateMachine):
    """One folder, one repo, and everything that can happen to them."""

    @initialize()
    def start(self) -> None:
        self.base = tempfile.TemporaryDirectory()
        place = Path(self.base.name)
        self.variants = _variants()
        self.trees = {name: contents(path) for name, path in self.variants.items()}
        self.folder = place / "toy"
        replace(self.folder, self.variants["plain"])
        self.hub = HubServer()
        self.hub.__enter__()
        self.client = in_process(self.hub, place)
        self.client.__enter__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(push_module, "_require_valid", lambda folder: None)
        self.theirs: dict[str, bytes] = {}
        self.count = 0
        self.lines: list[str] = []

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()
            self.client.__exit__(None, None, None)
            self.hub.__exit__()
            self.base.cleanup()

    def by_others(self, path: str) -> None:
        """Somebody else commits a file."""
        if ("dataset", REPO) in self.hub.repos:
            self.count += 1
            data = f"version {self.count}".encode()
            self.theirs[path] = data
            self.hub.put(REPO, {path: data})

    @rule(name=st.sampled_from(["plain", "more", "less", "other"]))
    def change(self, name: str) -> None:
        replace(self.folder, self.variants[name])

    @rule(what=st.sampled_from(FAULTS), skip=st.integers(0, 6), code=st.sampled_from([429, 500]))
    def fault(self, what: tuple[str, str, str], skip: int, code: int) -> None:
        kind, method, pattern = what
        self.hub.fault(kind, method, pattern, skip=skip, status=code)

    @rule(path=st.sampled_from(["LICENSE", "NOTES.txt", CARD_FILE]))
    def others_commit(self, path: str) -> None:
        self.by_others(path)

    @rule(path=st.sampled_from(["LICENSE", CARD_FILE]), skip=st.integers(0, 1))
    def others_will_commit(self, path: str, skip: int) -> None:
        self.hub.fault("call", "POST", COMMIT, skip=skip, call=lambda: self.by_others(path))

    @rule()
    def lose_one(self) -> None:
        repo = self.hub.repos.get(("dataset", REPO))
        if repo is not None and repo.objects:
            repo.objects.pop(next(iter(repo.objects)))

    @rule(overwrite=st.sampled_from([False, False, True]))
    def push(self, overwrite: bool) -> None:
        repo = self.hub.repos.get(("dataset", REPO))
        before = set(repo.commits) if repo else set()
        try:
            push_module.push(self.folder, REPO, overwrite=overwrite)
        except MaghubError as error:
            self.lines.append(error.line())
            self.nothing_lost(before, overwrite)
            return
        self.nothing_lost(before, overwrite)
        mine = contents(self.folder)
        if overwrite:
            self.theirs.pop(CARD_FILE, None)
        there = self.hub.repo(REPO).files()
        if self.theirs.get(CARD_FILE) == there[CARD_FILE]:
            mine = {**mine, CARD_FILE: self.theirs[CARD_FILE]}  # committed after our last look
        sent = {path: data for path, data in there.items() if path in mine}
        assert sent == mine
        assert set(there) - set(mine) <= {"LICENSE", "NOTES.txt"}

    def nothing_lost(self, before: set[str], overwrite: bool) -> None:
        """No new commit of ours replaces a card that somebody else wrote meanwhile."""
        repo = self.hub.repos.get(("dataset", REPO))
        for commit in repo.commits.values() if repo and not overwrite else ():
            if commit.oid in before or not commit.title.startswith("maghub push"):
                continue
            parent = repo.commits[commit.parent or ""]
            card = repo.read(parent.tree[CARD_FILE]) if CARD_FILE in parent.tree else b""
            assert SPEC_FILE not in parent.tree or not (card or b"").startswith(b"version ")

    @rule()
    def push_until_it_works(self) -> None:
        self.hub.faults.clear()
        push_module.push(self.folder, REPO, overwrite=True)
        self.theirs.pop(CARD_FILE, None)
        assert self.hub.repo(REPO).files() == contents(self.folder) | self.theirs

    @invariant()
    def errors_are_one_line_without_secrets(self) -> None:
        for line in getattr(self, "lines", []):
            assert "\n" not in line
            assert "hf_" not in line

    @invariant()
    def every_commit_of_ours_is_whole_and_on_top_of_what_it_says(self) -> None:
        if not hasattr(self, "hub") or ("dataset", REPO) not in self.hub.repos:
            return
        repo = self.hub.repo(REPO)
        for commit in repo.history():
            if commit.title.startswith("maghub push"):
                own = {p: b for p, b in commit.tree.items() if p not in ("LICENSE", "NOTES.txt")}
                del own[".gitattributes"]
                assert any(_is(own, tree) for tree in self.trees.values()), "half a push"
                parent = repo.commits[commit.parent or ""]
                assert commit.tree != parent.tree, "an empty commit"
                assert _foreign(commit) == _foreign(parent), "a file of others was touched"


def _is(tree: dict[str, object], files: dict[str, bytes]) -> bool:
    return {p: b.size for p, b in tree.items()} == {p: len(d) for p, d in files.items()}  # type: ignore[attr-defined]


def _foreign(commit: Commit) -> dict[str, object]:
    return {path: blob for path, blob in commit.tree.items() if path in ("LICENSE", "NOTES.txt")}


_VARIANTS = tempfile.TemporaryDirectory(prefix="maghub-variants-")


@functools.cache
def _variants() -> dict[str, Path]:
    return make_variants(Path(_VARIANTS.name))


Pushing.TestCase.settings = settings(
    max_examples=30,
    stateful_step_count=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TestPushing = Pushing.TestCase
