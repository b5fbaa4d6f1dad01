"""MLP: the graph-free control."""

from __future__ import annotations

from torch import Tensor
from torch_geometric.nn import MLP as Layers

from maghub.baselines._model import Model, ModelConfig, Output


class MLP(Model):
    """Linear layers with ReLU and dropout on the modalities side by side; ignores edges."""

    def __init__(self, dims: dict[str, int], out: int, config: ModelConfig) -> None:
        super().__init__(dims, out, config)
        widths = [sum(dims.values()), *[config.hidden] * (config.layers - 1), out]
        self.net = Layers(widths, dropout=config.dropout, norm=None)

    def forward(
        self, x: dict[str, Tensor], edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> Output:
        """h [N, out]."""
        return Output(self.net(self.fuse(x)))
