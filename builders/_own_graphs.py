"""Graphs as other libraries hold them (PyG, networkx, DGL), as columns of nodes and of edges."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maghub.builders._formats.dgl import read_dgl_graph
from maghub.errors import MaghubError, MissingExtra, first_line
from maghub.files import os_errors

MASKS = {"train_mask": "train", "val_mask": "validation", "test_mask": "test"}
Columns = dict[str, Sequence[Any]]


@dataclass(frozen=True)
class RawGraph:
    """Columns of nodes (with ``id``) and of edges (with ``src`` and ``dst``).

    Attributes:
        where: The file, or what the object is.
        nodes, edges: Columns under the names the library gives them.
        directed: What the library says; None where it does not say.
        left_out: Attributes that are no columns (matrices of features, single numbers).
    """

    where: str
    nodes: Columns
    edges: Columns
    directed: bool | None = None
    left_out: tuple[str, ...] = ()


def from_networkx(graph: Any, where: str = "networkx graph") -> RawGraph:
    """Nodes by ``str`` of their key; attributes become columns, null where a node has none."""
    nodes = _attributes([data for _, data in graph.nodes(data=True)])
    nodes["id"] = list(graph.nodes)
    found = list(graph.edges(data=True))
    edges = _attributes([data for _, _, data in found])
    edges["src"] = [source for source, _, _ in found]
    edges["dst"] = [target for _, target, _ in found]
    return RawGraph(where, nodes, edges, bool(graph.is_directed()))


def _attributes(rows: Sequence[Mapping[Any, Any]]) -> Columns:
    names = dict.fromkeys(name for row in rows for name in row)
    return {str(name): [row.get(name) for row in rows] for name in names}


def from_pyg(data: Any, where: str = "PyG Data") -> RawGraph:
    """A homogeneous ``Data``: one-dimensional tensors and lists of N or E values are columns."""
    if getattr(data, "edge_index", None) is None or not hasattr(data, "to_dict"):
        what = f"a {type(data).__name__} is no graph with one edge_index"
        raise MaghubError(what, where=where, fix="save one torch_geometric.data.Data")
    values = {key: _plain(value) for key, value in data.to_dict().items()}
    index, nodes = values.pop("edge_index"), data.num_nodes
    values.pop("num_nodes", None)
    pairs = isinstance(index, np.ndarray) and index.ndim == 2 and len(index) == 2
    if not (pairs and index.dtype.kind in "iu"):
        raise MaghubError("edge_index is no tensor of two rows of whole numbers", where=where)
    if type(nodes) is not int:
        raise MaghubError("does not say how many nodes it has", where=where, fix="set num_nodes")
    return _from_arrays(where, nodes, index[0], index[1], values, values)


def _plain(value: Any) -> Any:
    """A tensor as an array (bfloat16, which numpy has not, as float32), all else as it is."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        for change in ("contiguous", "float"):
            with suppress(TypeError, AttributeError, RuntimeError):  # sparse or quantised
                return getattr(value, change)().numpy()
    return value


def _from_dgl(path: Path) -> RawGraph:
    graph = read_dgl_graph(path)
    nodes, edges = graph.node_tensors, graph.edge_tensors
    return _from_arrays(str(path), graph.num_nodes, graph.src, graph.dst, nodes, edges)


def _from_arrays(
    where: str,
    num_nodes: int,
    src: np.ndarray,
    dst: np.ndarray,
    of_nodes: Mapping[str, Any],
    of_edges: Mapping[str, Any],
) -> RawGraph:
    """Nodes are called 0..N-1; a value is a column of edges only where it is none of nodes."""
    nodes: Columns = {k: v for k, v in of_nodes.items() if _is_column(v, num_nodes)}
    if split := _masks(where, num_nodes, of_nodes):
        nodes = {k: v for k, v in nodes.items() if k not in MASKS} | split
    nodes["id"] = range(num_nodes)
    of_edges = of_edges if of_edges is not of_nodes else dict(_rest(of_nodes, nodes))
    edges: Columns = {k: v for k, v in of_edges.items() if _is_column(v, len(src))}
    edges |= {"src": src.tolist(), "dst": dst.tolist()}
    left_out = {*of_nodes, *of_edges} - {*nodes, *edges, *(MASKS if split else ())}
    nodes = {name: _listed(name, values) for name, values in nodes.items()}
    edges = {name: _listed(name, values) for name, values in edges.items()}
    return RawGraph(where, nodes, edges, None, tuple(sorted(left_out)))


