"""GCNII (Chen et al., 2020): a deep GCN with initial residual and identity mapping."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import GCN2Conv

from maghub.baselines._model import Count, Dropout, EarlyFusion, ModelConfig, Share
from maghub.baselines.models._adjacency import Adjacency, adjacency


class GCNIILayer(GCN2Conv):
    """PyG's GCN2Conv with one weight matrix, on a normalised matrix."""

    def forward(self, x: Tensor, x0: Tensor, graph: Adjacency) -> Tensor:
        """((1 - alpha) A X + alpha X0) ((1 - beta) I + beta W), [N, width]."""
        mixed = (1 - self.alpha) * (graph @ x) + self.alpha * x0
        return torch.addmm(mixed, mixed, self.weight1, beta=1 - self.beta, alpha=self.beta)


class GCNII(EarlyFusion):
    """Linear, ``layers`` GCNII layers, linear; defaults of OpenMAG, appendix G.2.

    Dropout precedes each layer and the last linear one. Edge weights scale messages and degrees.
    """

    class Config(ModelConfig):
        """Settings.

        Attributes:
            alpha: Share of the first representation in every layer.
            theta: beta of layer l, counted from 1, is log(theta / l + 1).
        """

        hidden: Count = 128
        layers: Count = 8
        dropout: Dropout = 0.5
        alpha: Share = 0.1
        theta: float = Field(default=0.5, ge=0)

    def __init__(self, dims: dict[str, int], out: int, config: Config) -> None:
        super().__init__(dims, out, config)
        self.first = nn.Linear(self.width, config.hidden)
        self.convs = nn.ModuleList(
            GCNIILayer(config.hidden, config.alpha, config.theta, layer)
            for layer in range(1, config.layers + 1)
        )
        self.last = nn.Linear(config.hidden, out)

    def encode(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
        """See ``EarlyFusion.encode``."""
        graph = adjacency("gcn", edge_index, edge_weight, x.shape[0])
        x = x0 = self.first(x).relu()
        for conv in self.convs:
            x = conv(F.dropout(x, self.config.dropout, self.training), x0, graph).relu()
        return self.last(F.dropout(x, self.config.dropout, self.training))
