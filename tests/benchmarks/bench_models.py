"""An epoch (forward, backward, Adam) of GCN and GraphSAGE against a plain PyTorch Geometric script.

The shape is that of Toys: 20,695 nodes, 126,886 edges, two modalities of 768, hidden 256, 3 layers,
18 classes. Edges are undirected, so 253,772 messages are passed; the first argument ``directed``
passes 126,886 instead. Targets: GCN at most 1.0x the plain script, GraphSAGE at most 0.75x. The
plain script is ``torch_geometric.nn.models`` on one matrix of features and the list of edges; ours
is the registered model as tasks call it, named modalities and modality heads included; "new edges"
gives it another tensor of edges every epoch, as mini-batches do, so that nothing can be kept.
Run: python -m tests.benchmarks.bench_models [directed] [epochs]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import models

from maghub import registry
from tests.benchmarks._timing import seconds, show

NODES, EDGES, WIDTH, HIDDEN, LAYERS, CLASSES = 20_695, 126_886, 768, 256, 3, 18
TARGETS = {"gcn": 1.0, "graphsage": 0.75}
PEERS = {"gcn": models.GCN, "graphsage": models.GraphSAGE, "gin": models.GIN}


def epoch(net: nn.Module, run: Callable[[], Tensor], y: Tensor) -> Callable[[], None]:
    """One step of full-batch training."""
    optimizer = torch.optim.Adam(net.parameters(), 5e-3, weight_decay=1e-5)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(run(), y).backward()
        optimizer.step()

    return step


def main(*arguments: str) -> None:
    """Measure all in turn and print."""
    directed = "directed" in arguments
    repeat = int(next((a for a in arguments if a.isdigit()), 9))
    rng = np.random.default_rng(0)
    pairs = torch.from_numpy(rng.integers(0, NODES, (2, EDGES)))
    edges = pairs if directed else torch.cat([pairs, pairs.flip(0)], dim=1)
    x = {name: torch.randn(NODES, WIDTH) for name in ("text", "image")}
    whole, y = torch.cat(list(x.values()), dim=1), torch.randint(CLASSES, (NODES,))
    steps: dict[str, Callable[[], None]] = {}
    for name, peer in PEERS.items():
        kind = registry.get("models", name)
        config = kind.Config(hidden=HIDDEN, layers=LAYERS)
        script = peer(2 * WIDTH, HIDDEN, LAYERS, CLASSES, dropout=config.dropout)
        model = kind(dict.fromkeys(x, WIDTH), CLASSES, config)
        steps[f"{name} plain"] = epoch(script, lambda f=script: f(whole, edges), y)
        steps[name] = epoch(model, lambda f=model: f(x, edges).h, y)
        steps[f"{name} new"] = epoch(model, lambda f=model: f(x, edges.clone()).h, y)
    for step in steps.values():
        step()  # the first epoch also makes the matrices
    taken: dict[str, list[float]] = {key: [] for key in steps}
    for _ in range(repeat):
        for key, step in steps.items():
            taken[key].append(seconds(step))
    rows = []
    for name in PEERS:
        plain, own, new = (
            1e3 * median(taken[key]) for key in (f"{name} plain", name, f"{name} new")
        )
        least = min(taken[name]) / min(taken[f"{name} plain"])
        target = f"{TARGETS[name]:.2f}" if name in TARGETS else "-"
        row = [name, f"{plain:.0f}", f"{own:.0f}", f"{own / plain:.2f}", f"{least:.2f}"]
        rows.append([*row, f"{new / plain:.2f}", target])
    title = f"{edges.shape[1]:,} messages, {torch.get_num_threads()} threads, {repeat} epochs each"
    show(title, ["model", "plain ms", "ours ms", "median", "least", "new edges", "target"], rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
