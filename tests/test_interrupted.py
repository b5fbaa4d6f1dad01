"""Stopped in the middle of a write: the target is the old folder or nothing, never a half."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from maghub import layout
from maghub.errors import MaghubError
from maghub.files import staged_folder, write_text
from maghub.loading import load
from maghub.validation import validate
from tests.helpers.graphs import files_of, random_toy, write_toy
from tests.helpers.reports import one_line

ROOT = Path(__file__).resolve().parents[1]


def hidden(folder: Path) -> list[str]:
    """Left-over names of a write."""
    return [
        path.name for path in folder.iterdir() if ".partial" in path.name or ".old" in path.name
    ]


WAIT = """
import signal, sys, time
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
from maghub import parquet
from tests.helpers.graphs import random_toy, write_toy
close = parquet.SplitWriter._rename
def slow(self):
    close(self)
    print("writing", flush=True)
    time.sleep(60)
parquet.SplitWriter._rename = slow
write_toy(random_toy(), Path(sys.argv[1]), overwrite=True)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("existing", [False, True])
def test_killed_in_the_middle(tmp_path: Path, number: int, existing: bool) -> None:
    out = tmp_path / "toy"
    before = None
    if existing:
        write_toy(random_toy(12), out)
        before = files_of(out)
    process = subprocess.Popen(
        [sys.executable, "-c", WAIT, str(out)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        process.send_signal(number)
        process.wait(30)
    finally:
        process.kill()
        process.wait()
    assert (files_of(out) if existing else out.exists()) == (before or False)
    if number == signal.SIGINT:
        assert hidden(tmp_path) == []
    write_toy(random_toy(12, seed=2), out, overwrite=True)
    assert load(out).num_nodes == 12
    assert hidden(tmp_path) == []


def test_a_writer_that_lives_and_others_are_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "toy"
    for name in (".toy.partial-dead", ".toys.partial-other", ".toy.old-backup"):
        (tmp_path / name / "nodes").mkdir(parents=True)
    (tmp_path / ".toy.partial-file").write_text("x")
    (tmp_path / ".toy.partial-link").symlink_to(tmp_path / ".toy.old-backup")
    with staged_folder(out) as first:
        with suppress(MaghubError), staged_folder(out) as second:
            assert first.is_dir()
            assert first != second
            raise MaghubError("broken builder")
        (first / "half").write_text("x")
    left = {path.name for path in tmp_path.iterdir()} - {"toy"}
    assert left == {
        ".toys.partial-other", ".toy.old-backup", ".toy.partial-file", ".toy.partial-link"
    }  # fmt: skip
    assert (tmp_path / ".toy.old-backup" / "nodes").is_dir()
    assert files_of(out) == {"half": b"x"}


def test_writers_at_once_sweep_no_living_one(tmp_path: Path) -> None:
    alive: list[bool] = []

    def write(number: int) -> None:
        # The target may vanish for the moment of another's swap.
        with (
            suppress(MaghubError),
            staged_folder(tmp_path / "toy", overwrite=True) as staging,
        ):
            write_text(staging / layout.SPEC_FILE, str(number))
            time.sleep(0.002)
            alive.append((staging / layout.SPEC_FILE).is_file())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(200)))
    assert len(alive) > 150
    assert all(alive)
    assert [name for name in hidden(tmp_path) if ".partial" in name] == []


def fails(staging: Path) -> None:
    (staging / "half").write_text("x")
    raise RuntimeError("broken builder")


def interrupted(staging: Path) -> None:
    (staging / "nodes").mkdir()
    (staging / "nodes" / "half").write_text("x")
    raise KeyboardInterrupt


@pytest.mark.parametrize("action", [fails, interrupted])
def test_existing_folder_is_kept_when_the_block_fails(
    tmp_path: Path, action: Callable[[Path], None]
) -> None:
    out = tmp_path / "toy"
    out.mkdir()
    (out / layout.SPEC_FILE).write_text("old")
    with (
        pytest.raises((RuntimeError, KeyboardInterrupt)),
        staged_folder(out, overwrite=True) as staging,
    ):
        action(staging)
    assert files_of(out) == {layout.SPEC_FILE: b"old"}
    assert [path.name for path in tmp_path.iterdir()] == ["toy"]


def test_existing_folder_is_kept_when_the_last_rename_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "toy"
    write_toy(random_toy(12), out)
    before = files_of(out)
    replace = os.replace

    def refuse(source: Any, target: Any) -> None:
        if ".partial-" in Path(source).name and Path(target) == out:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(MaghubError) as error:
        write_toy(random_toy(20), out, overwrite=True)
    one_line(error.value, str(out))
    assert files_of(out) == before
    assert hidden(tmp_path) == []


def test_existing_folder_needs_overwrite(tmp_path: Path) -> None:
    write_toy(random_toy(12), tmp_path / "toy")
    before = files_of(tmp_path / "toy")
    with pytest.raises(MaghubError) as error:
        write_toy(random_toy(20), tmp_path / "toy")
    one_line(error.value, "already exists", "--overwrite")
    assert files_of(tmp_path / "toy") == before
    (tmp_path / "empty").mkdir()
    write_toy(random_toy(12), tmp_path / "empty")
    assert validate(tmp_path / "empty").checked["configs"] == 6


def test_target_that_is_a_file_or_below_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for out in (tmp_path / "file", tmp_path / "file" / "toy"):
        with pytest.raises(MaghubError) as error:
            write_toy(random_toy(12), out)
        one_line(error.value, str(tmp_path / "file"))
    assert files_of(tmp_path) == {"file": b"x"}


def test_write_text_replaces_or_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    write_text(path, "猫\n")
    assert path.read_bytes() == "猫\n".encode()

    def refuse(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        write_text(path, "other")
    assert files_of(tmp_path) == {"a.json": "猫\n".encode()}
