"""The test Hub itself: the real client, in processes of its own, finds what it expects."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hub.client import result, run
from tests.hub.faults import COMMIT, UPLOAD
from tests.hub.server import READER, HubServer
from tests.hub.store import git_oid

pytestmark = pytest.mark.integration

PUSH = """
import sys, datasets
from datasets import Dataset, Features, Image, List, Value
from PIL import Image as Pil
rows = {"image": [Pil.new("RGB", (4, 4), (i, 0, 0)) for i in range(8)], "text": list("abcdefgh")}
features = Features({"image": Image(), "text": Value("string")})
ds = Dataset.from_dict(rows, features=features)
ds.push_to_hub("maghub/pushed", "nodes", split="train", num_shards=2)
vectors = Features({"emb": List(Value("float16"), length=4)})
Dataset.from_dict({"emb": [[i] * 4 for i in range(8)]}, features=vectors).push_to_hub(
    "maghub/pushed", "emb", split="full")
"""
READ = """
import sys, datasets, fsspec, pyarrow.parquet as pq
from datasets import load_dataset
from huggingface_hub import HfApi, HfFileSystem, snapshot_download
api, repo = HfApi(), "maghub/pushed"
ds = load_dataset(repo, "nodes", split="train")
emb = load_dataset(repo, "emb", split="full", revision="main")
streamed = list(load_dataset(repo, "nodes", split="train", streaming=True))
folder = snapshot_download(repo, repo_type="dataset")
fs = HfFileSystem()
paths = fs.glob(f"datasets/{repo}/**/*.parquet")
with fs.open(paths[0]) as file:
    rows = pq.read_table(file, columns=["emb"]).num_rows
show({
    "configs": datasets.get_dataset_config_names(repo),
    "text": list(ds["text"]), "pixel": ds[3]["image"].getpixel((0, 0)),
    "emb": emb[2]["emb"], "type": str(emb.features["emb"]),
    "streamed": [row["text"] for row in streamed], "rows": rows, "paths": len(paths),
    "snapshot": sorted(p.name for p in __import__("pathlib").Path(folder).rglob("*.parquet")),
    "tree": sorted(i.path for i in api.list_repo_tree(repo, repo_type="dataset", recursive=True)),
})
"""
API = """
import sys
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import *
api, repo, kind = HfApi(), "maghub/by-api", {"repo_type": "dataset"}
def status(call):
    try:
        call()
    except HfHubHTTPError as error:
        return [type(error).__name__, error.response.status_code]
api.create_repo(repo, private=True, **kind)
api.create_repo(repo, exist_ok=True, **kind)
add = [CommitOperationAdd("a/x.parquet", b"x" * 2000), CommitOperationAdd("README.md", b"# hi")]
first = api.create_commit(repo, add, commit_message="first", **kind)
gone = api.create_commit(repo, [CommitOperationDelete("README.md")], commit_message="2", **kind)
def stale():
    add = [CommitOperationAdd("b.txt", b"b")]
    api.create_commit(repo, add, commit_message="3", parent_commit=first.oid, **kind)
api.create_tag(repo, tag="v1", revision=first.oid, **kind)
api.create_branch(repo, branch="dev", **kind)
pr = api.create_commit(repo, [CommitOperationAdd("b.txt", b"b")], commit_message="p",
                       create_pr=True, **kind)
