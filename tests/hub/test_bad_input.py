"""Whatever is wrong is one line, and a token is never part of it."""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import maghub as package
from maghub.cli.app import main
from maghub.errors import MaghubError
from maghub.hub.push import push
from maghub.hub.remote import parse_id
from tests.helpers.reports import one_line
from tests.hub.client import in_process, maghub
from tests.hub.faults import COMMIT, PREUPLOAD, UPLOAD
from tests.hub.folders import assert_equal, contents, set_policy
from tests.hub.server import READER, WRITER, HubServer

REPO = "maghub/toy"
NOWHERE = "http://127.0.0.1:9"
pytestmark = pytest.mark.integration


@pytest.mark.parametrize("name", ["toy", "a/b/c", "a b/c", "a/b@", "-a/b", "a//b", "a/b..c", ""])
def test_names_that_are_no_repo(client: HubServer, toy: Path, tmp_path: Path, name: str) -> None:
    for call in (lambda: push(toy, name), lambda: package.pull(name, tmp_path / "out")):
        with pytest.raises(MaghubError) as caught:
            call()
        one_line(caught.value, "is no name of a Hub repo", "Give ORG/NAME")
    assert not client.log
    assert parse_id("a/b@refs/pr/1") == ("a/b", "refs/pr/1")


@pytest.fixture
def failed(
    hub: HubServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., str]:
    """Runs a command in this process; gives the one line that it fails with."""

    def fail(*args: object, token: str | None = WRITER) -> str:
        monkeypatch.setattr(sys, "argv", ["maghub", *map(str, args)])
        with in_process(hub, tmp_path / "home", token), pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        assert (stop.value.code, out) == (1, "")
        assert err.startswith("error: ")
        assert err.count("\n") == 1, err
        assert "hf_" not in err
        return str(err)

    return fail


def test_commands_fail_with_one_line(
    hub: HubServer, toy: Path, tmp_path: Path, failed: Callable[..., str]
) -> None:
    hub.add_repo("maghub/model", "model")
    hub.put_folder("maghub/secret", toy)
    hub.repo("maghub/secret").private = True
    out = tmp_path / "out"
    assert "is no name" in failed("push", toy, "no-such-thing")
    assert "needs a token" in failed("push", toy, REPO, token=None)
    assert "may not do this" in failed("push", toy, REPO, token=READER)
    assert "taken by a model repo" in failed("push", toy, "maghub/model")
    assert "is a model repo" in failed("pull", "maghub/model", "--out", out)
    assert "no such dataset" in failed("diff", toy, REPO)
    for token in (READER, None):
        secret = failed("pull", "maghub/secret", "--out", out, token=token)
        assert "there is no such dataset on the Hub (or you may not see it)" in secret
    assert "has no such revision" in failed("diff", toy, "maghub/secret", "--revision", "v9")
    shutil.rmtree(toy / "edges")
    assert "is not valid" in failed("push", toy, REPO)
    hub.url = NOWHERE
    for args in (("diff", toy, REPO), ("pull", REPO), ("push", toy, REPO)):
        assert "the Hub cannot be reached (ConnectError)" in failed(*args)
    assert ("dataset", REPO) not in hub.repos
    assert not out.exists()


def test_the_commands_of_the_readme(
    client: HubServer,
    toy: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (Path(__file__).resolve().parents[2] / "README.md").read_text("utf-8")
    commands = re.findall(r"^maghub (?:push|pull|diff) .*ORG/.*$", text, re.MULTILINE)
    assert len(commands) == 4
    monkeypatch.chdir(tmp_path)
    toy.rename(tmp_path / "emoji")
    for command in commands:
        words = shlex.split(command.replace("ORG/", "maghub/"), comments=True)
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 0, capsys.readouterr().err
    assert contents(tmp_path / "copy") == contents(tmp_path / "emoji")
    assert client.repo("maghub/emoji").private
    assert "Xet" in text


def test_a_dry_run_of_a_new_repo_needs_no_token(hub: HubServer, toy: Path, tmp_path: Path) -> None:
    done = maghub(hub, tmp_path / "home", "push", toy, REPO, "--dry-run", token=None)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:-1] == [f"+ {path}" for path in sorted(contents(toy))]
    assert "new, 0 changed, 0 deleted, 0 unchanged" in lines[-1]
    assert not hub.repos


def test_a_disk_that_is_full(
    client: HubServer, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.put_folder(REPO, toy)
    mag = package.load(REPO)

    def full(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "blob"))

    with monkeypatch.context() as patch:
        patch.setattr("huggingface_hub.file_download.http_get", full)
        for call in (lambda: mag.edges, lambda: package.pull(REPO, tmp_path / "out")):
            with pytest.raises(MaghubError) as caught:
                call()
            one_line(caught.value, "No space left on device", "Free some disk space", "HF_HOME")
    assert not (tmp_path / "out").exists()
    assert len(mag.edges) == mag.graph.num_edges
    assert contents(package.pull(REPO, tmp_path / "out")) == contents(toy)


READ_ONLY = """
import os, sys
import datasets, huggingface_hub.hf_api, maghub.hub.pull, maghub.loading, maghub.hub.opening
maghub.load("emoji")
"a".encode("idna")  # loads what connecting needs
if os.geteuid() == 0:  # root may write anywhere: go on as nobody, the modules are loaded by now
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
for call in (lambda: maghub.load("maghub/toy"), lambda: maghub.pull("maghub/toy", sys.argv[1])):
    try:
        call()
        print("nothing raised")
    except maghub.MaghubError as error:
        print(error.line())
"""


