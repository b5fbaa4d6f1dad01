"""Reads ``.npy`` and ``.npz`` files without numpy's unpickler.

``.npy``: the header is parsed as plain data and checked against the size of the file; the array is
a memory map. ``.npz``: a zip of those. The gnn-benchmark files (``adj_data/indices/indptr/shape``,
``attr_*``, ``labels``, ``node_names``, ``class_names``; directed, classes in alphabetical order)
may hold object arrays, whose pickle goes through the restricted machine.
"""

from __future__ import annotations

import math
import os
import re
import zipfile
from dataclasses import dataclass

import numpy as np

from ._files import fail, map_file, unzipped
from .numpy_pickles import NUMPY, ArrayStandIn
from .pickles import load_pickle
from .planetoid import Csr, checked_csr

MAX_RATIO = 64  # no .npz of indices and names compresses better than that
MIN_UNPACKED = 64 << 20
# Written by numpy in exactly this form; a literal parser would only add ways to exhaust it.
_HEADER = re.compile(
    r"\{\s*'descr':\s*'([<>|=]?(?:[biuf][1248]|[SU]\d{1,6}|O8?))',\s*'fortran_order':\s*(True|False),"
    r"\s*'shape':\s*\(([\dL,\s]{0,200})\)\s*,?\s*\}"
)


def _npy(path: object, data: memoryview, what: str = "") -> np.ndarray:
    """The array in the bytes of an ``.npy`` file; object arrays come out as arrays of objects."""
    if bytes(data[:6]) != b"\x93NUMPY" or len(data) < 12 or data[6] not in (1, 2, 3):
        raise fail(path, f"{what}not an .npy file")
    width = 2 if data[6] == 1 else 4
    start = 8 + width + int.from_bytes(data[8 : 8 + width], "little")
    if start > min(len(data), 1 << 16):
        raise fail(path, f"{what}the header ends at byte {start}, beyond the file or 64 kB")
    header = _HEADER.fullmatch(bytes(data[8 + width : start]).decode("latin-1").strip())
    if header is None:
        raise fail(path, f"{what}the .npy header is damaged, or of a type that is not readable", 8)
    kind, fortran = header[1], header[2] == "True"
    shape = tuple(int(size) for size in re.findall(r"\d+", header[3]))
    if len(shape) > 8:
        raise fail(path, f"{what}an array of {len(shape)} dimensions", 8)
    dtype, count = np.dtype(kind), math.prod(shape)
    if dtype.kind == "O":
        stored = load_pickle(path, data, NUMPY, start=start)[0]
        items = stored.value if isinstance(stored, ArrayStandIn) else None
        if not isinstance(items, list) or len(items) != count:
            raise fail(path, f"{what}not {count} objects as the header says", start)
        array = np.empty(count, dtype=object)
        for place, item in enumerate(items):
            array[place] = item
        return array.reshape(shape)
    if count * dtype.itemsize != len(data) - start:
        wants = f"{count * dtype.itemsize} bytes for shape {shape} of {kind}"
        raise fail(path, f"{what}{len(data) - start} bytes of data, the header says {wants}", start)
    flat = np.frombuffer(data[start:], dtype=dtype) if dtype.itemsize else np.empty(count, dtype)
    return flat.reshape(shape, order="F" if fortran else "C")


def read_npy(path: str | os.PathLike[str]) -> np.ndarray:
    """A plain ``.npy`` array as a read-only memory map."""
    return _npy(path, map_file(path))


def read_npz(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """All arrays of an ``.npz`` file, by name without ``.npy``."""
    members: dict[str, bytes] = {}
    budget = max(MIN_UNPACKED, MAX_RATIO * len(map_file(path)))
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                budget -= info.file_size
                known = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
                if budget < 0 or not known:
                    raise zipfile.BadZipFile(f"{info.filename[:60]!r} unpacks to too much")
                if info.filename.endswith(".npy"):
                    members[info.filename] = unzipped(archive, info)
    except Exception as error:  # zipfile lets struct, zlib, key and decoding errors through
        reason = str(error) if isinstance(error, zipfile.BadZipFile) else type(error).__name__
        raise fail(path, f"a damaged .npz file ({reason[:120]})") from None
    return {
        name.removesuffix(".npy"): _npy(path, memoryview(raw), f"{name[:60]}: ")
        for name, raw in members.items()
    }


@dataclass(frozen=True)
class GnnBenchmark:
    """One graph of gnn-benchmark: directed adjacency, sparse features, labels and names."""

    adjacency: Csr
    features: Csr | None
    labels: np.ndarray | None  # int64
    node_names: list[str] | None
    class_names: list[str] | None


def read_gnn_benchmark(path: str | os.PathLike[str]) -> GnnBenchmark:
    """Read ``cora.npz`` and its like."""
    arrays = read_npz(path)
    adjacency = _csr(path, arrays, "adj")
    if adjacency is None:
        raise fail(path, "has no adjacency matrix (adj_data, adj_indices, adj_indptr, adj_shape)")
    nodes, columns = adjacency.shape
    if nodes != columns:
        raise fail(path, f"the adjacency matrix is {nodes} x {columns}, not square")
    features = _csr(path, arrays, "attr")
    labels = arrays.get("labels")
    if labels is not None:
        if labels.dtype.kind not in "iu" or labels.shape != (nodes,):
            raise fail(path, f"labels are {labels.shape} of {labels.dtype}, not {nodes} integers")
        labels = labels.astype(np.int64)
    names = _names(path, arrays, "node_names")
    for what, size in (
        ("features", features and features.shape[0]), ("node_names", names and len(names)),
    ):  # fmt: skip
        if size is not None and size != nodes:
            raise fail(path, f"{size} rows of {what} for {nodes} nodes")
    classes = _names(path, arrays, "class_names")
    known = range(len(classes or []))
    if classes is not None and labels is not None and not np.isin(labels, known).all():
        raise fail(path, f"a label outside the {len(classes)} classes")
    return GnnBenchmark(adjacency, features, labels, names, classes)


def _csr(path: object, arrays: dict[str, np.ndarray], prefix: str) -> Csr | None:
    keys = [f"{prefix}_{part}" for part in ("shape", "indptr", "indices", "data")]
    if not any(key in arrays for key in keys):
        return None
    if missing := [key for key in keys if key not in arrays]:
        raise fail(path, f"has no {', '.join(missing)}")
    shape, *parts = (arrays[key] for key in keys)
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape.min() < 0:
        raise fail(path, f"{keys[0]} is not the shape of a matrix")
    if shape[1] > 1 << 20:
        raise fail(path, f"a sparse matrix of {shape[1]} columns is not believable")
    return checked_csr(path, tuple(shape.tolist()), *parts)


def _names(path: object, arrays: dict[str, np.ndarray], key: str) -> list[str] | None:
    if key not in arrays:
        return None
    names = []
    for item in arrays[key].ravel().tolist():
        if not isinstance(item, str | bytes | int):
            raise fail(path, f"{key} holds a {type(item).__name__}, not text")
        names.append(item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item))
    return names
