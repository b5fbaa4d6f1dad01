"""The training loop: what chooses the epoch, what stops it, and what survives a kill."""

import csv
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from maghub import registry
from maghub.baselines._task import Batch, Step
from maghub.baselines.sampling import Shard
from maghub.baselines.tasks.node_classification import NodeClassification, NodeClassificationConfig
from maghub.baselines.training import checkpoint
from maghub.baselines.training.loop import Files, fit, seed_torch
from maghub.errors import MaghubError
from maghub.loading import load
from maghub.results import read_records
from maghub.running import run
from tests.helpers.planted import ENCODER, planted

SMALL = {"hidden": 8, "layers": 2, "batch_size": 32, "fanout": 3, "lr": 0.01, "eval_every": 1}


class Counting(NodeClassification):
    """Counts looks at each split, and can give scripted validation values."""

    script: list[float] | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.looks: list[str] = []

    def evaluate(self, step: Step, split: str) -> dict[str, float]:
        self.looks.append(split)
        if self.script is not None:
            return {"accuracy": self.script[len(self.looks) - 1]}
        return super().evaluate(step, split)


def task_and_step(folder: Path, kind: type = Counting, **settings: Any) -> tuple[Any, Step]:
    task = kind(load(folder), ENCODER, NodeClassificationConfig(**settings))
    model = registry.get("models", "gcn")
    seed_torch(0, "weights")
    return task, task.step(model(task.features.dims, 8, model.Config(hidden=8, layers=2)))


def test_validation_chooses_the_epoch_and_its_weights_come_back(tmp_path: Path) -> None:
    planted(tmp_path / "toy")
    task, step = task_and_step(tmp_path / "toy", epochs=4, batch_size=None, eval_every=1)
    task.script = [0.2, 0.9, 0.3, 0.9]  # a tie keeps the earlier epoch
    states: list[dict[str, torch.Tensor]] = []
    keep = lambda _: states.append({k: v.clone() for k, v in step.state_dict().items()})  # noqa: E731
    progress = fit(task, step, after_epoch=keep)
    assert (progress.best_epoch, progress.best, progress.epoch) == (2, 0.9, 4)
    assert task.looks == ["validation"] * 4
    assert all(torch.equal(v, states[1][k]) for k, v in step.state_dict().items())
    assert not all(torch.equal(v, states[3][k]) for k, v in step.state_dict().items())
    assert not step.training


@pytest.mark.parametrize(("every", "patience", "epochs"), [(1, 2, 4), (2, 2, 8), (3, 1, 9)])
def test_patience_counts_looks_at_validation(
    tmp_path: Path, every: int, patience: int, epochs: int
) -> None:
    planted(tmp_path / "toy")
    settings = {"epochs": 30, "batch_size": None, "eval_every": every, "patience": patience}
    task, step = task_and_step(tmp_path / "toy", **settings)
    task.script = [0.5, 0.6, *[0.1] * 30]
    progress = fit(task, step)
    assert progress.epoch == epochs
    assert progress.best_epoch == 2 * every


def test_test_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(tmp_path / "toy")
    looks: list[str] = []
    original = NodeClassification.evaluate

    def counted(self: NodeClassification, step: Step, split: str) -> dict[str, float]:
        looks.append(split)
        return original(self, step, split)

    monkeypatch.setattr(NodeClassification, "evaluate", counted)
    run("mlp", tmp_path / "toy", encoder=ENCODER, seeds=1, settings={**SMALL, "epochs": 3})
    assert looks == ["validation"] * 4 + ["test"]


class Broken(NodeClassification):
    def batches(self, step: Step, epoch: int, shard: Shard) -> Iterator[Batch]:
        for number, batch in enumerate(super().batches(step, epoch, shard)):
            if (epoch, number) == (1, 2):
                batch.x["image"] = batch.x["image"] * torch.inf
            yield batch


def test_a_loss_that_is_not_finite_stops_with_step_and_tensor(tmp_path: Path) -> None:
    planted(tmp_path / "toy")
    task, step = task_and_step(tmp_path / "toy", Broken, epochs=3, batch_size=16)
    with pytest.raises(MaghubError, match=r"not finite at epoch 2, step 3: input image") as caught:
        fit(task, step)
    assert "lower lr" in caught.value.line().lower()
    task, step = task_and_step(tmp_path / "toy", epochs=3, batch_size=None)
    with torch.no_grad():
        next(step.encoder.stack.parameters()).fill_(torch.nan)
    with pytest.raises(MaghubError, match=r"not finite at epoch 1, step 1: weight encoder\."):
        fit(task, step)


def test_running_out_of_memory_says_what_to_lower(tmp_path: Path) -> None:
    planted(tmp_path / "toy")
    huge = {"hidden": 10**6, "layers": 2, "epochs": 1}
    for batch_size, hint in ((None, "batch_size=512"), (64, "batch_size (now 64), fanout")):
        with pytest.raises(MaghubError, match="out of memory on cpu") as caught:
            run("mlp", tmp_path / "toy", seeds=1, settings={**huge, "batch_size": batch_size})
        assert hint in caught.value.line()


