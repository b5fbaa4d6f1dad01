"""Inputs of tasks: features, scaling, damage, settings and presets."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from maghub import registry
from maghub.baselines._model import Model, ModelConfig
from maghub.baselines._task import TaskConfig
from maghub.baselines.features import Features
from maghub.baselines.noise import Noise
from maghub.baselines.presets import PRESETS, preset_settings
from maghub.baselines.settings import resolve
from maghub.baselines.tasks.node_classification import NodeClassification
from maghub.errors import MaghubError
from maghub.running import run
from tests.helpers.graphs import random_toy, write_toy
from tests.helpers.planted import ENCODER, planted

NONE = Noise({}, ["text", "image"], 0)


@pytest.mark.parametrize("held", [0, 1 << 30])
@pytest.mark.parametrize("scale", ["none", "standard", "row"])
def test_features_on_disk_and_in_memory_are_the_same(tmp_path: Path, scale: str, held: int) -> None:
    toy = random_toy(50)
    toy.vectors["image"][3] = 0  # no picture
    write_toy(toy, tmp_path / "toy")
    from maghub.loading import load

    features = Features(load(tmp_path / "toy"), ENCODER, NONE, scale, in_memory=held)  # type: ignore[arg-type]
    x = toy.vectors["image"].astype(np.float64)
    has = x.any(axis=1)
    if scale == "standard":
        x = (x - x[has].mean(axis=0)) / x[has].std(axis=0)
    elif scale == "row":
        x = x / np.maximum(np.abs(x).sum(axis=1, keepdims=True), 1e-12)
    x[~has] = 0
    ids = torch.tensor([7, 3, 7, 0])
    assert features()["image"].numpy() == pytest.approx(x, abs=1e-4)
    assert features(ids)["image"].numpy() == pytest.approx(x[ids], abs=1e-4)
    assert features.has("image", ids).tolist() == [True, False, True, True]
    assert features.dims == {"text": 8, "image": 4}
    assert features()["text"].dtype == torch.float32


@settings(max_examples=30, deadline=None)
@given(st.floats(0, 1), st.integers(1, 60), st.integers(0, 5))
def test_noise_touches_its_share_and_nothing_else(share: float, count: int, seed: int) -> None:
    noise = Noise({"text": share, "missing-image": share, "labels": share}, ["text", "image"], seed)
    rows = noise.rows("text", count)
    changed = 0 if rows is None else int((rows != np.arange(count)).sum())
    wanted = round(share * count)
    assert changed == (wanted if wanted > 1 else 0)
    if rows is not None:
        assert sorted(rows) == list(range(count))  # rows move, none is lost
    assert noise.rows("image", count) is None
    assert len(noise.missing("image", count)) == wanted
    assert len(noise.missing("text", count)) == 0
    labels = np.arange(count) % 4
    flipped = noise.flip(labels, 4)
    assert int((flipped != labels).sum()) == wanted
    assert set(flipped) <= set(range(4))
    assert np.array_equal(flipped, noise.flip(labels, 4))


def test_spurious_edges_join_different_nodes_both_ways(tmp_path: Path) -> None:
    mag = planted(tmp_path / "toy")
    clean = NodeClassification(mag, ENCODER)
    noisy = NodeClassification(mag, ENCODER, noise={"edges": 0.5}, seed=3)
    before = set(map(tuple, clean.edge_index.T.tolist()))
    after = set(map(tuple, noisy.edge_index.T.tolist()))
    extra = after - before
    assert before <= after
    assert all((b, a) in after and a != b for a, b in extra)
    assert len(extra) == pytest.approx(mag.edge_index.shape[1], rel=0.1)  # both ways of one half


def test_damage_hurts_is_recorded_and_is_drawn_anew_per_seed(tmp_path: Path) -> None:
    planted(tmp_path / "toy", 0.1)
    small = {"hidden": 8, "batch_size": None, "epochs": 60, "lr": 0.01, "eval_every": 5}
    clean, noisy = (
        run("mlp", tmp_path / "toy", encoder=ENCODER, seeds=1, settings=small, noise=noise)[0]
        for noise in ({}, {"text": 1.0, "missing-image": 1.0})
    )
    assert clean.metrics["accuracy"] > 0.95
    assert noisy.metrics["accuracy"] < 0.6
    assert noisy.noise == {"text": 1.0, "missing-image": 1.0}
    task = NodeClassification(planted(tmp_path / "two"), ENCODER, noise={"labels": 0.4})
    train = task.ids["train"]
    assert float((task.shown[train] != task.y[train]).float().mean()) == pytest.approx(
        0.4, abs=0.01
    )
    for split in ("validation", "test"):
        assert torch.equal(task.shown[task.ids[split]], task.y[task.ids[split]])
    one, two = (Noise({"text": 0.5}, ["text"], seed).rows("text", 90) for seed in (0, 1))
    assert not np.array_equal(one, two)


@pytest.mark.parametrize(
    ("shares", "line"),
    [
        ({"txt": 0.3}, "unknown noise 'txt'. Did you mean text"),
        ({"text": 1.5}, "text=1.5 is no share"),
        ({"edges": -1.0}, "edges=-1.0 is no share. Give 0 or more"),
        ({"labels": float("nan")}, "labels=nan is no share"),
    ],
)
def test_bad_noise_is_one_line(shares: dict[str, float], line: str) -> None:
    with pytest.raises(MaghubError) as caught:
        Noise(shares, ["text", "image"], 0)
    assert line in caught.value.line()


@pytest.mark.parametrize("kind", ["image", "missing-image"])
def test_noise_of_a_modality_that_is_no_input_says_so(kind: str) -> None:
    with pytest.raises(MaghubError, match=f"noise {kind} damages image, which is no input"):
        Noise({kind: 0.5}, ["text"], 0)


class _ModelConfig(ModelConfig):
    both: int = 1


class _TaskConfig(TaskConfig):
    both: int = Field(default=2, ge=0)


def test_settings_find_their_side_and_later_ones_win() -> None:
    model, task = resolve(
        _ModelConfig, _TaskConfig, {"hidden": 5, "lr": "1e-3"}, {"hidden": "7", "task.both": 4}
    )
    assert (model.hidden, task.lr, task.both, model.both) == (7, 1e-3, 4, 1)
    for given_, line in {
        "hiden": "unknown setting 'hiden'. Did you mean hidden",
        "model.lr": "unknown setting of the model 'lr'",
        "both": "write model.both or task.both",
    }.items():
        with pytest.raises(MaghubError) as caught:
            resolve(_ModelConfig, _TaskConfig, {given_: 1})
        assert line.lower() in caught.value.line().lower()
    with pytest.raises(MaghubError, match="epochs='many'"):
        resolve(_ModelConfig, _TaskConfig, {"epochs": "many"})


def test_every_preset_fits_every_model_and_task_it_names() -> None:
    tasks = {name: registry.get("tasks", name) for name in registry.names("tasks")}
    kinds = {name: registry.get("models", name) for name in registry.names("models")}
    encoders = [name for name, kind in kinds.items() if issubclass(kind, Model)]
    checked = 0
    for name, preset in PRESETS.items():
        models = preset.models or encoders
        for model in models:
            for task in preset.only_tasks or ("node-classification", "link-prediction"):
                chosen = preset_settings(name, model, task)
                resolve(kinds[model].Config, tasks[task].Config, chosen)
                checked += 1
    assert checked > 30


def test_names_of_settings_are_ambiguous_nowhere() -> None:
    """So that --set hidden=256 always means one thing."""
    for model in registry.names("models"):
        for task in registry.names("tasks"):
            kind = registry.get("tasks", task)
            if not hasattr(kind, "Config"):
                continue
            fields = set(registry.get("models", model).Config.model_fields)
            assert not fields & set(kind.Config.model_fields), (model, task)


def test_cheap_talk_about_presets_is_one_line() -> None:
    for name, model, task, line in [
        ("planetiod", "gcn", "node-classification", "Did you mean planetoid"),
        ("planetoid", "gcn", "link-prediction", "not for link-prediction"),
        ("planetoid", "revgat", "node-classification", "says nothing of revgat"),
    ]:
        with pytest.raises(MaghubError) as caught:
            preset_settings(name, model, task)
        assert line in caught.value.line()
