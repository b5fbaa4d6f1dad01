"""Numbering the nodes differently changes no metric of any task."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maghub import layout
from maghub.mag import MAG
from maghub.running import run
from tests.helpers.graphs import Toy, write_toy
from tests.helpers.planted import ENCODER, communities, planted

SETTINGS: dict[str, dict[str, Any]] = {
    "node-classification": {"batch_size": None, "epochs": 8, "eval_every": 1},
    "link-prediction": {"batch_size": None, "epochs": 4, "eval_every": 1, "lr": 1e-9},
    "node-clustering": {"epochs": 4, "lr": 1e-9},
}


def renumbered(toy: Toy, order: np.ndarray) -> Toy:
    """The toy with node ``order[i]`` called i."""
    place = np.argsort(order)
    assert toy.labels is not None
    assert toy.codes is not None
    edges = []
    for a, b, relation in toy.edges:
        low, high = sorted((int(place[a]), int(place[b])))
        edges.append((low, high, relation))
    return replace(
        toy,
        texts=[toy.texts[i] for i in order],
        labels=[toy.labels[i] for i in order],
        codes=[toy.codes[i] for i in order],
        vectors={m: x[order] for m, x in toy.vectors.items()},
        edges=edges,
    )


def renumbered_splits(mag: MAG, other: MAG, order: np.ndarray) -> None:
    """Give ``other`` the edge splits and negatives of ``mag`` in its own numbers."""
    place = np.argsort(order)
    edges = [tuple(sorted(pair)) for pair in other.edge_index.T.tolist()]
    spot = {pair: i for i, pair in enumerate(edges)}
    own = np.array([spot[tuple(sorted(pair))] for pair in place[mag.edge_index].T.tolist()])
    splits = {name: own[ids] for name, ids in mag.edge_splits().items()}
    negatives = {}
    for split, part in mag.negatives().items():
        ids = {column: place[part[column]] for column in ("query", "positive", "neg")}
        negatives[split] = {**part, **ids, "edge_id": own[part["edge_id"]]}
    other.edge_splits = lambda rule=None: splits  # type: ignore[method-assign]
    other.negatives = lambda rule=None: negatives  # type: ignore[method-assign]


@pytest.mark.parametrize("model", ["mlp", "gcn", "gat", "graphsage", "gin", "chebnet", "gcnii"])
@pytest.mark.parametrize("task", SETTINGS)
def test_a_permutation_of_node_ids_changes_no_metric(
    tmp_path: Path, task: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dropout off and the whole graph at once: what is left depends on the graph alone.

    Training negatives are drawn by node number, so links and clusters are measured with weights as
    they were drawn (the smallest of learning rates).
    """
    toy = communities(noise=0.8)
    order = np.random.default_rng(1).permutation(toy.n)
    write_toy(toy, tmp_path / "one")
    write_toy(renumbered(toy, order), tmp_path / "two")
    mags = {str(tmp_path / name): MAG(*_opened(tmp_path / name)) for name in ("one", "two")}
    renumbered_splits(*mags.values(), order)
    monkeypatch.setattr("maghub.baselines.run.load", lambda name: mags[str(name)])
    settings = {**SETTINGS[task], "hidden": 16, "layers": 2, "dropout": 0}
    settings |= {"attention_dropout": 0} if model == "gat" else {}
    one, two = (
        run(model, folder, task, encoder=ENCODER, seeds=1, settings=settings)[0] for folder in mags
    )
    assert one.metrics == pytest.approx(two.metrics, abs=1e-6)
    assert one.validation == pytest.approx(two.validation, abs=1e-6)


def _opened(folder: Path) -> tuple[Path, Any]:
    from maghub.spec import read_spec

    return folder, read_spec(folder)


def test_the_helper_really_renumbers(tmp_path: Path) -> None:
    mag = planted(tmp_path / "one")
    toy = communities()
    order = np.arange(toy.n)[::-1].copy()
    write_toy(renumbered(toy, order), tmp_path / "two")
    other = MAG(*_opened(tmp_path / "two"))
    assert np.array_equal(other.labels, mag.labels[order])
    renumbered_splits(mag, other, order)
    first = mag.edge_index[:, mag.edge_splits()[layout.TEST]]
    second = other.edge_index[:, other.edge_splits()[layout.TEST]]
    assert {frozenset(p) for p in order[second].T.tolist()} == {
        frozenset(p) for p in first.T.tolist()
    }
