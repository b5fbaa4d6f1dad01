"""Any open_clip model by name: ``open_clip:ViT-B-32/laion2b_s34b_b79k``, or ``open_clip:org/name``.

Vectors are the projections into the shared space, before normalisation, with open_clip's own
preprocessing and tokenizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maghub import layout
from maghub.encoding.base import EncoderSpec
from maghub.encoding.torch_encoder import TorchEncoder
from maghub.errors import MaghubError, nearest

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image

    from maghub.encoding.torch_encoder import Batch


def hub_repository(name: str) -> str:
    """The Hub repository of ``architecture/weights``; the weights may be given by a unique start.

    Raises:
        MaghubError: Unknown architecture or weights, or a start of several.
    """
    import open_clip

    architecture, _, tag = name.partition("/")
    if architecture not in open_clip.list_models():
        return name if tag else _unknown(architecture, open_clip.list_models())
    tags = open_clip.list_pretrained_tags_by_model(architecture)
    found = [tag] if tag in tags else [t for t in tags if t.startswith(tag)]
    if len(found) != 1:
        few = "several weights" if found else "no weights"
        raise MaghubError(
            f"open_clip has {few} '{tag}' of {architecture}",
            fix=f"choose one of {', '.join(found or tags)}",
        )
    repository = open_clip.get_pretrained_cfg(architecture, found[0]).get("hf_hub") or ""
    if not repository:
        raise MaghubError(
            f"{architecture}/{found[0]} is not on the Hub", fix="give a local folder with it"
        )
    return repository.strip("/")


def _unknown(name: str, known: Sequence[str]) -> str:
    raise nearest(name, known, kind="open_clip model")


class OpenClip(TorchEncoder):
    """An open_clip model in a folder of the Hub's layout (open_clip_config.json and weights)."""

    PACKAGES = ("open_clip", "torchvision")
    DISTRIBUTIONS = ("open_clip_torch", "pillow")

    def resolve(self, spec: EncoderSpec, model_path: str | Path | None) -> EncoderSpec:
        """Find the Hub repository of architecture and weights."""
        if model_path is not None:
            return spec
        return spec.model_copy(update={"model_id": hub_repository(spec.model_id)})

    def load(self, folder: Path) -> torch.nn.Module:
        """Both towers, evaluation transform and tokenizer."""
        import open_clip

        source = f"local-dir:{folder}"
        model, _, self._transform = open_clip.create_model_and_transforms(
            source, require_pretrained=True
        )
        self._tokenizer = open_clip.get_tokenizer(source)
        return model

    def widths(self) -> dict[str, int]:
        """Width of the shared space."""
        import torch

        model: Any = self.module
        size = model.visual.image_size
        height, width = size if isinstance(size, tuple) else (size, size)
        with torch.inference_mode():
            image = torch.zeros(1, 3, height, width, dtype=self.dtype, device=self.device)
            vector = model.encode_image(image)
        return dict.fromkeys((layout.TEXT, layout.IMAGE), vector.shape[-1])

    def facts(self) -> dict[str, object]:
        """Context length and image size."""
        model: Any = self.module
        size = model.visual.image_size
        return {
            "max_length": self._tokenizer.context_length,
            "image_size": size[0] if isinstance(size, tuple) else size,
        }

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Tokens of each text before truncation, start and end included."""
        own = getattr(self._tokenizer, "tokenizer", None)
        if own is not None:
            from maghub.encoding.transformers_text import token_counts

            return token_counts(own, texts)
        counts = (len(self._tokenizer.encode(text)) + 2 for text in texts)
        return np.fromiter(counts, np.int64, len(texts))

    def text_batch(self, texts: Sequence[str]) -> Batch:
        """Token ids; of the plain CLIP, without the columns that only pad."""
        ids = self._tokenizer(list(texts))
        if self._may_be_short():
            ends = ids.argmax(dim=-1)
            ids = ids[:, : int(ends.max()) + 1]
        return self.to_device({"text": ids})

    def _may_be_short(self) -> bool:
        """Whether no vector depends on what follows the end token, the highest of all ids."""
        model: Any = self.module
        return (
            type(model).__name__ == "CLIP"
            and model.attn_mask is not None
            and model.text_pool_type == "argmax"
        )

    def embed_texts(self, batch: Batch) -> torch.Tensor:
        """Projection of each text."""
        model: Any = self.module
        ids = batch["text"]
        if not self._may_be_short():
            return model.encode_text(ids)
        from open_clip.transformer import text_global_pool

        count = ids.shape[1]
        hidden = model.token_embedding(ids) + model.positional_embedding[:count]
        hidden = model.transformer(hidden, attn_mask=model.attn_mask[:count, :count])
        hidden = text_global_pool(model.ln_final(hidden), ids, model.text_pool_type)
        projection = model.text_projection
        return projection(hidden) if callable(projection) else hidden @ projection

    def image_batch(self, images: Sequence[Image]) -> Batch:
        """Pixels after open_clip's own evaluation transform."""
        import torch

        return self.to_device({"image": torch.stack([self._transform(i) for i in images])})

    def embed_images(self, batch: Batch) -> torch.Tensor:
        """Projection of each image."""
        model: Any = self.module
        return model.encode_image(batch["image"])
