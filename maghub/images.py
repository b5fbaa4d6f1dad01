"""The pixel rule: the one place that decides what becomes of the bytes of an image.

Every published image is an 8-bit RGB or grey JPEG or PNG, upright (EXIF orientation applied), on
white where it was transparent. Bytes that are that already are published as they are; everything
else is decoded and encoded anew: a JPEG source as JPEG, any other as PNG, so that nothing lossless
becomes lossy. What cannot be decoded completely is no image, and the reason is counted.

Example:
    >>> normalise(b"<html>404</html>", PixelRule()).reason
    'html'
"""

from __future__ import annotations

import io
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
from PIL import Image, ImageFile

# No EPS, PDF or other format with a program behind it. (JPEG includes MPO.)
FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM")
Action = Literal["kept", "encoded", "refused"]
_PIL_SETTINGS = threading.Lock()
_ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True)
class PixelRule:
    """What is done to an image; equal rules give equal bytes (for one version of Pillow).

    Args:
        max_side: Longer sides are scaled down to this; None keeps every size.
        max_pixels: Images whose header says more are refused before they are decoded.
        max_bytes: Longer files are refused.
        quality: JPEG quality of what must be encoded anew.
        background: What shows through transparency.
    """

    max_side: int | None = None
    max_pixels: int = 89_478_485  # Pillow's own limit, a quarter of a gigabyte as RGB
    max_bytes: int = 64 << 20
    quality: int = 95
    background: tuple[int, int, int] = (255, 255, 255)

    def describe(self) -> str:
        """The rule in one sentence, for a card."""
        side = f"at most {self.max_side} px long (Lanczos), " if self.max_side else ""
        white = "white" if self.background == (255, 255, 255) else f"{self.background}"
        return (
            f"8-bit RGB or grey JPEG or PNG, {side}EXIF orientation applied, transparency on "
            f"{white}, first frame of animations. Bytes that comply are kept, others are encoded "
            f"anew (JPEG quality {self.quality}, or PNG). Unreadable images and those of more than "
            f"{self.max_pixels:,} pixels are null."
        )


@dataclass(frozen=True)
class ImageResult:
    """What became of an image: ``data`` is None where it was refused, with the reason."""

    data: bytes | None
    action: Action
    reason: str | None = None
    width: int = 0
    height: int = 0
    steps: tuple[str, ...] = ()


class ImageSummary:
    """Counts of what became of many images, for the card and ``maghub.json``."""

    def __init__(self) -> None:
        self.actions: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()

    def add(self, result: ImageResult | None) -> None:
        """Count one image; None is a node without any."""
        if result is None:
            self.actions["missing"] += 1
            return
        self.actions[result.action] += 1
        self.steps.update(result.steps)
        if result.reason:
            self.reasons[result.reason] += 1

    def as_dict(self) -> dict[str, dict[str, int]]:
        """Plain numbers, sorted, so that equal images give equal bytes."""
        counters = {"actions": self.actions, "refused": self.reasons, "steps": self.steps}
        return {name: dict(sorted(counter.items())) for name, counter in counters.items()}

    def flat(self) -> dict[str, int]:
        """Counts in one level: ``kept``, ``encoded``, ``missing``, ``refused: html``, ..."""
        found = self.as_dict()
        counts = {name: n for name, n in found["actions"].items() if name != "refused"}
        return counts | {f"refused: {reason}": n for reason, n in found["refused"].items()}


class _Refused(Exception):
    """Carries the reason why some bytes are not an image."""


def normalise(data: bytes, rule: PixelRule | None = None) -> ImageResult:
    """Apply the pixel rule to the bytes of one image; never raises for what is in them.

    Reasons for a refusal: ``empty``, ``html`` (a web page instead of an image), ``text``,
    ``unreadable`` (no known image format), ``damaged`` (truncated or broken inside), ``too many
    pixels``, ``too many bytes``, ``unknown pixels`` (a mode that has no RGB meaning).
    """
    rule = rule or PixelRule()
    try:
        return _normalise(data, rule)
    except _Refused as refusal:
        return ImageResult(None, "refused", str(refusal))


def decode(data: bytes, rule: PixelRule | None = None) -> Image.Image | None:
    """The image that the pixel rule makes, as RGB and not encoded anew; None where it refuses."""
    rule = rule or PixelRule()
    try:
        image, steps, turn = _opened(data, rule)
        if not steps and image.mode == "RGB" and not _too_long(image, rule):
            with _complete_images_only():
                image.load()
            return image
        return _pixels(image, rule, steps, turn).convert("RGB")
    except Exception:  # decoders raise nearly anything on broken data
        return None


