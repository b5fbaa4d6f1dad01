"""Models and graphs that the tests of models share."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric import seed_everything

from maghub import registry
from maghub.baselines._model import Model, Output

NODES, WIDTH, OUT = 12, 6, 5
DIMS = {"text": WIDTH, "image": WIDTH}
NAMES = [
    name for name in registry.names("models") if issubclass(registry.get("models", name), Model)
]
CONVENTIONAL = ["mlp", "gcn", "gat", "graphsage", "revgat", "gin", "chebnet", "gcnii", "gatv2"]


def build(
    name: str, dims: dict[str, int] = DIMS, out: int = OUT, seed: int = 0, **settings: Any
) -> Model:
    """A registered model, small where nothing else is asked."""
    kind: type[Model] = registry.get("models", name)
    if "hidden" in kind.Config.model_fields:
        settings = {"hidden": 12, **settings}
    seed_everything(seed)
    return kind(dims, out, kind.Config.model_validate(settings))


def features(nodes: int = NODES, seed: int = 0, dims: dict[str, int] = DIMS) -> dict[str, Tensor]:
    """Random values per modality."""
    made = torch.Generator().manual_seed(seed)
    return {name: torch.randn(nodes, width, generator=made) for name, width in dims.items()}


def ring(nodes: int = NODES) -> Tensor:
    """Both directions of a ring with chords on all nodes but the last, which is isolated."""
    pairs = [(i, (i + step) % (nodes - 1)) for i, step in product(range(nodes - 1), (1, 3))]
    edges = torch.tensor(pairs).T
    return torch.cat([edges, edges.flip(0)], dim=1)


def messy() -> Tensor:
    """Directed edges in no order with a repeated edge, self loops and an isolated node."""
    rng = np.random.default_rng(0)
    edges = rng.integers(0, NODES - 1, (2, 40))
    edges[1] = (edges[0] + 1 + edges[1] % (NODES - 2)) % (NODES - 1)  # no loop by chance
    edges[:, 5], edges[:, 7], edges[:, 9] = edges[:, 4], (3, 3), (8, 8)
    return torch.from_numpy(edges)


def empty() -> Tensor:
    """No edges."""
    return torch.empty(2, 0, dtype=torch.int64)


def flat(output: Output) -> Tensor:
    """All that an encoder says, side by side, in the order of names."""
    return torch.cat([output.h, *(output.modalities[k] for k in sorted(output.modalities))], dim=1)


def dense(edge_index: Tensor, weight: np.ndarray | None = None, nodes: int = NODES) -> np.ndarray:
    """float64 [N, N] with the weights of messages j -> i at [i, j]."""
    matrix = np.zeros((nodes, nodes))
    source, target = edge_index.numpy()
    np.add.at(matrix, (target, source), 1.0 if weight is None else weight)
    return matrix