def _rest(values: Mapping[str, Any], taken: Columns) -> Iterator[tuple[str, Any]]:
    return ((k, v) for k, v in values.items() if k not in taken and k not in MASKS)


def _is_column(value: Any, rows: int) -> bool:
    if isinstance(value, np.ndarray):
        return value.shape in ((rows,), (rows, 1))
    return isinstance(value, list | tuple) and len(value) == rows


def _listed(name: str, value: Any) -> Sequence[Any]:
    """Plain values; a negative class is none, as PyG and DGL users write it."""
    if not isinstance(value, np.ndarray):
        return value
    values = value.ravel().tolist()
    if name in ("y", "label", "labels") and value.dtype.kind in "biuf":
        return [None if v != v or v < 0 else int(v) if float(v).is_integer() else v for v in values]
    return values


def _masks(where: str, num_nodes: int, tensors: Mapping[str, Any]) -> Columns:
    """The three boolean masks as one column ``split``; {} where they are not all there."""
    masks = [tensors.get(name) for name in MASKS]
    if not all(isinstance(mask, np.ndarray) and mask.shape == (num_nodes,) for mask in masks):
        return {}
    stacked = np.stack([np.asarray(mask, bool) for mask in masks])
    if (twice := np.flatnonzero(stacked.sum(axis=0) > 1)).size:
        raise MaghubError(f"node {twice[0]} is in two of {', '.join(MASKS)}", where=where)
    names = np.array(["", *MASKS.values()])
    return {"split": names[np.where(stacked.any(axis=0), stacked.argmax(axis=0) + 1, 0)].tolist()}


def _from_torch(path: Path) -> RawGraph:
    """A saved ``Data``, loaded with weights only: nothing in the file is executed."""
    try:
        import torch
        from torch_geometric.data import Data
        from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
        from torch_geometric.data.storage import EdgeStorage, GlobalStorage, NodeStorage
    except ImportError as error:
        raise MissingExtra(error.name or "torch_geometric", "baselines") from None
    safe = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage, NodeStorage, EdgeStorage]
    with os_errors(path), torch.serialization.safe_globals(safe):
        try:
            data = torch.load(path, map_location="cpu", weights_only=True)
        except OSError:
            raise
        except Exception as error:  # whatever a damaged or foreign pickle raises
            other = re.search(r"GLOBAL ([\w.]+)", str(error))  # what else the pickle holds
            reason = other[1] if other else first_line(error)[:150]
            fix = "save a plain Data with torch.save(data, path)"
            raise MaghubError(f"not a PyG Data ({reason})", where=path, fix=fix) from None
    if isinstance(data, tuple) and len(data) == 1:
        data = data[0]
    if isinstance(data, dict):
        data = Data.from_dict({str(key): value for key, value in data.items()})
    return from_pyg(data, str(path))


def _from_networkx_file(path: Path) -> RawGraph:
    import networkx

    with os_errors(path):
        try:
            if path.suffix.lower() == ".graphml":
                return from_networkx(networkx.read_graphml(path), str(path))
            raw = from_networkx(networkx.read_edgelist(path), str(path))
        except OSError:
            raise
        except Exception as error:  # expat, networkx and literal_eval each raise their own
            reason = first_line(error)[:150]
            raise MaghubError(f"not a graph I can read ({reason})", where=path) from None
    return RawGraph(raw.where, raw.nodes, raw.edges)  # an edge list says nothing of direction


READERS: dict[str, Callable[[Path], RawGraph]] = {
    ".pt": _from_torch,
    ".graphml": _from_networkx_file,
    ".edgelist": _from_networkx_file,
    ".bin": _from_dgl,
    ".dgl": _from_dgl,
}


def read_graph(path: Path) -> RawGraph:
    """The graph in a file whose suffix is one of ``READERS``."""
    return READERS[path.suffix.lower()](path)


def graph_of(value: Any) -> RawGraph | None:
    """The graph that an object of another library is; None where it is none."""
    if hasattr(value, "edge_index"):
        return from_pyg(value)
    if hasattr(value, "is_directed") and hasattr(value, "nodes"):
        return from_networkx(value)
    return None