@pytest.fixture
def closed() -> Iterator[Path]:
    """A folder in which nobody may write."""
    base = Path(tempfile.mkdtemp(prefix="maghub-closed-"))
    base.chmod(0o555)
    yield base
    base.chmod(0o755)
    shutil.rmtree(base)


def test_a_cache_that_cannot_be_written(hub: HubServer, toy: Path, closed: Path) -> None:
    hub.put_folder(REPO, toy)
    command = [sys.executable, "-c", READ_ONLY, str(closed / "out")]
    done = subprocess.run(command, env=hub.env(closed), capture_output=True, text=True, cwd="/")
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stderr[-2000:]
    assert all("Permission denied" in line and "permissions" in line for line in lines), lines
    assert "HF_HOME" in lines[0]
    assert list(closed.iterdir()) == []


def test_what_was_pulled_is_checked_and_goes_on(
    client: HubServer, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.put_folder(REPO, toy)
    out, partial = tmp_path / "out", tmp_path / ".out.pull"
    client.fault("status", "GET", "embeddings-", status=403)
    with pytest.raises(MaghubError):
        package.pull(REPO, out)
    assert not out.exists()
    assert partial.is_dir()
    client.log.clear()
    package.pull(REPO, out)
    assert contents(out) == contents(toy)
    assert not partial.exists()
    assert len([e for e in client.requests("GET", "/resolve/") if "parquet" in e.path]) < 10
    with pytest.raises(MaghubError, match="already exists"):
        package.pull(REPO, out)
    client.put(REPO, {"LICENSE": b"MIT"})
    package.pull(REPO, out, overwrite=True)
    assert sorted(contents(out)) == sorted(contents(toy))
    push(out, REPO)
    assert_equal(client, REPO, toy, LICENSE=b"MIT")


def test_damage_on_the_way_is_noticed(client: HubServer, toy: Path, tmp_path: Path) -> None:
    client.put_folder(REPO, toy)
    repo = client.repo(REPO)
    blob = repo.history()[0].tree["edges/full-00000-of-00001.parquet"]
    repo.objects[blob.sha256 or ""] = bytes(blob.size)
    with pytest.raises(MaghubError) as caught:
        package.pull(REPO, tmp_path / "out")
    one_line(caught.value, "edges/full-00000-of-00001.parquet", "damaged", "Pull again")
    assert not (tmp_path / "out").exists()


def test_where_xet_fails_the_way_around_it_is_told(
    hub: HubServer, toy: Path, tmp_path: Path
) -> None:
    done = maghub(hub, tmp_path / "home", "push", toy, REPO, HF_HUB_DISABLE_XET="0")
    assert done.returncode == 1
    assert "the connection failed" in done.stderr
    assert "set HF_HUB_DISABLE_XET=1" in done.stderr
    assert done.stderr.count("\n") == 1
    assert [commit.title for commit in hub.repo(REPO).history()] == ["initial commit"]


# -- tokens ----------------------------------------------------------------------------------


def _texts(error: BaseException | None) -> Iterator[str]:
    """All that an exception and those shown behind it say."""
    while error is not None:
        yield f"{error} {error!r} {error.args} {vars(error)}"
        yield from (str(note) for note in getattr(error, "__notes__", []))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_a_token_is_in_no_error_even_if_the_hub_says_it(
    client: HubServer, toy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    echo = {"message": f"Bearer {WRITER} is wrong", "times": 10_000}
    places = [("GET", "/revision/"), ("POST", PREUPLOAD), ("PUT", UPLOAD), ("POST", COMMIT)]
    places += [("POST", "/create"), ("POST", "/tag/"), ("HEAD", "/resolve/")]
    for method, pattern in places:
        for status in (400, 403, 500):
            client.repos.clear()
            fault = client.fault("status", method, pattern, status=status, **echo)
            try:
                push(toy, REPO)
            except MaghubError as error:
                text = " ".join(_texts(error))
            else:
                text = ""
            fault.times = 0
            assert WRITER not in text, (method, pattern, status)
    assert WRITER not in "".join(record.getMessage() for record in caplog.records)


def test_a_token_is_in_nothing_that_is_printed_or_stored(
    hub: HubServer, toy: Path, tmp_path: Path
) -> None:
    home, env = tmp_path / "home", {"HF_DEBUG": "1", "HF_HUB_VERBOSITY": "debug"}
    set_policy(toy, images="local")
    said = []
    for args in (("push", toy, REPO), ("pull", REPO, "--out", home / "out")):
        done = maghub(hub, home, "--debug", *args, **env)
        assert done.returncode == 0, done.stderr
        said += [done.stdout, done.stderr]
    hub.fault("status", "POST", "/tag/", status=403, message=f"token {WRITER}")
    done = maghub(hub, home, "--debug", "push", toy, REPO, **env)
    assert done.returncode == 1
    said += [done.stdout, done.stderr]
    stored = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    repo = hub.repo(REPO)
    stored += [*repo.blobs.values(), *repo.objects.values()]
    assert not [text for text in said if WRITER in text]
    assert not [data for data in stored if WRITER.encode() in data]
    assert not [commit for commit in repo.history() if WRITER in str(commit)]


def test_the_token_of_a_client_is_not_in_what_it_returns(
    hub: HubServer, toy: Path, tmp_path: Path
) -> None:
    with in_process(hub, tmp_path / "home"):
        found = push(toy, REPO)
    assert WRITER not in repr(found) + str(found.to_dict())
