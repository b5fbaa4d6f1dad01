"""One run of one task: from what is asked to a result record."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from pydantic import BaseModel

from maghub import layout
from maghub.baselines._model import Model, ModelConfig
from maghub.baselines.identity import identify, versions
from maghub.baselines.training.checkpoint import Progress, discard
from maghub.baselines.training.distributed import local_device, process_group
from maghub.baselines.training.loop import Files, fit, memory_errors, seed_torch
from maghub.baselines.training.measure import PeakMemory
from maghub.loading import load
from maghub.mag import MAG
from maghub.results import DatasetIdentity, RunRecord, RunRequest, is_writer

if TYPE_CHECKING:
    from maghub.baselines._task import Task, TaskConfig


def run_task(kind: type[Task], request: RunRequest) -> RunRecord:
    """Train one registered model on one task with one seed and measure it on test, once.

    Raises:
        MaghubError: Unknown names, a dataset that cannot serve the task, or settings that fit
            nothing.
    """
    begin = time.monotonic()
    device = local_device(request.device)
    memory = PeakMemory(device)
    model, own, config = kind.configs(request.model, request.preset, request.settings)
    mag = load(request.dataset)
    with memory_errors(config, device):
        record = _measured(kind, request, mag, model, (own, config), device)
    spent = {"seconds": round(time.monotonic() - begin, 3)}
    peaks = {"peak_cpu_bytes": memory.cpu(), "peak_gpu_bytes": memory.gpu()}
    return record.model_copy(update={**spent, **peaks})


def _measured(
    kind: type[Task],
    request: RunRequest,
    mag: MAG,
    model: type[Model],
    configs: tuple[ModelConfig, TaskConfig],
    device: torch.device,
) -> RunRecord:
    """Train, then read test once."""
    model_config, task_config = configs
    task = kind(
        mag, request.encoders, task_config, noise=request.noise, seed=request.seed, device=device
    )
    seed_torch(request.seed, "weights")
    encoder = model(task.features.dims, task.width(model_config.hidden), model_config)
    step = task.step(encoder).to(device)
    identity = identify(mag, task.reads, task.split)
    trained: list[Progress] = []
    kept: list[Files | None] = []
    with process_group(device) as shard:
        size = shard.world_size
        key = _key(request, identity, configs, size)
        for number, (stage, module) in enumerate(task.stages(step)):
            own = f"{key}-stage{number + 1}" if number else key
            files, resume = _files(request, own), request.resume
            progress = fit(stage, module, identity=own, files=files, resume=resume, shard=shard)
            trained.append(progress)
            kept.append(files)
    with torch.no_grad():
        validation = task.evaluate(step, layout.VALIDATION)
        metrics = task.evaluate(step, layout.TEST)
    record = request.record(
        dataset=identity,
        task=kind.name,
        model_settings=model_config.model_dump(mode="json"),
        task_settings=task_config.model_dump(mode="json"),
        metrics=metrics,
        validation=validation,
        controls=task.controls(),
        parameters=sum(p.numel() for p in step.parameters()),
        epoch=sum(progress.best_epoch or progress.epoch for progress in trained),
        epochs=sum(progress.epoch for progress in trained),
        train_seconds=round(sum(progress.seconds for progress in trained), 3),
        device=str(device),
        versions=versions(),
        notes=[
            *task.notes,
            *([f"{size} processes shared the batches"] if size > 1 else []),
            *([] if metrics else ["test has nothing that could be measured"]),
        ],
    )
    for files in filter(None, kept if is_writer() else []):
        discard(files.checkpoint)
    return record


def _key(
    request: RunRequest, identity: DatasetIdentity, configs: Sequence[BaseModel], size: int
) -> str:
    """A name for the run: the same run on the same data, and nothing else, has it again.

    What counts are the settings themselves, not how they were asked for: a preset or a default may
    be another one in the next version. So does the number of processes, which share the batches.
    """
    given = {"work", "resume", "device", "dataset", "preset", "settings"}
    asked = request.model_dump(mode="json", exclude=given)
    parts = [asked, list(request.encoders), identity, *configs]  # the order is that of fusion
    parts += [size] if size > 1 else []
    dumped = [p.model_dump(mode="json") if isinstance(p, BaseModel) else p for p in parts]
    text = json.dumps(dumped, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{identity.name}-{request.task}-{request.model}-seed{request.seed}-{digest}"


def _files(request: RunRequest, key: str) -> Files | None:
    if request.work is None:
        return None
    work = Path(request.work)
    return Files(work / f"{key}.checkpoint", work / f"{key}.csv")
