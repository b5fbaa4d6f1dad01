""".npy, .npz, gnn-benchmark graphs, and features with NaN in them."""

from __future__ import annotations

import struct
import zipfile

import numpy as np
import pytest
from mutants import Malicious, check_survives

from maghub.builders._formats.features import open_features
from maghub.builders._formats.npz import read_gnn_benchmark, read_npy, read_npz
from maghub.errors import MaghubError


def test_real_gnn_benchmark(real):
    cora = read_gnn_benchmark(real / "gnn_benchmark_npz" / "cora.npz")
    assert cora.adjacency.shape == (2708, 2708)
    assert len(cora.adjacency.indices) == 5429
    assert cora.features.shape == (2708, 1433)
    assert cora.class_names == sorted(cora.class_names)
    assert np.bincount(cora.labels).tolist() == [298, 418, 818, 426, 217, 180, 351]
    assert len(set(cora.node_names)) == 2708
    assert cora.node_names[:2] == ["1000012", "100197"]

    citeseer = read_gnn_benchmark(real / "gnn_benchmark_npz" / "citeseer.npz")
    assert citeseer.adjacency.shape == (3312, 3312)
    assert len(citeseer.adjacency.indices) == 4715
    rows = np.repeat(np.arange(3312), np.diff(citeseer.adjacency.indptr))
    assert (rows == citeseer.adjacency.indices).sum() == 124  # self loops


def test_real_npz_agrees_with_numpy(real):
    path = real / "gnn_benchmark_npz" / "cora.npz"
    arrays = read_npz(path)
    with np.load(path, allow_pickle=False) as reference:
        assert set(arrays) == set(reference)
        for name in reference:
            assert arrays[name].dtype == reference[name].dtype
            assert (arrays[name] == reference[name]).all()


@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f8", "|i1", "<U3", "|S2", "|b1"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy(tmp_path, dtype, order):
    array = np.asarray(np.arange(6).reshape(2, 3).astype(dtype), order=order)
    np.save(tmp_path / "x.npy", array)
    read = read_npy(tmp_path / "x.npy")
    assert read.dtype == array.dtype
    assert (read == array).all()


def benchmark(**changes: object) -> dict[str, np.ndarray]:
    arrays = {
        "adj_data": np.ones(3, np.float32), "adj_indices": np.array([1, 2, 0], np.int32),
        "adj_indptr": np.array([0, 1, 2, 3], np.int32), "adj_shape": np.array([3, 3]),
        "labels": np.array([0, 1, 1], np.int8),
        "node_names": np.array(["a", "b", "c"], dtype=object),
        "class_names": np.array([b"x", "y"], dtype=object), **changes,
    }  # fmt: skip
    return {key: value for key, value in arrays.items() if value is not None}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_object_arrays_of_names(tmp_path, save):
    save(tmp_path / "g.npz", **benchmark())
    graph = read_gnn_benchmark(tmp_path / "g.npz")
    assert graph.node_names == ["a", "b", "c"]
    assert graph.class_names == ["x", "y"]
    assert graph.features is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"adj_shape": np.array([3, 4])}, "is 3 x 4, not square"),
        ({"adj_indptr": np.array([0, 5, 2, 3])}, "inconsistent"),
        ({"adj_indices": np.array([1, 2, 7])}, "a column outside its 3 columns"),
        ({"adj_data": None}, "has no adj_data"),
        ({"labels": np.array([0, 1])}, "not 3 integers"),
        ({"labels": np.array([0, 1, 2])}, "a label outside the 2 classes"),
        ({"node_names": np.array(["a"])}, "1 rows of node_names for 3 nodes"),
        ({"node_names": np.array([[1], {}, 2], dtype=object)}, "node_names holds a list"),
        ({"adj_shape": np.array([3, 1 << 40])}, "not believable|not square"),
    ],
)
def test_wrong_contents(tmp_path, changes, message):
    np.savez(tmp_path / "g.npz", **benchmark(**changes))
    with pytest.raises(MaghubError, match=message):
        read_gnn_benchmark(tmp_path / "g.npz")


def test_a_malicious_object_array_is_refused_and_not_executed(tmp_path):
    marker = tmp_path / "executed"
    np.savez(tmp_path / "g.npz", x=np.array([Malicious(marker), 1], dtype=object))
    np.save(tmp_path / "g.npy", np.array([Malicious(marker), 1], dtype=object), allow_pickle=True)
    for read, name in ((read_npz, "g.npz"), (read_gnn_benchmark, "g.npz"), (read_npy, "g.npy"),
                       (open_features, "g.npy")):  # fmt: skip
        with pytest.raises(MaghubError, match="refusing the object"):
            read(tmp_path / name)
    assert not marker.exists()


