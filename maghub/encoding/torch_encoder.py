"""What the adapters of all libraries share: loading, devices, pooling, vectors with gradients.

``encode_texts`` and ``encode_images`` give arrays. A trainer uses the parts they are made of:
``text_batch`` or ``image_batch`` makes tensors, ``embed_texts`` or ``embed_images`` makes vectors
of them and is differentiable, ``module`` is the torch module to train.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maghub.encoding.base import Encoder, EncoderSpec
from maghub.encoding.weights import loading, located, require
from maghub.errors import MaghubError, nearest

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image

    Batch = Mapping[str, torch.Tensor]

MAX_ASPECT = 200


def usable_device(name: str) -> torch.device:
    """The torch device of that name, once something can be put on it.

    Raises:
        MaghubError: There is no such device here.
    """
    import torch

    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise MaghubError(
            f"the device '{name}' cannot be used here ({reason})", fix="give cpu, or auto"
        ) from None


class TorchEncoder(Encoder):
    """An encoder that is a torch module; subclasses load it and say how inputs go through it.

    Args:
        spec: What is computed.
        device: torch device.
        dtype: Precision to compute in; None takes the spec's.
        model_path: Local folder with the model's files; None takes the Hub or its cache.
    """

    PACKAGES: tuple[str, ...] = ()
    DISTRIBUTIONS: tuple[str, ...] = ()
    EXTRA = "encoders"
    module: torch.nn.Module

    def __init__(
        self,
        spec: EncoderSpec,
        device: str = "cpu",
        *,
        dtype: str | None = None,
        model_path: str | Path | None = None,
    ) -> None:
        require(("torch", *self.PACKAGES), self.EXTRA)
        spec = self.resolve(spec, model_path)
        folder, revision = self.find(spec, model_path)
        import torch

        precision = dtype or spec.compute
        known = ("float32", "bfloat16", "float16")
        if precision not in known:
            raise nearest(precision, known, kind="precision")
        self.spec = spec.model_copy(update={"revision": revision, "compute": precision})
        self.device = usable_device(device)
        self.dtype: torch.dtype = getattr(torch, precision)
        with loading(spec, folder):
            self.module = self.load(folder)
            self.module.to(self.device, self.dtype).eval().requires_grad_(False)
            self.spec = self.completed(folder)

    def resolve(self, spec: EncoderSpec, model_path: str | Path | None) -> EncoderSpec:
        """The spec with the name that a user gave turned into a repository of the Hub."""
        return spec

    def find(self, spec: EncoderSpec, model_path: str | Path | None) -> tuple[Path, str]:
        """The folder with the model's files, and their revision."""
        return located(spec, model_path)

    @abstractmethod
    def load(self, folder: Path) -> torch.nn.Module:
        """The module with all its weights, and whatever prepares its inputs."""

    @abstractmethod
    def widths(self) -> dict[str, int]:
        """Width of the vectors of each modality, as the loaded model has it."""

    def facts(self) -> dict[str, object]:
        """Fields of the spec that only the loaded model knows, for models taken by name."""
        return {}

    def completed(self, folder: Path) -> EncoderSpec:
        """The spec with what only the model knows; a width other than the declared is refused."""
        widths = self.widths()
        if not self.spec.dim:
            return self.spec.model_copy(update={"dim": widths, **self.facts()})
        if widths != self.spec.dim:
            raise MaghubError(
                f"vectors are {_in_words(widths)} wide, those of {self.spec.name} are "
                f"{_in_words(self.spec.dim)}",
                where=folder,
                fix="give the folder of the model that the encoder is named after",
            )
        return self.spec

    def text_batch(self, texts: Sequence[str]) -> Batch:
        """Tensors of a batch of texts, padded on the right to the longest of them."""
        raise NotImplementedError(f"{self.spec.name} does not encode text")

    def embed_texts(self, batch: Batch) -> torch.Tensor:
        """[N, D] vectors of a batch of texts, before normalisation; differentiable."""
        raise NotImplementedError(f"{self.spec.name} does not encode text")

    def image_batch(self, images: Sequence[Image]) -> Batch:
        """Tensors of a batch of RGB images."""
        raise NotImplementedError(f"{self.spec.name} does not encode images")

    def embed_images(self, batch: Batch) -> torch.Tensor:
        """[N, D] vectors of a batch of images, before normalisation; differentiable."""
        raise NotImplementedError(f"{self.spec.name} does not encode images")

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 [len(texts), D] vectors of one batch of texts."""
        return self._vectors(self.embed_texts, self.text_batch(texts))

    def encode_images(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """float32 [len(images), D] vectors of one batch of RGB images."""
        return self._vectors(self.embed_images, self.image_batch([tamed(i) for i in images]))

    def _vectors(self, embed: Callable[[Batch], torch.Tensor], batch: Batch) -> NDArray[np.float32]:
        import torch

        with torch.inference_mode():
            vectors = embed(batch).float()
            if self.spec.normalized:
                vectors = torch.nn.functional.normalize(vectors, dim=-1)
        array: NDArray[np.float32] = vectors.cpu().numpy()
        return array

    def to_device(self, batch: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """The tensors of a batch on the encoder's device, real numbers in its precision."""
        return {
            name: value.to(self.device, self.dtype if value.is_floating_point() else value.dtype)
            for name, value in batch.items()
        }

    def versions(self) -> dict[str, str]:
        """Versions of the libraries that compute the vectors."""
        return {name: version(name) for name in ("torch", *(self.DISTRIBUTIONS or self.PACKAGES))}


def _in_words(widths: Mapping[str, int]) -> str:
    return ", ".join(f"{width} ({modality})" for modality, width in widths.items())


def masked_mean(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean of [N, T, D] over the tokens that are there; padding counts for nothing."""
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1)


def first_token(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """[N, D] of the first token."""
    return hidden[:, 0]


def last_token(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """[N, D] of the last token that is there, with padding on the right."""
    import torch

    rows = torch.arange(len(hidden), device=hidden.device)
    return hidden[rows, mask.sum(1) - 1]


POOLINGS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "mean over tokens": masked_mean,
    "first token": first_token,
    "last token": last_token,
}


def tamed(image: Image) -> Image:
    """The image, its middle only where one side is more than 200 times the other.

    Every preprocessing scales the short side up and keeps the middle square; a line of pixels
    would need gigabytes on the way there. (An even number of pixels is cut, so the middle stays.)
    """
    width, height = image.size
    limit = MAX_ASPECT * min(width, height)
    if max(width, height) <= limit:
        return image
    cut = (max(width, height) - limit) // 2
    if width > height:
        return image.crop((cut, 0, width - cut, height))
    return image.crop((0, cut, width, height - cut))
