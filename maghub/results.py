"""What is asked of a run and what comes out of it: one JSON line per run.

A record says everything that decides whether two results may stand side by side: the checksums of
the tables that were read, the split, the encoders, the noise and every setting.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from maghub.errors import MaghubError, place
from maghub.files import check_outside, check_writable, locked, os_errors
from maghub.spec import Model

RECORD_VERSION = "1.0"
LONGEST_RECORD = 1 << 24
"""Bytes of a line that may still be a record."""


class RunRequest(Model):
    """One run of one seed, as asked.

    Attributes:
        model: A registered model or retriever.
        dataset: Folder, bundled sample or Hub id.
        task: A registered task.
        encoders: modality -> encoder whose published vectors are read.
        seed: Seed of everything random in the run.
        preset: Named settings of a paper or its released code.
        settings: Single settings, which win over the preset.
        noise: kind -> share, e.g. ``{"text": 0.3, "labels": 0.2}``.
        device: ``cpu``, ``cuda`` ..., or ``auto``.
        work: Folder for checkpoints and logs of epochs; None keeps neither.
        resume: Go on from the checkpoint of an interrupted run in ``work``.
        out: The file that gets the record; what else a task writes goes beside it.
    """

    model: str
    dataset: str
    task: str
    encoders: dict[str, str] = {}
    seed: int = 0
    preset: str | None = None
    settings: dict[str, Any] = {}
    noise: dict[str, float] = {}
    device: str = "auto"
    work: Path | None = None
    resume: bool = True
    out: Path | None = Field(default=None, exclude=True)

    def record(self, **found: Any) -> RunRecord:
        """The record of this run: what was asked, and the fields that came out of it."""
        asked = ("model", "task", "encoders", "seed", "preset", "noise")
        return RunRecord(**{**{name: getattr(self, name) for name in asked}, **found})


class DatasetIdentity(BaseModel):
    """Which data a run has read.

    ``checksums`` maps a config that was read to the SHA-256 over the SHA-256 of its files.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    version: str
    revision: str | None = None
    checksums: dict[str, str] = {}
    split: str | None = None


class RunRecord(BaseModel):
    """One run: what was run on what, and what came out.

    Attributes:
        metrics: Test metrics as fractions, e.g. ``accuracy``.
        validation: The same on validation, at the chosen epoch.
        epoch: The epoch that validation chose (the last one where nothing is chosen).
        epochs: Epochs that were run.
        seconds: Wall time of the whole run; ``train_seconds`` of training alone.
        peak_cpu_bytes: Largest resident memory of the process during the run.
        peak_gpu_bytes: Largest memory allocated on the GPU, None without one.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    record_version: str = RECORD_VERSION
    dataset: DatasetIdentity
    task: str
    model: str
    encoders: dict[str, str] = {}
    seed: int = 0
    preset: str | None = None
    model_settings: dict[str, Any] = {}
    task_settings: dict[str, Any] = {}
    noise: dict[str, float] = {}
    metrics: dict[str, float]
    validation: dict[str, float] = {}
    controls: dict[str, float] = {}
    parameters: int | None = None
    epoch: int | None = None
    epochs: int | None = None
    seconds: float = 0.0
    train_seconds: float = 0.0
    peak_cpu_bytes: int | None = None
    peak_gpu_bytes: int | None = None
    device: str = "cpu"
    versions: dict[str, str] = {}
    notes: list[str] = []

    def to_line(self) -> str:
        """The record as one JSON line."""
        return json.dumps(self.model_dump(mode="json"), ensure_ascii=False) + "\n"


def is_writer() -> bool:
    """Whether this process prints and writes files; torchrun starts several, one of them does."""
    return os.environ.get("RANK", "0") == "0"


def check_results(path: Path) -> None:
    """Raise unless records can be appended to a file: new, empty, or one of records.

    Raises:
        MaghubError: It holds something else, lies in a published folder, or cannot be written.
    """
    check_outside(path)
    check_writable(path)
    if not path.exists():
        return
    with os_errors(path), path.open("rb") as file:
        first = file.readline(LONGEST_RECORD)
    try:
        begun = json.loads(first) if first.strip() else {"record_version": None}
    except ValueError:
        begun = None
    if not (isinstance(begun, dict) and "record_version" in begun):
        what = "holds something other than result records"
        raise MaghubError(what, where=path, fix="name another file with --out")


def append_records(path: Path, records: Iterable[RunRecord]) -> None:
    """Append records to a JSON-lines file, each one whole and durable before this returns.

    A line that a killed writer left unfinished is closed first, so that it costs no later record;
    one that another writer is about to finish is waited for.
    """
    text = "".join(record.to_line() for record in records)
    with os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file, locked(file):
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.write(b"\n")
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())


def read_records(paths: Sequence[Path]) -> list[RunRecord]:
    """All records of JSON-lines files, in order.

    Raises:
        MaghubError: A file is missing, or a line is no record (file and line are named).
    """
    records = []
    for path in paths:
        with os_errors(path):
            lines = path.read_bytes().splitlines()
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                records.append(RunRecord.model_validate_json(line))
            except ValidationError as error:
                first = error.errors()[0]
                field = ".".join(str(part) for part in first["loc"]) or "the line"
                raise MaghubError(
                    f"is no result record ({field}: {first['msg']})",
                    where=place(path, row=number),
                    fix="remove that line, or give files that maghub run has written",
                ) from None
    return records
