"""Image encoders of transformers: ConvNeXt V2, Swin V2, DINOv2, ViT and the like.

Pooling is each model's own: the class token where there is one, else the global average that its
classifier reads. (Released OpenMAG features average all tokens instead, and before the final norm.)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maghub import layout
from maghub.encoding.torch_encoder import TorchEncoder
from maghub.encoding.weights import from_pretrained

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image

    from maghub.encoding.torch_encoder import Batch


def image_processor_of(folder: Path) -> Any:
    """A model's own preprocessing, with Pillow's resampling, which the models were trained with."""
    from transformers import AutoImageProcessor

    return AutoImageProcessor.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False, backend="pil"
    )


class TransformersImage(TorchEncoder):
    """An image model of transformers with the pooling its spec names."""

    PACKAGES = ("transformers", "torchvision")
    DISTRIBUTIONS = ("transformers", "pillow")

    def load(self, folder: Path) -> torch.nn.Module:
        """The model without a head, and its own preprocessing."""
        from transformers import AutoModel

        self._processor = image_processor_of(folder)
        return from_pretrained(AutoModel, folder, self.dtype)

    def widths(self) -> dict[str, int]:
        """Hidden size of the last stage."""
        config: Any = self.module.config
        sizes = getattr(config, "hidden_sizes", None)
        return {layout.IMAGE: sizes[-1] if sizes else config.hidden_size}

    def image_batch(self, images: Sequence[Image]) -> Batch:
        """Pixels after the model's own preprocessing."""
        return self.to_device(self._processor(images=list(images), return_tensors="pt"))

    def embed_images(self, batch: Batch) -> torch.Tensor:
        """Class token after the final norm, or the normalised global average."""
        out = self.module(**batch)
        if self.spec.pooling == "first token":
            return out.last_hidden_state[:, 0]
        return out.pooler_output
