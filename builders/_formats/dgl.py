"""Reads ``dgl.save_graphs`` files without dgl.

The layout is that of DGL 2.x (its graph serialiser, version 2, "hetero graph" type), checked
against real files. Little endian throughout:

- ``u64 magic, u64 version = 2, u64 graph type = 2, u64 number of graphs``, then uninitialised
  memory up to byte 4096;
- ``u64`` start of the graph data, then a vector of named graph-level tensors (normally empty);
- per graph: a hetero graph (metagraph, one unit graph per relation, node counts), named node
  tensors, named edge tensors, names of node types and of edge types;
- the index of graph positions as a string, and its length.

A vector is a ``u64`` count and its items; a string a ``u64`` length and its bytes; an array is the
TVM record ``u64 magic, u64 0, i32 device, i32 device id, i32 ndim, u8 code, u8 bits, u16 lanes,
i64 shape[ndim], i64 nbytes, data``. A unit graph is saved as COO (the default), CSR or CSC.
"""

from __future__ import annotations

import math
import os
import struct
from dataclasses import dataclass, field

import numpy as np

from maghub.errors import MaghubError

from ._files import fail, map_file

MAGIC_FILE = 0xDD2E4FF046B4A13F
MAGIC_ARRAY = 0xDD5E40F096B4A13F
MAGIC_HETERO = 0xDD589FBE35224ABF
MAGIC_META = 0xDD3C5FFE20046ABF
MAGIC_UNIT = 0xDD2E60F0F6B4A127
MAGIC_COO = 0xDD61FFD305DFF127
MAGIC_CSR = 0xDD6CD31205DFF127
HEADER_BYTES = 4096
COO, CSR, CSC = 1, 2, 4
MAX_DIMENSIONS = 8
DTYPES = {
    (0, 8): "<i1", (0, 16): "<i2", (0, 32): "<i4", (0, 64): "<i8",
    (1, 1): "|b1", (1, 8): "|u1", (1, 16): "<u2", (1, 32): "<u4", (1, 64): "<u8",
    (2, 16): "<f2", (2, 32): "<f4", (2, 64): "<f8",
}  # fmt: skip


@dataclass(frozen=True)
class DglGraph:
    """One homogeneous graph. Edge ``i`` is ``src[i] -> dst[i]`` in the file's edge order."""

    num_nodes: int
    src: np.ndarray
    dst: np.ndarray
    node_tensors: dict[str, np.ndarray] = field(default_factory=dict)
    edge_tensors: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def num_edges(self) -> int:
        """The number of stored edges."""
        return len(self.src)


class _Cursor:
    """A position in the mapped file; every read is checked against the end of the file."""

    def __init__(self, path: object, data: memoryview) -> None:
        self.path, self.data, self.at = path, data, 0

    def fail(self, what: str, at: int | None = None) -> MaghubError:
        return fail(self.path, what, self.at if at is None else at)

    def take(self, size: int, what: str) -> memoryview:
        if size < 0 or size > len(self.data) - self.at:
            left = len(self.data) - self.at
            raise self.fail(f"the file ends inside {what}: {size} bytes needed, {left} left")
        piece = self.data[self.at : self.at + size]
        self.at += size
        return piece

    def unpack(self, layout: str, what: str) -> tuple[int, ...]:
        return struct.unpack(layout, self.take(struct.calcsize(layout), what))

    def u64(self, what: str) -> int:
        return self.unpack("<Q", what)[0]

    def magic(self, value: int, what: str) -> None:
        at = self.at
        if self.u64(what) != value:
            raise self.fail(f"no {what} where one should start", at)

    def count(self, what: str, item_bytes: int = 8) -> int:
        at, count = self.at, self.u64(f"the number of {what}")
        if count * item_bytes > len(self.data) - self.at:
            raise self.fail(f"{count} {what} do not fit in the file", at)
        return count

    def string(self, what: str) -> str:
        at, raw = self.at, bytes(self.take(self.count(f"characters of {what}", 1), what))
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise self.fail(f"{what} is not UTF-8", at) from None

    def array(self, what: str) -> np.ndarray:
        start = self.at
        self.magic(MAGIC_ARRAY, f"array ({what})")
        _, device, _, ndim = self.unpack("<Qiii", what)
        code, bits, lanes = self.unpack("<BBH", what)
        dtype = DTYPES.get((code, bits))
        if device != 1 or lanes != 1 or dtype is None or not 0 <= ndim <= MAX_DIMENSIONS:
            raise self.fail(
                f"{what} has an unknown array type: device {device}, {ndim} dimensions, "
                f"type code {code}, {bits} bits, {lanes} lanes",
                start,
            )
        shape = self.unpack(f"<{ndim}q", what)
        (nbytes,) = self.unpack("<q", what)
        wanted = math.prod(shape) * np.dtype(dtype).itemsize
        if any(length < 0 for length in shape) or wanted != nbytes:
            raise self.fail(f"{what} says {nbytes} bytes for shape {shape} of {dtype}", start)
        return np.frombuffer(self.take(nbytes, what), dtype=dtype).reshape(shape)

    def named_arrays(self, what: str, rows: int) -> dict[str, np.ndarray]:
        tensors: dict[str, np.ndarray] = {}
        for _ in range(self.count(what)):
            at, name = self.at, self.string(f"the name of one of the {what}")
            tensor = self.array(f"tensor {name!r}")
            if tensor.ndim == 0 or len(tensor) != rows:
                raise self.fail(f"tensor {name!r} has shape {tensor.shape}, not {rows} rows", at)
            if name in tensors:
                raise self.fail(f"tensor {name!r} is there twice", at)
            tensors[name] = _plain(tensor)
        return tensors