url = api.get_hf_file_metadata(url=f"{api.endpoint}/datasets/{repo}/resolve/v1/a/x.parquet")
who = api.whoami()["name"]
show({
    "who": who, "stale": status(stale), "etag": url.etag, "size": url.size,
    "at_tag": api.list_repo_files(repo, revision="v1", **kind),
    "at_main": api.list_repo_files(repo, **kind),
    "at_pr": api.list_repo_files(repo, revision=pr.pr_revision, **kind),
    "refs": [ref.name for ref in api.list_repo_refs(repo, **kind).branches],
    "history": [commit.title for commit in api.list_repo_commits(repo, **kind)],
    "exists": api.file_exists(repo, "a/x.parquet", **kind),
    "no_repo": status(lambda: api.repo_info("maghub/none", **kind)),
    "no_rev": status(lambda: api.repo_info(repo, revision="none", **kind)),
    "foreign": status(lambda: api.create_repo("other/x", **kind)),
    "again": status(lambda: api.create_repo(repo, **kind)),
    "model": status(lambda: api.create_repo("maghub/model", **kind)),
})
"""


def test_push_to_hub_load_dataset_streaming_snapshot_and_filesystem(
    hub: HubServer, tmp_path: Path
) -> None:
    done = run(hub, tmp_path / "a", PUSH)
    assert done.returncode == 0, done.stderr[-3000:]
    found = result(hub, tmp_path / "b", READ)
    assert sorted(found["configs"]) == ["emb", "nodes"]
    assert found["text"] == found["streamed"] == list("abcdefgh")
    assert found["pixel"] == [3, 0, 0]
    assert found["emb"] == [2.0] * 4
    assert "length=4" in found["type"]
    assert (found["rows"], found["paths"], len(found["snapshot"])) == (8, 3, 3)
    assert set(found["tree"]) >= {"README.md", "nodes", "emb", "emb/full-00000-of-00001.parquet"}
    assert [e for e in hub.requests("GET") if e.status == 206], "streaming asks for ranges"
    assert len([e for e in hub.requests("GET", "/tree/") if e.status == 200]) > 3


def test_commits_tags_branches_pull_requests_and_refusals(hub: HubServer, tmp_path: Path) -> None:
    hub.add_repo("maghub/model", "model")
    found = result(hub, tmp_path, API)
    assert found["who"] == "writer"
    assert found["stale"] == ["HfHubHTTPError", 412]
    assert found["size"] == 2000
    assert found["at_tag"] == [".gitattributes", "README.md", "a/x.parquet"]
    assert found["at_main"] == [".gitattributes", "a/x.parquet"]
    assert found["at_pr"] == [".gitattributes", "a/x.parquet", "b.txt"]
    assert found["refs"] == ["main", "dev"]
    assert found["history"] == ["2", "first", "initial commit"]
    assert found["exists"] is True
    assert found["no_repo"] == ["RepositoryNotFoundError", 404]
    assert found["no_rev"] == ["RevisionNotFoundError", 404]
    assert found["foreign"] == ["HfHubHTTPError", 403]
    assert found["again"] == found["model"] == ["HfHubHTTPError", 409]
    sent = [entry for entry in hub.requests("PUT") if entry.status == 200]
    assert [entry.received for entry in sent] == [2000]


def test_a_private_repo_is_seen_by_its_members_only(hub: HubServer, tmp_path: Path) -> None:
    hub.put("maghub/secret", {"a.txt": b"a"})
    hub.repo("maghub/secret").private = True
    code = """
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError
try:
    show(HfApi().repo_info("maghub/secret", repo_type="dataset").private)
except HfHubHTTPError as error:
    show(error.response.status_code)
"""
    assert result(hub, tmp_path, code) is True
    assert result(hub, tmp_path, code, token=READER) == 404
    assert result(hub, tmp_path, code, token=None) == 401


def test_faults_strike_as_told(hub: HubServer, tmp_path: Path) -> None:
    code = """
import sys, huggingface_hub.utils._http as http
from huggingface_hub import CommitOperationAdd, HfApi
http.time.sleep = lambda seconds: None
api = HfApi()
ops = [CommitOperationAdd("x.parquet", sys.argv[1].encode() * 5000)]
try:
    api.create_commit("maghub/x", ops, commit_message="c", repo_type="dataset")
    show("ok")
except Exception as error:
    show([type(error).__name__, str(error), str(error.__cause__)])
"""
    hub.add_repo("maghub/x")
    hub.fault("drop", "PUT", UPLOAD)
    hub.fault("status", "PUT", UPLOAD, status=500)
    hub.fault("status", "POST", "/preupload/", status=429)
    assert result(hub, tmp_path, code, "a") == "ok"
    assert [entry.status for entry in hub.requests("PUT")] == [0, 500, 200]
    hub.fault("lose_answer", "POST", COMMIT)
    assert result(hub, tmp_path, code, "b")[0] == "RemoteProtocolError"
    assert hub.repo("maghub/x").files()["x.parquet"] == b"b" * 5000
    hub.fault("lose_object", "PUT", UPLOAD)
    assert "404" in str(result(hub, tmp_path, code, "c"))
    hub.fault("lose_object", "POST", COMMIT)
    assert result(hub, tmp_path, code, "d") == "ok"
    assert hub.repo("maghub/x").files()["x.parquet"] is None
    hub.fault("status", "POST", COMMIT, status=412)
    assert "412" in str(result(hub, tmp_path, code, "e"))
    assert not any(fault.times for fault in hub.faults)


def test_git_names() -> None:
    assert git_oid(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"
