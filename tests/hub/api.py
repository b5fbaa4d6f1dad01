"""The endpoints of the test Hub that the real client calls for datasets."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

from tests.hub.cards import findings
from tests.hub.routing import API, REPO, REV, Answer, Refused, Request, reply, route
from tests.hub.store import Blob, Commit, Repo, Tree, git_oid, is_lfs, lfs_blob


def _repo(request: Request, *, write: bool = False) -> Repo:
    """The repo a request is about, if whoever asks may see it (or write to it)."""
    name, user = request.args["repo"], request.user
    kind = request.args.get("kind") or "datasets"
    repo = request.hub.repos.get((kind.removesuffix("s"), name))
    member = user is not None and user.may_write(name.split("/")[0])
    if repo is None or (repo.private and not member):
        raise Refused(404 if user else 401, "Repository not found", "RepoNotFound")
    if write and user is None:
        raise Refused(401, "Invalid username or password.")
    if write and not member:
        raise Refused(403, "Authorization error.")
    return repo


def _commit(repo: Repo, revision: str) -> Commit:
    commit = repo.find(revision)
    if commit is None:
        raise Refused(404, f"Invalid rev id: {revision}", "RevisionNotFound")
    return commit


@route("POST", "/api/repos/create")
def create(request: Request) -> Answer:
    data = request.json()
    if request.user is None:
        raise Refused(401, "Invalid username or password.")
    owner = data.get("organization") or request.user.name
    kind, name = data.get("type", "model"), f"{owner}/{data['name']}"
    if not request.user.may_write(owner):
        raise Refused(403, f'You don\'t have the rights to create a {kind} under "{owner}"')
    url = f"{request.hub.url}/{kind}s/{name}"
    if any(other == name for _, other in request.hub.repos):
        return reply({"error": f"You already created this {kind} repo", "url": url}, 409)
    private = bool(data.get("private")) or data.get("visibility") == "private"
    request.hub.repos[kind, name] = Repo(name, kind, private)
    return reply({"url": url, "id": name})


@route("DELETE", "/api/repos/delete")
def delete(request: Request) -> Answer:
    data = request.json()
    request.args = {"repo": f"{data['organization']}/{data['name']}", "kind": data["type"] + "s"}
    repo = _repo(request, write=True)
    del request.hub.repos[repo.kind, repo.id]
    return Answer()


@route("GET", "/api/whoami-v2")
def whoami(request: Request) -> Answer:
    if request.user is None:
        raise Refused(401, "Invalid username or password.")
    orgs = [{"name": org} for org in request.user.orgs]
    return reply({"type": "user", "name": request.user.name, "orgs": orgs, "auth": {}})


@route("POST", "/api/validate-yaml")
def validate_yaml(request: Request) -> Answer:
    errors, warnings = findings(request.json()["content"])
    found = {"errors": errors, "warnings": warnings}
    data = {name: [{"message": message} for message in lines] for name, lines in found.items()}
    return reply(data, 400 if errors else 200)


@route("GET", rf"{API}(/revision/{REV})?")
def info(request: Request) -> Answer:
    repo = _repo(request)
    commit = _commit(repo, request.args.get("rev") or "main")
    return reply(
        {
            "id": repo.id,
            "author": repo.id.split("/")[0],
            "sha": commit.oid,
            "private": repo.private,
            "gated": repo.gated,
            "disabled": False,
            "tags": [],
            "siblings": [{"rfilename": path} for path in sorted(commit.tree)],
        }
    )


def _folders(tree: Tree) -> set[str]:
    return {path.rpartition("/")[0] for path in tree if "/" in path}


def _folder_entry(path: str) -> dict[str, object]:
    return {"type": "directory", "path": path, "oid": git_oid(path.encode()), "size": 0}


@route("GET", rf"{API}/tree/{REV}(/(?P<path>.+))?")
def tree(request: Request) -> Answer:
    repo = _repo(request)
    tree = _commit(repo, request.args["rev"]).tree
    base, deep = request.args.get("path"), request.query.get("recursive", "").lower() == "true"
    prefix = f"{base}/" if base else ""
    entries = [blob.entry(path) for path, blob in tree.items() if path.startswith(prefix)]
    entries += [_folder_entry(path) for path in _folders(tree) if path.startswith(prefix)]
    if base and not entries:
        raise Refused(404, f"{base} does not exist", "EntryNotFound")
    if not deep:
        entries = [e for e in entries if "/" not in str(e["path"])[len(prefix) :]]
    entries.sort(key=lambda entry: str(entry["path"]))
    start, size = int(request.query.get("cursor", 0)), request.hub.page_size
    answer = reply(entries[start : start + size])
    if start + size < len(entries):
        tail = f"recursive={deep}&cursor={start + size}"
        path = f"/api/datasets/{repo.id}/tree/{request.args['rev']}" + (f"/{base}" if base else "")
        answer.headers["Link"] = f'<{request.hub.url}{path}?{tail}>; rel="next"'
    return answer


@route("POST", rf"{API}/paths-info/{REV}")
def paths_info(request: Request) -> Answer:
    tree = _commit(_repo(request), request.args["rev"]).tree
    paths = request.json()["paths"]
    entries = [tree[path].entry(path) for path in paths if path in tree]
    return reply(entries + [_folder_entry(path) for path in paths if path in _folders(tree)])


@route("GET", rf"{API}/refs")
def refs(request: Request) -> Answer:
    repo = _repo(request)

    def listed(refs: dict[str, str], kind: str) -> list[dict[str, str]]:
        prefix = f"refs/{kind}/"
        return [{"name": n, "ref": prefix + n, "targetCommit": oid} for n, oid in refs.items()]

    heads = {name: oid for name, oid in repo.refs.items() if not name.startswith("refs/")}
    tags = listed(repo.tags, "tags")
    return reply({"branches": listed(heads, "heads"), "tags": tags, "converts": []})


@route("GET", rf"{API}/commits/{REV}")
def commits(request: Request) -> Answer:
    repo, date = _repo(request), "2026-01-01T00:00:00.000Z"
    found = repo.history(request.args["rev"])
    fixed = {"message": "", "date": date, "authors": []}
    return reply([{"id": c.oid, "title": c.title, **fixed} for c in found])


@route("POST", rf"{API}/preupload/{REV}")
def preupload(request: Request) -> Answer:
    repo = _repo(request, write=True)
    commit = _commit(repo, request.args["rev"])
    files = []
    for file in request.json()["files"]:
        known = commit.tree.get(file["path"])
        mode = "lfs" if is_lfs(file["path"], file["size"]) else "regular"
        oid = (known.sha256 or known.oid) if known else None
        files.append({"path": file["path"], "uploadMode": mode, "shouldIgnore": False, "oid": oid})
    return reply({"files": files, "commitOid": commit.oid})


@route("POST", rf"/(?P<kind>datasets)/{REPO}\.git/info/lfs/objects/batch")
def lfs_batch(request: Request) -> Answer:
    repo = _repo(request, write=True)
    objects = []
    for item in request.json()["objects"]:
        found = {"oid": item["oid"], "size": item["size"]}
        if item["oid"] not in repo.objects:
            href = f"{request.hub.url}/lfs/datasets/{repo.id}/{item['oid']}"
            found["actions"] = {"upload": {"href": href}, "verify": {"href": href + "/verify"}}
        objects.append(found)
    return reply({"transfer": "basic", "objects": objects})


@route("PUT", rf"/lfs/(?P<kind>datasets)/{REPO}/(?P<sha>[0-9a-f]{{64}})")
def lfs_put(request: Request) -> Answer:
    name, sha = request.args["repo"], request.args["sha"]
    if hashlib.sha256(request.body).hexdigest() != sha:
        raise Refused(400, "the checksum does not match")
    request.hub.repos["dataset", name].objects[sha] = request.body
    return Answer()


@route("POST", rf"/lfs/(?P<kind>datasets)/{REPO}/(?P<sha>[0-9a-f]{{64}})/verify")
def lfs_verify(request: Request) -> Answer:
    repo = _repo(request, write=True)
    data = repo.objects.get(request.args["sha"])
    if data is None or len(data) != request.json()["size"]:
        raise Refused(404, "the object is not there")
    return Answer()


def _applied(repo: Repo, tree: Tree, key: str, value: dict[str, Any]) -> Tree:
    """The tree after one line of a commit."""
    path = value["path"]
    if key == "file":
        return repo.store(tree, {path: base64.b64decode(value["content"])})
    if key == "lfsFile":
        if value["oid"] not in repo.objects:
            raise Refused(400, f"an LFS pointer points to a file that does not exist: {path}")
        return {**tree, path: lfs_blob(value["oid"], value["size"])}
    if key == "deletedFile":
        if path not in tree:
            raise Refused(404, "A file with this name doesn't exist", "EntryNotFound")
        return {other: blob for other, blob in tree.items() if other != path}
    assert key == "deletedFolder", key
    prefix = path.rstrip("/") + "/"
    return {other: blob for other, blob in tree.items() if not other.startswith(prefix)}


@route("POST", rf"{API}/commit/{REV}")
def commit(request: Request) -> Answer:
    repo, ref = _repo(request, write=True), request.args["rev"]
    head = _commit(repo, ref)
    header, *lines = (json.loads(line) for line in request.body.splitlines() if line)
    parent = header["value"].get("parentCommit")
    if parent is not None and parent != head.oid:
        raise Refused(412, "A commit has happened since. Please refresh and try again.")
    tree = head.tree
    for line in lines:
        tree = _applied(repo, tree, line["key"], line["value"])
    data: dict[str, object] = {"success": True, "hookOutput": ""}
    if request.query.get("create_pr"):
        number = sum(name.startswith("refs/pr/") for name in repo.refs) + 1
        ref = f"refs/pr/{number}"
        data["pullRequestUrl"] = f"{request.hub.url}/datasets/{repo.id}/discussions/{number}"
    made = repo.commit(ref, tree, header["value"]["summary"], parent=head.oid)
    url = f"{request.hub.url}/datasets/{repo.id}/commit/{made.oid}"
    return reply({**data, "commitOid": made.oid, "commitUrl": url})


def _add_ref(request: Request, refs: dict[str, str], name: str, revision: str) -> Answer:
    repo = _repo(request, write=True)
    if name in refs:
        raise Refused(409, f"Reference {name} already exists")
    refs[name] = _commit(repo, revision).oid
    return reply({"success": True})


@route("POST", rf"{API}/tag/{REV}")
def add_tag(request: Request) -> Answer:
    tags = _repo(request, write=True).tags
    return _add_ref(request, tags, request.json()["tag"], request.args["rev"])


@route("DELETE", rf"{API}/tag/{REV}")
def delete_tag(request: Request) -> Answer:
    if _repo(request, write=True).tags.pop(request.args["rev"], None) is None:
        raise Refused(404, "no such tag", "RevisionNotFound")
    return reply({"success": True})


@route("POST", rf"{API}/branch/{REV}")
def add_branch(request: Request) -> Answer:
    refs = _repo(request, write=True).refs
    start = request.json().get("startingPoint") or "main"
    return _add_ref(request, refs, request.args["rev"], start)


def _part(data: bytes, wanted: str | None) -> Answer:
    """The bytes, or the range of them that was asked for."""
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", wanted or "")
    if match is None:
        return Answer(200, data)
    first, last = match.groups()
    start = int(first) if first else max(len(data) - int(last), 0)
    stop = min(int(last) + 1, len(data)) if first and last else len(data)
    if start >= len(data):
        return Answer(416, b"", {"Content-Range": f"bytes */{len(data)}"})
    headers = {"Content-Range": f"bytes {start}-{stop - 1}/{len(data)}"}
    return Answer(206, data[start:stop], headers)


@route("GET", rf"(/(?P<kind>datasets|models))?/{REPO}/resolve/{REV}/(?P<path>.+)")
def resolve(request: Request) -> Answer:
    repo = _repo(request)
    if repo.gated and request.user is None:
        raise Refused(401, "Access to this dataset is restricted.", "GatedRepo")
    commit = _commit(repo, request.args["rev"])
    blob: Blob | None = commit.tree.get(request.args["path"])
    if blob is None:
        raise Refused(404, "Entry not found", "EntryNotFound")
    data = repo.read(blob)
    if data is None:
        raise Refused(404, "the object is lost")
    answer = _part(data, request.headers.get("Range"))
    tag = f'"{blob.sha256 or blob.oid}"'
    answer.headers |= {"X-Repo-Commit": commit.oid, "ETag": tag, "Accept-Ranges": "bytes"}
    if blob.sha256 is not None:
        answer.headers |= {"X-Linked-Etag": tag, "X-Linked-Size": str(blob.size)}
    return answer
