"""A push does one commit, sends only what differs, and gets over whatever goes wrong."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import maghub
from maghub.errors import MaghubError
from maghub.hub import sending
from maghub.hub.push import compare, push
from maghub.layout import (
    CARD_FILE,
    CARD_SOURCE_FILE,
    CROISSANT_FILE,
    PICTURE_FILE,
    SPEC_FILE,
)
from maghub.loading import sample_path
from tests.helpers.reports import one_line
from tests.hub.client import in_process
from tests.hub.faults import BATCH, COMMIT, PREUPLOAD, UPLOAD
from tests.hub.folders import (
    add_embedding,
    assert_equal,
    contents,
    drop_negatives,
    replace,
)
from tests.hub.server import READER, HubServer

REPO = "maghub/toy"
METADATA = {CARD_FILE, SPEC_FILE, CARD_SOURCE_FILE, CROISSANT_FILE, PICTURE_FILE}

Variants = dict[str, Path]
pytestmark = pytest.mark.integration


def ours(hub: HubServer) -> list[str]:
    """Our commits, newest first."""
    titles = [commit.title for commit in hub.repo(REPO).history()]
    return [title for title in titles if title.startswith("maghub push")]


def refused(folder: Path, *words: str, **options: object) -> None:
    """The push fails with one line of these words."""
    with pytest.raises(MaghubError) as caught:
        push(folder, REPO, **options)  # type: ignore[arg-type]
    one_line(caught.value, *words)


def test_the_repo_equals_the_folder_and_is_tagged(client: HubServer, toy: Path) -> None:
    (toy / "notes.txt").write_text("mine", "utf-8")
    found = maghub.push(toy, REPO)
    assert_equal(client, REPO, toy)
    assert set(found.plan.adds) == set(contents(toy))
    assert found.sent == sum(map(len, contents(toy).values()))
    assert found.ignored == ("notes.txt",)
    assert (found.visibility, found.tag) == ("public", "v1.0.0")
    repo = client.repo(REPO)
    assert repo.tags == {"v1.0.0": found.commit} == {"v1.0.0": repo.refs["main"]}
    assert ours(client) == ["maghub push: toy 1.0.0"]


def test_pushing_the_same_again_sends_nothing(client: HubServer, toy: Path) -> None:
    push(toy, REPO)
    client.log.clear()
    found = push(toy, REPO)
    assert found.plan.empty
    assert not client.requests("PUT")
    assert not client.requests("POST", "/commit/")
    assert len(ours(client)) == 1


def test_adding_an_encoder_sends_its_files_and_the_card_only(client: HubServer, toy: Path) -> None:
    first = push(toy, REPO)
    new = add_embedding(toy)
    client.log.clear()
    found = push(toy, REPO)
    assert_equal(client, REPO, toy)
    assert list(found.plan.adds) == new
    assert set(found.plan.updates) <= METADATA
    sizes = {path: len(data) for path, data in contents(toy).items()}
    assert sum(entry.received for entry in client.requests("PUT")) == sum(sizes[p] for p in new)
    assert len(client.requests("PUT")) == len(new)
    received = sum(entry.received for entry in client.log)
    assert received < 3 * sum(sizes[path] for path in (*new, *METADATA))
    assert client.repo(REPO).tags == {"v1.0.0": first.commit}, "a tag is never moved"
    assert found.tag is None


def test_files_that_are_gone_are_deleted_and_those_of_others_stay(
    client: HubServer, toy: Path
) -> None:
    push(toy, REPO)
    client.put(REPO, {"LICENSE": b"MIT", "extra/train-00000-of-00001.parquet": b"x"})
    drop_negatives(toy)
    found = push(toy, REPO)
    assert [path.split("/")[0] for path in found.plan.deletes] == ["negatives-public"] * 2
    others = {"LICENSE": b"MIT", "extra/train-00000-of-00001.parquet": b"x"}
    assert client.repo(REPO).files() == contents(toy) | others


FAULTS = {
    "hangs up in the middle of an upload": ("drop", "PUT", UPLOAD, {}),
    "hangs up again and again": ("drop", "PUT", UPLOAD, {"times": 3}),
    "429": ("status", "POST", PREUPLOAD, {"status": 429, "headers": {"Retry-After": "1"}}),
    "429 to the commit": ("status", "POST", COMMIT, {"status": 429}),
    "500 to an upload": ("status", "PUT", UPLOAD, {"status": 500, "times": 2}),
    "500 to the batch": ("status", "POST", BATCH, {"status": 500}),
    "500 to the commit": ("status", "POST", COMMIT, {"status": 500, "times": 2}),
    "500 to the tree": ("status", "GET", "/tree/", {"status": 503}),
    "500 to the repo": ("status", "GET", "/revision/", {"status": 500}),
    "412": ("status", "POST", COMMIT, {"status": 412}),
    "hangs up on the commit": ("drop", "POST", COMMIT, {}),
    "loses the answer to the commit": ("lose_answer", "POST", COMMIT, {}),
    "loses the answer to the creation": ("lose_answer", "POST", "/repos/create", {}),
    "loses the answer to an upload": ("lose_answer", "PUT", UPLOAD, {}),
    "loses the answer to the tag": ("lose_answer", "POST", "/tag/", {}),
    "loses an object at once": ("lose_object", "PUT", UPLOAD, {}),
    "loses an object before the commit": ("lose_object", "POST", "/validate-yaml", {}),
    "loses an object after the commit": ("lose_object", "POST", COMMIT, {}),
    "500 to the check": ("status", "HEAD", "/resolve/", {"status": 500}),
    "is slow": ("slow", "PUT", UPLOAD, {"times": 4, "seconds": 0.1}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_one_fault_is_recovered(client: HubServer, toy: Path, name: str) -> None:
    kind, method, pattern, options = FAULTS[name]
    if name == "loses an object before the commit":
        repo = client.add_repo(REPO)
        options = {"call": lambda: repo.objects.pop(next(iter(repo.objects)))}
        kind = "call"
    fault = client.fault(kind, method, pattern, **options)
    found = push(toy, REPO)
    assert not fault.times, "it struck"
    assert_equal(client, REPO, toy)
    assert len(ours(client)) == 1
    assert client.repo(REPO).tags == {"v1.0.0": found.commit}


LASTING = {
    "429": ("status", "POST", PREUPLOAD, {"status": 429}, ["the Hub answered", "wait a while"]),
    "500": ("status", "PUT", UPLOAD, {"status": 500}, ["the Hub answered", "wait a while"]),
    "412": ("status", "POST", COMMIT, {"status": 412}, ["somebody else committed", "Run it again"]),
    "drop": ("drop", "PUT", UPLOAD, {}, ["cannot be reached", "Check the network"]),
}


@pytest.mark.parametrize("name", LASTING)
def test_a_fault_that_lasts_is_one_line_and_the_next_push_goes_on(
    client: HubServer, toy: Path, name: str
) -> None:
    kind, method, pattern, options, words = LASTING[name]
    fault = client.fault(kind, method, pattern, times=10_000, **options)
    refused(toy, *words)
    assert not ours(client)
    fault.times = 0
    push(toy, REPO)
    assert_equal(client, REPO, toy)
    assert len(ours(client)) == 1


def test_an_object_that_the_hub_loses_again_and_again_is_told(client: HubServer, toy: Path) -> None:
    client.fault("lose_object", "POST", COMMIT)
    data_files = len(contents(toy)) - len(METADATA)
    client.fault("lose_object", "PUT", UPLOAD, skip=data_files, times=10_000)
    refused(toy, "the object is not there")
    client.faults.clear()
    push(toy, REPO)
    assert_equal(client, REPO, toy)
    assert len(ours(client)) == 1


def test_what_is_uploaded_is_not_uploaded_again(
    client: HubServer, toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "BATCH_FILES", 2)
    client.fault("status", "PUT", UPLOAD, skip=5, times=10_000, status=403)
    refused(toy, REPO)
    done = [entry.path for entry in client.requests("PUT") if entry.status == 200]
    assert len(done) == 5
    client.faults.clear()
    client.log.clear()
    push(toy, REPO)
    again = [entry.path for entry in client.requests("PUT")]
    assert len(again) == len(set(again)) == len(contents(toy)) - len(METADATA) - 5
    assert not set(again) & set(done)


def test_work_of_others_while_pushing_is_kept(client: HubServer, toy: Path) -> None:
    push(toy, REPO)
    add_embedding(toy)
    client.fault("call", "POST", COMMIT, call=lambda: client.put(REPO, {"LICENSE": b"MIT"}))
    push(toy, REPO)
    assert_equal(client, REPO, toy, LICENSE=b"MIT")
    assert [e.status for e in client.requests("POST", "/commit/")][-2:] == [412, 200]


OTHERS: dict[str, Callable[[HubServer], object]] = {
    "the card": lambda hub: hub.put(REPO, {CARD_FILE: b"---\n---\n# better"}),
    "a shard": lambda hub: hub.put(REPO, {"edges/full-00000-of-00001.parquet": b"theirs"}),
    "one more shard": lambda hub: hub.put(REPO, {"edges/full-00001-of-00002.parquet": b"theirs"}),
}


@pytest.mark.parametrize("what", OTHERS)
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_work_of_others_is_never_overwritten_unseen(
    client: HubServer, toy: Path, tmp_path: Path, what: str, when: str
) -> None:
    push(toy, REPO)
    add_embedding(toy)
    if when == "before":
        OTHERS[what](client)
    else:
        client.fault("call", "POST", COMMIT, call=lambda: OTHERS[what](client))
    before = len(ours(client))
    refused(toy, "changed on the Hub since", "--overwrite")
    refused(toy, "changed on the Hub since", "maghub diff")
    assert len(ours(client)) == before
    assert client.repo(REPO).history()[0].title == "by hand"
    assert compare(toy, REPO).plan.adds == ("embeddings-fake/full-00000-of-00001.parquet",)
    push(toy, REPO, overwrite=True)
    assert_equal(client, REPO, toy)


def test_an_older_folder_does_not_undo_what_another_machine_pushed(
    client: HubServer, hub: HubServer, toy: Path, tmp_path: Path
) -> None:
    push(toy, REPO)
    theirs = tmp_path / "theirs"
    with in_process(hub, tmp_path / "elsewhere"):
        maghub.pull(REPO, theirs)
        add_embedding(theirs)
        push(theirs, REPO)
    refused(toy, "changed on the Hub since")
    with in_process(hub, tmp_path / "third"):
        refused(toy, "holds the config embeddings-fake, which this folder lacks", "--overwrite")
    shutil.rmtree(toy)
    maghub.pull(REPO, toy)
    add_embedding(toy, "another")
    push(toy, REPO)
    assert_equal(client, REPO, toy)


def test_dry_run_and_diff_change_nothing(client: HubServer, toy: Path) -> None:
    found = push(toy, REPO, dry_run=True)
    assert set(found.plan.adds) == set(contents(toy))
    assert (REPO, found.commit) != (None, None)
    assert not client.repos
    push(toy, REPO)
    new = add_embedding(toy)
    client.log.clear()
    assert compare(toy, REPO).plan == push(toy, REPO, dry_run=True).plan
    assert list(compare(toy, REPO).plan.adds) == new
    assert {entry.method for entry in client.log} <= {"GET", "HEAD"}
    assert len(ours(client)) == 1


def test_branches_and_pull_requests(client: HubServer, toy: Path, variants: Variants) -> None:
    push(toy, REPO)
    replace(toy, variants["more"])
    found = push(toy, REPO, revision="dev")
    repo = client.repo(REPO)
    assert repo.files("dev") == contents(toy)
    assert repo.files("main") == contents(variants["plain"])
    assert found.tag is None
    pull_request = push(toy, REPO, create_pr=True)
    assert (pull_request.pr_url or "").endswith("/discussions/1")
    assert repo.files("refs/pr/1") == contents(toy)
    assert repo.files("main") == contents(variants["plain"])
    push(toy, REPO)
    assert_equal(client, REPO, toy)
    refused(toy, "is a commit", revision="a" * 40)
    refused(toy, "main branch", revision="dev", create_pr=True)
    with pytest.raises(MaghubError, match="names two revisions"):
        push(toy, f"{REPO}@a", revision="b")


@pytest.mark.parametrize("kind", ["lose_answer", "status"])
def test_a_pull_request_whose_answer_is_lost_is_not_made_twice(
    client: HubServer, toy: Path, kind: str
) -> None:
    push(toy, REPO)
    add_embedding(toy)
    client.fault(kind, "POST", COMMIT, status=500)
    refused(toy, "may or may not exist", create_pr=True)
    made = [name for name in client.repo(REPO).refs if name.startswith("refs/")]
    assert made == (["refs/pr/1"] if kind == "lose_answer" else [])


def test_a_file_that_changes_while_pushing_is_not_pushed(client: HubServer, toy: Path) -> None:
    path = toy / "edges" / "full-00000-of-00001.parquet"

    def swap() -> None:
        os.unlink(path)
        path.write_bytes(b"something else")

    client.fault("call", "GET", "/tree/", call=swap)
    refused(toy, "changed while it was being pushed")
    assert not ours(client)


def test_repos_of_something_else_are_refused(client: HubServer, toy: Path, tmp_path: Path) -> None:
    client.put(REPO, {"data/train-00000-of-00001.parquet": b"theirs"})
    refused(toy, "no maghub.json")
    emoji = tmp_path / "emoji"
    shutil.copytree(sample_path("emoji") or "", emoji)
    push(emoji, "maghub/emoji")
    with pytest.raises(MaghubError, match="holds the dataset emoji, the folder is toy"):
        push(toy, "maghub/emoji")


def test_who_may_not_write_is_told_so_before_anything_is_sent(
    hub: HubServer, toy: Path, tmp_path: Path
) -> None:
    with in_process(hub, tmp_path / "none", token=None):
        refused(toy, "needs a token", "hf auth login")
    with in_process(hub, tmp_path / "reader", token=READER):
        refused(toy, "your token may not do this", "hf auth login")
    hub.add_repo("maghub/model", "model")
    with in_process(hub, tmp_path / "writer"):
        with pytest.raises(MaghubError, match="taken by a model repo"):
            push(toy, "maghub/model")
        push(toy, REPO)
        with pytest.raises(MaghubError, match="exists and is public"):
            push(toy, REPO, private=True)
    with in_process(hub, tmp_path / "reader", token=READER):
        add_embedding(toy)
        refused(toy, "your token may not do this")
    assert len(ours(hub)) == 1


def test_a_folder_that_is_not_valid_is_not_pushed(client: HubServer, toy: Path) -> None:
    (toy / "edges" / "full-00000-of-00001.parquet").unlink()
    refused(toy, "is not valid", "edges/full-00000-of-00001.parquet", "maghub validate")
    assert not client.repos
