"""What an encoder is: a typed spec and two functions from inputs to vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from maghub.spec import Model

if TYPE_CHECKING:
    from PIL.Image import Image


Precision = Literal["float32", "bfloat16", "float16"]


class Pixels(Model):
    """How an image becomes a square tensor: resized short side, centre crop, then normalised."""

    size: int
    resize: int
    interpolation: Literal["bicubic", "bilinear"]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


class EncoderSpec(Model):
    """Facts of an encoder that go into the provenance of its vectors.

    Attributes:
        name: Name in the registry and in ``embeddings-<name>``.
        model_id: Repository on the Hub.
        revision: Its commit, or ``main`` where no commit could be confirmed. A loaded encoder
            carries the commit it came from, or the digest of its local folder.
        library: What computes the vectors.
        licence: Licence of the weights.
        dim: Native width of each modality it serves; empty until loaded if only the model knows.
        pooling: How one vector is made, in words.
        normalized: Whether vectors have unit length.
        dtype: How vectors are stored.
        max_length: Longest text in tokens; the rest is cut and counted.
        image_size: Pixels per side of what the model sees.
        batch_size: Inputs per batch.
        compute: Precision of weights and arithmetic.
        pixels: Our own preprocessing; None: what the model's own files say.
        image_prompt: What a language model reads around an image.
        gated: Whether the Hub asks for a token and an accepted licence.
        trainable: Whether OpenMAG fine-tunes it too.
        weights_url: Where weights that are not on the Hub are downloaded by hand.
        note: What a user must know about these vectors.
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
    compute: Precision = "float32"
    pixels: Pixels | None = None
    image_prompt: str | None = None
    gated: bool = False
    trainable: bool = False
    weights_url: str | None = None
    note: str = ""


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
