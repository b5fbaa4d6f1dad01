"""An optional random projection of the vectors: seeded and recorded, never an untrained layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maghub.encoding.base import Encoder
from maghub.errors import MaghubError
from maghub.seeding import DEFAULT_SEED, child_rng

if TYPE_CHECKING:
    from PIL.Image import Image


class Projected(Encoder):
    """An encoder whose vectors are projected to a smaller width.

    The matrix is Gaussian with variance 1/width, so that it keeps inner products in expectation
    (Johnson and Lindenstrauss); it depends on the seed, the encoder's name and the two widths
    alone, so one encoder's texts and images share it and stay comparable.

    Args:
        model: The encoder.
        width: Width of the projected vectors.
        seed: Seed of the matrix.

    Raises:
        MaghubError: The width is not smaller than the encoder's own.
    """

    def __init__(self, model: Encoder, width: int, seed: int = DEFAULT_SEED) -> None:
        self.model, own = model, model.spec
        if not 0 < width < min(own.dim.values()):
            raise MaghubError(
                f"cannot project the vectors of {own.name} to {width}",
                fix=f"choose a width from 1 to {min(own.dim.values()) - 1}, or leave it out",
            )
        self.spec = own.model_copy(
            update={"name": f"{own.name}-proj{width}", "dim": dict.fromkeys(own.dim, width)}
        )
        self.projection = (
            f"Gaussian random projection to {width}, seed {seed}"
            f"{', then L2-normalised' if own.normalized else ''}"
        )
        self._matrices = {
            dim: child_rng(seed, "projection", own.name, dim, width)
            .standard_normal((dim, width))
            .astype(np.float32)
            / np.float32(np.sqrt(width))
            for dim in set(own.dim.values())
        }

    def _projected(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        found = vectors @ self._matrices[vectors.shape[1]]
        if self.spec.normalized:
            found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
        return found

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Tokens of each text before truncation."""
        return self.model.text_lengths(texts)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Projected vectors of one batch of texts."""
        return self._projected(self.model.encode_texts(texts))

    def encode_images(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """Projected vectors of one batch of RGB images."""
        return self._projected(self.model.encode_images(images))

    def versions(self) -> dict[str, str]:
        """Versions of the libraries that compute the vectors."""
        return {**self.model.versions(), "numpy": np.__version__}
