"""Planetoid's Python 2 pickles, read without scipy and pickle."""

from __future__ import annotations

import pickle
import shutil
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from mutants import Malicious, check_survives

from maghub.builders._formats.planetoid import read_planetoid
from maghub.errors import MaghubError

sparse = pytest.importorskip("scipy.sparse")


def undirected(graph) -> np.ndarray:
    pairs = np.stack([graph.src, graph.dst])
    return np.unique(np.sort(pairs[:, graph.src != graph.dst], axis=0), axis=1)


def test_real_cora(real):
    cora = read_planetoid(real / "planetoid", "cora")
    assert cora.num_nodes == 2708
    assert len(cora.src) == 10858
    assert len(np.unique(np.stack([cora.src, cora.dst]), axis=1).T) == 10556
    assert undirected(cora).shape[1] == 5278
    assert (cora.src == cora.dst).sum() == 0
    assert [len(part) for part in (cora.train, cora.validation, cora.test)] == [140, 500, 1000]
    assert 2708 - 140 - 500 - 1000 == 1068  # unassigned
    assert cora.features.shape == (2708, 1433)
    assert np.bincount(cora.labels).tolist() == [351, 217, 418, 818, 426, 298, 180]
    assert len(cora.without_data) == 0


def test_real_citeseer_keeps_the_fifteen_nodes_without_data(real):
    citeseer = read_planetoid(real / "planetoid", "citeseer")
    assert citeseer.num_nodes == 3327
    assert len(citeseer.src) == 9464
    assert (citeseer.src == citeseer.dst).sum() == 248
    pairs = undirected(citeseer)
    assert pairs.shape[1] == 4552
    assert len(np.setdiff1d(np.arange(3327), pairs)) == 48  # isolated
    assert citeseer.without_data.tolist() == [
        2407, 2489, 2553, 2682, 2781, 2953, 3042, 3063, 3212, 3214, 3250, 3292, 3305, 3306, 3309,
    ]  # fmt: skip
    assert (citeseer.labels == -1).nonzero()[0].tolist() == citeseer.without_data.tolist()
    dense = np.concatenate(list(citeseer.features.blocks(1000)))
    assert not dense[citeseer.without_data].any()
    assert [len(p) for p in (citeseer.train, citeseer.validation, citeseer.test)] == [
        120,
        500,
        1000,
    ]


def test_real_features_agree_with_scipy(real):
    folder = real / "planetoid"
    cora = read_planetoid(folder, "cora")
    dense = np.concatenate(list(cora.features.blocks(700)))
    order = [int(line) for line in (folder / "ind.cora.test.index").read_text().split()]

    def matrix(part: str):  # ours to trust: the checksum is in the manifest
        return pickle.loads((folder / f"ind.cora.{part}").read_bytes(), encoding="latin1")

    assert (dense[:1708] == matrix("allx").toarray()).all()
    assert (dense[order] == matrix("tx").toarray()).all()
    assert (cora.labels[order] == matrix("ty").argmax(axis=1)).all()


def write(folder: Path, name: str = "tiny", **changes: object) -> None:
    """Eight nodes after 600: ids 600..607 are test nodes, 603 is missing from test.index."""
    rng = np.random.default_rng(0)
    known, test = 600, [604, 600, 607, 601, 602, 605, 606]

    def features(rows: int):
        return sparse.csr_matrix((rng.random((rows, 5)) < 0.3).astype(np.float32))

    graph = defaultdict(
        list, {node: [(node + 1) % 608, node - 1 if node else 607] for node in range(608)}
    )
    parts = {
        "x": features(20), "tx": features(len(test)), "allx": features(known),
        "y": np.eye(3, dtype=np.int32)[rng.integers(0, 3, 20)],
        "ty": np.eye(3, dtype=np.int32)[rng.integers(0, 3, len(test))],
        "ally": np.eye(3, dtype=np.int32)[rng.integers(0, 3, known)],
        "graph": graph, **changes,
    }  # fmt: skip
    for part, item in parts.items():
        data = item if isinstance(item, bytes) else pickle.dumps(item, 2)
        (folder / f"ind.{name}.{part}").write_bytes(data)
    (folder / f"ind.{name}.test.index").write_text("\n".join(map(str, test)) + "\n")


def test_a_gap_in_the_test_ids(tmp_path):
    write(tmp_path)
    graph = read_planetoid(tmp_path, "tiny")
    assert graph.without_data.tolist() == [603]
    assert graph.labels[603] == -1
    assert graph.test.tolist() == [600, 601, 602, 604, 605, 606, 607]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": np.ones((20, 3), np.int32)}, "ind.tiny.y: has a row that is not one-hot"),
        ({"ty": np.eye(3)[[0, 1]]}, "2 rows where the other files have 7"),
        ({"graph": {0: [1]}}, "has a neighbour outside the 1 nodes"),
        ({"graph": {0: ["a"]}}, "neighbours of node 0: expected an integer"),
        ({"graph": {1: []}}, "has 1 nodes but no node 0"),
        ({"graph": [1]}, "does not hold an adjacency list"),
        ({"allx": np.ones((3, 3))}, "ind.tiny.allx: does not hold a sparse matrix"),
        ({"ally": b"<html>"}, "not a pickle"),
    ],
)
def test_wrong_contents(tmp_path, changes, message):
    write(tmp_path, **changes)
    with pytest.raises(MaghubError, match=message):
        read_planetoid(tmp_path, "tiny")


def test_all_missing_files_are_named_at_once(tmp_path):
    write(tmp_path)
    (tmp_path / "ind.tiny.ty").unlink()
    (tmp_path / "ind.tiny.graph").unlink()
    with pytest.raises(MaghubError, match=r"missing: ind\.tiny\.ty, ind\.tiny\.graph"):
        read_planetoid(tmp_path, "tiny")


@pytest.mark.parametrize("part", ["y", "allx", "ally", "tx", "ty", "graph"])
def test_a_malicious_pickle_is_refused_and_not_executed(tmp_path, part):
    write(tmp_path, **{part: [Malicious(tmp_path / "executed")]})
    with pytest.raises(MaghubError, match="refusing the object"):
        read_planetoid(tmp_path, "tiny")
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("part", ["allx", "ty", "graph", "test.index"])
def test_mutants(tmp_path, part):
    write(tmp_path)
    path = tmp_path / f"ind.tiny.{part}"
    if part == "allx":  # a small one, so that mutations hit the structure
        path.write_bytes(pickle.dumps(sparse.csr_matrix(np.eye(600, 5, dtype=np.float32)), 2))
    check_survives(
        lambda _: read_planetoid(tmp_path, "tiny"), path.read_bytes(), path, count=80, seed=5,
        names="ind.tiny",  # a wrong number of rows may be told of the other file
    )  # fmt: skip
    shutil.rmtree(tmp_path)
