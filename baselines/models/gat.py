"""GAT (Velickovic et al., 2018): neighbours weighted by attention."""

from __future__ import annotations

from torch import Tensor
from torch_geometric.nn import GATConv

from maghub.baselines._model import Count, Dropout, Share
from maghub.baselines.models._adjacency import Edges
from maghub.baselines.models._stack import Stack, StackConfig, Stacked, layer_widths


class GAT(Stacked):
    """Stack of PyG's GATConv, heads side by side, one head at last; as OpenMAG, appendix G.2.

    ``hidden`` is the width of one head. Velickovic's network is ``hidden=8, heads=8, layers=2,
    activation=elu`` and .6 for ``dropout``, ``input_dropout`` and ``attention_dropout`` with one
    output per class. Edge weights are ignored; a self loop counts once.
    """

    class Config(StackConfig):
        """Settings.

        Attributes:
            hidden: Width of one head.
            heads: Number of heads but in the last layer.
            attention_dropout: Probability of dropping an attention weight while training.
        """

        dropout: Dropout = 0.1
        heads: Count = 3
        attention_dropout: Share = 0.1

    def __init__(self, dims: dict[str, int], out: int, config: Config) -> None:
        super().__init__(dims, out, config)
        drop = config.attention_dropout
        widths = layer_widths(self.width, config.heads * config.hidden, out, config.layers)
        convs = [GATConv(a, config.hidden, config.heads, dropout=drop) for a in widths[:-2]]
        last = GATConv(widths[-2], out, dropout=drop)
        self.stack = Stack([*convs, last], widths, config)

    def graph(self, edge_index: Tensor, edge_weight: Tensor | None, nodes: int) -> Edges:
        """See ``Stacked.graph``."""
        return Edges(edge_index)
