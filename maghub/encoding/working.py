"""The hidden folder in which a run keeps what is finished, and who may use it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maghub.encoding.plan import Plan
from maghub.encoding.shards import ShardStore
from maghub.errors import MaghubError
from maghub.files import fsync_folder, write_text

try:
    import fcntl
except ImportError:  # pragma: no cover  (no such locks on Windows)
    fcntl = None  # type: ignore[assignment]

PREFIX = ".encode-"
PLAN_FILE = "plan.json"


@contextmanager
def locked(folder: Path, *, wait: bool) -> Iterator[None]:
    """Hold the lock of a folder; it is let go when the process ends, however it ends.

    Args:
        folder: An existing folder.
        wait: Whether to wait for another holder; else it is an error.

    Raises:
        MaghubError: Another run holds it.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                raise MaghubError(
                    "another run is encoding with the same encoder",
                    where=folder.parent,
                    fix="wait for it to end",
                ) from None
        yield
    finally:
        os.close(handle)


@contextmanager
def working_folder(folder: Path, encoder: str, *, resume: bool) -> Iterator[Path]:
    """The working folder of one encoder; kept only where an error leaves finished shards in it.

    Args:
        folder: The dataset's folder.
        encoder: Name of the encoder.
        resume: Whether to keep what an interrupted run has finished.
    """
    work = folder / f"{PREFIX}{encoder}"
    work.mkdir(exist_ok=True)
    with locked(work, wait=False):
        try:
            if not resume:
                _empty(work)
            yield work
        except BaseException:
            if not any(work.glob("*/*.arrow")):
                shutil.rmtree(work, ignore_errors=True)
            raise
        shutil.rmtree(work, ignore_errors=True)


def stored_plan(folder: Path) -> Plan | None:
    """The plan that a working folder was made for; None where there is none that can be read."""
    try:
        return Plan.model_validate_json((folder / PLAN_FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return None


def shard_store(work: Path, plan: Plan) -> ShardStore:
    """The store of a plan's shards; what was finished for another plan is thrown away."""
    folder = work / plan.config
    if stored_plan(folder) != plan:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        write_text(folder / PLAN_FILE, plan.model_dump_json(indent=2))
        fsync_folder(folder)
        fsync_folder(work)
    return ShardStore(folder, plan)


def _empty(work: Path) -> None:
    for path in work.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
