"""SIGKILL at any point of a push: readers see the old state or the new one."""

from __future__ import annotations

import copy
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub.client import result
from tests.hub.folders import assert_equal, contents, replace
from tests.hub.server import HubServer

REPO = "maghub/toy"
pytestmark = pytest.mark.integration

# Forks for each push from a process that has everything imported, so that a kill costs no start.
DRIVER = """
import os, sys
import datasets, huggingface_hub.hf_api, huggingface_hub.lfs, maghub.hub.push
from maghub import MaghubError, push
for line in sys.stdin:
    pid = os.fork()
    if not pid:
        sys.stdin = open(os.devnull)
        os.read(int(sys.argv[1]), 1)
        try:
            push(*line.split())
        except MaghubError as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
LOAD = """
import sys
from datasets import get_dataset_config_names, load_dataset
repo, *revisions = sys.argv[1:]
found = {}
for revision in revisions:
    names = get_dataset_config_names(repo, revision=revision)
    loaded = {name: load_dataset(repo, name, revision=revision) for name in names}
    found[revision] = {name: sum(map(len, parts.values())) for name, parts in loaded.items()}
show(found)
"""


class Pusher:
    """Pushes in processes that can be killed at the n-th step of their requests."""

    def __init__(self, hub: HubServer, home: Path) -> None:
        self.hub = hub
        read, self._go = os.pipe()
        self._driver = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(read)],
            env=hub.env(home),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[read],
        )
        os.close(read)

    def push(self, folder: Path, kill_at: int | None = None) -> tuple[int, int]:
        """Exit code of a push, and the steps its requests took."""
        assert self._driver.stdin is not None
        assert self._driver.stdout is not None
        self._driver.stdin.write(f"{folder} {REPO}\n")
        self._driver.stdin.flush()
        pid, steps, lock = int(self._driver.stdout.readline()), 0, threading.Lock()

        def step(event: str) -> None:
            nonlocal steps
            with lock:
                steps += 1
                if steps == kill_at:
                    os.kill(pid, signal.SIGKILL)
                    time.sleep(0.05)

        self.hub.hook = step
        os.write(self._go, b"x")
        code = int(self._driver.stdout.readline())
        time.sleep(0.05)
        self.hub.hook = lambda event: None
        return code, steps

    def close(self) -> None:
        assert self._driver.stdin is not None
        self._driver.stdin.close()
        self._driver.wait(20)
        os.close(self._go)


@pytest.fixture
def pusher(hub: HubServer, tmp_path: Path) -> Iterator[Pusher]:
    made = Pusher(hub, tmp_path / "home")
    yield made
    made.close()


def _check(hub: HubServer, allowed: list[dict[str, bytes]]) -> None:
    """Every commit holds one of the states, whole."""
    if ("dataset", REPO) in hub.repos:
        for commit in hub.repo(REPO).history():
            assert hub.repo(REPO).files(commit.oid) in allowed


def _kill_and_go_on(pusher: Pusher, folder: Path, allowed: list[dict[str, bytes]], at: int) -> None:
    """Kill a push at a step (unless it is through by then), look, and push again."""
    code, _ = pusher.push(folder, kill_at=at)
    assert code in (0, -signal.SIGKILL)
    _check(pusher.hub, allowed)
    assert pusher.push(folder)[0] == 0
    _check(pusher.hub, allowed)
    assert_equal(pusher.hub, REPO, folder)
    assert pusher.hub.repo(REPO).tags["v1.0.0"]


@pytest.mark.parametrize("points", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_random_points_of_an_update(
    pusher: Pusher,
    hub: HubServer,
    toy: Path,
    variants: dict[str, Path],
    tmp_path: Path,
    points: int,
) -> None:
    assert pusher.push(toy)[0] == 0
    repo, old = copy.deepcopy(hub.repo(REPO)), contents(toy)
    note = next((tmp_path / "home" / "maghub" / "hub").iterdir())
    known = note.read_bytes()
    replace(toy, variants["less"])
    _, steps = pusher.push(toy)
    assert steps > 40
    for at in random.Random(points).sample(range(1, steps + 1), points):
        hub.repos["dataset", REPO] = copy.deepcopy(repo)
        note.write_bytes(known)
        _kill_and_go_on(pusher, toy, [{}, old, contents(toy)], at)
        ours = [c for c in hub.repo(REPO).history() if c.title.startswith("maghub push")]
        assert len(ours) == 2, "the update is committed once"
    oids = [commit.oid for commit in hub.repo(REPO).history()[:2]]
    new, before = result(hub, tmp_path / "reader", LOAD, REPO, *oids).values()
    assert (new["nodes"], new["embeddings-fake"]) == (before["nodes"], before["nodes"])
    assert {"negatives-public"} == set(before) - set(new)


@pytest.mark.parametrize("points", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_random_points_of_the_first_push(
    pusher: Pusher, hub: HubServer, toy: Path, points: int
) -> None:
    _, steps = pusher.push(toy)
    for at in random.Random(points).sample(range(1, steps + 1), points):
        hub.repos.clear()
        _kill_and_go_on(pusher, toy, [{}, contents(toy)], at)