def test_log_and_checkpoint(tmp_path: Path) -> None:
    planted(tmp_path / "toy")
    files = Files(tmp_path / "work" / "a.checkpoint", tmp_path / "work" / "a.csv")
    task, step = task_and_step(tmp_path / "toy", epochs=3, eval_every=1)
    progress = fit(task, step, identity="a", files=files)
    rows = list(csv.DictReader(files.log.open()))
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert {"cross_entropy", "nce_text", "nce_image", "seconds"} <= set(rows[0])
    assert float(rows[0]["cross_entropy"]) > float(rows[2]["cross_entropy"])
    again = checkpoint.load(files.checkpoint, "a")
    assert again is not None
    assert again.best == progress.best
    with pytest.raises(MaghubError, match="of another run"):
        fit(task, step, identity="b", files=files)
    files.checkpoint.write_bytes(files.checkpoint.read_bytes()[:500])
    with pytest.raises(MaghubError, match="is no checkpoint"):
        fit(task, step, identity="a", files=files)
    fit(task, step, identity="a", files=files, resume=False)


def test_the_checkpoint_of_another_version_of_a_model_is_one_line(tmp_path: Path) -> None:
    planted(tmp_path / "toy")
    files = Files(tmp_path / "a.checkpoint", tmp_path / "a.csv")
    task, step = task_and_step(tmp_path / "toy", epochs=2)
    fit(task, step, identity="a", files=files)
    gin = registry.get("models", "gin")
    other = task.step(gin(task.features.dims, 8, gin.Config(hidden=8, layers=2)))
    with pytest.raises(MaghubError, match=r"a\.checkpoint: is the checkpoint of another version"):
        fit(task, other, identity="a", files=files)


def test_a_checkpoint_is_never_run(tmp_path: Path) -> None:
    import pickle

    class Trap:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return os.mkdir, (str(tmp_path / "trapped"),)

    path = tmp_path / "x.checkpoint"
    data = pickle.dumps(Trap())
    path.write_bytes(data + hashlib.sha256(data).digest())
    with pytest.raises(MaghubError, match=r"is no checkpoint \(Weights only load failed\)"):
        checkpoint.load(path, "x")
    assert not (tmp_path / "trapped").exists()


def test_no_damage_of_a_checkpoint_becomes_other_weights(tmp_path: Path) -> None:
    planted(tmp_path / "toy")
    files = Files(tmp_path / "a.checkpoint", tmp_path / "a.csv")
    task, step = task_and_step(tmp_path / "toy", epochs=2)
    fit(task, step, identity="a", files=files)
    whole = files.checkpoint.read_bytes()
    for place in np.linspace(0, len(whole) - 1, 60).astype(int):
        damaged = bytearray(whole)
        damaged[place] ^= 4
        files.checkpoint.write_bytes(damaged)
        with pytest.raises(MaghubError, match=r"is no checkpoint \(it is damaged.*--no-resume"):
            checkpoint.load(files.checkpoint, "a")


def test_a_finished_run_leaves_its_log_alone(tmp_path: Path) -> None:
    planted(tmp_path / "toy", n=60)
    work, settings = tmp_path / "work", {**SMALL, "epochs": 1}
    run("mlp", tmp_path / "toy", seeds=1, settings=settings, work=work)
    (log,) = work.iterdir()
    partial = work / f".{log.stem}.checkpoint.partial-x1"  # a writer was killed
    partial.write_bytes(b"x")
    run("mlp", tmp_path / "toy", seeds=1, settings=settings, work=work)
    assert list(work.iterdir()) == [log]


@pytest.mark.integration
@pytest.mark.parametrize("task", ["node-classification", "link-prediction"])
def test_a_run_that_was_killed_and_resumed_equals_one_that_was_not(
    tmp_path: Path, task: str
) -> None:
    planted(tmp_path / "toy")
    settings = {**SMALL, "epochs": 25, "dropout": 0.5}
    whole, killed = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    run("gcn", tmp_path / "toy", task, encoder=ENCODER, seeds=1, settings=settings, out=whole)
    script = (
        "import sys, json, torch; torch.set_num_threads(1)\n"
        "from maghub.running import run\n"
        "run('gcn', sys.argv[1], sys.argv[2], encoder=json.loads(sys.argv[3]), seeds=1,\n"
        "    settings=json.loads(sys.argv[4]), out=sys.argv[5], work=sys.argv[6])\n"
    )
    work = tmp_path / "work"
    command = [sys.executable, "-c", script, str(tmp_path / "toy"), task, json.dumps(ENCODER)]
    command += [json.dumps(settings), str(killed), str(work)]
    process = subprocess.Popen(command)
    try:
        for _ in range(3000):
            logs = list(work.glob("*.csv")) if work.is_dir() else []
            if logs and len(logs[0].read_text().splitlines()) > 5:
                break
            assert process.poll() is None, "it finished before it could be killed"
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not killed.exists()
    subprocess.run(command, check=True)
    (one,), (two,) = read_records([whole]), read_records([killed])
    assert (one.metrics, one.validation, one.epoch) == (two.metrics, two.validation, two.epoch)
    assert not list(work.glob("*.checkpoint"))  # a finished run needs none
    assert len(list(work.glob("*.csv"))) == 1
