"""Pickles: nothing is executed, plain data and numpy arrays come out as pickle would give them."""

from __future__ import annotations

import pickle
import struct
import tracemalloc
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from mutants import Malicious, check_survives

from maghub.builders._formats.numpy_pickles import NUMPY, ArrayStandIn, int_array
from maghub.builders._formats.pickles import Refused, load_pickle
from maghub.errors import MaghubError


def load(data: bytes, runs: bool = False) -> object:
    return load_pickle("file.pkl", memoryview(data), NUMPY, runs=runs)[0]


PLAIN = {
    "none": None, "flags": [True, False], "ints": [0, 255, 256, 65535, 65536, -1, 2**31, -(2**70)],
    "float": 0.25, "text": "emoji \U0001f600 漢字", "tuples": ((), (1,), (1, 2), (1, 2, 3)),
    "long tuple": (1, 2, 3, 4), "empty": [{}, []], 7: {"nested": {"deeper": [1, [2, [3]]]}},
}  # fmt: skip


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_plain_data_of_every_protocol(protocol):
    data = {key: value for key, value in PLAIN.items() if protocol or key != "text"}
    assert load(pickle.dumps(data, protocol)) == data if protocol else True
    shared = ["x"]
    twice = load(pickle.dumps([shared, shared], max(protocol, 1)))
    assert twice[0] is twice[1]


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["<i4", ">i4", "<f4", "<f8", "|b1", "<U5", "|S3", "<u2"])
def test_numpy_arrays(protocol, dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    for stored in (array, np.asfortranarray(array)):
        item = load(pickle.dumps(stored, protocol))
        assert isinstance(item, ArrayStandIn)
        assert item.value.dtype == array.dtype
        assert item.value.tolist() == array.tolist()


def test_arrays_of_objects_and_scalars():
    array = np.array(["a", b"b", None, 3], dtype=object)
    assert load(pickle.dumps(array, 4)).value == ["a", b"b", None, 3]
    assert load(pickle.dumps(np.float32(0.5), 4)) == 0.5


@pytest.mark.parametrize("protocol", range(6))
def test_a_malicious_pickle_is_refused_and_not_executed(tmp_path, protocol):
    marker = tmp_path / "executed"
    data = pickle.dumps([1, Malicious(marker)], protocol)
    with pytest.raises(MaghubError, match=r"refusing the object (posix|nt)\.system"):
        load(data)
    assert not marker.exists()
    pickle.loads(data)  # it does work
    assert marker.exists()


@pytest.mark.parametrize(
    "item", [np.dtype([("a", "i4")]), np.random.default_rng(0), OrderedDict(a=1), {(1, 2): 3}, {1}]
)
def test_other_objects_are_refused(item):
    with pytest.raises(MaghubError, match="Nothing in it was executed"):
        load(pickle.dumps(item, 2))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"N" + b"r\xff\xff\xff\x7f" + b".", "memo"),  # 16 GB in the C unpickler
        (b"\x8e" + struct.pack("<Q", 1 << 40) + b".", "bytes"),
        (b"\x96" + struct.pack("<Q", 1 << 33) + b".", "bytearray"),
        (b"\x8b" + struct.pack("<i", 1 << 30) + b".", "long"),
        (b"T" + struct.pack("<i", -5) + b".", "negative"),
        (b"]" * 1_000_000 + b".", "lists"),
        (b"N" + b"\x94" * 1_000_000 + b".", "memos"),
        (b")" + b"\x85" * 1_000_000 + b".", "deep"),
        (b"I" + b"9" * 5000 + b"\n.", "digits"),
    ],
)
def test_bombs_cost_nothing(data, why):
    load(b"N.")
    tracemalloc.start()
    try:
        if why == "memo":
            assert load(data) is None
        else:
            with pytest.raises(MaghubError):
                load(data)
        assert tracemalloc.get_traced_memory()[1] < 40 * len(data) + (1 << 20)
    finally:
        tracemalloc.stop()


def test_an_array_that_starts_large_is_refused():
    head = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
    for shape in (b"(J\xff\xff\xff\x7ft", b"(K\x01t", b"(K\x00K\x00t", b"K\x00"):
        with pytest.raises(MaghubError, match="not built from an empty one"):
            load(head + shape + b"U\x01b\x87R.")


@pytest.mark.parametrize("kind", [tuple, list])
@pytest.mark.parametrize("protocol", [2, 4])
def test_long_lists_come_out_as_blocks(kind, protocol):
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 70_000, size=(5_003, 2))
    pairs[0] = (-1, 2**31 - 1)
    data = pickle.dumps([kind(pair) for pair in pairs.tolist()], protocol)
    assert (int_array(load(data, runs=True), pairs=True) == pairs).all()
    flat = pairs.ravel().tolist()
    assert (int_array(load(pickle.dumps(flat, protocol), runs=True)) == flat).all()
    bytes_ = rng.integers(0, 256, 5_001).tolist()
    assert (int_array(load(pickle.dumps(bytes_, protocol), runs=True)) == bytes_).all()


def test_a_pair_that_is_there_twice_is_found():
    pair = [1, 2]
    data = pickle.dumps([*([3, 4] for _ in range(50)), pair, *([5, 6] for _ in range(50)), pair], 2)
    assert int_array(load(data, runs=True), pairs=True)[[50, -1]].tolist() == [[1, 2], [1, 2]]


@pytest.mark.parametrize(
    ("value", "pairs"),
    [
        ([1, "2"], False), ([True], False), ([1.0], False), ("12", False), ([2**64], False),
        ([[1, 2], [3]], True), ([1, 2], True), ([[1, "a"]], True), (np.zeros(3), False),
        (np.zeros((3, 3), int), True), ({}, False),
    ],
)  # fmt: skip
def test_what_is_not_integers_is_refused(value, pairs):
    with pytest.raises(Refused):
        int_array(value, pairs=pairs)


def test_empty_lists():
    assert int_array([]).shape == (0,)
    assert int_array([], pairs=True).shape == (0, 2)


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("runs", [False, True])
def test_mutants(tmp_path, protocol, runs):
    item = [PLAIN if protocol else 1, np.arange(12.0).reshape(3, 4), [[1, 2]] * 3, list(range(40))]
    original = pickle.dumps([*item, [[i, 300 - i] for i in range(40)]], protocol)

    def read(path: Path) -> object:
        data = memoryview(path.read_bytes())
        return load_pickle(path, data, NUMPY, runs=runs)

    if protocol == 0:
        original = pickle.dumps([1, 2.5, [3, {4: 5}], 2**40], 1)
    assert check_survives(read, original, tmp_path / "x.pkl", count=700, seed=2) > 300
