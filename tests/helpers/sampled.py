"""Small graphs to sample from, and what must hold for every sampled batch."""

from __future__ import annotations

import networkx as nx
import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data


def edges(*pairs: tuple[int, int]) -> Tensor:
    return torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T.contiguous()


def random_graph(nodes: int, count: int, seed: int = 0) -> Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.integers(0, nodes, (2, count)))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, Tensor, Tensor]:
    """N, edges with loops and parallel ones, and some distinct seeds (maybe none)."""
    nodes = draw(st.integers(1, 25))
    node = st.integers(0, nodes - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=80))
    seeds = draw(st.lists(node, max_size=6, unique=True))
    return nodes, edges(*pairs), torch.tensor(seeds, dtype=torch.long)


def distances(nodes: int, edge_index: Tensor, seeds: Tensor) -> dict[int, int]:
    """Steps against the edges from the nearest seed, by networkx."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from((dst, src) for src, dst in edge_index.T.tolist())
    found: dict[int, int] = {}
    for seed in seeds.tolist():
        for node, steps in nx.single_source_shortest_path_length(graph, seed).items():
            found[node] = min(steps, found.get(node, steps))
    return found


def check_consistent(batch: Data, edge_index: Tensor, seeds: Tensor) -> None:
    """What holds for every batch whatever was drawn."""
    assert batch.n_id[: batch.batch_size].tolist() == seeds.tolist()
    assert batch.n_id.dtype == batch.e_id.dtype == batch.edge_index.dtype == torch.long
    assert batch.n_id.unique().numel() == len(batch.n_id) == batch.num_nodes
    assert batch.e_id.unique().numel() == len(batch.e_id) == batch.edge_index.shape[1]
    assert torch.equal(batch.n_id[batch.edge_index], edge_index[:, batch.e_id])
    assert sum(batch.num_sampled_nodes) == len(batch.n_id)
    assert batch.num_sampled_nodes[0] == batch.batch_size == len(seeds)
    assert sum(batch.num_sampled_edges) == len(batch.e_id)


def same(first: Data, second: Data) -> bool:
    return all(torch.equal(first[key], second[key]) for key in ("n_id", "edge_index", "e_id"))
