"""Neighbour samplers: PyTorch Geometric's compiled one where it is installed, else our own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
import torch_geometric.typing
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor
from torch_geometric.data import Data

from maghub.errors import MaghubError
from maghub.seeding import child_rng

ALL = -1
"""A fanout: every in-neighbour."""


class Sampler(Protocol):
    """What ``node_batches`` and ``link_batches`` draw neighbourhoods from."""

    num_nodes: int
    seed: int

    def sample(self, seeds: Tensor, *names: str | int) -> Data:
        """The sampled neighbourhood of ``seeds``, see ``NeighborSampler.sample``."""
        ...


class NeighborSampler:
    """Draws in-neighbours hop by hop, without replacement, from a compressed copy of the edges.

    A hop samples the in-edges of the nodes that the hop before it found first, as PyG's
    ``NeighborLoader`` does (GraphSAGE, algorithm 2, with one shared set of nodes). Memory is
    8 bytes per edge and per node; a call allocates for its batch only. Loops are compiled (numba);
    the first batch ever drawn waits some seconds for that.
    One object serves one thread at a time.

    Args:
        edge_index: int64 [2, E], messages flow from row 0 to row 1. Parallel edges are edges of
            their own; self loops are kept.
        num_nodes: N.
        fanout: In-edges per node and hop, nearest hop first; ``ALL`` (-1) takes every one.
        seed: Seed of all draws.

    Raises:
        MaghubError: An edge names no node, a fanout is neither -1 nor positive, or there are
            2**31 edges or 2**30 nodes.
    """

    def __init__(
        self, edge_index: Tensor, num_nodes: int, fanout: Sequence[int], seed: int = 0
    ) -> None:
        _check_graph(edge_index, num_nodes, fanout)
        self.num_nodes, self.fanout, self.seed = num_nodes, tuple(fanout), seed
        src, dst = edge_index.cpu().numpy()
        self._start, edges = _by_target(dst, num_nodes)
        # Source and edge id of an in-edge stand side by side: one cache miss instead of two.
        self._in_edges = np.empty((len(edges), 2), np.uint32)
        self._in_edges[:, 0], self._in_edges[:, 1] = src[edges], edges
        # ``_base`` plus the number of each node in the batch; it grows, so nothing is wiped.
        self._table, self._base = np.full(num_nodes, -1, np.int32), 0

    def sample(self, seeds: Tensor, *names: str | int) -> Data:
        """The neighbourhood of ``seeds`` as a small graph.

        Args:
            seeds: int64 [B] node ids. A node given twice stands in the batch twice, each with
                in-edges of its own; messages from it come from its last place.
            names: What the draw is for, e.g. ``"train", epoch, batch``: equal names, equal batch.

        Returns:
            ``Data`` with ``n_id`` int64 [n] (global ids, ``seeds`` first in the given order),
            ``edge_index`` int64 [2, e] (local, towards the seeds), ``e_id`` int64 [e] (columns of
            the ``edge_index`` given to the sampler), ``batch_size`` (B), ``num_sampled_nodes``
            (B, then new nodes per hop) and ``num_sampled_edges`` (per hop).

        Raises:
            MaghubError: A seed is no node.
        """
        from maghub.baselines._neighbor_hop import sample_hop

        nodes = _checked_seeds(seeds, self.num_nodes)
        rng = child_rng(self.seed, "neighbours", *names)
        edge_index, e_id = np.empty((2, 0), np.int64), np.empty(0, np.int64)
        num_nodes, num_edges = [len(nodes)], []
        base = self._new_base(len(nodes))
        self._table[nodes] = np.arange(base, base + len(nodes))
        begin = 0
        for fanout in self.fanout:
            known, done = len(nodes), len(e_id)
            most = len(self._in_edges) if fanout == ALL else fanout
            nodes, edge_index, e_id = sample_hop(
                self._start,
                self._in_edges,
                self._table,
                base,
                nodes,
                begin,
                edge_index,
                e_id,
                most,
                rng,
            )
            self._base = base + len(nodes)
            begin = known
            num_nodes.append(len(nodes) - known)
            num_edges.append(len(e_id) - done)
        return Data(
            n_id=torch.from_numpy(nodes),
            edge_index=torch.from_numpy(edge_index),
            e_id=torch.from_numpy(e_id),
            num_nodes=len(nodes),
            batch_size=len(seeds),
            num_sampled_nodes=num_nodes,
            num_sampled_edges=num_edges,
        )

    def _new_base(self, seeds: int) -> int:
        """A number above all in the table, with room for a batch of ``seeds`` above it."""
        if self._base + seeds + self.num_nodes >= 2**31:
            self._table.fill(-1)
            self._base = 0
        self._base += seeds
        return self._base - seeds


class PygNeighborSampler:
    """The same interface over the compiled sampler inside PyG's ``NeighborLoader``.

    Arguments as ``NeighborSampler``. Needs pyg-lib.
    """

    def __init__(
        self, edge_index: Tensor, num_nodes: int, fanout: Sequence[int], seed: int = 0
    ) -> None:
        from torch_geometric.sampler import NeighborSampler as Compiled

        _check_graph(edge_index, num_nodes, fanout)
        self.num_nodes, self.seed = num_nodes, seed
        graph = Data(edge_index=edge_index, num_nodes=num_nodes)
        self._compiled = Compiled(graph, list(fanout))

    def sample(self, seeds: Tensor, *names: str | int) -> Data:
        """As ``NeighborSampler.sample``; seeds must differ from each other.

        Raises:
            MaghubError: A seed is no node, or is given twice.
        """
        from torch_geometric.sampler import NodeSamplerInput

        if len(np.unique(_checked_seeds(seeds, self.num_nodes))) < len(seeds):
            raise MaghubError("a seed node is given twice", fix="give each node once")
        rng = child_rng(self.seed, "neighbours", *names)
        with torch.random.fork_rng(devices=[]):  # the compiled code draws from torch's generator
            torch.manual_seed(int(rng.integers(2**62)))
            out = self._compiled.sample_from_nodes(NodeSamplerInput(input_id=None, node=seeds))
        order = self._compiled.edge_permutation
        edges = out.edge if order is None else order[out.edge]
        return Data(
            n_id=out.node,
            edge_index=torch.stack([out.row, out.col]),
            e_id=edges,
            num_nodes=len(out.node),
            batch_size=len(seeds),
            num_sampled_nodes=out.num_sampled_nodes,
            num_sampled_edges=out.num_sampled_edges,
        )


def neighbor_sampler(
    edge_index: Tensor, num_nodes: int, fanout: Sequence[int], seed: int = 0
) -> Sampler:
    """PyG's compiled sampler where it is installed, else ours; see ``NeighborSampler``."""
    # torch-sparse would do for PyG, too, but leaves out the numbers of nodes and edges per hop.
    kind = PygNeighborSampler if torch_geometric.typing.WITH_PYG_LIB else NeighborSampler
    return kind(edge_index, num_nodes, fanout, seed)