def test_a_zip_bomb_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "b.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(70 << 20))
    with pytest.raises(MaghubError, match="unpacks to too much"):
        read_npz(tmp_path / "b.npz")


HEAD = "{'descr': '<f4', 'fortran_order': False, 'shape': "


def header(text: str, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not an .npy file"),
        (b"<html><body>", "not an .npy file"),
        (header(HEAD + "(4,)}", bytes(12)), "12 bytes of"),
        (header(HEAD + "(1" + "0" * 60 + ",)}"), "0 bytes of"),
        (header(HEAD + "(" + "1" * 60_000 + ",)}"), "header is damaged"),
        (header(HEAD + "(-1, -4)}", bytes(16)), "header is damaged"),
        (header(HEAD.replace("<f4", "|V8") + "(1,)}", bytes(8)), "not readable"),
        (header(HEAD.replace("'<f4'", "[('a', '<f4')]") + "(1,)}"), "not readable"),
        (header("__import__('os').system('true')"), "header is damaged"),
        (header("(" * 5000), "header is damaged"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b"{}", "beyond the file"),
    ],
    ids=range(11),
)
def test_damaged_npy(tmp_path, data, message):
    (tmp_path / "x.npy").write_bytes(data)
    with pytest.raises(MaghubError, match=message):
        read_npy(tmp_path / "x.npy")


def test_features_with_nan_and_inf(tmp_path):
    array = np.ones((7, 4), dtype=np.float16)
    array[1, 2], array[1, 3], array[4, 0], array[5] = np.nan, np.nan, -np.inf, 0
    np.save(tmp_path / "f.npy", array)
    features = open_features(tmp_path / "f.npy", 7)
    blocks = list(features.blocks(3))
    assert [len(block) for block, _ in blocks] == [3, 3, 1]
    clean = np.concatenate([block for block, _ in blocks])
    has = np.concatenate([flags for _, flags in blocks])
    assert has.tolist() == [True, False, True, True, False, False, True]
    assert (clean == has[:, None]).all()
    assert clean.dtype == np.float16
    counts = features.counts
    assert (counts.rows, counts.nan_values, counts.inf_values) == (7, 2, 1)
    assert (counts.zeroed_rows, counts.zero_rows) == (2, 1)
    assert np.isnan(array[1, 2])  # the file is as it was
    assert np.isnan(read_npy(tmp_path / "f.npy")[1, 2])


@pytest.mark.parametrize("dtype", [">f4", "<f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_features_come_in_native_order(tmp_path, dtype, order):
    array = np.asarray(np.random.default_rng(0).normal(size=(9, 6)).astype(dtype), order=order)
    np.save(tmp_path / "f.npy", array)
    text, image = open_features(tmp_path / "f.npy").halves()
    for half, expected in ((text, array[:, :3]), (image, array[:, 3:])):
        (block, _), (last, _) = half.blocks(5)
        assert block.dtype.isnative
        assert block.flags.c_contiguous
        assert (np.concatenate([block, last]) == expected).all()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(4), "expected a table of floats"),
        (np.ones((4, 4), int), "expected a table of floats"),
        (np.ones((3, 4)), "3 rows of features for 4 nodes"),
    ],
)
def test_wrong_features(tmp_path, array, message):
    np.save(tmp_path / "f.npy", array)
    with pytest.raises(MaghubError, match=message):
        open_features(tmp_path / "f.npy", 4)


def test_an_odd_width_has_no_halves(tmp_path):
    np.save(tmp_path / "f.npy", np.ones((2, 3)))
    with pytest.raises(MaghubError, match="do not split"):
        open_features(tmp_path / "f.npy").halves()


def test_mutants_of_npy(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(24, dtype=np.float32).reshape(4, 6))
    original = (tmp_path / "x.npy").read_bytes()
    assert check_survives(read_npy, original, tmp_path / "x.npy", seed=6) > 500


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_mutants_of_npz(tmp_path, save):
    save(tmp_path / "g.npz", **benchmark())
    original = (tmp_path / "g.npz").read_bytes()
    assert check_survives(read_gnn_benchmark, original, tmp_path / "g.npz", count=1000) > 600
