"""The stack that conventional networks share: layer, residual, norm, activation, dropout."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, Protocol, Self

from torch import Tensor, nn
from torch.nn import functional as F

from maghub.baselines._model import Count, EarlyFusion, ModelConfig, Output, Share

Norm = Literal["none", "layer", "batch"]


class Graph(Protocol):
    """What the layers of a stack read beside ``x``."""

    def rows(self, count: int) -> Self:
        """The part that leads to the first ``count`` nodes."""
        ...

    def apply(self, conv: nn.Module, x: Tensor) -> Tensor:
        """A layer on ``x`` and this, as the layer takes them."""
        ...


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
        convs: Modules on x [N, width before] and on the graph, if ``forward`` is given one.
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

    def forward(
        self, x: Tensor, graph: Graph | None = None, hops: Sequence[int] | None = None
    ) -> Tensor:
        """[N, last width], or [hops[0], last width], see ``Model.trims``; a layer is one hop."""
        x = F.dropout(x, self.config.input_dropout, self.training)
        for i, conv in enumerate(self.convs):
            if graph is not None and hops is not None:  # what later layers read, no more
                graph = graph.rows(hops[len(self.convs) - 1 - i])
            y = conv(x) if graph is None else graph.apply(conv, x)
            if self.config.residual:
                y = y + self.skips[i](x[: len(y)])
            if i < len(self.norms):
                y = self.activation(self.norms[i](y))
                y = F.dropout(y, self.config.dropout, self.training)
            x = y
        return x


class Stacked(EarlyFusion):
    """A model that is one ``stack`` of layers of one hop each; subclasses give ``graph``."""

    trims = True
    stack: Stack

    def graph(self, edge_index: Tensor, edge_weight: Tensor | None, nodes: int) -> Graph:
        """What the layers read of the edges."""
        raise NotImplementedError

    def encode(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        hops: Sequence[int] | None = None,
    ) -> Tensor:
        """See ``EarlyFusion.encode``."""
        return self.stack(x, self.graph(edge_index, edge_weight, len(x)), hops)

    def forward(
        self,
        x: dict[str, Tensor],
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        hops: Sequence[int] | None = None,
    ) -> Output:
        """See ``Model.forward`` and ``Model.trims``."""
        return self.read(self.encode(self.fuse(x), edge_index, edge_weight, hops))
