"""The stack that conventional networks share: layer, residual, norm, activation, dropout."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

from torch import Tensor, nn
from torch.nn import functional as F

from maghub.baselines._model import Count, ModelConfig, Share

Norm = Literal["none", "layer", "batch"]


class StackConfig(ModelConfig):
    """Settings of a stack; the options are those of Table 2 of the CLeGR paper.

    Attributes:
        layers: Number of layers.
        input_dropout: Probability of dropping an input feature (Kipf, Velickovic: as ``dropout``).
        activation: Between layers.
        norm: Between layers, before the activation.
        residual: Whether each layer adds its input, projected where widths differ.
    """

    layers: Count = 3
    input_dropout: Share = 0.0
    activation: Literal["relu", "elu"] = "relu"
    norm: Norm = "none"
    residual: bool = False


def layer_widths(first: int, hidden: int, last: int, layers: int) -> list[int]:
    """Widths before, between and after the layers, ``layers`` + 1 numbers."""
    return [first, *[hidden] * (layers - 1), last]


class BatchNorm(nn.BatchNorm1d):
    """Of a single row, as the last batch may be, there are no statistics: the running ones do."""

    def forward(self, x: Tensor) -> Tensor:
        """[N, width]."""
        if not self.training or len(x) > 1:
            return super().forward(x)
        mean, variance = self.running_mean, self.running_var
        return F.batch_norm(x, mean, variance, self.weight, self.bias, eps=self.eps)


def make_norm(kind: Norm, width: int) -> nn.Module:
    """A normalisation of [N, width]."""
    if kind == "layer":
        return nn.LayerNorm(width)
    return BatchNorm(width) if kind == "batch" else nn.Identity()


def _skip(before: int, after: int, bias: bool) -> nn.Module:
    return nn.Identity() if before == after else nn.Linear(before, after, bias=bias)


class Stack(nn.Module):
    """Layers in a row; between them residual, norm, activation and dropout, in this order.

    Args:
        convs: Modules called with x [N, width before] and what ``forward`` was given besides.
        widths: Widths before, between and after them.
        config: The options.
        plain_last: Whether the last layer goes without norm, activation and dropout.
        skip_bias: Whether the projections of residuals have a bias.
    """

    def __init__(
        self,
        convs: Sequence[nn.Module],
        widths: Sequence[int],
        config: StackConfig,
        *,
        plain_last: bool = True,
        skip_bias: bool = False,
    ) -> None:
        super().__init__()
        pairs = list(pairwise(widths))
        between = widths[1:-1] if plain_last else widths[1:]
        self.config = config
        self.convs = nn.ModuleList(convs)
        self.skips = nn.ModuleList([_skip(*pair, skip_bias) for pair in pairs if config.residual])
        self.norms = nn.ModuleList([make_norm(config.norm, width) for width in between])
        self.activation = nn.ELU() if config.activation == "elu" else nn.ReLU()

    def forward(self, x: Tensor, *graph: Any) -> Tensor:
        """[N, last width]; ``graph`` goes to every layer."""
        x = F.dropout(x, self.config.input_dropout, self.training)
        for i, conv in enumerate(self.convs):
            y = conv(x, *graph)
            if self.config.residual:
                y = y + self.skips[i](x)
            if i < len(self.norms):
                y = self.activation(self.norms[i](y))
                y = F.dropout(y, self.config.dropout, self.training)
            x = y
        return x
