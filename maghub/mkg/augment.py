"""Augmentation of question images (appendix 8), so that no exact copy gives the answer away.

One of six operations with equal probability, then blur with probability 0.3, then JPEG. Every draw
depends on the seed, the setting, the split and the query id alone, so neither order nor the number
of workers changes a byte (for one version of Pillow).
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter

from maghub.images import PixelRule, decode
from maghub.seeding import child_rng

SETTING = "benchmark"
"""The setting for which the published question images are augmented."""
QUESTIONS = "questions/"
Operation = Literal["swap", "crop", "rotate", "jitter", "crop+jitter", "rotate+jitter"]
OPERATIONS: tuple[Operation, ...] = (
    "swap", "crop", "rotate", "jitter", "crop+jitter", "rotate+jitter"
)  # fmt: skip
CROP = (0.75, 0.95)
"""Share of width and of height that a crop keeps."""
ROTATE_DEGREES = 10.0
COLOUR, SHARPNESS = (0.85, 1.15), (0.9, 1.1)
BLUR_PROBABILITY, BLUR_RADIUS = 0.3, (0.4, 1.0)
JPEG_QUALITY = (85, 95)
_ENHANCERS = (
    ("brightness", ImageEnhance.Brightness, COLOUR),
    ("contrast", ImageEnhance.Contrast, COLOUR),
    ("colour", ImageEnhance.Color, COLOUR),
    ("sharpness", ImageEnhance.Sharpness, SHARPNESS),
)


@dataclass(frozen=True)
class Plan:
    """What is done to one image; everything is drawn before a pixel is touched.

    Attributes:
        operation: One of ``OPERATIONS``.
        chosen: Number of the image to start from, among all images of the entity.
        crop: Share kept, and where the box begins as shares of what is cut off (x, y).
        degrees: Angle of the rotation, counter-clockwise.
        jitter: Factors of brightness, contrast, colour and sharpness.
        blur: Radius in pixels.
        quality: Of the JPEG.
    """

    operation: Operation
    chosen: int
    crop: tuple[float, float, float] | None
    degrees: float | None
    jitter: tuple[float, float, float, float] | None
    blur: float | None
    quality: int


def plan(images: int, *, seed: int, setting: str, split: str, qid: str, shown: int = 0) -> Plan:
    """Draw what becomes of the image of one question.

    Args:
        images: How many images the entity has, 1 or more.
        seed: The one seed.
        setting, split, qid: What the question is; they name the draw.
        shown: Number of the image that stands in the graph; a swap takes another one.

    Returns:
        The plan. With one image there is nothing to swap: the other five operations are then
        equally probable.
    """
    rng = child_rng(seed, "mkg-augment", setting, split, qid)
    possible = OPERATIONS if images > 1 else OPERATIONS[1:]
    operation = possible[int(rng.integers(len(possible)))]
    chosen = shown
    if operation == "swap":
        chosen = int(rng.integers(images - 1))
        chosen += chosen >= shown
    crop = degrees = jitter = None
    if operation.startswith("crop"):
        crop = (_between(rng, CROP), float(rng.random()), float(rng.random()))
    if operation.startswith("rotate"):
        degrees = _between(rng, (-ROTATE_DEGREES, ROTATE_DEGREES))
    if operation.endswith("jitter"):
        drawn = [_between(rng, bounds) for _, _, bounds in _ENHANCERS]
        jitter = (drawn[0], drawn[1], drawn[2], drawn[3])
    blur = _between(rng, BLUR_RADIUS) if rng.random() < BLUR_PROBABILITY else None
    quality = int(rng.integers(JPEG_QUALITY[0], JPEG_QUALITY[1] + 1))
    return Plan(operation, chosen, crop, degrees, jitter, blur, quality)


def _between(rng: np.random.Generator, bounds: tuple[float, float]) -> float:
    return float(rng.uniform(*bounds))


def carry_out(image: Image.Image, todo: Plan) -> bytes:
    """The JPEG that a plan makes of an RGB image."""
    if todo.crop is not None:
        image = _cropped(image, *todo.crop)
    if todo.degrees is not None:
        image = image.rotate(
            todo.degrees, Image.Resampling.BICUBIC, fillcolor=PixelRule().background
        )
    if todo.jitter is not None:
        for (_, enhancer, _), factor in zip(_ENHANCERS, todo.jitter, strict=True):
            image = enhancer(image).enhance(factor)
    if todo.blur is not None:
        image = image.filter(ImageFilter.GaussianBlur(todo.blur))
    out = io.BytesIO()
    image.save(out, "JPEG", quality=todo.quality)
    return out.getvalue()


def _cropped(image: Image.Image, share: float, across: float, down: float) -> Image.Image:
    width, height = (max(1, round(side * share)) for side in image.size)
    left = round((image.width - width) * across)
    top = round((image.height - height) * down)
    return image.crop((left, top, left + width, top + height))


def augment(
    images: Sequence[bytes],
    *,
    seed: int,
    setting: str,
    split: str,
    qid: str,
    shown: int = 0,
) -> tuple[bytes, Plan] | None:
    """Augment the image of one question.

    Args:
        images: The bytes of all images of the entity.
        seed, setting, split, qid, shown: See ``plan``.

    Returns:
        The JPEG and what was done; None where the chosen image cannot be decoded.
    """
    todo = plan(len(images), seed=seed, setting=setting, split=split, qid=qid, shown=shown)
    image = decode(images[todo.chosen])
    return None if image is None else (carry_out(image, todo), todo)


def question_picture(split: str, qid: str) -> str:
    """Key of the published picture of a question."""
    return f"{QUESTIONS}{split}/{qid}"


def published(path: str, images: Sequence[bytes], *, seed: int, shown: int = 0) -> bytes | None:
    """The JPEG of a question that is published under a key of ``question_picture``.

    Args:
        path: The key; it names setting, split and question of the draw.
        images, seed, shown: See ``augment``.

    Returns:
        None where the chosen image cannot be decoded.
    """
    split, qid = path.removeprefix(QUESTIONS).split("/")
    made = augment(images, seed=seed, setting=SETTING, split=split, qid=qid, shown=shown)
    return None if made is None else made[0]
