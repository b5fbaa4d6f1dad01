"""Node clustering: communities are found without labels, and labels are only measured against."""

from pathlib import Path

import numpy as np
import pytest
import torch

from maghub import layout, registry
from maghub.baselines.tasks.node_clustering import NodeClustering, NodeClusteringConfig
from maghub.baselines.training.loop import fit, seed_torch
from maghub.errors import MaghubError
from maghub.running import run
from tests.helpers.graphs import random_toy, write_toy
from tests.helpers.planted import ENCODER, communities, planted

TASK = "node-clustering"
SMALL = {"hidden": 16, "layers": 2, "epochs": 20}


def test_communities_are_found_and_shuffled_labels_are_not(tmp_path: Path) -> None:
    planted(tmp_path / "toy", 0.3)
    planted(tmp_path / "shuffled", 0.3, shuffle=True)
    found, control = (
        run("gcn", tmp_path / name, TASK, encoder=ENCODER, seeds=1, settings=SMALL)[0]
        for name in ("toy", "shuffled")
    )
    assert found.metrics["nmi"] > 0.9
    assert found.metrics["clustering_accuracy"] > 0.95
    assert control.metrics["nmi"] < 0.1
    assert abs(control.metrics["ari"]) < 0.1
    assert found.validation == {}
    assert found.epoch == SMALL["epochs"]  # the last one: nothing was chosen


def test_labels_change_no_weight(tmp_path: Path) -> None:
    toy = communities()
    write_toy(toy, tmp_path / "one")
    assert toy.labels is not None
    toy.labels = toy.labels[::-1]
    write_toy(toy, tmp_path / "two")
    states = []
    for name in ("one", "two"):
        from maghub.loading import load

        config = NodeClusteringConfig(epochs=3)
        task = NodeClustering(load(tmp_path / name), ENCODER, config)
        kind = registry.get("models", "gcn")
        seed_torch(0, "weights")
        step = task.step(kind(task.features.dims, 16, kind.Config(hidden=16)))
        fit(task, step)
        states.append(step.state_dict())
    for name, tensor in states[0].items():
        assert torch.equal(tensor, states[1][name])


def test_only_labelled_nodes_are_measured_and_test_alone(tmp_path: Path) -> None:
    toy = communities(noise=0.1)
    assert toy.labels is not None
    toy.labels = [None if i % 2 else y for i, y in enumerate(toy.labels)]
    write_toy(toy, tmp_path / "toy")
    from maghub.loading import load

    task = NodeClustering(load(tmp_path / "toy"), ENCODER)
    kind = registry.get("models", "mlp")
    step = task.step(kind(task.features.dims, 16, kind.Config(hidden=16))).eval()
    assert task.evaluate(step, layout.VALIDATION) == {}
    found = task.clusters(np.eye(3, dtype=np.float32)[np.arange(toy.n) % 3])
    assert len(set(zip(found.tolist(), (np.arange(toy.n) % 3).tolist(), strict=True))) == 3


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    toy = random_toy()
    toy.labels = None
    write_toy(toy, tmp_path / "toy")
    with pytest.raises(MaghubError, match="has no node labels"):
        run("mlp", tmp_path / "toy", TASK, encoder="toy-encoder", seeds=1, settings=SMALL)
    planted(tmp_path / "good")
    with pytest.raises(MaghubError, match="whole graph"):
        run("mlp", tmp_path / "good", TASK, seeds=1, settings={**SMALL, "batch_size": 5})


@pytest.mark.parametrize("model", ["mlp", "gcn"])
def test_no_edges_and_fewer_nodes_than_classes_work(tmp_path: Path, model: str) -> None:
    toy = communities(n=60)
    toy.edges, toy.negatives = [], None
    write_toy(toy, tmp_path / "edgeless")
    settings = {**SMALL, "epochs": 2}
    (record,) = run(model, tmp_path / "edgeless", TASK, encoder=ENCODER, seeds=1, settings=settings)
    assert 0 <= record.metrics["nmi"] <= 1
    toy = communities(n=60)
    two = type(toy)(
        ["a", "b"], [0, 2], None, [(0, 1, 0)], [0, 0], {"text": toy.vectors["text"][:2]}, None
    )
    write_toy(two, tmp_path / "two")
    (record,) = run(model, tmp_path / "two", TASK, seeds=1, settings=settings)
    assert record.metrics["nmi"] in (0, 1)  # joined nodes may look alike
