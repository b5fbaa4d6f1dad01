"""Reads ``torch.save`` files without torch: tensors as memory maps, lists, dictionaries, numbers.

The zip layout of torch >= 1.6 (``name/data.pkl`` and a stored record ``name/data/KEY`` per storage)
and the older one (magic number, protocol, system info, object, storage keys as pickles, then the
raw storages). The pickle goes through the restricted machine of ``pickles.py`` with what
``weights_only=True`` allows of tensors; nothing else is built and nothing is executed.

The second half reads the files of MM-Graph (Graph-MLLM has the same): ``*_feat.pt`` (one float
tensor), ``labels-w-missing.pt`` (list of ints), ``nc_edges-nodeid.pt`` (list of pairs),
``split.pt`` (dict ``train_idx``, ``val_idx``, ``test_idx``), ``lp-edge-split.pt`` (dict
``train/valid/test`` of ``source_node``, ``target_node`` and, for the last two,
``target_node_neg``) and ``node_mapping.pt`` (dict of raw id -> node).
"""

from __future__ import annotations

import os
import struct
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._files import fail, map_file
from .numpy_pickles import NUMPY, int_array
from .pickles import Handlers, Refused, Token, load_pickle, of_type

LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
STORAGES = {
    "DoubleStorage": "<f8", "FloatStorage": "<f4", "HalfStorage": "<f2", "LongStorage": "<i8",
    "IntStorage": "<i4", "ShortStorage": "<i2", "CharStorage": "|i1", "ByteStorage": "|u1",
    "BoolStorage": "|b1",
}  # fmt: skip


@dataclass
class _Storage:
    """The elements of one storage; ``values`` is filled in when the file says where they are."""

    dtype: np.dtype[Any]
    count: int
    values: np.ndarray | None = None


