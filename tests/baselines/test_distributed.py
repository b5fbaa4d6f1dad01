"""Data-parallel training with the real torchrun: two CPU processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from maghub.baselines._task import shard_ids
from maghub.baselines.sampling import Shard
from maghub.results import RunRecord, read_records
from maghub.running import run
from tests.helpers.planted import ENCODER, planted

SCRIPT = """
import json, sys, torch
torch.set_num_threads(1)
from maghub.running import run
folder, out, task, settings = sys.argv[1:]
run("gcn", folder, task, seeds=2, settings=json.loads(settings), out=out, device="cpu")
"""


def torchrun(folder: Path, out: Path, task: str, settings: dict[str, object]) -> RunRecord:
    script = out.with_suffix(".py")
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [str(script), str(folder), str(out), task, json.dumps(settings)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = read_records([out])  # one process writes, and the processes meet for each seed
    assert (first.seed, second.seed) == (0, 1)
    return first


@pytest.mark.integration
def test_two_processes_take_the_steps_of_one(tmp_path: Path) -> None:
    """Halves of the full batch: the mean of their gradients is the gradient of the whole."""
    planted(tmp_path / "toy", 1.0)
    settings = {
        "hidden": 8,
        "layers": 2,
        "dropout": 0,
        "batch_size": None,
        "epochs": 20,
        "eval_every": 5,
        "modality_loss": 0,
        "lr": 0.01,
    }
    two = torchrun(tmp_path / "toy", tmp_path / "two.jsonl", "node-classification", settings)
    (one,) = run("gcn", tmp_path / "toy", encoder=ENCODER, seeds=1, settings=settings)
    assert two.validation == pytest.approx(one.validation, abs=0.02)
    assert two.metrics == pytest.approx(one.metrics, abs=0.02)
    assert two.metrics["accuracy"] > 0.9
    assert two.notes == ["2 processes shared the batches"]
    assert one.notes == []


@pytest.mark.integration
def test_two_processes_share_sampled_batches_and_stop_together(tmp_path: Path) -> None:
    planted(tmp_path / "toy", 0.2)
    settings = {
        "hidden": 8,
        "layers": 2,
        "batch_size": 64,
        "fanout": 3,
        "epochs": 30,
        "patience": 2,
        "eval_every": 1,
        "lr": 0.01,
    }
    record = torchrun(tmp_path / "toy", tmp_path / "links.jsonl", "link-prediction", settings)
    assert record.metrics["mrr"] > record.controls["random_mrr"]
    assert record.epochs is not None
    assert record.epoch is not None
    assert record.epochs <= 30


def test_shards_are_equally_long_and_disjoint() -> None:
    ids = torch.arange(11)
    parts = [shard_ids(ids, Shard(rank, 3)) for rank in range(3)]
    assert {len(part) for part in parts} == {3}
    assert len(torch.cat(parts).unique()) == 9
    assert torch.equal(shard_ids(ids, Shard()), ids)
