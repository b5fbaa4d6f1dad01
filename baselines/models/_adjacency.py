"""Sparse adjacency matrices: normalised once per graph, multiplied without a tensor of messages."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary
from torch_geometric import EdgeIndex
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import degree, get_laplacian, remove_self_loops

# Said once per process by torch when PyG makes its first matrix; not for the user of a model.
warnings.filterwarnings("ignore", "Sparse (invariant checks|CS[RC] tensor support)", UserWarning)

Kind = Literal["gcn", "mean", "sum", "chebyshev"]


@dataclass(frozen=True)
class Adjacency:
    """A weighted graph on which ``adjacency @ x`` sums messages.

    Attributes:
        index: int64 [2, E], source and target of each message, sorted by target.
        weight: float32 [E], or None for ones.
        targets: Number of rows it gives, the first ones.
    """

    index: EdgeIndex
    weight: Tensor | None
    targets: int

    def rows(self, count: int) -> Adjacency:
        """The first ``count`` rows; they read as many rows of ``x`` as this one gives."""
        index = self.index.as_tensor()
        end = int(torch.searchsorted(index[1], count))
        # Square: PyG's backward pass mistakes the sizes of a transposed oblong matrix.
        size = (self.targets, self.targets)
        first = EdgeIndex(index[:, :end], sparse_size=size, sort_order="col")
        return Adjacency(first, None if self.weight is None else self.weight[:end], count)

    def apply(self, conv: nn.Module, x: Tensor) -> Tensor:
        """A layer that multiplies with the matrix, float32 [targets, D]."""
        out: Tensor = conv(x, self)
        return out

    def __matmul__(self, x: Tensor) -> Tensor:
        """float32 [targets, D]: row i is the sum of weight * x[j] over the messages j -> i.

        Sums are in single precision under autocast too; gradients reach ``x`` through the
        transposed matrix, row by row, so they do not depend on the order of threads.
        """
        with torch.autocast(x.device.type, enabled=False):
            return self.index.matmul(x.float(), self.weight, transpose=True)[: self.targets]


@dataclass(frozen=True)
class Edges:
    """A graph for layers that weigh messages themselves.

    Attributes:
        index: int64 [2, E], source and target of each message.
        targets: Number of nodes, the first ones, that a layer is asked for; None for all.
    """

    index: Tensor
    targets: int | None = None

    def rows(self, count: int) -> Edges:
        """The messages to the first ``count`` nodes."""
        return Edges(self.index[:, self.index[1] < count], count)

    def apply(self, conv: nn.Module, x: Tensor) -> Tensor:
        """A layer of PyG on ``x`` and the messages, float32 [targets, D]."""
        ends = x if self.targets is None else (x, x[: self.targets])
        out: Tensor = conv(ends, self.index)
        return out


def _gcn(index: Tensor, weight: Tensor | None, nodes: int) -> tuple[Tensor, Tensor | None]:
    """D^-1/2 (A + I) D^-1/2; a self loop that is there already is kept, not added again."""
    return gcn_norm(index, weight, nodes, dtype=torch.float32)


def _mean(index: Tensor, weight: Tensor | None, nodes: int) -> tuple[Tensor, Tensor | None]:
    """D^-1 A of the in-degrees; weights are ignored, as by PyG's SAGEConv."""
    return index, degree(index[1], nodes, torch.float32)[index[1]].reciprocal()


def _sum(index: Tensor, weight: Tensor | None, nodes: int) -> tuple[Tensor, Tensor | None]:
    """A without self loops; weights are ignored, as by PyG's GINConv."""
    return remove_self_loops(index)[0], None


def _chebyshev(index: Tensor, weight: Tensor | None, nodes: int) -> tuple[Tensor, Tensor | None]:
    """L - I of the symmetric Laplacian, self loops removed: the scaled Laplacian for l_max = 2."""
    return remove_self_loops(*get_laplacian(index, weight, "sym", torch.float32, nodes))


_MAKERS: dict[Kind, Callable[[Tensor, Tensor | None, int], tuple[Tensor, Tensor | None]]] = {
    "gcn": _gcn,
    "mean": _mean,
    "sum": _sum,
    "chebyshev": _chebyshev,
}


class _Entry(NamedTuple):
    nodes: int
    versions: tuple[int, ...]
    weight: weakref.ref[Tensor] | None
    adjacency: Adjacency

    def serves(self, nodes: int, versions: tuple[int, ...], weight: Tensor | None) -> bool:
        """Whether it was made of these tensors as they are now."""
        own = None if self.weight is None else self.weight()
        return self.nodes == nodes and self.versions == versions and own is weight


_CACHE: MutableMapping[Tensor, dict[Kind, _Entry]] = WeakTensorKeyDictionary()


def _make(kind: Kind, edge_index: Tensor, edge_weight: Tensor | None, nodes: int) -> Adjacency:
    index, weight = _MAKERS[kind](edge_index, edge_weight, nodes)
    order = index[1].argsort(stable=True)
    by_target = EdgeIndex(index[:, order], sparse_size=(nodes, nodes), sort_order="col")
    return Adjacency(by_target, None if weight is None else weight[order], nodes)


def adjacency(kind: Kind, edge_index: Tensor, edge_weight: Tensor | None, nodes: int) -> Adjacency:
    """The matrix of a layer for a graph.

    It is made once for each ``edge_index`` and kept as long as that tensor lives: training on a
    full graph normalises and sorts once, a mini-batch once for all layers. Changing the tensors in
    place with torch is noticed. Weights that require gradients are never kept.

    Args:
        kind: How edges are weighted: ``gcn``, ``mean``, ``sum`` or ``chebyshev``.
        edge_index: int64 [2, E], messages flow from row 0 to row 1.
        edge_weight: float32 [E], or None for ones.
        nodes: Number of nodes.
    """
    tensors = [edge_index] if edge_weight is None else [edge_index, edge_weight]
    if any(tensor.requires_grad or tensor.is_inference() for tensor in tensors):
        return _make(kind, edge_index, edge_weight, nodes)
    versions = tuple(tensor._version for tensor in tensors)
    entries = _CACHE.setdefault(edge_index, {})
    entry = entries.get(kind)
    if entry is None or not entry.serves(nodes, versions, edge_weight):
        weak = None if edge_weight is None else weakref.ref(edge_weight)
        made = _make(kind, edge_index, edge_weight, nodes)
        entry = entries[kind] = _Entry(nodes, versions, weak, made)
    return entry.adjacency
