"""GCN (Kipf and Welling, 2017): symmetrically normalised sums over neighbours and the node."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor
from torch_geometric.nn import GCNConv

from maghub.baselines.models._adjacency import Adjacency, adjacency
from maghub.baselines.models._stack import Stack, StackConfig, Stacked, layer_widths


class GCNLayer(GCNConv):
    """PyG's GCNConv on a normalised matrix; aggregates on the narrower side of its weights."""

    def forward(self, x: Tensor, graph: Adjacency) -> Tensor:
        """A X W + b, [targets, out]."""
        if self.in_channels < self.out_channels or graph.targets < len(x):
            return self.lin(graph @ x) + self.bias
        return graph @ self.lin(x) + self.bias


class GCN(Stacked):
    """Stack of GCN layers; defaults of OpenMAG, appendix G.2.

    Kipf's network is ``hidden=16, layers=2, dropout=.5, input_dropout=.5`` with one output per
    class. Edge weights scale messages and degrees.
    """

    Config = StackConfig

    def __init__(self, dims: dict[str, int], out: int, config: StackConfig) -> None:
        super().__init__(dims, out, config)
        widths = layer_widths(self.width, config.hidden, out, config.layers)
        self.stack = Stack([GCNLayer(a, b) for a, b in pairwise(widths)], widths, config)

    def graph(self, edge_index: Tensor, edge_weight: Tensor | None, nodes: int) -> Adjacency:
        """See ``Stacked.graph``."""
        return adjacency("gcn", edge_index, edge_weight, nodes)
