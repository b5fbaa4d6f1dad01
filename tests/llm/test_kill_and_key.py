"""In a process of its own: SIGKILL loses no paid answer; nothing ever prints the key."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tests.helpers.graphs import files_of
from tests.helpers.kg_folders import write_graph
from tests.helpers.llm_replies import construct
from tests.helpers.llm_server import KEY, Fault, LLMServer
from tests.mkg.test_pipeline import towns

pytestmark = pytest.mark.integration
SECONDS = 120


@pytest.fixture(scope="module")
def kg(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_graph(towns(), tmp_path_factory.mktemp("kg") / "towns")


def command(server: LLMServer, kg: Path, out: Path, *more: str) -> list[str]:
    build = ["mkg", "build", "--kg", str(kg), "--out", str(out), "--llm", "openai:m"]
    where = ["--base-url", server.url, "--cache", str(out.parent / "answers.sqlite")]
    debug = ["--debug"] if "--debug" in more else []
    rest = [one for one in more if one != "--debug"]
    run = "from maghub.cli import main; main()"
    return [sys.executable, "-c", run, *debug, *build, *where, *rest]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OPENAI_API_KEY": KEY, "NO_PROXY": "127.0.0.1", **more}


def test_a_kill_loses_no_paid_answer(kg: Path, tmp_path: Path) -> None:
    with LLMServer(reply=construct, delay=0.002) as server:
        for after in (37, 60):  # killed among the verdicts, and among the questions
            server.hold(after)
            process = subprocess.Popen(
                command(server, kg, tmp_path / "out"),
                env=environment(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            until_all_threads_wait(server, process)
            process.send_signal(signal.SIGKILL)
            assert process.wait(SECONDS) == -signal.SIGKILL
            assert not (tmp_path / "out").exists()
        server.hold(None)
        run = partial(subprocess.run, env=environment(), check=True, timeout=SECONDS)
        run(command(server, kg, tmp_path / "out"))
        paid = Counter(entry.key for entry in server.answered())
        assert len(paid) > 140
        assert set(paid.values()) == {1}  # nothing that was paid for was asked again
        server.log.clear()
        new = str(tmp_path / "new.sqlite")  # a run without a kill, on an empty cache
        run([*command(server, kg, tmp_path / "whole"), "--cache", new])
        assert {entry.key for entry in server.answered()} == set(paid)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


def until_all_threads_wait(server: LLMServer, process: subprocess.Popen[bytes]) -> None:
    """Until each of the client's 8 threads waits for an answer that does not come.

    Each has then put its last answer into the cache, for it asks for the next one after that.
    """
    limit = time.monotonic() + SECONDS
    while server.held < 8:
        assert time.monotonic() < limit
        assert process.poll() is None
        time.sleep(0.01)


@pytest.mark.parametrize("status", [401, 200])
def test_the_key_is_never_printed(kg: Path, tmp_path: Path, status: int) -> None:
    """Not with --debug, not in the library's own debug log, not when the server repeats it."""
    with LLMServer(reply=construct) as server:
        if status == 401:
            server.key = "another"
        server.faults = [Fault(500), Fault(400)] if status == 200 else []
        more = ("--debug", "--attempts", "2", "--limit", "3")
        done = subprocess.run(
            command(server, kg, tmp_path / "out", *more),
            env=environment(OPENAI_LOG="debug"),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert done.returncode == (0 if status == 200 else 1)
    said = done.stdout + done.stderr
    assert "DEBUG" in said  # the library did log
    assert KEY not in said
    assert KEY[3:] not in said
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert kept
    assert not any(KEY.encode() in data for data in kept)


def test_errors_are_one_line(kg: Path, tmp_path: Path) -> None:
    with LLMServer(key="another") as server:
        done = subprocess.run(
            command(server, kg, tmp_path / "out"),
            env=environment(),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert "the key is refused (HTTP 401)" in line
    assert "OPENAI_API_KEY" in line
    assert done.stdout == ""
