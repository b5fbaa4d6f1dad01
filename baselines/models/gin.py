"""GIN (Xu et al., 2019): sums over neighbours, then a two-layer network."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor
from torch_geometric.nn import MLP, GINConv

from maghub.baselines.models._adjacency import Adjacency, adjacency
from maghub.baselines.models._stack import Stack, StackConfig, Stacked, layer_widths


class GINLayer(GINConv):
    """PyG's GINConv with Linear-ReLU-Linear on a matrix of ones."""

    def __init__(self, before: int, after: int, eps: float, train_eps: bool) -> None:
        super().__init__(MLP([before, after, after], norm=None), eps, train_eps)

    def forward(self, x: Tensor, graph: Adjacency) -> Tensor:
        """MLP((1 + eps) x_i + sum_j x_j), [targets, out]."""
        return self.nn((1 + self.eps) * x[: graph.targets] + graph @ x)


class GIN(Stacked):
    """Stack of GIN layers; defaults of OpenMAG, appendix G.2.

    Self loops of the input are taken off, else a node would count twice. Edge weights are ignored.
    """

    class Config(StackConfig):
        """Settings.

        Attributes:
            eps: Extra weight of the node itself.
            train_eps: Whether ``eps`` is learnt, one per layer.
        """

        eps: float = 0.0
        train_eps: bool = False

    def __init__(self, dims: dict[str, int], out: int, config: Config) -> None:
        super().__init__(dims, out, config)
        widths = layer_widths(self.width, config.hidden, out, config.layers)
        eps = (config.eps, config.train_eps)
        self.stack = Stack([GINLayer(a, b, *eps) for a, b in pairwise(widths)], widths, config)

    def graph(self, edge_index: Tensor, edge_weight: Tensor | None, nodes: int) -> Adjacency:
        """See ``Stacked.graph``."""
        return adjacency("sum", edge_index, None, nodes)