def read_dgl_graph(path: str | os.PathLike[str]) -> DglGraph:
    """Read the one homogeneous graph of a ``dgl.save_graphs`` file.

    Args:
        path: e.g. ``MoviesGraph.pt`` or ``History.pt``: DGL's own binary, in spite of the suffix.

    Raises:
        MaghubError: for any other file, with the byte where it goes wrong.
    """
    file = _Cursor(path, map_file(path))
    at = file.at
    magic, version, kind, graphs = file.unpack("<QQQQ", "the header")
    if magic != MAGIC_FILE:
        raise fail(
            path, "not a DGL graph file (wrong magic number)", at,
            fix="it must be the file that dgl.save_graphs wrote",
        )  # fmt: skip
    if (version, kind) != (2, 2):
        raise file.fail(f"DGL format version {version}, type {kind}; only 2, 2 is readable", 8)
    if graphs != 1:
        raise file.fail(f"{graphs} graphs in the file, expected 1", 24)
    file.at = 0
    file.take(HEADER_BYTES, "the header")
    start = file.u64("the start of the graph data")
    if not file.at + 8 <= start < len(file.data):
        raise file.fail(f"the graph data cannot start at byte {start}", HEADER_BYTES)
    file.at = start

    file.magic(MAGIC_HETERO, "graph")
    _metagraph(file)
    at = file.at
    if (relations := file.count("relations")) != 1:
        raise file.fail(f"{relations} edge types, expected 1", at)
    at = file.at
    nodes, src, dst = _unit_graph(file)
    if (types := file.count("node types")) != 1:
        raise file.fail(f"{types} node types, expected 1", at)
    if (again := file.u64("the number of nodes")) != nodes:
        raise file.fail(f"{again} nodes here, {nodes} in the adjacency matrix", file.at - 8)
    node_tensors = _one_type(file, "node tensors", nodes)
    edge_tensors = _one_type(file, "edge tensors", len(src))
    for what in ("node types", "edge types"):
        for _ in range(file.count(what)):
            file.string(f"the name of one of the {what}")
    index = file.count("bytes of the graph index", 1)
    file.take(index, "the graph index")
    if file.u64("the length of the graph index") != index:
        raise file.fail("the two lengths of the graph index differ", file.at - 8)
    if file.at != len(file.data):
        raise file.fail(f"{len(file.data) - file.at} bytes follow the end of the graph")
    return DglGraph(nodes, src, dst, node_tensors, edge_tensors)


def _one_type(file: _Cursor, what: str, rows: int) -> dict[str, np.ndarray]:
    at = file.at
    if (types := file.count(f"types with {what}")) != 1:
        raise file.fail(f"{what} of {types} types, expected 1", at)
    return file.named_arrays(what, rows)


