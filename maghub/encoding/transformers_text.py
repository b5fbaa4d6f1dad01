"""Text encoders of transformers: BERT-like, decoder-only language models, T5's encoder.

Released OpenMAG features average the last layer over all positions, padding included, so that a
text's vector depends on the batch it was in; here padding counts for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maghub import layout
from maghub.encoding.torch_encoder import POOLINGS, TorchEncoder
from maghub.encoding.weights import from_pretrained

if TYPE_CHECKING:
    import torch

    from maghub.encoding.torch_encoder import Batch


def tokenizer_of(folder: Path) -> Any:
    """A model's tokenizer; pads on the right, with the end token where it has no padding token.

    (Which token pads is of no consequence: it is masked, and no causal model sees what follows.)
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False
    )
    tokenizer.padding_side = tokenizer.truncation_side = "right"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def token_counts(tokenizer: Any, texts: Sequence[str]) -> NDArray[np.int64]:
    """Tokens of each text before truncation, special tokens included."""
    rows = tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]
    return np.fromiter((len(row) for row in rows), np.int64, len(texts))


def token_batch(tokenizer: Any, texts: Sequence[str], max_length: int | None) -> Any:
    """Token ids and mask, cut at ``max_length``, padded to the longest text of the batch."""
    return tokenizer(
        list(texts), padding=True, truncation=True, max_length=max_length, return_tensors="pt"
    )


class TransformersText(TorchEncoder):
    """A text model of transformers, its last layer pooled as the spec says."""

    PACKAGES: tuple[str, ...] = ("transformers", "tokenizers")

    def load(self, folder: Path) -> torch.nn.Module:
        """The base model without a head; of an encoder-decoder only the encoder."""
        import transformers

        self._tokenizer = tokenizer_of(folder)
        config = transformers.AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        encoder = transformers.AutoModelForTextEncoding
        auto = encoder if config.is_encoder_decoder else transformers.AutoModel
        return from_pretrained(auto, folder, self.dtype)

    def widths(self) -> dict[str, int]:
        """Hidden size of the model."""
        config: Any = self.module.config
        return {layout.TEXT: config.hidden_size}

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Tokens of each text before truncation, special tokens included."""
        return token_counts(self._tokenizer, texts)

    def text_batch(self, texts: Sequence[str]) -> Batch:
        """Token ids and mask, cut at the spec's length, padded to the longest text."""
        return self.to_device(token_batch(self._tokenizer, texts, self.spec.max_length))

    def embed_texts(self, batch: Batch) -> torch.Tensor:
        """The pooled last layer."""
        hidden = self.module(**batch).last_hidden_state
        return POOLINGS[self.spec.pooling](hidden, batch["attention_mask"])
