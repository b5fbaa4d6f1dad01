"""GraphSAGE (Hamilton et al., 2017) with the mean aggregator."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor
from torch.nn import functional as F
from torch_geometric.nn import SAGEConv

from maghub.baselines._model import Dropout
from maghub.baselines.models._adjacency import Adjacency, adjacency
from maghub.baselines.models._stack import Stack, StackConfig, Stacked, layer_widths


class SAGELayer(SAGEConv):
    """PyG's SAGEConv on a mean matrix; a mean is linear, so it is taken on the narrower side."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__(before, after)
        self.narrows = before > after

    def forward(self, x: Tensor, graph: Adjacency) -> Tensor:
        """W1 x_i + W2 mean_j x_j + b, [targets, out]; the mean of no neighbour is 0."""
        if self.narrows and graph.targets == len(x):
            mean = graph @ F.linear(x, self.lin_l.weight) + self.lin_l.bias
        else:
            mean = self.lin_l(graph @ x)
        return mean + self.lin_r(x[: graph.targets])


class GraphSAGE(Stacked):
    """Stack of SAGE layers; defaults of OpenMAG, appendix G.2. Edge weights are ignored."""

    class Config(StackConfig):
        """Settings."""

        dropout: Dropout = 0.02

    def __init__(self, dims: dict[str, int], out: int, config: Config) -> None:
        super().__init__(dims, out, config)
        widths = layer_widths(self.width, config.hidden, out, config.layers)
        self.stack = Stack([SAGELayer(a, b) for a, b in pairwise(widths)], widths, config)

    def graph(self, edge_index: Tensor, edge_weight: Tensor | None, nodes: int) -> Adjacency:
        """See ``Stacked.graph``."""
        return adjacency("mean", edge_index, None, nodes)