def _by_target(
    dst: NDArray[np.int64], num_nodes: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """int32 [N + 1] where each node's in-edges start, and edge ids sorted by target (stable)."""
    count = len(dst)
    by_edge = sparse.csr_array(
        (np.ones(count, np.int8), dst, np.arange(count + 1)), shape=(count, num_nodes)
    )
    by_target = by_edge.tocsc()  # a counting sort
    return by_target.indptr.astype(np.int32), by_target.indices.astype(np.int32)


def _check_graph(edge_index: Tensor, num_nodes: int, fanout: Sequence[int]) -> None:
    if any(k != ALL and k < 1 for k in fanout):
        raise MaghubError(
            f"the fanout {list(fanout)} has a number below 1", fix="give -1 for all in-edges"
        )
    if edge_index.shape[1] >= 2**31 or num_nodes >= 2**30:
        raise MaghubError("the graph has 2**31 edges or 2**30 nodes", fix="split it into parts")
    if edge_index.numel() and not 0 <= edge_index.min() <= edge_index.max() < num_nodes:
        raise MaghubError(
            f"edges name nodes {edge_index.min()} to {edge_index.max()}, but there are {num_nodes}",
            fix="run: maghub validate FOLDER",
        )


def _checked_seeds(seeds: Tensor, num_nodes: int) -> NDArray[np.int64]:
    ids = seeds.cpu().numpy().astype(np.int64)
    if len(ids) and not 0 <= ids.min() <= ids.max() < num_nodes:
        raise MaghubError(
            f"seed nodes run from {ids.min()} to {ids.max()}, but there are {num_nodes} nodes"
        )
    return ids
