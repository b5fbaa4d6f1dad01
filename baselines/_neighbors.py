"""Neighbour samplers: PyTorch Geometric's compiled one where it is installed, else our own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

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
    8 bytes per edge and per node; a call allocates for its batch only.
    One object serves one thread at a time.

    Args:
        edge_index: int64 [2, E], messages flow from row 0 to row 1. Parallel edges are edges of
            their own; self loops are kept.
        num_nodes: N.
        fanout: In-edges per node and hop, nearest hop first; ``ALL`` (-1) takes every one.
        seed: Seed of all draws.

    Raises:
        MaghubError: An edge names no node, a fanout is neither -1 nor positive, or there are
            2**31 edges or nodes.
    """

    def __init__(
        self, edge_index: Tensor, num_nodes: int, fanout: Sequence[int], seed: int = 0
    ) -> None:
        _check_graph(edge_index, num_nodes, fanout)
        self.num_nodes, self.fanout, self.seed = num_nodes, tuple(fanout), seed
        src, dst = edge_index.cpu().numpy()
        start, edges = _by_target(dst, num_nodes)
        self._start = start.astype(np.int32)
        # One 8-byte word per in-edge holds source and edge id: one cache miss instead of two.
        words = np.empty((len(edges), 2), np.uint32)
        words[:, 0], words[:, 1] = src[edges], edges
        self._in_edges = words.view(np.uint64).ravel()
        self._local = np.full(num_nodes, -1, np.int32)

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
        nodes = [_checked_seeds(seeds, self.num_nodes)]
        rng = child_rng(self.seed, "neighbours", *names)
        sources, edges, targets = [], [], []
        begin, count = 0, len(nodes[0])
        try:
            self._local[nodes[0]] = np.arange(count, dtype=np.int32)
            for fanout in self.fanout:
                spots, degree = self._draw(nodes[-1], fanout, rng)
                words = self._in_edges.take(spots).view(np.uint32).reshape(-1, 2)
                numbers, new = self._number(words[:, 0].astype(np.int64), count)
                sources.append(numbers)
                targets.append(np.repeat(np.arange(begin, count, dtype=np.int32), degree))
                edges.append(words[:, 1])
                nodes.append(new)
                begin, count = count, count + len(new)
        finally:
            for part in nodes:
                self._local[part] = -1
        sizes = [len(part) for part in edges]
        edge_index = np.empty((2, sum(sizes)), np.int64)
        _join(sources, edge_index[0])
        _join(targets, edge_index[1])
        return Data(
            n_id=torch.from_numpy(np.concatenate(nodes)),
            edge_index=torch.from_numpy(edge_index),
            e_id=torch.from_numpy(_join(edges, np.empty(sum(sizes), np.int64))),
            num_nodes=count,
            batch_size=len(nodes[0]),
            num_sampled_nodes=[len(part) for part in nodes],
            num_sampled_edges=sizes,
        )

    def _number(
        self, found: NDArray[np.int64], count: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Local numbers of nodes, and those that had none, which get ``count``, ``count`` + 1, ...

        No sorting: each unseen place writes itself into the table, and where it is read back, the
        place stands for its node.
        """
        # (Taking by numbers is branch-free; by a mask it is not.)
        unseen = found.take(np.flatnonzero(self._local.take(found) < 0))
        places = np.arange(len(unseen), dtype=np.int32)
        self._local[unseen] = places
        new = unseen.take(np.flatnonzero(self._local.take(unseen) == places))
        self._local[new] = np.arange(count, count + len(new), dtype=np.int32)
        return self._local.take(found), new

    def _draw(
        self, frontier: NDArray[np.int64], fanout: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Places of drawn in-edges, node after node, and how many each node has."""
        start = self._start.take(frontier)
        degree = self._start.take(frontier + 1) - start
        count = degree if fanout == ALL else np.minimum(degree, fanout)
        before = np.cumsum(count) - count
        spots = np.repeat(start - before, count)
        spots += np.arange(len(spots))
        many = np.flatnonzero(degree > count)
        if len(many):
            drawn = distinct_draws(degree[many], fanout, rng)
            spots[before[many] + np.arange(fanout)[:, None]] = start[many] + drawn
        return spots, count


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


def distinct_draws(
    sizes: NDArray[np.int64], count: int, rng: np.random.Generator
) -> NDArray[np.int32]:
    """int32 [count, M]: column j is a uniform subset of 0..sizes[j]-1, all sizes > ``count``.

    Floyd's algorithm (Bentley and Floyd, CACM 30(9), 1987) for all columns at once: the work does
    not grow with the sizes, so hubs cost nothing extra.
    """
    first = (sizes - count).astype(np.int32)
    last = first + np.arange(count, dtype=np.int32)[:, None]  # draw i is from 0..last[i]
    drawn = (rng.random(last.shape) * (last + 1)).astype(np.int32)
    for i in range(1, count):
        taken = (drawn[:i] == drawn[i]).any(axis=0)
        np.maximum(drawn[i], last[i] * taken, out=drawn[i])  # last[i] where taken, free of branches
    return drawn


def _by_target(
    dst: NDArray[np.int64], num_nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """int64 [N + 1] where each node's in-edges start, and edge ids sorted by target (stable)."""
    count = len(dst)
    by_edge = sparse.csr_array(
        (np.ones(count, np.int8), dst, np.arange(count + 1)), shape=(count, num_nodes)
    )
    by_target = by_edge.tocsc()  # a counting sort
    return by_target.indptr.astype(np.int64), by_target.indices


def _join(parts: Sequence[NDArray[Any]], out: NDArray[np.int64]) -> NDArray[np.int64]:
    """All parts one after the other, written into ``out``."""
    return np.concatenate([out[:0], *parts], out=out, casting="same_kind")


def _check_graph(edge_index: Tensor, num_nodes: int, fanout: Sequence[int]) -> None:
    if any(k != ALL and k < 1 for k in fanout):
        raise MaghubError(
            f"the fanout {list(fanout)} has a number below 1", fix="give -1 for all in-edges"
        )
    if max(edge_index.shape[1], num_nodes) >= 2**31:
        raise MaghubError("the graph has 2**31 edges or more", fix="split it into parts")
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
