"""Epochs of sampled batches: every item once, shards, negatives."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from maghub.baselines.sampling import (
    ALL,
    NeighborSampler,
    PairSet,
    Shard,
    draw_negatives,
    epoch_places,
    link_batches,
    node_batches,
)
from maghub.errors import MaghubError
from maghub.seeding import child_rng
from tests.helpers.sampled import check_consistent, edges, graphs, random_graph

few = settings(max_examples=60, deadline=None)


@few
@given(st.integers(0, 60), st.integers(1, 20), st.integers(1, 5), st.booleans(), st.integers(0, 3))
def test_shards_partition_the_epoch_in_equally_many_batches(
    count: int, batch_size: int, world: int, shuffle: bool, epoch: int
) -> None:
    if 0 < count < world:
        return
    parts = [
        epoch_places(count, batch_size, 7, epoch, shuffle=shuffle, shard=Shard(rank, world))
        for rank in range(world)
    ]
    assert len({len(part) for part in parts}) == 1
    places = [place for part in parts for batch in part for place in batch.tolist()]
    assert sorted(places) == list(range(count))
    sizes = [len(batch) for part in parts for batch in part]
    assert all(1 <= size <= batch_size + (world > 1) for size in sizes)
    if world == 1:
        assert all(size == batch_size for size in sizes[:-1])
        if not shuffle:
            assert places == list(range(count))


def test_node_batches_give_every_node_once_in_an_order_of_the_epoch() -> None:
    sampler = NeighborSampler(random_graph(100, 600), 100, [2], seed=3)
    ids = torch.arange(99, 19, -1)
    orders = []
    for epoch in (0, 1, 1):
        batches = list(node_batches(sampler, ids, 30, epoch))
        assert [batch.batch_size for batch in batches] == [30, 30, 20]
        seeds = torch.cat([batch.n_id[: batch.batch_size] for batch in batches])
        assert torch.equal(seeds, ids[torch.cat([batch.input_id for batch in batches])])
        assert sorted(seeds.tolist()) == sorted(ids.tolist())
        orders.append(seeds.tolist())
    assert orders[0] != orders[1] == orders[2]
    in_turn = node_batches(sampler, ids, 30, 0, shuffle=False)
    assert torch.equal(torch.cat([batch.n_id[: batch.batch_size] for batch in in_turn]), ids)


def test_two_processes_draw_other_neighbours_for_their_batches() -> None:
    star = edges(*[(i, 0) for i in range(1, 40)])
    sampler, ids = NeighborSampler(star, 40, [5]), torch.zeros(2, dtype=torch.long)
    first, second = (
        next(node_batches(sampler, ids, 1, 0, shard=Shard(rank, 2))) for rank in (0, 1)
    )
    assert first.e_id.tolist() != second.e_id.tolist()


def test_link_batches_give_every_positive_once_with_its_negatives() -> None:
    nodes = 60
    positives = torch.unique(random_graph(nodes, 400), dim=1)
    sampler = NeighborSampler(positives, nodes, [ALL], seed=3)
    known = PairSet(positives, nodes)
    taken = {frozenset(pair) for pair in positives.T.tolist()}
    found = []
    for batch in link_batches(sampler, positives, 64, epoch=2, negatives=3, forbidden=known):
        size = len(batch.input_id)
        pairs = batch.n_id[batch.edge_label_index]
        assert torch.equal(pairs[:, :size], positives[:, batch.input_id])
        assert pairs.shape[1] == 4 * size
        assert batch.edge_label.tolist() == [1] * size + [0] * 3 * size
        for src, dst in pairs[:, size:].T.tolist():
            assert src != dst
            assert frozenset((src, dst)) not in taken
        ends = batch.n_id[: batch.batch_size]
        assert ends.tolist() == sorted(set(pairs.ravel().tolist()))
        assert batch.edge_label_index.max() < batch.batch_size
        check_consistent(batch, positives, ends)
        found += batch.input_id.tolist()
    assert sorted(found) == list(range(positives.shape[1]))


def test_negatives_are_new_in_each_epoch_and_equal_when_drawn_again() -> None:
    positives = random_graph(50, 40)
    sampler = NeighborSampler(positives, 50, [2])

    def negatives(epoch: int) -> Tensor:
        (batch,) = link_batches(sampler, positives, 40, epoch, shuffle=False)
        return batch.n_id[batch.edge_label_index[:, 40:]]

    assert torch.equal(negatives(0), negatives(0))
    assert not torch.equal(negatives(0), negatives(1))


@pytest.mark.parametrize("directed", [False, True])
def test_negatives_are_uniform_over_the_allowed_pairs(directed: bool) -> None:
    positives = edges((0, 1), (1, 2), (3, 2), (4, 4), (1, 0))
    known = PairSet(positives, 5, directed=directed)
    closed = set(map(tuple, positives.T.tolist()))
    if not directed:
        closed |= {(dst, src) for src, dst in closed}
    allowed = {(i, j) for i in range(5) for j in range(5) if i != j} - closed
    assert known.free == len(allowed)
    drawn = draw_negatives(12_000, known, child_rng(0, "test"))
    counts = Counter(map(tuple, drawn.T.tolist()))
    assert set(counts) == allowed
    assert stats.chisquare(list(counts.values())).pvalue > 0.001


@few
@given(graphs(), st.booleans())
def test_pair_sets_answer_as_python_sets(graph: tuple[int, Tensor, Tensor], directed: bool) -> None:
    nodes, edge_index, _ = graph
    known = PairSet(edge_index, nodes, directed=directed)
    pairs = {(i, j) for i, j in edge_index.T.tolist() if i != j}
    if not directed:
        pairs |= {(j, i) for i, j in pairs}
    src, dst = np.divmod(np.arange(nodes * nodes), nodes)
    proper = src != dst
    wanted = [
        pair in pairs for pair in zip(src[proper].tolist(), dst[proper].tolist(), strict=True)
    ]
    assert known.contains(src[proper], dst[proper]).tolist() == wanted
    assert known.free == int(proper.sum()) - sum(wanted)


def test_bad_input_is_one_line() -> None:
    sampler = NeighborSampler(edges((0, 1)), 2, [5])
    with pytest.raises(MaghubError, match=r"^the batch size is 0. Give 1 or more"):
        next(node_batches(sampler, torch.arange(2), 0, 0))
    with pytest.raises(MaghubError, match=r"^2 items cannot be shared by 3 processes. Use fewer"):
        next(node_batches(sampler, torch.arange(2), 1, 0, shard=Shard(0, 3)))
    with pytest.raises(MaghubError, match=r"^every pair of the 2 nodes is an edge: there is no"):
        next(link_batches(sampler, edges((0, 1)), 1, 0, forbidden=PairSet(edges((0, 1)), 2)))
    with pytest.raises(MaghubError, match=r"^every pair of the 1 nodes is an edge"):
        next(link_batches(NeighborSampler(edges(), 1, [1]), edges((0, 0)), 1, 0))
