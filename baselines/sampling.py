"""Mini-batches of a graph: sampled neighbourhoods and negatives, compiled and reproducible.

``neighbor_sampler`` gives PyTorch Geometric's own sampler where pyg-lib is installed, else
``NeighborSampler``, which returns the same fields. Either way a batch depends
on the seed and the names of the draw, never on workers or on the order of calls.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from maghub.baselines._neighbors import (
    ALL,
    NeighborSampler,
    PygNeighborSampler,
    Sampler,
    neighbor_sampler,
)
from maghub.errors import MaghubError
from maghub.seeding import child_rng
from maghub.statistics import pair_keys

__all__ = [
    "ALL",
    "NeighborSampler",
    "PairSet",
    "PygNeighborSampler",
    "Sampler",
    "Shard",
    "draw_negatives",
    "epoch_places",
    "link_batches",
    "neighbor_sampler",
    "node_batches",
]


class Shard(NamedTuple):
    """Which part of an epoch this process takes: DDP's rank and world size."""

    rank: int = 0
    world_size: int = 1


WHOLE = Shard()


class PairSet:
    """A set of node pairs that answers for many pairs at once whether they are members.

    Args:
        edge_index: int64 [2, E] pairs, e.g. the positives of all splits.
        num_nodes: N.
        directed: Whether (i, j) and (j, i) differ.
    """

    def __init__(self, edge_index: Tensor, num_nodes: int, *, directed: bool = False) -> None:
        self.num_nodes, self.directed = num_nodes, directed
        src, dst = edge_index.cpu().numpy()
        proper = src != dst  # loops are never negatives anyway
        keys = self._key(src[proper], dst[proper])
        keys.sort()  # np.unique hashes whole numbers first, 14 times slower on 7 million
        self._keys = keys[np.diff(keys, prepend=-1) > 0]

    def _key(self, src: NDArray[np.int64], dst: NDArray[np.int64]) -> NDArray[np.int64]:
        return pair_keys(src, dst, self.num_nodes, directed=self.directed)

    def contains(self, src: NDArray[np.int64], dst: NDArray[np.int64]) -> NDArray[np.bool_]:
        """bool [n]: which of the pairs (src, dst), int64 [n] each, are members."""
        wanted = self._key(src, dst)
        if len(self._keys) == 0:
            return np.zeros(len(wanted), bool)
        spot = np.searchsorted(self._keys, wanted)
        return self._keys[np.minimum(spot, len(self._keys) - 1)] == wanted

    @property
    def free(self) -> int:
        """How many ordered pairs of different nodes are not members."""
        members = len(self._keys) * (1 if self.directed else 2)
        return self.num_nodes * (self.num_nodes - 1) - members


def draw_negatives(count: int, forbidden: PairSet, rng: np.random.Generator) -> NDArray[np.int64]:
    """int64 [2, count]: uniform ordered pairs of different nodes that are not in ``forbidden``.

    Raises:
        MaghubError: There is no such pair.
    """
    if count and forbidden.free <= 0:
        raise MaghubError(
            f"every pair of the {forbidden.num_nodes} nodes is an edge: there is no negative",
            fix="use a sparser graph or another task",
        )
    pairs = rng.integers(0, forbidden.num_nodes, (2, count))
    bad = np.arange(count)
    while len(bad):
        src, dst = pairs[:, bad]
        bad = bad[(src == dst) | forbidden.contains(src, dst)]
        pairs[:, bad] = rng.integers(0, forbidden.num_nodes, (2, len(bad)))
    return pairs


def node_batches(
    sampler: Sampler,
    ids: Tensor,
    batch_size: int,
    epoch: int,
    *,
    shuffle: bool = True,
    shard: Shard = WHOLE,
) -> Iterator[Data]:
    """One epoch over nodes, as PyG's ``NeighborLoader``.

    Args:
        sampler: Where neighbourhoods come from; its seed is the seed of the epoch too.
        ids: int64 [n] seed nodes.
        batch_size: Seeds per batch.
        epoch: Number of the epoch; each has its own order and its own draws.
        shuffle: Whether the order is drawn; else ``ids`` in turn.
        shard: This process's part. All processes get equally many batches, together every id once.

    Yields:
        What ``sampler.sample`` gives, and ``input_id`` int64 [B]: places of the seeds in ``ids``.

    Raises:
        MaghubError: See ``epoch_places`` and ``sampler.sample``.
    """
    places = epoch_places(len(ids), batch_size, sampler.seed, epoch, shuffle=shuffle, shard=shard)
    for number, part in enumerate(places):
        chosen = torch.from_numpy(part)
        batch = sampler.sample(ids[chosen], "nodes", epoch, *shard, number)
        batch.input_id = chosen
        yield batch


