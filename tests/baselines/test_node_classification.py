"""Node classification on graphs whose answer is known: features or neighbours decide."""

from pathlib import Path
from typing import Any

import pytest

from maghub import registry
from maghub.errors import MaghubError
from maghub.running import run
from tests.helpers.graphs import Toy, random_toy, write_toy
from tests.helpers.planted import ENCODER, communities, planted

TASK = "node-classification"
SMALL = {"hidden": 16, "epochs": 40, "lr": 0.01, "batch_size": None, "eval_every": 1}


def accuracy(folder: Path, model: str, seeds: int | list[int] = 1, **settings: Any) -> float:
    chosen = {**SMALL, **settings}
    records = run(model, folder, TASK, encoder=ENCODER, seeds=seeds, settings=chosen)
    return sum(record.metrics["accuracy"] for record in records) / len(records)


def test_mlp_reads_features_and_gcn_averages_noise_away(tmp_path: Path) -> None:
    planted(tmp_path / "clean", 0.05)
    planted(tmp_path / "noisy", 1.5)
    assert accuracy(tmp_path / "clean", "mlp") > 0.95
    assert accuracy(tmp_path / "noisy", "gcn") > accuracy(tmp_path / "noisy", "mlp") + 0.1


@pytest.mark.parametrize("model", ["mlp", "gcn"])
@pytest.mark.parametrize("batch_size", [None, 32])
def test_shuffled_labels_stay_at_chance(tmp_path: Path, model: str, batch_size: int | None) -> None:
    planted(tmp_path / "shuffled", 0.05, shuffle=True, n=480)
    # 120 test nodes of three equal classes: five standard errors are 0.22.
    assert accuracy(tmp_path / "shuffled", model, batch_size=batch_size) < 1 / 3 + 0.22


def test_mini_batches_learn_what_the_full_batch_learns(tmp_path: Path) -> None:
    planted(tmp_path / "noisy", 1.0)
    settings = {"epochs": 15, "batch_size": 16, "fanout": 5}
    assert accuracy(tmp_path / "noisy", "graphsage", **settings) > 0.9


def test_same_seed_same_record_another_seed_another(tmp_path: Path) -> None:
    planted(tmp_path / "noisy", 1.5)
    settings = {**SMALL, "batch_size": 32, "epochs": 3}
    one, two, other = (
        run("gcn", tmp_path / "noisy", encoder=ENCODER, seeds=[seed], settings=settings)[0]
        for seed in (3, 3, 4)
    )
    same = {"seconds": 0, "train_seconds": 0, "peak_cpu_bytes": 0}
    assert one.model_copy(update=same) == two.model_copy(update=same)
    assert one.validation != other.validation
    assert one.model_settings["hidden"] == 16
    assert one.task_settings["batch_size"] == 32
    assert one.encoders == ENCODER
    assert one.controls["chance"] == pytest.approx(1 / 3)
    assert one.controls["majority"] == pytest.approx(1 / 3, abs=0.15)
    assert set(one.dataset.checksums) >= {"nodes", "edges", "node-splits"}


def test_labels_without_a_split_are_never_read(tmp_path: Path) -> None:
    """Changing the labels of nodes outside train changes no weight; unassigned ones no metric."""
    toy = communities(noise=1.0)
    toy.codes = [3 if i % 5 == 0 else code for i, code in enumerate(toy.codes or [])]
    write_toy(toy, tmp_path / "one")
    assert toy.labels is not None
    changed = [(y + 1) % 3 if c == 3 else y for y, c in zip(toy.labels, toy.codes, strict=True)]
    write_toy(
        Toy(**{**toy.__dict__, "labels": changed}),
        tmp_path / "two",
    )
    a, b = (
        run("gcn", tmp_path / name, encoder=ENCODER, seeds=1, settings={**SMALL, "epochs": 5})[0]
        for name in ("one", "two")
    )
    assert (a.metrics, a.validation) == (b.metrics, b.validation)


def test_one_modality_alone_and_both(tmp_path: Path) -> None:
    toy = communities(noise=0.1)
    toy.vectors["image"] = toy.vectors["image"][::-1].copy() * 0 + 0.01  # tells nothing
    write_toy(toy, tmp_path / "toy")
    scores = {
        modality: run(
            "mlp", tmp_path / "toy", encoder=ENCODER, modalities=[modality], seeds=1, settings=SMALL
        )[0].metrics["accuracy"]
        for modality in ("text", "image")
    }
    assert scores["text"] > 0.95
    assert scores["image"] < 0.6


def test_what_a_dataset_lacks_is_named_with_the_command_that_makes_it(tmp_path: Path) -> None:
    mag = planted(tmp_path / "toy", 0.05)
    task = registry.get("tasks", TASK)
    with pytest.raises(MaghubError, match=r"maghub encode .* --encoder plantet"):
        task(mag, {"text": "plantet"})
    toy = random_toy()
    toy.labels = None
    write_toy(toy, tmp_path / "unlabelled")
    with pytest.raises(MaghubError, match="has no node labels"):
        run("mlp", tmp_path / "unlabelled", encoder="toy-encoder", seeds=1)
    toy = random_toy()
    toy.codes = None
    write_toy(toy, tmp_path / "unsplit")
    with pytest.raises(MaghubError, match="has no node-splits"):
        run("mlp", tmp_path / "unsplit", encoder="toy-encoder", seeds=1)
    toy = random_toy()
    toy.codes = [2] * toy.n
    write_toy(toy, tmp_path / "test-only")
    with pytest.raises(MaghubError, match="no labelled training node"):
        run("mlp", tmp_path / "test-only", encoder="toy-encoder", seeds=1)


def test_isolated_nodes_an_empty_edge_set_and_one_node_work(tmp_path: Path) -> None:
    toy = communities(n=60)
    toy.edges, toy.negatives = [], None
    write_toy(toy, tmp_path / "edgeless")
    single = Toy(["one"], [0], None, [], [0], {"text": communities(n=60).vectors["text"][:1]}, None)
    write_toy(single, tmp_path / "single")
    for batch_size in (None, 8):
        settings = {**SMALL, "epochs": 2, "batch_size": batch_size}
        for model in ("gcn", "gat", "graphsage", "mlp"):
            assert accuracy(tmp_path / "edgeless", model, epochs=2, batch_size=batch_size) >= 0
            (record,) = run(model, tmp_path / "single", seeds=1, settings=settings)
            assert record.metrics == {}  # one training node and nothing to measure
