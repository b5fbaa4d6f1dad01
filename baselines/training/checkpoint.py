"""State of an unfinished run in one file, replaced whole; read back without running any of it.

The last 32 bytes are the SHA-256 of what torch wrote before them: its own reader takes a damaged
file for other weights.
"""

from __future__ import annotations

import glob
import hashlib
import io
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from maghub.errors import MaghubError, first_line
from maghub.files import os_errors, write_bytes


@dataclass
class Progress:
    """How far a run is.

    Attributes:
        identity: What is run; a checkpoint of another run is refused.
        epoch: Epochs that are done.
        best_epoch: The epoch with the best validation value so far.
        best: That value, None where nothing is monitored or measured yet.
        looks: Looks at validation since then.
        module: State of the trained module after ``epoch``.
        chosen: State at ``best_epoch``.
        optimizer: State of the optimizer.
        seconds: Training time so far.
        history: One row per epoch for the log.
    """

    identity: str
    epoch: int = 0
    best_epoch: int = 0
    best: float | None = None
    looks: int = 0
    module: dict[str, Any] = field(default_factory=dict)
    chosen: dict[str, Any] = field(default_factory=dict)
    optimizer: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)


_DIGEST = 32


def _digest(data: memoryview) -> bytes:
    return hashlib.sha256(data).digest()


def save(path: Path, progress: Progress) -> None:
    """Replace the checkpoint; a kill at any moment leaves the old one or the new one."""
    buffer = io.BytesIO()
    torch.save(asdict(progress), buffer)
    buffer.write(_digest(buffer.getbuffer()))
    with os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, buffer.getbuffer())


def load(path: Path, identity: str) -> Progress | None:
    """The checkpoint of this run on the CPU, whatever it was made on; None where there is none.

    Raises:
        MaghubError: The file is damaged or belongs to another run.
    """
    if not path.is_file():
        return None
    with os_errors(path):
        data = memoryview(path.read_bytes())
    try:
        if _digest(data[:-_DIGEST]) != data[-_DIGEST:]:
            raise ValueError("it is damaged: its checksum does not fit")
        state = torch.load(io.BytesIO(data[:-_DIGEST]), map_location="cpu", weights_only=True)
        progress = Progress(**state)
    except Exception as error:
        reason = first_line(error).partition(". ")[0]  # torch goes on with advice to run it
        raise MaghubError(
            f"is no checkpoint ({reason})", where=path, fix="remove it, or pass --no-resume"
        ) from None
    if progress.identity != identity:
        raise MaghubError(
            "is the checkpoint of another run", where=path, fix="remove it, or pass --no-resume"
        )
    return progress


def discard(path: Path) -> None:
    """Remove the checkpoint, and what writers that were killed have left of one."""
    with os_errors(path):
        path.unlink(missing_ok=True)
        for partial in path.parent.glob(f".{glob.escape(path.name)}.partial-*"):
            partial.unlink(missing_ok=True)
