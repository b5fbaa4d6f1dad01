"""Reads the Planetoid files ``ind.{name}.{y,allx,ally,tx,ty,graph,test.index}``.

Python 2 pickles of scipy matrices (csr float32), one-hot int32 label arrays and a
``defaultdict(list)`` adjacency; ``test.index`` is text, one node id a line, unsorted. Neither scipy
nor pickle is used.

Nodes 0 .. len(allx)-1 are the rows of ``allx``; row i of ``tx`` is the node on line i of
``test.index``.
CiteSeer's test ids leave gaps: those nodes have neighbours but neither features nor a label.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ._files import fail, map_file
from .numpy_pickles import NUMPY, ArrayStandIn, int_array
from .pickles import Handlers, Refused, StandIn, Token, load_pickle, of_type

VALIDATION_NODES = 500


@dataclass(frozen=True)
class Csr:
    """A sparse matrix in compressed rows, checked to be consistent."""

    shape: tuple[int, int]
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray

    def blocks(self, rows: int = 4096) -> Iterator[np.ndarray]:
        """Dense blocks of at most ``rows`` rows, in order."""
        for start in range(0, self.shape[0], rows):
            yield self.dense(start, min(start + rows, self.shape[0]))

    def dense(self, start: int, stop: int) -> np.ndarray:
        """Rows ``start..stop`` as a dense array."""
        dense = np.zeros((stop - start, self.shape[1]), dtype=self.data.dtype)
        span = slice(self.indptr[start], self.indptr[stop])
        line = np.repeat(np.arange(stop - start), np.diff(self.indptr[start : stop + 1]))
        dense[line, self.indices[span]] = self.data[span]
        return dense

    def row_keys(self) -> list[bytes]:
        """One key per row, equal where the same columns are set (whatever their order)."""
        columns = self.indices.astype(np.int32)
        spans = zip(self.indptr[:-1], self.indptr[1:], strict=True)
        return [np.sort(columns[start:stop]).tobytes() for start, stop in spans]


def checked_csr(
    path: object, shape: tuple[Any, ...], indptr: np.ndarray, indices: np.ndarray, data: np.ndarray
) -> Csr:
    """A Csr, or a MaghubError saying what does not fit."""
    ok = (
        len(shape) == 2
        and all(a.ndim == 1 for a in (indptr, indices, data))
        and all(a.dtype.kind in "iu" for a in (indptr, indices))
        and data.dtype.kind in "iufb"
        and len(indptr) == shape[0] + 1
        and indptr[0] == 0
        and indptr[-1] == len(indices) == len(data)
        and not (np.diff(indptr.astype(np.int64)) < 0).any()
    )
    if not ok:
        raise fail(path, f"the sparse matrix of shape {shape} is inconsistent")
    if len(indices) and (indices.min() < 0 or indices.max() >= shape[1]):
        raise fail(path, f"the sparse matrix has a column outside its {shape[1]} columns")
    return Csr((int(shape[0]), int(shape[1])), indptr.astype(np.int64), indices, data)


@dataclass(frozen=True)
class Planetoid:
    """One Planetoid graph. ``src, dst`` are all stored adjacency entries, duplicates included."""

    num_nodes: int
    features: Csr
    labels: np.ndarray  # int64, -1 where the source has none
    src: np.ndarray
    dst: np.ndarray
    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    without_data: np.ndarray  # ids missing from test.index: no features, no label


class _CsrStandIn(StandIn):
    def __init__(self) -> None:
        self.state: dict[str, Any] = {}

    def build(self, state: Any) -> None:
        for key, value in of_type(state, dict).items():
            self.state[key.decode("latin-1") if isinstance(key, bytes) else str(key)] = value


def _defaultdict(factory: Any = None) -> dict[Any, Any]:
    if not (isinstance(factory, Token) and factory.name == "list"):
        raise Refused("a defaultdict of something other than list")
    return {}


_HANDLERS: Handlers = {
    **NUMPY,
    ("scipy.sparse.csr", "csr_matrix"): _CsrStandIn,
    ("scipy.sparse._csr", "csr_matrix"): _CsrStandIn,
    ("collections", "defaultdict"): _defaultdict,
    ("__builtin__", "list"): Token("list"),
    ("builtins", "list"): Token("list"),
}


def read_planetoid(folder: str | os.PathLike[str], name: str) -> Planetoid:
    """Read one graph of the Planetoid repository.

    Args:
        folder: The folder with the ``ind.*`` files.
        name: ``cora``, ``citeseer`` or ``pubmed``.
    """
    paths = {part: Path(folder) / f"ind.{name}.{part}" for part in _PARTS}
    missing = [path.name for path in paths.values() if not path.is_file()]
    if missing:
        raise fail(folder, f"missing: {', '.join(missing)}")
    allx, tx = (_matrix(paths[part]) for part in ("allx", "tx"))
    y, ally, ty = (_one_hot(paths[part]) for part in ("y", "ally", "ty"))
    src, dst, nodes = _adjacency(paths["graph"])
    test = _test_index(paths["test.index"], nodes)

    known = allx.shape[0]
    for part, rows, expected in (
        ("ally", len(ally), known), ("tx", tx.shape[0], len(test)), ("ty", len(ty), len(test)),
    ):  # fmt: skip
        if rows != expected:
            raise fail(paths[part], f"{rows} rows where the other files have {expected}")
    if tx.shape[1] != allx.shape[1]:
        raise fail(paths["tx"], f"{tx.shape[1]} features where allx has {allx.shape[1]}")
    if len(test) and test.min() < known:
        raise fail(paths["test.index"], f"node {test.min()} is one of the {known} rows of allx")
    if len(y) + VALIDATION_NODES > known:
        raise fail(paths["y"], f"{len(y)} training nodes and {VALIDATION_NODES} exceed {known}")

    labels = np.full(nodes, -1, dtype=np.int64)
    labels[:known], labels[test] = ally, ty
    lengths = np.zeros(nodes, dtype=np.int64)
    lengths[:known], lengths[test] = np.diff(allx.indptr), np.diff(tx.indptr)
    order = np.argsort(test, kind="stable")
    features = Csr(
        (nodes, allx.shape[1]),
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate([allx.indices, *(tx.indices[span] for span in _spans(tx, order))]),
        np.concatenate([allx.data, *(tx.data[span] for span in _spans(tx, order))]),
    )
    with_data = np.zeros(nodes, dtype=bool)
    with_data[:known] = with_data[test] = True
    return Planetoid(
        num_nodes=nodes,
        features=features,
        labels=labels,
        src=src,
        dst=dst,
        train=np.arange(len(y)),
        validation=np.arange(len(y), len(y) + VALIDATION_NODES),
        test=np.sort(test),
        without_data=np.flatnonzero(~with_data),
    )


_PARTS = ("y", "allx", "ally", "tx", "ty", "graph", "test.index")


def _spans(matrix: Csr, order: np.ndarray) -> Iterator[slice]:
    return (slice(matrix.indptr[row], matrix.indptr[row + 1]) for row in order)


def _load(path: Path) -> Any:
    return load_pickle(path, map_file(path), _HANDLERS)[0]


def _matrix(path: Path) -> Csr:
    item = _load(path)
    if not isinstance(item, _CsrStandIn):
        raise fail(path, "does not hold a sparse matrix")
    shape = item.state.get("_shape", item.state.get("shape"))
    arrays = []
    for key in ("indptr", "indices", "data"):
        array = item.state.get(key)
        value = array.value if isinstance(array, ArrayStandIn) else None
        if not isinstance(value, np.ndarray):
            raise fail(path, f"the sparse matrix has no array {key}")
        arrays.append(value)
    if type(shape) is not tuple or not all(type(n) is int and n >= 0 for n in shape):
        raise fail(path, "the sparse matrix has no shape")
    if len(shape) == 2 and shape[1] > 1 << 20:
        raise fail(path, f"a sparse matrix of {shape[1]} columns is not believable")
    return checked_csr(path, shape, *arrays)


def _one_hot(path: Path) -> np.ndarray:
    """Class ids of one-hot rows; -1 for a row of zeros (an argmax would call it class 0)."""
    item = _load(path)
    rows = item.value if isinstance(item, ArrayStandIn) else None
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or rows.dtype.kind not in "iufb":
        raise fail(path, "does not hold a table of one-hot labels")
    ones = (rows == 1).sum(axis=1)
    if rows.shape[1] == 0 or (ones > 1).any() or ((rows != 0).sum(axis=1) != ones).any():
        raise fail(path, "has a row that is not one-hot")
    return np.where(ones == 1, rows.argmax(axis=1), -1).astype(np.int64)


def _adjacency(path: Path) -> tuple[np.ndarray, np.ndarray, int]:
    graph = _load(path)
    if type(graph) is not dict:
        raise fail(path, "does not hold an adjacency list")
    nodes = len(graph)
    sources, targets = [], []
    for node in range(nodes):
        if node not in graph:
            raise fail(path, f"has {nodes} nodes but no node {node}")
        try:
            neighbours = int_array(graph[node])
        except Refused as error:
            raise fail(path, f"neighbours of node {node}: {error}") from None
        if len(neighbours) and (neighbours.min() < 0 or neighbours.max() >= nodes):
            raise fail(path, f"node {node} has a neighbour outside the {nodes} nodes")
        sources.append(np.full(len(neighbours), node, dtype=np.int64))
        targets.append(neighbours)
    empty = np.zeros(0, dtype=np.int64)
    return np.concatenate([empty, *sources]), np.concatenate([empty, *targets]), nodes


def _test_index(path: Path, nodes: int) -> np.ndarray:
    ids = []
    for row, line in enumerate(bytes(map_file(path)).splitlines(), 1):
        text = line.strip()
        if not text.isdigit() or len(text) > 18 or int(text) >= nodes:
            raise fail(f"{path}, row {row}", f"not the id of one of {nodes} nodes")
        ids.append(int(text))
    if len(set(ids)) != len(ids):
        raise fail(path, "names a node twice")
    return np.array(ids, dtype=np.int64)
