"""What an encoder is: a typed spec and two functions from inputs to vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maghub.spec import Model

if TYPE_CHECKING:
    from PIL.Image import Image


class EncoderSpec(Model):
    """Facts of an encoder that go into the provenance of its vectors.

    ``dim`` maps each modality it serves to its native width; ``max_length`` is in tokens and
    ``image_size`` in pixels per side.
    """

    name: str
    model_id: str
    revision: str
    library: str
    licence: str
    dim: dict[str, int]
    pooling: str
    normalized: bool
    dtype: str = "float16"
    max_length: int | None = None
    image_size: int | None = None
    batch_size: int = 32


class Encoder(ABC):
    """A frozen encoder: subclasses set ``spec``, load weights in ``__init__``, encode batches."""

    spec: EncoderSpec

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Tokens of each text before truncation; sorts batches and counts truncations."""
        raise NotImplementedError(f"{self.spec.name} does not encode text")

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 [len(texts), D] vectors of one batch of texts."""
        raise NotImplementedError(f"{self.spec.name} does not encode text")

    def encode_images(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """float32 [len(images), D] vectors of one batch of RGB images."""
        raise NotImplementedError(f"{self.spec.name} does not encode images")

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Versions of the libraries that compute the vectors."""
