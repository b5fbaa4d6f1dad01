"""MLP: the graph-free control."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from maghub.baselines._model import EarlyFusion
from maghub.baselines.models._stack import Stack, StackConfig, layer_widths


class MLP(EarlyFusion):
    """Linear layers on the fused input; edges are ignored."""

    Config = StackConfig

    def __init__(self, dims: dict[str, int], out: int, config: StackConfig) -> None:
        super().__init__(dims, out, config)
        widths = layer_widths(self.width, config.hidden, out, config.layers)
        self.stack = Stack([nn.Linear(a, b) for a, b in pairwise(widths)], widths, config)

    @property
    def hops(self) -> int:
        """None: edges are not read."""
        return 0

    def encode(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
        """See ``EarlyFusion.encode``."""
        return self.stack(x)
