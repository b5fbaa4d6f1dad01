"""The batch size that ``auto`` stands for: the spec's on a CPU, what fits on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maghub import layout
from maghub.encoding.base import Encoder

MOST = 1024
UNKNOWN_LENGTH, UNKNOWN_SIDE = 512, 224


def automatic(model: Encoder, modalities: Sequence[str]) -> int:
    """Inputs per batch for the device that a model is on.

    A CPU gains nothing from more than the spec's batch. On a GPU the size is doubled for as long as
    a batch of the longest inputs fits, so that no batch of the run can be too large.
    """
    inner: Any = getattr(model, "model", model)
    if getattr(getattr(inner, "device", None), "type", "cpu") != "cuda":
        return model.spec.batch_size
    return largest(model.spec.batch_size, lambda size: _fits(model, modalities, size))


def largest(start: int, fits: Callable[[int], bool], most: int = MOST) -> int:
    """The largest of ``start``, its doubles up to ``most`` and its halves that fits (1 if none)."""
    size = start
    while size > 1 and not fits(size):
        size //= 2
    if size < start:
        return size
    while 2 * size <= most and fits(2 * size):
        size *= 2
    return size


def _fits(model: Encoder, modalities: Sequence[str], size: int) -> bool:
    """Whether a batch of the longest inputs can be encoded in three quarters of the memory.

    (Fragments and the allocator's cache take their part later in the run.)
    """
    import torch

    torch.cuda.reset_peak_memory_stats()
    try:
        for modality in modalities:
            _encode_longest(model, modality, size)
    except torch.cuda.OutOfMemoryError:
        return False
    finally:
        torch.cuda.empty_cache()
    total = torch.cuda.mem_get_info()[1]
    return torch.cuda.max_memory_allocated() < 0.75 * total


def _encode_longest(model: Encoder, modality: str, size: int) -> None:
    if modality == layout.TEXT:
        text = "word " * (model.spec.max_length or UNKNOWN_LENGTH)
        model.encode_texts([text] * size)
        return
    from PIL import Image

    side = model.spec.image_size or UNKNOWN_SIDE
    noise = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    model.encode_images([Image.fromarray(noise)] * size)
