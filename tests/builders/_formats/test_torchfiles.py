"""``torch.save`` files and those of MM-Graph, read without torch; torch itself is the reference."""

from __future__ import annotations

import tracemalloc
import zipfile
from pathlib import Path

import pytest
from mutants import Malicious, check_survives

from maghub.builders._formats import torchfiles
from maghub.builders._formats.features import open_features
from maghub.errors import MaghubError

torch = pytest.importorskip("torch")
BOTH = pytest.mark.parametrize("new", [True, False], ids=["zip", "legacy"])


def save(item: object, path: Path, new: bool = True) -> Path:
    torch.save(item, path, _use_new_zipfile_serialization=new)
    return path


@BOTH
@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]
)
def test_tensors_of_every_type(tmp_path, new, dtype):
    tensor = torch.arange(12).reshape(3, 4).to(getattr(torch, dtype))
    array = torchfiles.read_torch(save(tensor, tmp_path / "x.pt", new))
    assert array.dtype == tensor.numpy().dtype
    assert (array == tensor.numpy()).all()
    assert not array.flags.writeable


@BOTH
def test_views_and_shared_storages(tmp_path, new):
    base = torch.arange(60).reshape(6, 10)
    item = {"a": base, "b": base.T, "c": base[1:4, 2:5], "d": base[:0], "e": torch.tensor(3)}
    loaded = torchfiles.read_torch(save(item, tmp_path / "x.pt", new))
    for key, tensor in item.items():
        assert loaded[key].shape == tuple(tensor.shape)
        assert (loaded[key] == tensor.numpy()).all()


def test_a_feature_file_is_mapped_not_read(tmp_path):
    torch.save(torch.ones(1000, 512), tmp_path / "clip_feat.pt")
    tracemalloc.start()
    features = open_features(tmp_path / "clip_feat.pt", 1000)
    assert tracemalloc.get_traced_memory()[1] < 200_000
    tracemalloc.stop()
    text, image = features.halves()
    assert (text.shape, image.shape) == ((1000, 256), (1000, 256))
    assert sum(len(block) for block, _ in image.blocks(300)) == 1000


def test_the_file_of_mm_graph(tmp_path):
    edges = [[0, 1], [1, 0], [1, 0], [2, 2], [70000, 3]] * 100
    labels = [3, 0, 1] * 50
    assert torchfiles.read_edges(save(edges, tmp_path / "e.pt"), 70001).tolist() == edges
    assert torchfiles.read_edges(save(torch.tensor(edges), tmp_path / "e.pt")).tolist() == edges
    assert torchfiles.read_labels(save(labels, tmp_path / "l.pt"), 150).tolist() == labels
    assert torchfiles.read_labels(save([-1, 2], tmp_path / "l.pt")).tolist() == [-1, 2]
    split = {"train_idx": list(range(300)), "val_idx": [301], "test_idx": [300, 302]}
    read = torchfiles.read_split(save(split, tmp_path / "s.pt"), 303)
    assert {key: len(value) for key, value in read.items()} == {
        "train": 300, "validation": 1, "test": 2,
    }  # fmt: skip
    mapping = {"B000": 1, 77: 0, "été": 2}
    assert torchfiles.read_node_mapping(save(mapping, tmp_path / "m.pt"), 3) == {
        "B000": 1, "77": 0, "été": 2,
    }  # fmt: skip


def edge_split(**changes: object) -> dict[str, dict[str, object]]:
    ends = {"source_node": torch.tensor([0, 1]), "target_node": torch.tensor([2, 3])}
    negatives = {"target_node_neg": torch.tensor([[1, 2, 3], [0, 2, 1]])}
    held_out = {**ends, **negatives, **changes}
    return {"train": ends, "valid": held_out, "test": held_out}


def test_edge_splits(tmp_path):
    parts = torchfiles.read_edge_split(save(edge_split(), tmp_path / "lp-edge-split.pt"), 4)
    assert list(parts) == ["train", "validation", "test"]
    assert parts["train"].negatives is None
    assert parts["test"].source.tolist() == [0, 1]
    assert parts["test"].negatives.tolist() == [[1, 2, 3], [0, 2, 1]]


