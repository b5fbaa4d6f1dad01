"""A loaded graph: order, splits, negatives and exports, against the tables it was written from."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import networkx
import numpy as np
import pytest
import torch

import maghub
from maghub import layout
from maghub.errors import MaghubError
from maghub.mag import MAG
from tests.helpers.graphs import ENCODER, LABELS, RELATIONS, RULES, Toy, random_toy, write_toy

Pairs = set[tuple[int, int]]


@pytest.fixture(scope="module", params=["undirected", "directed"])
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Toy, MAG]:
    directed = request.param == "directed"
    toy = random_toy(40, seed=4, directed=directed, loops=4)
    folder = tmp_path_factory.mktemp("mag") / request.param
    write_toy(toy, folder)
    return toy, maghub.load(folder)


def pairs_of(edge_index: object) -> Pairs:
    src, dst = np.asarray(edge_index)
    return set(zip(src.tolist(), dst.tolist(), strict=True))


def both_ways(pairs: Pairs) -> Pairs:
    return pairs | {(b, a) for a, b in pairs}


def test_nodes_come_in_node_id_order_whatever_their_split(pair: tuple[Toy, MAG]) -> None:
    toy, mag = pair
    assert mag.num_nodes == toy.n
    assert mag.nodes["node_id"][:] == list(range(toy.n))
    assert mag.nodes["text"][:] == toy.texts
    assert mag.nodes["label"][:] == toy.labels
    row = mag.nodes[1]
    assert row["image"].size == (2 + 1 % 3, 2)
    assert mag.nodes[3]["image"] is None


def test_labels_and_their_names(pair: tuple[Toy, MAG]) -> None:
    toy, mag = pair
    assert toy.labels is not None
    assert mag.labels.tolist() == [-1 if label is None else label for label in toy.labels]
    assert mag.label_names == list(LABELS)


def test_edges_as_stored(pair: tuple[Toy, MAG]) -> None:
    toy, mag = pair
    assert mag.edges["edge_id"][:] == list(range(len(toy.edges)))
    assert mag.edge_index.dtype == np.int64
    assert mag.edge_index.T.tolist() == [[src, dst] for src, dst, _ in toy.edges]
    assert mag.graph.num_edges == len(toy.edges)
    assert mag.graph.unique_pairs == len({edge[:2] for edge in toy.edges})


@pytest.mark.parametrize("rule", [None, *RULES])
def test_node_splits_of_every_rule(pair: tuple[Toy, MAG], rule: str | None) -> None:
    toy, mag = pair
    assert toy.codes is not None
    codes = np.roll(toy.codes, RULES.index(rule) if rule else 0)
    splits = mag.splits(rule)
    assert list(splits) == list(layout.SPLITS)
    for code, name in enumerate(layout.SPLITS):
        assert splits[name].tolist() == np.flatnonzero(codes == code).tolist()


def test_edge_splits_cover_every_edge_once(pair: tuple[Toy, MAG]) -> None:
    toy, mag = pair
    splits = mag.edge_splits()
    assert list(splits) == ["train", "validation", "test"]
    assert sorted(np.concatenate(list(splits.values())).tolist()) == list(range(len(toy.edges)))


def test_negatives_belong_to_their_edges(pair: tuple[Toy, MAG]) -> None:
    toy, mag = pair
    edges = both_ways({edge[:2] for edge in toy.edges})
    splits, found = mag.edge_splits(), mag.negatives()
    assert list(found) == ["validation", "test"]
    for name, part in found.items():
        assert part["edge_id"].tolist() == splits[name].tolist()
        assert part["neg"].shape == (len(part["edge_id"]), toy.negatives)
        for edge, query, positive, neg in zip(*part.values(), strict=True):
            assert toy.edges[edge][:2] == (query, positive)
            assert not {(query, node) for node in neg.tolist()} & edges
    assert mag.negatives(RULES[0]).keys() == found.keys()


def test_unknown_names_get_the_nearest(pair: tuple[Toy, MAG]) -> None:
    _, mag = pair
    for call, line in (
        (
            lambda: mag.splits("publik"),
            "unknown split rule in node-splits 'publik'. Did you mean public?",
        ),
        (lambda: mag.edge_splits("publik"), "Did you mean public?"),
        (lambda: mag.negatives("publik"), "Did you mean negatives-public?"),
        (lambda: mag.features("toy-encode", "text"), "Did you mean toy-encoder?"),
        (lambda: mag.features(ENCODER, "sound"), "holds no sound vectors. It has: text, image"),
        (lambda: mag.table("edgs"), "unknown config 'edgs'. Did you mean edges"),
    ):
        with pytest.raises(MaghubError) as caught:
            call()
        assert line in str(caught.value)
        assert "\n" not in str(caught.value)


def test_every_config_as_one_table(pair: tuple[Toy, MAG]) -> None:
    _, mag = pair
    for config in mag.spec.configs:
        table = mag.table(config.name)
        assert len(table) == config.rows
        assert list(table.features) == list(config.features)
    assert repr(mag).startswith("MAG(toy: nodes 40, edges ")


def test_pyg_for_node_classification(pair: tuple[Toy, MAG]) -> None:
    toy, mag = pair
    data = mag.to_pyg(ENCODER, task="node_classification", node_rule=RULES[1])
    stored = {edge[:2] for edge in toy.edges}
    assert pairs_of(data.edge_index) == (stored if toy.directed else both_ways(stored))
    assert data.edge_index.shape[1] == len(pairs_of(data.edge_index))
    assert data.num_nodes == toy.n
    assert data.y.tolist() == mag.labels.tolist()
    masks = [data.train_mask, data.val_mask, data.test_mask]
    for code, mask in enumerate(masks):
        assert mask.dtype == torch.bool
        assert mask.tolist() == (np.roll(toy.codes, 1) == code).tolist()
    assert data.x.dtype == torch.float16
    wanted = np.concatenate([toy.vectors["text"], toy.vectors["image"]], axis=1)
    assert np.array_equal(data.x.numpy(), wanted)
    assert data.validate()


def test_encoders_are_those_whose_vectors_are_stored(pair: tuple[Toy, MAG]) -> None:
    toy, mag = pair
    assert mag.encoders == {ENCODER: {name: x.shape[1] for name, x in toy.vectors.items()}}
    for encoder, widths in mag.encoders.items():
        for modality, width in widths.items():
            assert mag.features(encoder, modality).shape == (mag.num_nodes, width)


def test_pyg_features_share_the_mapped_file(pair: tuple[Toy, MAG]) -> None:
    toy, mag = pair
    data = mag.to_pyg({"text": ENCODER}, modalities=("text",))
    assert data.x.data_ptr() == data.x_text.data_ptr()
    assert np.array_equal(data.x.numpy(), toy.vectors["text"])
    assert "x_image" not in data
    assert mag.to_pyg().x is None


def test_pyg_for_link_prediction_carries_training_messages_only(pair: tuple[Toy, MAG]) -> None:
    toy, mag = pair
    data = mag.to_pyg(task="link_prediction")
    splits = mag.edge_splits()
    by_split = {name: {toy.edges[i][:2] for i in ids.tolist()} for name, ids in splits.items()}
    train = by_split["train"]
    assert pairs_of(data.edge_index) == (train if toy.directed else both_ways(train))
    held_out = both_ways(by_split["validation"] | by_split["test"])
    assert held_out
    assert not pairs_of(data.edge_index) & held_out
    for name, short in (("train", "train"), ("validation", "val"), ("test", "test")):
        positives = data[f"{short}_edge_index"]
        assert positives.T.tolist() == [list(toy.edges[i][:2]) for i in splits[name].tolist()]
    assert "train_mask" not in data
    assert data.has_self_loops() == toy.self_loops


def test_networkx_holds_everything(pair: tuple[Toy, MAG]) -> None:
    toy, mag = pair
    graph = mag.to_networkx()
    assert isinstance(graph, networkx.MultiDiGraph if toy.directed else networkx.MultiGraph)
    assert graph.is_directed() == toy.directed
    assert list(graph.nodes) == list(range(toy.n))
    assert graph.number_of_edges() == len(toy.edges)
    assert networkx.number_of_selfloops(graph) == 4
    for node, values in graph.nodes(data=True):
        label = toy.labels[node] if toy.labels else None
        assert values == {
            "source_id": f"id {node}",
            "text": toy.texts[node],
            "label": None if label is None else LABELS[label],
            "year": None if node % 2 else node,
        }
    found = {(*sorted((a, b)), d["relation"]) for a, b, d in graph.edges(data=True)}
    assert found == {(*sorted((a, b)), RELATIONS[r]) for a, b, r in toy.edges}


def test_networkx_is_simple_where_no_pair_has_two_edges(tmp_path: Path) -> None:
    toy = random_toy(20, seed=2)
    toy.edges = sorted({(a, b): (a, b, r) for a, b, r in toy.edges}.values())
    write_toy(toy, tmp_path / "toy")
    graph = maghub.load(tmp_path / "toy").to_networkx()
    assert type(graph) is networkx.Graph
    assert graph.number_of_edges() == len(toy.edges)


def test_a_graph_without_edges_labels_or_splits(tmp_path: Path) -> None:
    toy = Toy(texts=["a", "b"], labels=None, images=None, edges=[], negatives=None)
    write_toy(toy, tmp_path / "toy")
    mag = maghub.load(tmp_path / "toy")
    assert mag.edge_index.shape == (2, 0)
    assert mag.message_edges("node_classification").shape == (2, 0)
    assert mag.to_networkx().number_of_nodes() == 2
    assert mag.label_names == []
    for call, line in (
        (lambda: mag.labels, "has no node labels"),
        (lambda: mag.to_pyg(), "has no node labels"),
        (lambda: mag.splits(), "toy has no node-splits"),
        (lambda: mag.to_pyg(task="link_prediction"), "toy has no edge-splits"),
        (lambda: mag.negatives(), "toy has no negatives"),
        (lambda: mag.features(ENCODER, "text"), "maghub encode"),
    ):
        with pytest.raises(MaghubError, match=line):
            call()


def test_unassigned_nodes_are_in_no_mask_and_absent_splits_are_empty(tmp_path: Path) -> None:
    toy = random_toy(20, seed=3)
    toy = dataclasses.replace(toy, codes=[0] * 10 + [3] * 10)
    write_toy(toy, tmp_path / "toy")
    mag = maghub.load(tmp_path / "toy")
    assert list(mag.splits()) == ["train", "unassigned"]
    data = mag.to_pyg()
    assert data.train_mask.tolist() == [True] * 10 + [False] * 10
    assert not data.val_mask.any()
    assert not data.test_mask.any()


def test_link_prediction_without_training_edges_sends_no_messages(
    pair: tuple[Toy, MAG], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, mag = pair
    test = {"test": np.arange(mag.edge_index.shape[1])}
    monkeypatch.setattr(MAG, "edge_splits", lambda self, rule=None: test)
    assert mag.message_edges("link_prediction").shape == (2, 0)


def test_edges_and_features_are_read_without_loading_images(
    pair: tuple[Toy, MAG], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, opened = pair
    mag = MAG(opened.folder, opened.spec)
    monkeypatch.setattr(
        "datasets.load_dataset", lambda *a, **k: pytest.fail("went through datasets")
    )
    assert mag.edge_index.size
    assert mag.labels.size
    assert mag.features(ENCODER, "text").size
    assert mag.to_pyg(ENCODER).num_edges


def test_a_task_is_named_with_hyphen_or_underscore_and_never_guessed(tmp_path: Path) -> None:
    write_toy(random_toy(30, seed=4), tmp_path / "toy")
    mag = maghub.load(tmp_path / "toy")
    same = mag.to_pyg(task="link-prediction").edge_index
    assert torch.equal(same, mag.to_pyg(task="link_prediction").edge_index)
    for wrong in ("link_predicton", "zzz"):
        with pytest.raises(MaghubError, match="unknown task"):
            mag.to_pyg(task=wrong)
        with pytest.raises(MaghubError, match="unknown task"):
            mag.message_edges(wrong)


@pytest.mark.parametrize(
    "name", [None, "", "  ", 3, "x" * 5000, "a/" * 3000, "a/" + "x" * 300, "a\0b", "\ud800"]
)
def test_what_is_no_name_is_refused(name: object) -> None:
    with pytest.raises(MaghubError, match="is no dataset"):
        maghub.load(name)
