"""The model contract: named modalities and edges in, node representations out.

A new model is one file in ``models/`` and one entry point in ``maghub.models``. It subclasses
``EarlyFusion`` (one representation of the fused input, as all conventional networks) or ``Model``
(its own branch per modality) and has its own ``Config`` whose defaults are the paper's values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Dropout = Annotated[float, Field(ge=0, lt=1)]
"""Types of settings: a subclass that changes a default must not lose its limits."""


class ModelConfig(BaseModel):
    """Typed, printable configuration of a model; unknown fields are refused.

    Attributes:
        hidden: Width of the hidden layers.
        layers: Number of layers.
        dropout: Probability of dropping a hidden value while training.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    hidden: Count = 256
    layers: Count = 3
    dropout: Dropout = 0.2


@dataclass
class Output:
    """What an encoder says of the nodes it was given.

    Attributes:
        h: float32 [N, out], one representation of each node.
        modalities: modality -> float32 [N, out], representations of single modalities.
        losses: name -> scalar self-supervised loss, already weighted; only while training.
    """

    h: Tensor
    modalities: dict[str, Tensor] = field(default_factory=dict)
    losses: dict[str, Tensor] = field(default_factory=dict)


class Model(nn.Module):
    """Base of all models.

    Args:
        dims: modality -> width of its features; the order is the order of fusion.
        out: Width of ``h``.
        config: Typed configuration, an instance of ``Config``.
    """

    Config: type[ModelConfig] = ModelConfig
    trims: ClassVar[bool] = False
    """Whether ``forward`` also takes ``hops``, for a sampled graph: how many of its nodes, in
    order, lie within 0, 1, ... ``hops`` hops of the first ``hops[0]``. It then leaves out what
    those do not read, and returns the representations of those alone, [hops[0], out]."""

    def __init__(self, dims: dict[str, int], out: int, config: ModelConfig) -> None:
        super().__init__()
        self.dims, self.out, self.config = dict(dims), out, config

    @property
    def hops(self) -> int:
        """How far ``h`` of a node reads the graph; 0 where it reads no edge."""
        return self.config.layers

    def fuse(self, x: dict[str, Tensor]) -> Tensor:
        """All modalities side by side [N, sum of widths], in the order of ``dims``."""
        parts = [x[name] for name in self.dims]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)  # cat copies even one

    def forward(
        self, x: dict[str, Tensor], edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> Output:
        """Representations of all nodes.

        Args:
            x: modality -> float32 [N, width].
            edge_index: int64 [2, E], messages flow from row 0 to row 1.
            edge_weight: float32 [E], or None for ones.
        """
        raise NotImplementedError


class EarlyFusion(Model):
    """Encodes the fused input once; a small head per modality reads ``h`` (OpenMAG's adapter).

    Subclasses give ``encode``; ``modalities[m]`` is Dropout(ReLU(Linear_m(h))).
    """

    def __init__(self, dims: dict[str, int], out: int, config: ModelConfig) -> None:
        super().__init__(dims, out, config)
        self.heads = nn.ModuleDict({name: nn.Linear(out, out) for name in dims})

    @property
    def width(self) -> int:
        """Width of the fused input."""
        return sum(self.dims.values())

    def encode(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
        """[N, out] of the fused input [N, width]."""
        raise NotImplementedError

    def forward(
        self, x: dict[str, Tensor], edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> Output:
        """See ``Model.forward``."""
        return self.read(self.encode(self.fuse(x), edge_index, edge_weight))

    def read(self, h: Tensor) -> Output:
        """``h`` float32 [N, out] and what the heads make of it."""
        drop = self.config.dropout
        heads = {
            name: nn.functional.dropout(head(h).relu_(), drop, self.training)
            for name, head in self.heads.items()
        }
        return Output(h, heads)