@pytest.mark.parametrize(
    ("read", "item", "message"),
    [
        ("read_edges", [[0, 1], [1, 4]], "edges, row 1: not one of the 4 nodes"),
        ("read_edges", [[0, 1, 2]], "edges: expected a pair of integers"),
        ("read_edges", {"a": 1}, "edges: expected a list of integers, found a dict"),
        ("read_labels", [0, 1], "2 labels for 4 nodes"),
        ("read_labels", [0.5] * 4, "expected an integer, found a float"),
        ("read_split", {"train_idx": [1], "val_idx": [1], "test_idx": [2]}, "split twice"),
        ("read_split", {"train_idx": [1], "val_idx": [9], "test_idx": [2]}, "val_idx, row 0: not"),
        ("read_split", {"train_idx": [1]}, "has no val_idx"),
        ("read_split", [1], "expected a dictionary, found a list"),
        ("read_node_mapping", {"a": 0, "b": 0}, "two raw ids map to one node"),
        ("read_node_mapping", {"a": 4}, "'a' maps to something that is not a node"),
        ("read_edge_split", {"train": {}}, "part 'train' has no source_node"),
        ("read_edge_split", edge_split(target_node=torch.tensor([1])), "different lengths"),
        ("read_edge_split", edge_split(target_node=torch.tensor([1, 9])), "row 1: not one of"),
        ("read_edge_split", edge_split(target_node_neg=torch.ones(2)), "two-dimensional tensor"),
    ],
)
def test_wrong_contents(tmp_path, read, item, message):
    path = save(item, tmp_path / "file.pt")
    with pytest.raises(MaghubError, match=message) as caught:
        getattr(torchfiles, read)(path, 4)
    assert str(path) in caught.value.line()


@BOTH
def test_a_malicious_file_is_refused_and_not_executed(tmp_path, new):
    marker = tmp_path / "executed"
    path = save({"x": torch.ones(2), "y": Malicious(marker)}, tmp_path / "evil.pt", new)
    for read in (
        torchfiles.read_torch, torchfiles.read_feature_tensor, torchfiles.read_labels,
        torchfiles.read_edges, torchfiles.read_split, torchfiles.read_edge_split,
        torchfiles.read_node_mapping, open_features,
    ):  # fmt: skip
        with pytest.raises(MaghubError, match="refusing the object"):
            read(path)
    assert not marker.exists()


@BOTH
def test_objects_are_refused(tmp_path, new):
    for item in (torch.nn.Linear(2, 2), torch.bfloat16, torch.ones(2, dtype=torch.bfloat16)):
        with pytest.raises(MaghubError, match=r"refusing|damaged"):
            torchfiles.read_torch(save(item, tmp_path / "x.pt", new))


def test_an_expanded_tensor_is_refused(tmp_path):
    huge = torch.ones(1).expand(1 << 40)
    with pytest.raises(MaghubError, match="does not fit its 1 values"):
        torchfiles.read_torch(save(huge, tmp_path / "x.pt"))


def test_a_compressed_record_is_refused(tmp_path):
    torch.save(torch.ones(64), tmp_path / "x.pt")
    with (
        zipfile.ZipFile(tmp_path / "x.pt") as old,
        zipfile.ZipFile(tmp_path / "y.pt", "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    with pytest.raises(MaghubError, match="compressed"):
        torchfiles.read_torch(tmp_path / "y.pt")


@pytest.mark.parametrize("data", [b"", b"<html>", b"PK\x03\x04", b"\x80\x02N.", b"\x80\x04\x95"])
def test_other_files(tmp_path, data):
    (tmp_path / "x.pt").write_bytes(data)
    with pytest.raises(MaghubError):
        torchfiles.read_torch(tmp_path / "x.pt")


@BOTH
def test_mutants(tmp_path, new):
    item = {"x": torch.arange(12.0).reshape(3, 4), "e": [[i, 300] for i in range(30)], "y": 1}
    original = save(item, tmp_path / "x.pt", new).read_bytes()
    refused = check_survives(torchfiles.read_torch, original, tmp_path / "x.pt", seed=3)
    assert refused > 500


@BOTH
@pytest.mark.parametrize(
    ("read", "item"),
    [
        ("read_edges", [[i, 300] for i in range(30)]),
        ("read_labels", [5] * 40),
        ("read_split", {"train_idx": [1, 2, 3], "val_idx": [4], "test_idx": [5, 6]}),
        ("read_edge_split", edge_split()),
        ("read_node_mapping", {"a": 0, "b": 1}),
        ("read_feature_tensor", torch.ones(4, 4)),
    ],
)
def test_mutants_of_mm_graph(tmp_path, new, read, item):
    original = save(item, tmp_path / "x.pt", new).read_bytes()
    check_survives(getattr(torchfiles, read), original, tmp_path / "x.pt", count=200, seed=4)
