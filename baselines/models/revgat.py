"""RevGAT (Li et al., 2021): reversible attention blocks, activation memory constant in depth."""

from __future__ import annotations

from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import GATConv, GroupAddRev
from torch_geometric.typing import OptTensor
from torch_geometric.utils import add_self_loops, remove_self_loops

from maghub.baselines._model import Count, Dropout, EarlyFusion, ModelConfig, Share
from maghub.baselines.models._stack import make_norm


class MaskedGATConv(GATConv):
    """PyG's GATConv with averaged heads whose attention dropout is a given mask [E, heads].

    The mask takes the place of edge features. Self loops are up to the caller.
    """

    def __init__(self, before: int, after: int, heads: int, residual: bool = False) -> None:
        super().__init__(
            before, after, heads, concat=False, add_self_loops=False, residual=residual
        )

    def edge_update(
        self,
        alpha_j: Tensor,
        alpha_i: OptTensor,
        edge_attr: OptTensor,
        index: Tensor,
        ptr: OptTensor,
        dim_size: int | None,
    ) -> Tensor:
        """Attention weights [E, heads], masked."""
        alpha = super().edge_update(alpha_j, alpha_i, None, index, ptr, dim_size)
        return alpha if edge_attr is None else alpha * edge_attr


class Branch(nn.Module):
    """What a block adds to one group of channels: norm, ReLU, dropout, attention.

    Dropout is a given mask: the backward pass computes the branch a second time.
    """

    def __init__(self, width: int, heads: int, norm: Literal["none", "layer"]) -> None:
        super().__init__()
        self.norm = make_norm(norm, width)
        self.conv = MaskedGATConv(width, width, heads)

    def forward(
        self, x: Tensor, edge_index: Tensor, mask: Tensor | None, kept: Tensor | None
    ) -> Tensor:
        """[N, width]."""
        x = self.norm(x).relu()
        return self.conv(x if mask is None else x * mask, edge_index, kept)


class RevGAT(EarlyFusion):
    """Attention, ``layers`` - 2 reversible blocks, attention; width, heads and dropout of OpenMAG.

    OpenMAG's preset of 2 layers has no reversible block at all, so the default is 3 (for
    the preset: ``layers=2``). The degree normalisation and the self-distillation of Li et al. are
    left out. Edge weights are ignored; a self loop counts once.
    """

    class Config(ModelConfig):
        """Settings.

        Attributes:
            heads: Number of heads, averaged.
            attention_dropout: Probability of dropping an attention weight while training.
            groups: Groups of channels of a block; ``hidden`` is a multiple.
            norm: In blocks and before the last layer. Batch statistics would be gathered again
                whenever a block is computed again.
            reversible: False keeps all activations: the same numbers, memory grows with depth.
        """

        hidden: Count = 128
        layers: int = Field(default=3, ge=2)
        dropout: Dropout = 0.5
        heads: Count = 3
        attention_dropout: Share = 0.1
        groups: int = Field(default=2, ge=2)
        norm: Literal["none", "layer"] = "layer"
        reversible: bool = True

        @model_validator(mode="after")
        def _fits(self) -> Self:
            if self.hidden % self.groups:
                raise ValueError(f"hidden {self.hidden} is no multiple of groups {self.groups}")
            if self.hidden == self.heads:  # GroupAddRev would split the attention mask too
                raise ValueError("heads and hidden must differ")
            return self

    def __init__(self, dims: dict[str, int], out: int, config: Config) -> None:
        super().__init__(dims, out, config)
        self.settings = config
        width, heads = config.hidden // config.groups, config.heads
        self.first = MaskedGATConv(self.width, config.hidden, heads, residual=True)
        self.blocks = nn.ModuleList(
            GroupAddRev(
                nn.ModuleList(Branch(width, heads, config.norm) for _ in range(config.groups)),
                disable=not config.reversible,
            )
            for _ in range(config.layers - 2)
        )
        self.norm = make_norm(config.norm, config.hidden)
        self.last = MaskedGATConv(config.hidden, out, heads, residual=True)

    @property
    def hops(self) -> int:
        """The groups of a block read one another in turn, one hop each."""
        return 2 + (self.settings.layers - 2) * self.settings.groups

    def _mask(self, drop: float, x: Tensor, *shape: int) -> Tensor | None:
        """Zeros with probability ``drop``, else 1 / (1 - drop); shared by all layers."""
        if not self.training or drop == 0:
            return None
        return F.dropout(torch.ones(shape, device=x.device), drop)

    def encode(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
        """See ``EarlyFusion.encode``."""
        config, nodes = self.settings, x.shape[0]
        edge_index = add_self_loops(remove_self_loops(edge_index)[0], num_nodes=nodes)[0]
        mask = self._mask(config.dropout, x, nodes, config.hidden)
        kept = self._mask(config.attention_dropout, x, edge_index.shape[1], config.heads)
        x = self.first(x, edge_index, kept)
        with torch.autocast(x.device.type, enabled=False):  # the inverse needs single precision
            x = x.float()
            for block in self.blocks:
                x = block(x, edge_index, mask, kept)  # empties the memory of its input
            x = self.norm(x).relu()
        return self.last(x if mask is None else x * mask, edge_index, kept)
