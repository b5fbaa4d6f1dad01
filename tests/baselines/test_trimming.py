"""Sampled batches without what no loss reads: losses and gradients as of the whole graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from maghub import registry
from maghub.baselines._task import Batch, Step, Task
from maghub.baselines.sampling import Shard
from maghub.baselines.settings import resolve
from maghub.baselines.training.loop import seed_torch
from tests.helpers.planted import ENCODER, planted

EXACT = ["gat", "graphsage", "gin", "gatv2"]
NORMALISED = ["gcn", "chebnet"]  # by degrees, which a sampled graph has only of its inner nodes


def losses(step: Step, batch: Batch) -> tuple[dict[str, Tensor], list[Tensor | None]]:
    step.eval()  # no dropout
    step.zero_grad()
    found: Mapping[str, Tensor] = step(batch)
    torch.stack(list(found.values())).sum().backward()
    return dict(found), [p.grad for p in step.parameters()]


@pytest.mark.parametrize("name", ["node-classification", "link-prediction"])
@pytest.mark.parametrize("model", EXACT + NORMALISED)
def test_a_trimmed_batch_has_the_losses_of_the_whole_graph(
    tmp_path: Path, name: str, model: str
) -> None:
    mag = planted(tmp_path / "toy", 1.0)
    kind, encoder = registry.get("tasks", name), registry.get("models", model)
    small: dict[str, Any] = {"hidden": 8, "layers": 2, "batch_size": 5, "fanout": -1}
    config, settings = resolve(encoder.Config, kind.Config, small)
    task: Task = kind(mag, ENCODER, settings)
    seed_torch(0, "weights")
    step = task.step(encoder(task.features.dims, task.width(8), config))
    batch = next(task.batches(step, 0, Shard()))
    assert batch.n_id is not None
    assert batch.hops is not None
    assert batch.hops[-1] == len(batch.n_id)
    assert len(step.encode(batch).h) == (batch.hops[0] if encoder.trims else len(batch.n_id))
    pairs = None if batch.pairs is None else batch.n_id[batch.pairs]
    whole = task.whole(batch.n_id[batch.rows], y=batch.y, pairs=pairs)
    found = losses(step, batch)
    for other in [replace(batch, hops=None), *([whole] if model in EXACT else [])]:
        torch.testing.assert_close(found, losses(step, other), atol=1e-5, rtol=1e-4)
