"""The plan of a push is a pure function of two trees."""

from __future__ import annotations

import hashlib
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from maghub.hub.plan import (
    LocalFile,
    RemoteFile,
    batches,
    make_plan,
    overwritten,
    read_local,
    same,
)
from tests.hub.store import git_oid

CONTENTS = [b"", b"a", b"b", b"aa"]
PATHS = st.sampled_from([f"{config}/{split}" for config in "abc" for split in "xyz"] + ["README"])
TREES = st.dictionaries(PATHS, st.sampled_from(CONTENTS))


def _local(tree: dict[str, bytes]) -> dict[str, LocalFile]:
    return {
        path: LocalFile(Path(path), len(data), hashlib.sha256(data).hexdigest(), git_oid(data))
        for path, data in tree.items()
    }


def _remote(tree: dict[str, bytes]) -> dict[str, RemoteFile]:
    """Some files as LFS objects, some as git blobs."""
    found = {}
    for path, data in tree.items():
        lfs = path.startswith("a")
        name = hashlib.sha256(data).hexdigest() if lfs else git_oid(data)
        found[path] = RemoteFile(len(data), name)
    return found


@given(TREES, TREES, st.sets(PATHS))
def test_applying_the_plan_gives_the_folder_and_leaves_what_is_not_ours(
    local: dict[str, bytes], remote: dict[str, bytes], foreign: set[str]
) -> None:
    plan = make_plan(_local(local), _remote(remote), lambda path: path not in foreign)
    after = {path: data for path, data in remote.items() if path not in plan.deletes}
    after |= {path: local[path] for path in plan.uploads}
    assert after == {p: d for p, d in remote.items() if p in foreign} | local
    groups = (plan.adds, plan.updates, plan.deletes, plan.unchanged)
    assert all(list(group) == sorted(set(group)) for group in groups)
    assert len({path for group in groups for path in group}) == sum(map(len, groups))
    assert {*plan.uploads, *plan.unchanged} == set(local)
    assert make_plan(_local(local), _remote(after), lambda path: path not in foreign).empty


@given(TREES, TREES)
def test_nothing_that_is_equal_is_sent(local: dict[str, bytes], remote: dict[str, bytes]) -> None:
    plan = make_plan(_local(local), _remote(remote), lambda path: True)
    assert all(remote.get(path) != local[path] for path in plan.uploads)
    assert plan.empty == (local == remote)


@given(TREES, TREES, TREES)
def test_only_what_nobody_has_seen_counts_as_overwritten(
    local: dict[str, bytes], remote: dict[str, bytes], base: dict[str, bytes]
) -> None:
    plan = make_plan(_local(local), _remote(remote), lambda path: True)
    known = {path: {file.content} for path, file in _remote(base).items()}
    unseen = overwritten(plan, _local(local), _remote(remote), known)
    expected = {
        path for path, data in remote.items() if data != local.get(path) and data != base.get(path)
    }
    assert set(unseen) == expected


@given(TREES, st.integers(1, 4), st.integers(1, 4))
def test_batches_hold_every_path_once_and_stay_small(
    tree: dict[str, bytes], files: int, size: int
) -> None:
    local = _local(tree)
    groups = batches(sorted(local), local, files, size)
    assert [path for group in groups for path in group] == sorted(local)
    for group in groups:
        assert 0 < len(group) <= files
        assert len(group) == 1 or sum(local[path].size for path in group) <= size


def test_checksums_are_those_of_git_and_sha256sum(tmp_path: Path) -> None:
    path = tmp_path / "hello"
    path.write_bytes(b"hello\n")
    found = read_local(path)
    assert found.size == 6
    assert found.git_oid == "ce013625030ba8dba906f756967f9e9ca394464a"  # git hash-object
    assert found.sha256 == "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
    assert same(found, RemoteFile(6, found.sha256))
    assert same(found, RemoteFile(6, found.git_oid))
    assert not same(found, RemoteFile(7, found.sha256))
    assert same(None, None)
    assert not same(found, None)
