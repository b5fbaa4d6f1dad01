"""Neighbour sampling: ours, a numpy upper bound and a pure-Python loop, on the same graphs.

The upper bound does what no sampler can leave out, given the draws for nothing: it gathers source
and id of the in-edges that our sampler drew and numbers the nodes with ``np.unique``.
Targets: ours at most 2 times the upper bound, and at least 50 times faster than the loop. All run
in one thread; processor time is measured, which other programs disturb less than wall time.
Memory that was freed is used again before new pages are asked for, as in a training process.
Run: python -m tests.benchmarks.bench_sampling
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from maghub.baselines.sampling import NeighborSampler
from tests.benchmarks._timing import in_turn, show

BATCHES, ROUNDS, BOUND, LOOP = 20, 5, 2.0, 50.0


class Case(NamedTuple):
    """A graph with random edges, and what is sampled of it."""

    title: str
    nodes: int
    edges: int
    batch: int
    fanout: tuple[int, ...]


CASES = (
    Case("large", 700_000, 7_000_000, 1024, (10, 10)),
    Case("large, dense", 100_000, 7_000_000, 1024, (10, 10)),
    Case("Toys shape, both directions", 20_695, 253_772, 512, (25, 25)),
    Case("Toys shape, link prediction", 20_695, 253_772, 2048, (15, 15)),
)


class InEdges:
    """Sources and ids of the in-edges of every node, as arrays and as Python lists."""

    def __init__(self, edge_index: Tensor, nodes: int) -> None:
        src, dst = edge_index.numpy()
        self.ids = np.argsort(dst, kind="stable")
        self.sources = src[self.ids]
        self.place = np.empty_like(self.ids)  # of each edge in the two arrays
        self.place[self.ids] = np.arange(len(self.ids))
        starts = np.cumsum(np.bincount(dst, minlength=nodes))[:-1].tolist()
        sources, ids = self.sources.tolist(), self.ids.tolist()
        bounds = list(zip([0, *starts], [*starts, len(ids)], strict=True))
        self.source_lists = [sources[begin:end] for begin, end in bounds]
        self.id_lists = [ids[begin:end] for begin, end in bounds]


def upper_bound(
    graph: InEdges, seeds: NDArray[np.int64], places: NDArray[np.int64]
) -> tuple[NDArray[np.int64], ...]:
    """Gather and number; the draws are given."""
    sources, ids = graph.sources[places], graph.ids[places]
    nodes, local = np.unique(np.concatenate([seeds, sources]), return_inverse=True)
    return nodes, local, ids


def python_loop(
    graph: InEdges, seeds: list[int], fanout: tuple[int, ...], seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The sampler as a loop over nodes and edges, with lists and a dictionary."""
    draw = random.Random(seed)
    nodes = list(seeds)
    local = {node: place for place, node in enumerate(nodes)}
    sources, targets, edges = [], [], []
    begin = 0
    for k in fanout:
        end = len(nodes)
        for target in range(begin, end):
            near, names = graph.source_lists[nodes[target]], graph.id_lists[nodes[target]]
            places = draw.sample(range(len(near)), k) if len(near) > k else range(len(near))
            for place in places:
                node = near[place]
                if node not in local:
                    local[node] = len(nodes)
                    nodes.append(node)
                sources.append(local[node])
                targets.append(target)
                edges.append(names[place])
        begin = end
    return torch.tensor(nodes), torch.tensor([sources, targets]), torch.tensor(edges)


def cpu_seconds(function: Callable[[], object]) -> float:
    """Processor time of one call."""
    begin = time.process_time()
    function()
    return time.process_time() - begin


def measure(case: Case) -> list[str]:
    """One row of the table."""
    rng = np.random.default_rng(0)
    edge_index = torch.from_numpy(rng.integers(0, case.nodes, (2, case.edges)))
    graph = InEdges(edge_index, case.nodes)
    sampler = NeighborSampler(edge_index, case.nodes, case.fanout)
    seeds = [torch.from_numpy(rng.permutation(case.nodes)[: case.batch]) for _ in range(BATCHES)]
    drawn = [sampler.sample(seed, i) for i, seed in enumerate(seeds)]
    places = [graph.place[batch.e_id.numpy()] for batch in drawn]
    looped = [python_loop(graph, seed.tolist(), case.fanout, i) for i, seed in enumerate(seeds)]
    edges = sum(len(batch.e_id) for batch in drawn)
    if abs(edges - sum(len(ids) for _, _, ids in looped)) > 0.05 * edges:
        raise AssertionError("the loop and the sampler do not draw the same amount")
    candidates: dict[str, Callable[[], object]] = {
        "ours": lambda: [sampler.sample(seed, i) for i, seed in enumerate(seeds)],
        "bound": lambda: [
            upper_bound(graph, seed.numpy(), place)
            for seed, place in zip(seeds, places, strict=True)
        ],
        "loop": lambda: [
            python_loop(graph, seed.tolist(), case.fanout, i) for i, seed in enumerate(seeds)
        ],
    }
    seconds = in_turn({name: lambda f=f: cpu_seconds(f) for name, f in candidates.items()}, ROUNDS)
    to_bound, to_loop = seconds["ours"] / seconds["bound"], seconds["loop"] / seconds["ours"]
    reached = "yes" if to_bound <= BOUND and to_loop >= LOOP else "NO"
    return [
        f"{case.title}: {case.nodes:,} nodes, {case.edges:,} edges, {case.batch} x {case.fanout}",
        f"{edges // BATCHES:,}",
        *(f"{seconds[name] / BATCHES * 1e3:.2f}" for name in ("ours", "bound", "loop")),
        f"{to_bound:.2f}",
        f"{to_loop:.0f}",
        reached,
    ]


def main() -> None:
    """Measure all cases and print."""
    np.ones(1 << 21)  # 16 MB, freed at once: from now on malloc keeps what is freed
    header = ["graph and batch", "edges", "ours ms", "bound ms", "loop ms"]
    header += ["ours / bound", "loop / ours", "targets"]
    rows = [measure(case) for case in CASES]
    show(f"one batch, mean of {BATCHES}, best of {ROUNDS} rounds, processor time", header, rows)


if __name__ == "__main__":
    main()