@dataclass(frozen=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    def array(self) -> np.ndarray:
        """The tensor as a read-only view of the file."""
        values = self.storage.values
        if values is None:
            raise Refused("a tensor whose data is not in the file")
        if 0 in self.shape:
            return np.zeros(self.shape, dtype=values.dtype)
        last = self.offset + sum((n - 1) * s for n, s in zip(self.shape, self.stride, strict=True))
        size = int(np.prod(np.array(self.shape, dtype=object)))
        if last >= len(values) or size > len(values):
            raise Refused(f"a tensor of shape {self.shape} does not fit its {len(values)} values")
        bytes_ = tuple(step * values.itemsize for step in self.stride)
        view = np.lib.stride_tricks.as_strided(values[self.offset :], self.shape, bytes_)
        view.flags.writeable = False
        return view


def _rebuild_tensor(storage: Any, offset: Any, shape: Any, stride: Any, *_: Any) -> _Tensor:
    of_type(shape, tuple), of_type(stride, tuple)
    if len(shape) != len(stride) or len(shape) > 8:
        raise Refused("a damaged tensor shape")
    if any(type(n) is not int or not 0 <= n < 1 << 48 for n in (offset, *shape, *stride)):
        raise Refused("a damaged tensor shape")
    return _Tensor(of_type(storage, _Storage), offset, shape, stride)


def _ordered_dict(*items: Any) -> dict[Any, Any]:
    if items:
        raise Refused("an OrderedDict with contents")
    return {}


_HANDLERS: Handlers = {
    **NUMPY,
    ("collections", "OrderedDict"): _ordered_dict,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
    **{("torch", name): Token(name) for name in STORAGES},
}


def _storage(storages: dict[str, _Storage], identity: Any) -> _Storage:
    """The storage of a persistent id ``("storage", type, key, device, elements, ...)``."""
    of_type(identity, tuple)
    kind, kept, key, _, count = identity[:5]
    if kind not in ("storage", b"storage") or not isinstance(kept, Token):
        raise Refused("an unknown persistent id")
    if type(count) is not int or count < 0 or (len(identity) > 5 and identity[5] is not None):
        raise Refused("a damaged storage")
    name = key.decode("latin-1") if isinstance(key, bytes) else of_type(key, str)
    dtype = np.dtype(STORAGES[kept.name])
    known = storages.setdefault(name, _Storage(dtype, count))
    if (known.dtype, known.count) != (dtype, count):
        raise Refused(f"two descriptions of the storage {name[:20]}")
    return known


def read_torch(path: str | os.PathLike[str]) -> Any:
    """What ``torch.load(path, weights_only=True)`` would give, with tensors as numpy memory maps.

    Lists of many integers, or of pairs of them, come out with int64 blocks in them: read those with
    ``int_array``.

    Raises:
        MaghubError: for anything that is not plain data, with the byte.
    """
    data = map_file(path)
    try:
        if bytes(data[:4]) == b"PK\x03\x04":
            item = _read_zip(path, data)
        else:
            item = _read_legacy(path, data)
        return _resolve(item, 0)
    except Refused as error:
        raise fail(path, str(error)) from None


def _read_zip(path: str | os.PathLike[str], data: memoryview) -> Any:
    records = _records(path, data)
    pickles = [name for name in records if name.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise fail(path, "not a torch file: no data.pkl in it")
    prefix = pickles[0].removesuffix("data.pkl")
    if bytes(records.get(prefix + "byteorder", data[:0])) not in (b"", b"little"):
        raise fail(path, "a big-endian torch file")
    storages: dict[str, _Storage] = {}
    item, _ = load_pickle(
        path, records[pickles[0]], _HANDLERS, runs=True,
        persistent=lambda identity: _storage(storages, identity),
    )  # fmt: skip
    for key, storage in storages.items():
        raw = records.get(f"{prefix}data/{key}")
        if raw is None or len(raw) != storage.count * storage.dtype.itemsize:
            has = "is missing" if raw is None else f"has {len(raw)} bytes"
            raise fail(path, f"storage {key[:20]} of {storage.count} {storage.dtype} {has}")
        storage.values = np.frombuffer(raw, dtype=storage.dtype)
    return item


def _records(path: str | os.PathLike[str], data: memoryview) -> dict[str, memoryview]:
    """Views of the stored records of a zip file, by name."""
    records: dict[str, memoryview] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
    except Exception as error:  # zipfile lets struct, value, key and decoding errors through
        raise fail(path, f"a damaged zip file ({type(error).__name__})") from None
    for info in infos:
        start = info.header_offset
        if info.compress_type or info.flag_bits & 1 or info.file_size != info.compress_size:
            raise fail(path, f"record {info.filename[:60]!r} is compressed or encrypted", start)
        header = data[start : start + 30] if 0 <= start <= len(data) else data[:0]
        if len(header) < 30 or bytes(header[:4]) != b"PK\x03\x04":
            raise fail(path, f"record {info.filename[:60]!r} is not where the index says", start)
        start += 30 + sum(struct.unpack("<HH", header[26:30]))
        if start + info.file_size > len(data):
            raise fail(path, f"the file ends inside record {info.filename[:60]!r}", start)
        records[info.filename] = data[start : start + info.file_size]
    return records


def _read_legacy(path: str | os.PathLike[str], data: memoryview) -> Any:
    storages: dict[str, _Storage] = {}
    magic, at = load_pickle(path, data)
    if magic != LEGACY_MAGIC:
        raise fail(path, "not a torch file (a plain pickle?)")
    for _ in range(2):  # protocol version, system information
        header, at = load_pickle(path, data, start=at)
    if type(header) is dict and False in map(header.get, ("little_endian", b"little_endian")):
        raise fail(path, "a big-endian torch file")
    item, at = load_pickle(
        path, data, _HANDLERS, start=at, runs=True,
        persistent=lambda identity: _storage(storages, identity),
    )  # fmt: skip
    keys, at = load_pickle(path, data, start=at)
    for key in of_type(keys, list):
        name = key.decode("latin-1") if isinstance(key, bytes) else of_type(key, str)
        storage = storages.get(name)
        if storage is None or at + 8 > len(data):
            raise fail(path, "the table of storages is damaged", at)
        (count,) = struct.unpack("<q", data[at : at + 8])
        at += 8
        size = storage.count * storage.dtype.itemsize
        if count != storage.count or at + size > len(data):
            raise fail(path, f"the file ends inside storage {name[:20]}", at)
        raw = np.frombuffer(data[at : at + size], dtype=storage.dtype)
        storage.values, at = (raw if raw.flags.aligned else raw.copy()), at + size
    return item


def _resolve(item: Any, depth: int) -> Any:
    """Replace tensors by arrays, in place, in dictionaries and lists down to three levels."""
    if isinstance(item, _Tensor):
        return item.array()
    if depth < 3 and type(item) is dict:
        for key, value in item.items():
            item[key] = _resolve(value, depth + 1)
    if depth < 3 and type(item) is list and any(isinstance(value, _Tensor) for value in item):
        item[:] = [_resolve(value, depth + 1) for value in item]
    return item


# The files of MM-Graph


def _ints(
    path: object, what: str, value: Any, num_nodes: int | None, *, pairs: bool = False
) -> np.ndarray:
    try:
        array = int_array(value, pairs=pairs)
    except Refused as error:
        raise fail(path, f"{what}: {error}") from None
    _check_nodes(path, what, array, num_nodes)
    return array


def _check_nodes(path: object, what: str, array: np.ndarray, num_nodes: int | None) -> None:
    if num_nodes is None or not array.size or (array.min() >= 0 and array.max() < num_nodes):
        return
    outside = ((array < 0) | (array >= num_nodes)).reshape(len(array), -1).any(axis=1)
    row = int(outside.argmax())
    raise fail(path, f"{what}, row {row}: not one of the {num_nodes} nodes")


def _dictionary(path: str | os.PathLike[str]) -> dict[Any, Any]:
    item = read_torch(path)
    if type(item) is not dict:
        raise fail(path, f"expected a dictionary, found a {type(item).__name__}")
    return item


def read_feature_tensor(path: str | os.PathLike[str]) -> np.ndarray:
    """``*_feat.pt`` as a memory-mapped [N, D] array of floats."""
    array = read_torch(path)
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind != "f":
        raise fail(path, "expected one two-dimensional tensor of floats")
    return array


def read_labels(path: str | os.PathLike[str], num_nodes: int | None = None) -> np.ndarray:
    """``labels-w-missing.pt`` as int64, exactly as stored: how "missing" is coded is not known."""
    labels = _ints(path, "labels", read_torch(path), None)
    if num_nodes is not None and len(labels) != num_nodes:
        raise fail(path, f"{len(labels)} labels for {num_nodes} nodes")
    return labels


def read_edges(path: str | os.PathLike[str], num_nodes: int | None = None) -> np.ndarray:
    """``nc_edges-nodeid.pt`` as int64 [E, 2], in stored order."""
    return _ints(path, "edges", read_torch(path), num_nodes, pairs=True)


def read_split(path: str | os.PathLike[str], num_nodes: int | None = None) -> dict[str, np.ndarray]:
    """``split.pt`` as ``{"train": ..., "validation": ..., "test": ...}`` of node ids, disjoint."""
    item, split = _dictionary(path), {}
    for name, key in (("train", "train_idx"), ("validation", "val_idx"), ("test", "test_idx")):
        if key not in item:
            raise fail(path, f"has no {key}")
        split[name] = _ints(path, key, item[key], num_nodes)
    every = np.concatenate(list(split.values()))
    if len(np.unique(every)) != len(every):
        raise fail(path, "a node is in the split twice")
    return split


@dataclass(frozen=True)
class EdgeSplit:
    """One part of a link prediction split; ``negatives`` [E, K] are targets, or None (train)."""

    source: np.ndarray
    target: np.ndarray
    negatives: np.ndarray | None


def read_edge_split(
    path: str | os.PathLike[str], num_nodes: int | None = None
) -> dict[str, EdgeSplit]:
    """``lp-edge-split.pt`` as train, validation and test; memory-mapped where stored as tensors."""
    item, parts = _dictionary(path), {}
    for name, key in (("train", "train"), ("validation", "valid"), ("test", "test")):
        part = item.get(key)
        if type(part) is not dict or not {"source_node", "target_node"} <= set(part):
            raise fail(path, f"part {key!r} has no source_node and target_node")
        source = _ints(path, f"{key}/source_node", part["source_node"], num_nodes)
        target = _ints(path, f"{key}/target_node", part["target_node"], num_nodes)
        negatives = part.get("target_node_neg")
        if negatives is not None:
            what = f"{key}/target_node_neg"
            table = isinstance(negatives, np.ndarray) and negatives.ndim == 2
            if not table or negatives.dtype.kind != "i":
                raise fail(path, f"{what}: expected a two-dimensional tensor of integers")
            _check_nodes(path, what, negatives, num_nodes)
        if len({len(column) for column in (source, target, negatives) if column is not None}) > 1:
            raise fail(path, f"the columns of part {key!r} have different lengths")
        parts[name] = EdgeSplit(source, target, negatives)
    return parts


def read_node_mapping(path: str | os.PathLike[str], num_nodes: int | None = None) -> dict[str, int]:
    """``node_mapping.pt``: raw id (as text) -> node, one to one."""
    mapping: dict[str, int] = {}
    for raw, node in _dictionary(path).items():
        key = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
        if type(node) is not int or node < 0 or (num_nodes is not None and node >= num_nodes):
            raise fail(path, f"raw id {key[:40]!r} maps to something that is not a node")
        mapping[key] = node
    if len(set(mapping.values())) != len(mapping):
        raise fail(path, "two raw ids map to one node")
    return mapping
