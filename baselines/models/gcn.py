"""GCN (Kipf and Welling, 2017): symmetric normalised neighbourhood averaging with self loops."""

from __future__ import annotations

from torch import Tensor
from torch_geometric.nn.models import GCN as Layers

from maghub.baselines._model import Model, ModelConfig, Output


class GCN(Model):
    """PyTorch Geometric's GCN on the modalities side by side."""

    def __init__(self, dims: dict[str, int], out: int, config: ModelConfig) -> None:
        super().__init__(dims, out, config)
        self.net = Layers(
            sum(dims.values()), config.hidden, config.layers, out, dropout=config.dropout
        )

    def forward(
        self, x: dict[str, Tensor], edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> Output:
        """h [N, out]."""
        return Output(self.net(self.fuse(x), edge_index, edge_weight=edge_weight))
