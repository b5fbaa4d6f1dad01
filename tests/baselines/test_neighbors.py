"""Sampled neighbourhoods against brute force, PyG's layers and the statistics of uniform draws."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tracemalloc
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
import torch_geometric.typing
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor
from torch.utils.data import DataLoader
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv

from maghub.baselines.sampling import (
    ALL,
    NeighborSampler,
    PygNeighborSampler,
    neighbor_sampler,
)
from maghub.errors import MaghubError
from tests.helpers.sampled import check_consistent, distances, edges, graphs, random_graph, same

COMPILED = torch_geometric.typing.WITH_PYG_LIB
few = settings(max_examples=60, deadline=None)


# -- neighbourhoods --------------------------------------------------------------------------------


@few
@given(graphs(), st.integers(1, 4))
def test_full_fanout_is_the_whole_in_neighbourhood(
    graph: tuple[int, Tensor, Tensor], hops: int
) -> None:
    nodes, edge_index, seeds = graph
    batch = NeighborSampler(edge_index, nodes, [ALL] * hops).sample(seeds)
    check_consistent(batch, edge_index, seeds)
    steps = distances(nodes, edge_index, seeds)
    assert set(batch.n_id.tolist()) == {node for node, far in steps.items() if far <= hops}
    inner = {node for node, far in steps.items() if far < hops}
    wanted = [i for i, dst in enumerate(edge_index[1].tolist()) if dst in inner]
    assert sorted(batch.e_id.tolist()) == wanted
    layers = Counter(steps.values())
    assert batch.num_sampled_nodes == [layers[far] for far in range(hops + 1)]


@few
@given(graphs(), st.lists(st.sampled_from([ALL, 1, 2, 3, 5]), max_size=3), st.integers(0, 99))
def test_each_node_found_before_the_last_hop_has_its_fanout_of_distinct_in_edges(
    graph: tuple[int, Tensor, Tensor], fanout: list[int], seed: int
) -> None:
    nodes, edge_index, seeds = graph
    batch = NeighborSampler(edge_index, nodes, fanout, seed).sample(seeds, "epoch", 3)
    check_consistent(batch, edge_index, seeds)
    degree = torch.bincount(edge_index[1], minlength=nodes)
    drawn = torch.bincount(batch.edge_index[1], minlength=batch.num_nodes)
    begin = 0
    for hop, k in enumerate(fanout):
        end = begin + batch.num_sampled_nodes[hop]
        all_edges = degree[batch.n_id[begin:end]]
        assert torch.equal(drawn[begin:end], all_edges if k == ALL else all_edges.clamp(max=k))
        begin = end
    assert not drawn[begin:].any()


@few
@given(graphs(), st.integers(0, 3))
def test_sage_on_the_sampled_graph_equals_sage_on_the_whole_graph(
    graph: tuple[int, Tensor, Tensor], hops: int
) -> None:
    nodes, edge_index, seeds = graph
    seeds = torch.cat([seeds, seeds[:2]])  # nodes given twice are computed twice, equally
    torch.manual_seed(0)
    layers = [SAGEConv(4, 4) for _ in range(hops)]
    x = torch.randn(nodes, 4)
    batch = NeighborSampler(edge_index, nodes, [ALL] * hops).sample(seeds)
    whole, part = x, x[batch.n_id]
    with torch.no_grad():
        for layer in layers:
            whole = layer(whole, edge_index).tanh()
            part = layer(part, batch.edge_index).tanh()
    assert torch.allclose(part[: batch.batch_size], whole[seeds], atol=1e-6)


def test_a_seed_given_twice_stands_twice_with_draws_of_its_own() -> None:
    star = edges(*[(i, 0) for i in range(1, 40)])
    batch = NeighborSampler(star, 40, [5]).sample(torch.tensor([0, 7, 0]))
    assert batch.n_id[:3].tolist() == [0, 7, 0]
    assert Counter(batch.edge_index[1].tolist()) == {0: 5, 2: 5}
    first, second = (batch.e_id[batch.edge_index[1] == place] for place in (0, 2))
    assert first.tolist() != second.tolist()


@pytest.mark.parametrize("fanout", [1_000, 2**31 - 1, 2**40])
def test_a_fanout_above_every_degree_takes_all_and_costs_nothing(fanout: int) -> None:
    edge_index, seeds = random_graph(50, 3000), torch.arange(7)
    every = NeighborSampler(edge_index, 50, [ALL, ALL]).sample(seeds)
    assert same(every, NeighborSampler(edge_index, 50, [fanout, fanout]).sample(seeds))


def test_one_node_no_edges_no_seeds_and_no_hops_work() -> None:
    none = edges()
    alone = NeighborSampler(none, 1, [3, ALL]).sample(torch.tensor([0]))
    assert alone.n_id.tolist() == [0]
    assert alone.edge_index.shape == (2, 0)
    assert alone.num_sampled_nodes == [1, 0, 0]
    loop = NeighborSampler(edges((0, 0)), 1, [2, 2]).sample(torch.tensor([0]))
    assert loop.edge_index.tolist() == [[0], [0]]
    empty = NeighborSampler(edges((0, 1)), 2, [2]).sample(torch.tensor([], dtype=torch.long))
    assert empty.num_nodes == 0
    assert NeighborSampler(edges((0, 1)), 2, []).sample(torch.tensor([1])).n_id.tolist() == [1]


# -- draws -----------------------------------------------------------------------------------------


def test_every_subset_of_neighbours_is_equally_likely() -> None:
    # Node 0 has 6 in-edges; the others of the frontier have fewer, as many and more than 3.
    pairs = [(i, 0) for i in range(1, 7)] + [(1, 7), (2, 7)] + [(i, 8) for i in range(1, 4)]
    pairs += [(i, 9) for i in range(1, 6)]
    sampler = NeighborSampler(edges(*pairs), 10, [3])
    seeds = torch.tensor([7, 0, 8, 9])
    counts: Counter[tuple[int, ...]] = Counter()
    for draw in range(4000):
        batch = sampler.sample(seeds, draw)
        chosen = batch.n_id[batch.edge_index[0][batch.edge_index[1] == 1]]
        counts[tuple(sorted(chosen.tolist()))] += 1
    assert len(counts) == 20  # 6 over 3
    assert stats.chisquare(list(counts.values())).pvalue > 0.001


@pytest.mark.parametrize(("size", "count"), [(4, 2), (5, 3), (9, 2), (40, 2)])
def test_every_subset_is_equally_likely_however_it_is_drawn(size: int, count: int) -> None:
    # Drawn are those taken, those left out, or (from 8 in-edges for 2) one after the other.
    star = edges(*[(i, 0) for i in range(1, size + 1)])
    batch = NeighborSampler(star, size + 1, [count]).sample(torch.zeros(20_000, dtype=torch.long))
    drawn = np.sort(batch.e_id.numpy().reshape(-1, count))
    subsets, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(subsets) == math.comb(size, count)
    assert stats.chisquare(counts).pvalue > 0.001


@pytest.mark.parametrize(("size", "count"), [(5, 4), (7, 2), (30, 12), (100_000, 25)])
def test_draws_include_every_in_edge_equally_often(size: int, count: int) -> None:
    star = edges(*[(i, 0) for i in range(1, size + 1)])
    batch = NeighborSampler(star, size + 1, [count]).sample(torch.zeros(6000, dtype=torch.long))
    drawn = batch.e_id.numpy().reshape(-1, count).T
    ordered = np.sort(drawn, axis=0)
    assert (ordered[1:] > ordered[:-1]).all()
    bins = np.bincount((drawn.ravel() * min(size, 50)) // size)
    # Draws of one column differ, so counts vary a little less than independent ones would.
    assert stats.chisquare(bins).pvalue > 0.001


def test_a_batch_depends_on_seed_and_names_only() -> None:
    edge_index = random_graph(200, 4000)
    seeds = torch.arange(20)
    sampler = NeighborSampler(edge_index, 200, [3, 3], seed=1)
    first = sampler.sample(seeds, "train", 0, 5)
    sampler.sample(torch.arange(50), "train", 0, 6)  # other calls between
    assert same(first, sampler.sample(seeds, "train", 0, 5))
    assert same(
        first, NeighborSampler(edge_index, 200, [3, 3], seed=1).sample(seeds, "train", 0, 5)
    )
    assert not same(first, sampler.sample(seeds, "train", 1, 5))
    assert not same(first, NeighborSampler(edge_index, 200, [3, 3]).sample(seeds, "train", 0, 5))


@pytest.mark.integration
def test_worker_processes_give_the_batches_of_the_main_process() -> None:
    sampler = NeighborSampler(random_graph(500, 9000), 500, [4, 4], seed=2)

    def draw(number: int) -> Data:
        return sampler.sample(torch.arange(number, number + 30), "train", number)

    loader: Any = DataLoader(range(6), batch_size=None, num_workers=2, collate_fn=draw)  # type: ignore[arg-type]
    for number, batch in enumerate(loader):
        assert same(batch, draw(number))


def test_a_batch_allocates_for_itself_and_not_for_the_graph() -> None:
    nodes = 3_000_000
    sampler = NeighborSampler(random_graph(nodes, 100_000), nodes, [10, 10])
    sampler.sample(torch.arange(50))  # compiles
    tracemalloc.start()
    try:
        sampler.sample(torch.arange(50))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000  # bytes; one per node would be 3 MB
    finally:
        tracemalloc.stop()


def test_batches_stay_right_when_the_numbers_of_the_table_run_out() -> None:
    edge_index, seeds = random_graph(200, 4000), torch.arange(20)
    fresh, old = (NeighborSampler(edge_index, 200, [3, 3], seed=1) for _ in range(2))
    for number in range(30):
        old._base = max(old._base, 2**31 - 900)  # room for some batches
        assert same(fresh.sample(seeds, number), old.sample(seeds, number))


@pytest.mark.integration
def test_where_no_folder_keeps_compiled_code_batches_are_the_same() -> None:
    script = (
        "import torch; from maghub.baselines.sampling import NeighborSampler as S; "
        "e = torch.arange(120).reshape(2, 60) % 13; b = S(e, 13, [2, 2]).sample(torch.arange(4)); "
        "print(b.n_id.tolist(), b.e_id.tolist())"
    )
    nowhere = {"NUMBA_CACHE_LOCATOR_CLASSES": "ZipCacheLocator"}  # it takes zip archives only
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script], env=os.environ | more, check=True, capture_output=True
        ).stdout
        for more in ({}, nowhere)
    ]
    assert outputs[0] == outputs[1] != b""


# -- bad input -------------------------------------------------------------------------------------


def test_bad_input_is_one_line() -> None:
    with pytest.raises(MaghubError, match=r"^the fanout \[5, 0\] has a number below 1. Give -1"):
        NeighborSampler(edges((0, 1)), 2, [5, 0])
    with pytest.raises(MaghubError, match=r"^edges name nodes 0 to 7, but there are 2"):
        NeighborSampler(edges((0, 7)), 2, [5])
    with pytest.raises(MaghubError, match=r"^edges name nodes -1 to 0, but there are 2"):
        NeighborSampler(edges((0, -1)), 2, [5])
    sampler = NeighborSampler(edges((0, 1)), 2, [5])
    with pytest.raises(MaghubError, match=r"^seed nodes run from 0 to 2, but there are 2 nodes"):
        sampler.sample(torch.tensor([0, 2]))


def test_a_refused_call_leaves_the_sampler_as_it_was() -> None:
    sampler = NeighborSampler(random_graph(30, 200), 30, [2, 2])
    before = sampler.sample(torch.arange(3), 1)
    with pytest.raises(MaghubError):
        sampler.sample(torch.tensor([1, 30]))
    assert same(before, sampler.sample(torch.arange(3), 1))


# -- the compiled sampler --------------------------------------------------------------------------


def test_without_a_compiled_sampler_ours_is_taken() -> None:
    kind = PygNeighborSampler if COMPILED else NeighborSampler
    assert isinstance(neighbor_sampler(edges((0, 1)), 2, [1]), kind)


@pytest.mark.skipif(not COMPILED, reason="pyg-lib is not installed")
@pytest.mark.parametrize("fanout", [[ALL, ALL], [3, 2]])
def test_the_compiled_sampler_gives_the_same_fields(fanout: list[int]) -> None:
    edge_index, seeds = random_graph(100, 900), torch.tensor([5, 3, 99])
    compiled = PygNeighborSampler(edge_index, 100, fanout, seed=4)
    theirs = compiled.sample(seeds, "train", 1)
    ours = NeighborSampler(edge_index, 100, fanout, seed=4).sample(seeds, "train", 1)
    assert set(theirs.keys()) == set(ours.keys())
    check_consistent(theirs, edge_index, seeds)
    assert same(theirs, compiled.sample(seeds, "train", 1))
    if ALL in fanout:
        assert sorted(theirs.e_id.tolist()) == sorted(ours.e_id.tolist())
        assert theirs.num_sampled_edges == ours.num_sampled_edges
        assert theirs.num_sampled_nodes == ours.num_sampled_nodes
    with pytest.raises(MaghubError, match="a seed node is given twice"):
        compiled.sample(torch.tensor([1, 1]))