def _normalise(data: bytes, rule: PixelRule) -> ImageResult:
    image, steps, turn = _opened(data, rule)
    try:
        with _complete_images_only():
            image.load()
        compliant = image.format in ("JPEG", "MPO", "PNG") and image.mode in ("RGB", "L")
        if compliant and not steps and not _too_long(image, rule):
            return ImageResult(data, "kept", None, *image.size)
        pixels = _pixels(image, rule, steps, turn)
        # Colours were not converted, so a profile still holds; all other metadata is left behind.
        profile = image.info.get("icc_profile") if pixels.mode == image.mode else None
        pixels.info = {}
        out = io.BytesIO()
        if image.format in ("JPEG", "MPO"):
            pixels.save(out, "JPEG", quality=rule.quality, subsampling=0, icc_profile=profile)
        else:
            pixels.save(out, "PNG", icc_profile=profile)
    except _Refused:
        raise
    except Exception:  # decoders raise nearly anything on broken data
        raise _Refused("damaged") from None
    return ImageResult(out.getvalue(), "encoded", None, *pixels.size, tuple(steps))


def _pixels(
    image: ImageFile.ImageFile, rule: PixelRule, steps: list[str], turn: Image.Transpose | None
) -> Image.Image:
    """The pixels that the rule makes of an opened image; adds what it took to ``steps``."""
    with _complete_images_only():
        image.load()
    pixels = _eight_bits(image, rule, steps)
    if turn is not None:
        pixels = pixels.transpose(turn)
    if _too_long(pixels, rule):
        steps.append("resized")
        side = rule.max_side or 0
        pixels.thumbnail((side, side), Image.Resampling.LANCZOS)
    return pixels


def _opened(
    data: bytes, rule: PixelRule
) -> tuple[ImageFile.ImageFile, list[str], Image.Transpose | None]:
    """The image, only its header read; what is known to be wrong with it; how to turn it."""
    if not data:
        raise _Refused("empty")
    if len(data) > rule.max_bytes:
        raise _Refused("too many bytes")
    steps: list[str] = []
    with _PIL_SETTINGS, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the bomb warning is decided below, broken EXIF is ignored
        try:
            image = Image.open(io.BytesIO(data), formats=FORMATS)
        except Image.DecompressionBombError:
            raise _Refused("too many pixels") from None
        except Exception:  # plugins raise nearly anything on a broken header
            raise _Refused(_what_it_is(data)) from None
        if image.width * image.height > rule.max_pixels:
            raise _Refused("too many pixels")
        try:  # all pixels may be there although the end of the file is not
            Image.open(io.BytesIO(data), formats=FORMATS).verify()
        except Exception:
            raise _Refused("damaged") from None
        try:
            turn = _TURNS.get(image.getexif().get(_ORIENTATION, 1))
        except Exception:  # EXIF is free text to many cameras
            turn = None
        try:
            animated = image.format != "MPO" and bool(getattr(image, "is_animated", False))
        except Exception:  # a later frame is broken; the first may be whole
            animated = True
    if animated:
        image.seek(0)
        steps.append("first frame")
    if turn is not None:
        steps.append("turned")
    if image.format == "PNG" and data[24:25] == b"\x10":
        steps.append("16 bits")
    return image, steps, turn


def _eight_bits(image: Image.Image, rule: PixelRule, steps: list[str]) -> Image.Image:
    """The pixels as RGB or L of 8 bits, on the background; adds what it took to ``steps``."""
    if image.has_transparency_data:
        steps.append("transparency")
        layer = image.convert("RGBA")
        canvas = Image.new("RGB", layer.size, rule.background)
        canvas.paste(layer, mask=layer.getchannel("A"))
        return canvas
    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.int64)
        if values.min() < 0 or values.max() > 65535:
            raise _Refused("unknown pixels")
        if "16 bits" not in steps:
            steps.append("16 bits")
        return Image.fromarray(((values * 255 + 32767) // 65535).astype(np.uint8))
    if image.mode == "F":
        raise _Refused("unknown pixels")
    if image.mode in ("RGB", "L"):
        if not steps and image.format not in ("JPEG", "MPO", "PNG"):
            steps.append("format")
        return image.copy()
    steps.append({"P": "palette", "1": "1 bit", "CMYK": "CMYK"}.get(image.mode, image.mode))
    return image.convert("L" if image.mode == "1" else "RGB")


def _too_long(image: Image.Image, rule: PixelRule) -> bool:
    return rule.max_side is not None and max(image.size) > rule.max_side


def _what_it_is(data: bytes) -> str:
    """Why bytes are no image that we know."""
    start = data[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(b"<") and not start.startswith(b"<svg"):
        return "html"
    try:
        text = data[:1024].decode()
    except UnicodeDecodeError:
        return "unreadable"
    return "text" if text.replace("\n", "").replace("\r", "").isprintable() else "unreadable"


@contextmanager
def _complete_images_only() -> Iterator[None]:
    """Make Pillow refuse truncated images even where somebody else told it not to."""
    if not ImageFile.LOAD_TRUNCATED_IMAGES:
        yield
        return
    with _PIL_SETTINGS:
        ImageFile.LOAD_TRUNCATED_IMAGES = False
        try:
            yield
        finally:
            ImageFile.LOAD_TRUNCATED_IMAGES = True
