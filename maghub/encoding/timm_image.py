"""Image encoders of timm: any of its models by name, ``timm:vit_small_patch16_224.augreg_in21k``.

The vector is what timm's own classifier reads (``forward_head(..., pre_logits=True)``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maghub import layout
from maghub.encoding.base import EncoderSpec
from maghub.encoding.torch_encoder import TorchEncoder
from maghub.errors import MaghubError, nearest

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image

    from maghub.encoding.torch_encoder import Batch


class TimmImage(TorchEncoder):
    """A timm model in a folder of the Hub's layout (config.json and weights)."""

    PACKAGES = ("timm", "torchvision")
    DISTRIBUTIONS = ("timm", "pillow")

    def resolve(self, spec: EncoderSpec, model_path: str | Path | None) -> EncoderSpec:
        """Find the Hub repository of a model's name, its default weights if it names none."""
        if model_path is not None or "/" in spec.model_id:
            return spec
        import timm

        architecture, _, _ = spec.model_id.partition(".")
        if not timm.is_model(architecture):
            raise nearest(spec.model_id, timm.list_models(), kind="timm model")
        try:
            config = timm.models.get_pretrained_cfg(spec.model_id)
        except RuntimeError:  # no such weights of that architecture
            config = None
        if config is None or not config.hf_hub_id:
            tags = timm.list_pretrained(f"{architecture}.*")
            raise MaghubError(
                f"timm has no weights '{spec.model_id}'",
                fix=f"choose one of {', '.join(tags)}" if tags else "give a local folder with them",
            )
        repository = config.hf_hub_id
        if not repository.partition("/")[2]:
            repository += f"{architecture}.{config.tag}" if config.tag else architecture
        return spec.model_copy(update={"model_id": repository})

    def load(self, folder: Path) -> torch.nn.Module:
        """The model without its classifier, and its evaluation transform."""
        import timm

        model = timm.create_model(f"local-dir:{folder}", pretrained=True)
        self.prepare(model, timm.data.resolve_model_data_config(model))
        return model

    def prepare(self, model: Any, config: dict[str, Any]) -> None:
        """Take the classifier off and make the transform of a data configuration."""
        import timm

        model.reset_classifier(0)
        self._side = int(config["input_size"][-1])
        self._transform = timm.data.create_transform(**config, is_training=False)

    def widths(self) -> dict[str, int]:
        """Width of what the classifier read."""
        model: Any = self.module
        return {layout.IMAGE: getattr(model, "head_hidden_size", None) or model.num_features}

    def facts(self) -> dict[str, object]:
        """Image size and licence, which stand in the model's own configuration."""
        config: Any = getattr(self.module, "pretrained_cfg", {})
        return {
            "image_size": self._side,
            "licence": config.get("license") or "see the model's card",
        }

    def image_batch(self, images: Sequence[Image]) -> Batch:
        """Pixels after timm's own evaluation transform."""
        import torch

        return self.to_device({"x": torch.stack([self._transform(image) for image in images])})

    def embed_images(self, batch: Batch) -> torch.Tensor:
        """The pooled features before the classifier."""
        return self.module(batch["x"])
