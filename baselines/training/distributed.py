"""Data-parallel training with torchrun: every process trains on its shard, rank 0 decides."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from maghub.baselines.sampling import Shard
from maghub.errors import MaghubError


@contextmanager
def process_group(device: torch.device) -> Iterator[Shard]:
    """Join the processes that torchrun started; a single shard without torchrun.

    They stay joined until they end: torch's store does not let them meet a second time, which the
    next seed would have to.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield Shard()
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)  # objects are exchanged through the current device
    if not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        atexit.register(dist.destroy_process_group)
    yield Shard(dist.get_rank(), size)


def local_device(name: str) -> torch.device:
    """The device of this process; ``auto`` is the process's own GPU, else the CPU.

    Under torchrun ``cuda`` too is the process's own GPU.

    Raises:
        MaghubError: There is no such device here.
    """
    own = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    if name == "auto":
        name = own if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(own if name == "cuda" else name)
        torch.ones(1, device=device).item()  # "meta" has no numbers, others may not be there
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0][:120]
        raise MaghubError(
            f"device '{name}' cannot be used ({reason})", fix="take --device auto, cpu or cuda"
        ) from None
    return device


def parallel(module: nn.Module, shard: Shard) -> nn.Module:
    """The module whose gradients are averaged over all processes."""
    if shard.world_size == 1:
        return module
    return DistributedDataParallel(module, find_unused_parameters=True)


def from_first(value: Any, shard: Shard) -> Any:
    """Rank 0's value on every rank."""
    if shard.world_size == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]
