"""ChebNet (Defferrard et al., 2016): Chebyshev polynomials of the scaled Laplacian."""

from __future__ import annotations

from itertools import pairwise

from pydantic import Field
from torch import Tensor
from torch_geometric.nn import ChebConv

from maghub.baselines._model import EarlyFusion
from maghub.baselines.models._adjacency import Adjacency, adjacency
from maghub.baselines.models._stack import Stack, StackConfig, layer_widths


class ChebLayer(ChebConv):
    """PyG's ChebConv for a largest eigenvalue of 2, which holds for sampled subgraphs as well.

    Clenshaw's recurrence sums the polynomial from its last term, so every product with the graph
    has the width of the output; ChebConv's has that of the input.
    """

    def forward(self, x: Tensor, graph: Adjacency) -> Tensor:
        """Sum over k of T_k(L) X W_k + b, [N, out]."""
        first, *terms = (lin(x) for lin in self.lins)
        if not terms:
            return first + self.bias
        later, y = 0.0, terms[-1]
        for term in reversed(terms[:-1]):
            later, y = y, term + 2 * (graph @ y) - later
        return first + graph @ y - later + self.bias


class ChebNet(EarlyFusion):
    """Stack of Chebyshev filters; defaults of OpenMAG, appendix G.2.

    Self loops of the input are taken off; edge weights are those of the Laplacian.
    """

    class Config(StackConfig):
        """Settings.

        Attributes:
            filter_size: Number of polynomials, K; 1 ignores the graph.
        """

        filter_size: int = Field(default=3, ge=1)

    def __init__(self, dims: dict[str, int], out: int, config: Config) -> None:
        super().__init__(dims, out, config)
        widths = layer_widths(self.width, config.hidden, out, config.layers)
        convs = [ChebLayer(a, b, config.filter_size) for a, b in pairwise(widths)]
        self.stack = Stack(convs, widths, config)
        self._hops = config.layers * (config.filter_size - 1)

    @property
    def hops(self) -> int:
        """A polynomial of degree K - 1 reads K - 1 hops."""
        return self._hops

    def encode(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
        """See ``EarlyFusion.encode``."""
        return self.stack(x, adjacency("chebyshev", edge_index, edge_weight, x.shape[0]))
