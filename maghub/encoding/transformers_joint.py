"""Encoders of text and images together: CLIP, and vision-language models.

CLIP's vectors are its projections into the shared space. A vision-language model's are the mean
over its last layer: of a text read as it is, or of a prompt with the image in it. The OpenMAG paper
(appendix B.3) says no more than that such models give "cross-modal representations"; its released
code takes this mean for Qwen2-VL and Qwen2.5-VL (padding included) and has none for Llama-3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maghub import layout
from maghub.encoding.torch_encoder import POOLINGS, TorchEncoder
from maghub.encoding.transformers_image import image_processor_of
from maghub.encoding.transformers_text import (
    TransformersText,
    token_batch,
    token_counts,
    tokenizer_of,
)
from maghub.encoding.weights import from_pretrained
from maghub.errors import MaghubError

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image

    from maghub.encoding.torch_encoder import Batch


class Clip(TransformersText):
    """CLIP of transformers: projections of the image's class token and the text's end token."""

    PACKAGES = ("transformers", "tokenizers", "torchvision")
    DISTRIBUTIONS = ("transformers", "tokenizers", "pillow")

    def load(self, folder: Path) -> torch.nn.Module:
        """Both towers, the tokenizer and the model's own preprocessing."""
        from transformers import AutoModel

        self._tokenizer = tokenizer_of(folder)
        self._processor = image_processor_of(folder)
        return from_pretrained(AutoModel, folder, self.dtype, unused=())

    def widths(self) -> dict[str, int]:
        """Width of the shared space."""
        config: Any = self.module.config
        return dict.fromkeys((layout.TEXT, layout.IMAGE), config.projection_dim)

    def embed_texts(self, batch: Batch) -> torch.Tensor:
        """Projection of each text."""
        model: Any = self.module
        ids = {name: batch[name] for name in ("input_ids", "attention_mask")}
        return model.get_text_features(**ids).pooler_output

    def image_batch(self, images: Sequence[Image]) -> Batch:
        """Pixels after the model's own preprocessing."""
        return self.to_device(self._processor(images=list(images), return_tensors="pt"))

    def embed_images(self, batch: Batch) -> torch.Tensor:
        """Projection of each image."""
        model: Any = self.module
        return model.get_image_features(**batch).pooler_output


class VisionLanguage(TorchEncoder):
    """A language model that sees: the last layer over a text, or over a prompt with one image."""

    PACKAGES = ("transformers", "tokenizers", "torchvision")
    DISTRIBUTIONS = ("transformers", "tokenizers", "pillow")

    def load(self, folder: Path) -> torch.nn.Module:
        """The model without its language-modelling head, and its processor."""
        from transformers import AutoModel, AutoProcessor

        processor: Any = AutoProcessor.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        if not hasattr(processor, "image_processor"):
            raise MaghubError(
                "holds no processor of text and images",
                where=folder,
                fix="give a folder with preprocessor_config.json",
            )
        processor.image_processor = image_processor_of(folder)
        processor.tokenizer = self._tokenizer = tokenizer_of(folder)
        self._processor = processor
        return from_pretrained(AutoModel, folder, self.dtype, unused=())

    def widths(self) -> dict[str, int]:
        """Hidden size of the language model."""
        config: Any = self.module.config
        return dict.fromkeys((layout.TEXT, layout.IMAGE), config.get_text_config().hidden_size)

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Tokens of each text before truncation, special tokens included."""
        return token_counts(self._tokenizer, texts)

    def text_batch(self, texts: Sequence[str]) -> Batch:
        """Token ids and mask of the texts as they are, without a chat around them."""
        return self.to_device(token_batch(self._tokenizer, texts, self.spec.max_length))

    def image_batch(self, images: Sequence[Image]) -> Batch:
        """Pixels of each image and the prompt that it stands in."""
        prompts = [self.spec.image_prompt] * len(images)
        batch = self._processor(
            text=prompts,
            images=[[image] for image in images],
            padding=True,
            add_special_tokens=False,
            return_tensors="pt",
        )
        return self.to_device(batch)

    def embed_texts(self, batch: Batch) -> torch.Tensor:
        """Mean of the last layer over the tokens."""
        hidden = self.module(**batch).last_hidden_state
        return POOLINGS[self.spec.pooling](hidden, batch["attention_mask"])

    embed_images = embed_texts