def link_batches(
    sampler: Sampler,
    edge_label_index: Tensor,
    batch_size: int,
    epoch: int,
    *,
    negatives: int = 1,
    forbidden: PairSet | None = None,
    shuffle: bool = True,
    shard: Shard = WHOLE,
) -> Iterator[Data]:
    """One epoch over positive pairs with fresh negatives, as PyG's ``LinkNeighborLoader``.

    Messages flow over the edges of ``sampler`` only: build it from training edges.

    Args:
        sampler: Where neighbourhoods come from; its seed is the seed of the epoch too.
        edge_label_index: int64 [2, P] positive pairs.
        batch_size: Positives per batch.
        epoch: Number of the epoch.
        negatives: Negatives per positive.
        forbidden: Pairs that are never negatives, i.e. the positives of all splits. None: only
            pairs of a node with itself are left out.
        shuffle: Whether the order is drawn.
        shard: This process's part, see ``node_batches``.

    Yields:
        What ``sampler.sample`` gives for the distinct endpoints, and ``edge_label_index`` int64
        [2, B + B * negatives] (local, positives first), ``edge_label`` float32 (1 or 0) and
        ``input_id`` int64 [B], places of the positives in the given ones.

    Raises:
        MaghubError: There is no negative; see also ``epoch_places`` and ``sampler.sample``.
    """
    seed, nodes = sampler.seed, sampler.num_nodes
    if forbidden is None:
        forbidden = PairSet(torch.empty((2, 0), dtype=torch.long), nodes)
    count = edge_label_index.shape[1]
    places = epoch_places(count, batch_size, seed, epoch, shuffle=shuffle, shard=shard)
    for number, part in enumerate(places):
        names = ("links", epoch, *shard, number)
        chosen = torch.from_numpy(part)
        rng = child_rng(seed, "negatives", *names)
        drawn = draw_negatives(len(part) * negatives, forbidden, rng)
        pairs = np.concatenate([edge_label_index[:, chosen].numpy(), drawn], axis=1)
        ends, local = np.unique(pairs, return_inverse=True)
        batch = sampler.sample(torch.from_numpy(ends), *names)
        batch.edge_label_index = torch.from_numpy(local.reshape(2, -1))
        batch.edge_label = torch.zeros(pairs.shape[1])
        batch.edge_label[: len(part)] = 1
        batch.input_id = chosen
        yield batch


def epoch_places(
    count: int,
    batch_size: int,
    seed: int,
    epoch: int,
    *,
    shuffle: bool = True,
    shard: Shard = WHOLE,
) -> list[NDArray[np.int64]]:
    """Places 0..count-1 of an epoch's items, batch by batch, for one process.

    All processes draw the same order and take every ``world_size``-th item of it, in equally many
    batches of nearly equal size, none empty (a batch may hold one item more than asked if a
    process would otherwise have nothing to do in the last step).

    Raises:
        MaghubError: ``batch_size`` is not positive, or there are fewer items than processes.
    """
    rank, world = shard
    if batch_size < 1:
        raise MaghubError(f"the batch size is {batch_size}", fix="give 1 or more")
    if 0 < count < world:
        raise MaghubError(f"{count} items cannot be shared by {world} processes", fix="use fewer")
    order = np.arange(count)
    if shuffle:
        order = child_rng(seed, "order", epoch).permutation(count)
    share = order[rank::world]
    if world == 1:
        return np.split(share, range(batch_size, count, batch_size)) if count else []
    batches = min(math.ceil(math.ceil(count / world) / batch_size), count // world)
    return np.array_split(share, batches) if batches else []
