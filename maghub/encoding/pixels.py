"""Preprocessing of our own modules and of anything that only states its numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from maghub.encoding.base import Pixels

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image


def pixel_transform(pixels: Pixels) -> Callable[[Image], torch.Tensor]:
    """From an RGB image to a float32 [3, size, size] tensor, resampled by Pillow.

    This is the evaluation transform of timm, CLIP and ImageBind alike; only the numbers differ.
    """
    from torchvision import transforms

    mode = transforms.InterpolationMode(pixels.interpolation)
    transform: Callable[[Image], torch.Tensor] = transforms.Compose(
        [
            transforms.Resize(pixels.resize, interpolation=mode),
            transforms.CenterCrop(pixels.size),
            transforms.ToTensor(),
            transforms.Normalize(pixels.mean, pixels.std),
        ]
    )
    return transform
