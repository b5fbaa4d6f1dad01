"""GATv2 (Brody et al., 2022): attention whose ranking of neighbours depends on the node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn
from torch_geometric.nn import GATv2Conv

from maghub.baselines._model import Count, Dropout, Share
from maghub.baselines.models._adjacency import Edges
from maghub.baselines.models._stack import Norm, Stack, StackConfig, Stacked, layer_widths


class GATv2(Stacked):
    """Stack of PyG's GATv2Conv and a last linear layer; as OpenMAG, appendix G.2.

    Each layer has LayerNorm, a residual (projected with a bias in the first) and ELU. The paper
    gives no dropout for this model; .1 is that of GAT. Edge weights are ignored; a self loop
    counts once.
    """

    class Config(StackConfig):
        """Settings.

        Attributes:
            hidden: Width of one head.
            heads: Number of heads.
            attention_dropout: Probability of dropping an attention weight while training.
        """

        hidden: Count = 128
        layers: Count = 2
        dropout: Dropout = 0.1
        activation: Literal["relu", "elu"] = "elu"
        norm: Norm = "layer"
        residual: bool = True
        heads: Count = 4
        attention_dropout: Share = 0.1

    def __init__(self, dims: dict[str, int], out: int, config: Config) -> None:
        super().__init__(dims, out, config)
        wide, drop = config.heads * config.hidden, config.attention_dropout
        widths = layer_widths(self.width, wide, wide, config.layers)
        convs = [GATv2Conv(a, config.hidden, config.heads, dropout=drop) for a in widths[:-1]]
        self.stack = Stack(convs, widths, config, plain_last=False, skip_bias=True)
        self.last = nn.Linear(wide, out)

    def graph(self, edge_index: Tensor, edge_weight: Tensor | None, nodes: int) -> Edges:
        """See ``Stacked.graph``."""
        return Edges(edge_index)

    def encode(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        hops: Sequence[int] | None = None,
    ) -> Tensor:
        """See ``EarlyFusion.encode``."""
        return self.last(super().encode(x, edge_index, edge_weight, hops))