def _metagraph(file: _Cursor) -> None:
    """The tiny graph of types; for one node type and one edge type it says nothing."""
    file.magic(MAGIC_META, "metagraph")
    at = file.at
    rows, _, indices, _ = _csr(file)
    if rows != 1 or len(indices) != 1:
        raise file.fail(f"{rows} node types and {len(indices)} edge types, expected 1 and 1", at)


def _unit_graph(file: _Cursor) -> tuple[int, np.ndarray, np.ndarray]:
    file.magic(MAGIC_UNIT, "relation")
    at = file.at
    saved, _ = file.unpack("<QQ", "the sparse formats")
    # Since DGL 0.5 bit 32 marks a set of formats; before it the number of one format.
    formats = saved & 0xFFFFFFFF if saved >> 32 else {1: COO, 2: CSR, 3: CSC}.get(saved, 0)
    if not 1 <= formats <= COO | CSR | CSC:
        raise file.fail(f"unknown sparse format {saved:#x}", at)
    found: tuple[int, np.ndarray, np.ndarray] | None = None
    for code in (COO, CSR, CSC):
        if formats & code:
            _metagraph(file)
            at = file.at
            nodes, src, dst = _coo(file) if code == COO else _csr_edges(file, code)
            for ends in (src, dst):
                if len(ends) and (ends.min() < 0 or ends.max() >= nodes):
                    raise file.fail(f"an edge leaves the {nodes} nodes", at)
            found = found or (nodes, src, dst)
    assert found is not None
    return found


def _square(file: _Cursor) -> int:
    at = file.at
    columns, rows = file.unpack("<QQ", "the size of the adjacency matrix")
    # Only node tensors prove a node count; without one, no more nodes than bytes are believed.
    if columns != rows or rows > len(file.data):
        raise file.fail(f"an adjacency matrix of {rows} x {columns} cannot be in this file", at)
    return rows


def _coo(file: _Cursor) -> tuple[int, np.ndarray, np.ndarray]:
    file.magic(MAGIC_COO, "adjacency matrix")
    nodes = _square(file)
    at = file.at
    src, dst, order = (_ids(file, what) for what in ("edge sources", "edge targets", "edge ids"))
    if len(src) != len(dst):
        raise file.fail(f"{len(src)} edge sources but {len(dst)} targets", at)
    file.take(2, "the sorted flags")
    return nodes, *_in_edge_order(file, at, src, dst, order)


def _csr(file: _Cursor) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    file.magic(MAGIC_CSR, "adjacency matrix")
    nodes = _square(file)
    at = file.at
    pointers, indices, order = (_ids(file, what) for what in ("row starts", "columns", "edge ids"))
    steps = np.diff(pointers)
    ends = pointers[[0, -1]].tolist() if len(pointers) else None
    if len(pointers) != nodes + 1 or ends != [0, len(indices)] or (steps < 0).any():
        raise file.fail(f"the row pointers do not fit {nodes} nodes, {len(indices)} edges", at)
    file.take(1, "the sorted flag")
    return nodes, steps, indices, order


def _csr_edges(file: _Cursor, code: int) -> tuple[int, np.ndarray, np.ndarray]:
    at = file.at
    nodes, steps, indices, order = _csr(file)
    rows = np.repeat(np.arange(nodes), steps)
    src, dst = (rows, indices) if code == CSR else (indices, rows)
    return nodes, *_in_edge_order(file, at, src, dst, order)


def _in_edge_order(
    file: _Cursor, at: int, src: np.ndarray, dst: np.ndarray, order: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Undo a stored permutation of the edges, so that edge tensors line up."""
    if not len(order):
        return src, dst
    places = np.argsort(order, kind="stable")
    if len(order) != len(src) or not np.array_equal(order[places], np.arange(len(src))):
        raise file.fail("the edge ids are not a permutation", at)
    return src[places], dst[places]


def _ids(file: _Cursor, what: str) -> np.ndarray:
    at, array = file.at, file.array(what)
    if array.ndim != 1 or array.dtype.kind != "i":
        raise file.fail(f"{what} must be one row of integers, not {array.shape} {array.dtype}", at)
    return _plain(array.astype("<i8", copy=False))


def _plain(array: np.ndarray) -> np.ndarray:
    """A view of the file where it is aligned (most consumers need that), else one copy."""
    return array if array.flags.aligned else array.copy()
