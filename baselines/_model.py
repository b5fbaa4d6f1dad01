"""The model contract: named modalities and edges in, node representations out."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn


class ModelConfig(BaseModel):
    """Typed, printable configuration of a model; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hidden: int = 256
    layers: int = 2
    dropout: float = 0.5


@dataclass
class Output:
    """Node representations ``h`` [N, D], one per modality where kept, and auxiliary losses."""

    h: Tensor
    modalities: dict[str, Tensor] = field(default_factory=dict)
    losses: dict[str, Tensor] = field(default_factory=dict)


class Model(nn.Module):
    """Base of all models.

    Args:
        dims: Width of each named modality.
        out: Width of ``h`` (classes for node classification).
        config: Typed configuration.
    """

    Config: type[ModelConfig] = ModelConfig

    def __init__(self, dims: dict[str, int], out: int, config: ModelConfig) -> None:
        super().__init__()
        self.dims, self.out, self.config = dims, out, config

    def fuse(self, x: dict[str, Tensor]) -> Tensor:
        """All modalities side by side [N, sum of widths], in the order of ``dims``."""
        return torch.cat([x[name] for name in self.dims], dim=1)

    def forward(
        self, x: dict[str, Tensor], edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> Output:
        """Representations of all nodes."""
        raise NotImplementedError
