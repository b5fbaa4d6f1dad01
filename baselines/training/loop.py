"""Trains a task's module: validation chooses the epoch, test is not seen here.

Every random draw of an epoch comes from (seed, epoch), so a run that was killed and resumed gives
the same weights as one that was not.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from maghub.baselines._task import Batch, Stage, Step, TaskConfig
from maghub.baselines.sampling import Shard
from maghub.baselines.training import checkpoint
from maghub.baselines.training.checkpoint import Progress
from maghub.baselines.training.distributed import from_first, parallel
from maghub.errors import MaghubError
from maghub.files import os_errors, write_text
from maghub.progress import track
from maghub.results import is_writer
from maghub.seeding import child_rng

_CALMER = "lower lr, or set clip=1"
_MEMORY = ("out of memory", "not enough memory", "can't allocate memory", "storage size calculat")


@dataclass(frozen=True)
class Files:
    """Where a run keeps its checkpoint and its log of epochs (CSV)."""

    checkpoint: Path
    log: Path


def seed_torch(seed: int, *names: str | int) -> None:
    """Seed torch for a named part of a run."""
    torch.manual_seed(int(child_rng(seed, *names).integers(2**63)))


def fit(
    task: Stage,
    step: Step,
    *,
    identity: str = "",
    files: Files | None = None,
    resume: bool = True,
    shard: Shard | None = None,
    after_epoch: Callable[[int], None] | None = None,
) -> Progress:
    """Train ``step`` in place and leave it with the weights of the chosen epoch, in eval mode.

    Args:
        task: What is trained.
        step: Its module, on the task's device.
        identity: Text that tells this run from all others; guards the checkpoint.
        files: Where to keep checkpoint and log; None keeps neither.
        resume: Go on from the checkpoint if there is one.
        shard: This process's part of the epochs.
        after_epoch: Called with the number of epochs done.

    Raises:
        MaghubError: A loss or a weight is not finite (step and tensor are named), or the checkpoint
            is damaged or belongs to another run.
    """
    shard = shard or Shard()
    config = task.config
    trained = [p for p in step.parameters() if p.requires_grad]
    # Adam refuses to have nothing to do, as with a model without weights.
    weights = trained or [nn.Parameter(torch.empty(0))]
    optimizer = torch.optim.Adam(weights, config.lr, weight_decay=config.weight_decay)
    progress = _start(task, step, optimizer, identity, files if resume else None)
    module = parallel(step, shard) if trained else step
    rounds: Iterable[int] = range(progress.epoch, config.epochs)
    for epoch in track(rounds, f"{task.name}, seed {task.seed}", config.epochs - progress.epoch):
        if _stopped(progress, config):
            break
        begin = time.monotonic()
        losses = _epoch(task, module, step, optimizer, epoch, shard)
        check_weights(step, epoch)
        progress.epoch = epoch + 1
        _look(task, step, progress, shard)
        progress.seconds += time.monotonic() - begin
        row = {"epoch": epoch + 1, **losses, "seconds": round(progress.seconds, 3)}
        progress.history.append(row)
        if files is not None and is_writer():
            progress.module, progress.optimizer = step.state_dict(), optimizer.state_dict()
            checkpoint.save(files.checkpoint, progress)
            write_log(files.log, progress.history)
        if after_epoch is not None:
            after_epoch(epoch + 1)
    if progress.chosen:
        step.load_state_dict(progress.chosen)
    step.eval()
    return progress


def _start(
    task: Stage,
    step: Step,
    optimizer: torch.optim.Optimizer,
    identity: str,
    files: Files | None,
) -> Progress:
    """A fresh start, or the state of the checkpoint put in place."""
    found = files and checkpoint.load(files.checkpoint, identity)
    if not found:
        return Progress(identity)
    try:
        step.load_state_dict(found.module)
        optimizer.load_state_dict(found.optimizer)
    except (RuntimeError, ValueError, KeyError, TypeError):
        raise MaghubError(
            "is the checkpoint of another version of this model",
            where=files and files.checkpoint,
            fix="remove it, or pass --no-resume",
        ) from None
    return found


def _stopped(progress: Progress, config: TaskConfig) -> bool:
    return config.patience is not None and progress.looks >= config.patience


def _epoch(
    task: Stage,
    module: nn.Module,
    step: Step,
    optimizer: torch.optim.Optimizer,
    epoch: int,
    shard: Shard,
) -> dict[str, float]:
    """One pass over the training examples; mean of each named loss."""
    step.train()
    seed_torch(task.seed, "epoch", epoch, shard.rank)
    sums: dict[str, Tensor] = {}
    count = 0
    for count, batch in enumerate(task.batches(step, epoch, shard), 1):
        optimizer.zero_grad(set_to_none=True)
        with _precision(task):
            losses = module(batch)
            total = torch.stack([loss.float() for loss in losses.values()]).sum()
        if not bool(torch.isfinite(total)):
            raise _not_finite(losses, batch, step, epoch, count)
        if total.requires_grad:
            total.backward()
            if task.config.clip is not None:
                nn.utils.clip_grad_norm_(step.parameters(), task.config.clip)
            optimizer.step()
        for name, loss in losses.items():
            sums[name] = sums.get(name, torch.zeros((), device=loss.device)) + loss.detach()
    return {name: float(value) / count for name, value in sums.items()}


def _precision(task: Stage) -> AbstractContextManager[object]:
    if not task.config.amp or task.device.type != "cuda":
        return nullcontext()
    return torch.autocast(task.device.type, torch.bfloat16)


def _look(task: Stage, step: Step, progress: Progress, shard: Shard) -> None:
    """Measure validation where it is due, and keep the weights where it is the best so far."""
    config, epoch = task.config, progress.epoch
    due = epoch % config.eval_every == 0 or epoch == config.epochs
    if task.monitor is None or not due:
        return
    value = None
    if is_writer():
        step.eval()
        with torch.no_grad():
            value = task.evaluate(step, "validation").get(task.monitor)
    value = from_first(value, shard)
    if value is None:  # nothing to choose by: the last epoch it is
        return
    if progress.best is None or value > progress.best:
        progress.best, progress.best_epoch, progress.looks = value, epoch, 0
        progress.chosen = {key: v.detach().clone() for key, v in step.state_dict().items()}
    else:
        progress.looks += 1


def check_weights(step: nn.Module, epoch: int) -> None:
    """The last step of an epoch may break what no loss of it has seen.

    Raises:
        MaghubError: A weight or a running statistic is not finite; names it.
    """
    values = {**dict(step.named_parameters()), **dict(step.named_buffers())}
    finite = {name: torch.isfinite(value).all() for name, value in values.items()}
    if finite and not bool(torch.stack(list(finite.values())).all()):
        bad = next(name for name, whole in finite.items() if not bool(whole))
        raise MaghubError(f"after epoch {epoch + 1} weight {bad} is not finite", fix=_CALMER)


def _not_finite(
    losses: dict[str, Tensor], batch: Batch, step: Step, epoch: int, count: int
) -> MaghubError:
    """Names the step and the first tensor that is not finite, from input to loss."""
    inputs = {f"input {name}": x for name, x in batch.x.items()}
    weights = {f"weight {name}": p for name, p in step.named_parameters()}
    parts = {f"loss {name}": loss for name, loss in losses.items()}
    tensors = {**inputs, **weights, **parts}
    bad = next((n for n, t in tensors.items() if not bool(torch.isfinite(t).all())), "their sum")
    return MaghubError(
        f"the loss is not finite at epoch {epoch + 1}, step {count}: {bad} is not",
        fix=_CALMER,
    )


@contextmanager
def memory_errors(config: TaskConfig, device: torch.device) -> Iterator[None]:
    """Turn running out of memory, on any device, into one line that says what to lower."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not any(t in str(error).lower() for t in _MEMORY):
            raise
        hint = f"lower batch_size (now {config.batch_size}), fanout ({config.fanout}) or hidden"
        if config.batch_size is None:
            hint = "train in batches (--set batch_size=512), or lower hidden"
        raise MaghubError(f"out of memory on {device}", fix=hint) from None


def write_log(path: Path, history: list[dict[str, float]]) -> None:
    """The log of all epochs as CSV, replaced whole."""
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in history for name in row))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(history)
    with os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text.getvalue())
