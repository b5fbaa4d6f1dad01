"""Encoders as parts of a model that is trained: frozen, tuned whole, or adapted with LoRA."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from maghub import layout
from maghub.encoding.torch_encoder import TorchEncoder
from maghub.errors import MaghubError, MissingExtra
from maghub.images import decode

ATTENTION = ("query", "value", "q_proj", "v_proj", "q", "v", "kv", "qkv")
"""Names of the layers that give queries and values, in the libraries' models and in ours."""


class LoRA(BaseModel):
    """Low-rank adaptation of queries and values; the defaults are those of OpenMAG, appendix G.1.

    Attributes:
        rank: Rank of the update.
        alpha: Its scale, divided by the rank.
        dropout: Dropout before it.
        targets: Names of the layers to adapt; None takes those of ``ATTENTION`` that there are.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    rank: int = 64
    alpha: int = 128
    dropout: float = 0.0
    targets: tuple[str, ...] | None = None


def _targets(module: nn.Module, lora: LoRA) -> list[str]:
    wanted = lora.targets or ATTENTION
    linear = {n.rpartition(".")[2] for n, m in module.named_modules() if isinstance(m, nn.Linear)}
    found = [name for name in wanted if name in linear]
    if not found:
        raise MaghubError(
            f"the model has no layer named {' or '.join(wanted)} that LoRA could adapt",
            fix="name its linear layers as targets, or tune it whole",
        )
    return found


def adapted(module: nn.Module, lora: LoRA) -> nn.Module:
    """The module with adapters; everything else in it is frozen.

    Raises:
        MissingExtra: peft is not installed.
        MaghubError: It has none of the layers to adapt.
    """
    try:
        import peft
    except ImportError:
        raise MissingExtra("peft", "lora") from None
    config = peft.LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=_targets(module, lora),
    )
    return peft.PeftModel(module, config)


class Tower(nn.Module):
    """An encoder of one modality: values of nodes in, [N, D] out, zeros where there is no value.

    Args:
        encoder: A loaded or untrained encoder; its own module is left as it is.
        modality: ``text`` or ``image``.
        tuned: Whether its weights are trained.
        lora: How, if not all of them.

    Raises:
        MaghubError: The encoder does not serve the modality.
    """

    def __init__(
        self, encoder: TorchEncoder, modality: str, *, tuned: bool, lora: LoRA | None = None
    ) -> None:
        super().__init__()
        widths = encoder.widths()
        if modality not in widths:
            raise MaghubError(f"{encoder.spec.name} does not encode {modality}")
        self.encoder, self.modality, self.tuned = copy.copy(encoder), modality, tuned
        self.width = widths[modality]
        module = copy.deepcopy(encoder.module).requires_grad_(tuned)
        self.module = adapted(module, lora) if tuned and lora is not None else module
        self.encoder.module = self.module

    def train(self, mode: bool = True) -> Tower:
        """A frozen encoder stays in evaluation mode: no dropout, running statistics fixed."""
        super().train(mode)
        self.module.train(mode and self.tuned)
        return self

    def _vectors(self, values: Sequence[Any]) -> Tensor:
        encoder = self.encoder
        if self.modality == layout.TEXT:
            vectors = encoder.embed_texts(encoder.text_batch(values))
        else:
            vectors = encoder.embed_images(encoder.image_batch(values))
        vectors = vectors.float()
        return nn.functional.normalize(vectors, dim=-1) if encoder.spec.normalized else vectors

    def forward(self, values: Sequence[Any]) -> Tensor:
        """Vectors of stored values (texts, or images as they are in the folder)."""
        if self.modality == layout.IMAGE:
            values = [_image(value) for value in values]
        kept = [row for row, value in enumerate(values) if value]
        found = torch.zeros(len(values), self.width, device=self.encoder.device)
        if not kept:
            return found
        with torch.set_grad_enabled(self.tuned and torch.is_grad_enabled()):
            vectors = self._vectors([values[row] for row in kept])
        return found.index_copy(0, torch.tensor(kept, device=found.device), vectors)


def _image(value: Mapping[str, Any] | None) -> Any:
    return decode(value["bytes"]) if value and value.get("bytes") else None
