"""What images become: the pixel rule first, then exactly the preprocessing of the models' own.

Peers: ``transformers.CLIPImageProcessor`` with Pillow's resampling, open_clip's evaluation
transform, timm's. All of them get the same RGB image, which is the pixel rule's.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from maghub import layout, registry
from maghub.encoding.pixels import pixel_transform
from maghub.encoding.specs import all_specs
from maghub.encoding.torch_encoder import MAX_ASPECT, tamed
from maghub.encoding.vectors import encode_column
from maghub.images import decode
from tests.helpers.tiny_encoders import tiny

transformers = pytest.importorskip("transformers")
open_clip = pytest.importorskip("open_clip")
pytestmark = pytest.mark.integration


def noise(*shape: int, dtype: type = np.uint8) -> np.ndarray:
    high = np.iinfo(dtype).max + 1
    return np.random.default_rng(sum(shape)).integers(0, high, shape, dtype=dtype)


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def rotated() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return encoded(Image.fromarray(noise(40, 90, 3)), "JPEG", exif=exif)


ODD = {
    "one pixel": encoded(Image.fromarray(noise(1, 1, 3)), "PNG"),
    "one pixel wide": encoded(Image.fromarray(noise(50, 1, 3)), "PNG"),
    "one pixel high": encoded(Image.fromarray(noise(1, 50, 3)), "PNG"),
    "three pixels wide": encoded(Image.fromarray(noise(3, 3, 3)), "PNG"),
    "RGBA": encoded(Image.fromarray(noise(60, 45, 4)), "PNG"),
    "CMYK": encoded(Image.fromarray(noise(33, 70, 4), "CMYK"), "JPEG"),
    "16 bits": encoded(Image.fromarray(noise(70, 31, dtype=np.uint16)), "PNG"),
    "turned by EXIF": rotated(),
    "palette with transparency": encoded(
        Image.fromarray(noise(30, 30) % 7).convert("P"), "PNG", transparency=3
    ),
    "grey": encoded(Image.fromarray(noise(300, 500)), "PNG"),
    "one bit": encoded(Image.fromarray(noise(20, 20)).convert("1"), "PNG"),
    "large": encoded(Image.fromarray(noise(700, 500, 3)), "JPEG"),
}


def rgb(data: bytes) -> Image.Image:
    image = decode(data)
    assert image is not None
    return image


def by_open_clip(image: Image.Image) -> np.ndarray:
    """open_clip's evaluation transform, with transformers' choice of the middle.

    The two libraries differ in one thing: of an odd number of pixels to cut off a side,
    transformers leaves the smaller half before the middle, torchvision rounds to even. Where that
    puts the crops a pixel apart, open_clip's resized image is cropped where transformers does.
    """
    transform = open_clip.image_transform(224, is_train=False)
    resize, crop, *rest = transform.transforms
    resized = resize(image)
    left, top = ((side - 224) // 2 for side in resized.size)
    apart = [side - 224 for side in resized.size if (side - 224) % 4 == 3]
    cropped = resized.crop((left, top, left + 224, top + 224)) if apart else crop(resized)
    for step in rest:
        cropped = step(cropped)
    return cropped.numpy()


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tiny("clip-vit-large-patch14", tmp_path_factory.mktemp("clip") / "model")
    return registry.get("encoders", "clip-vit-large-patch14")(model_path=folder)


@pytest.mark.parametrize("kind", ODD)
def test_clip_equals_transformers_and_open_clip(clip: Any, kind: str) -> None:
    image = rgb(ODD[kind])
    ours = clip.image_batch([image])["pixel_values"][0].numpy()
    processor = transformers.models.clip.image_processing_pil_clip.CLIPImageProcessorPil()
    theirs = processor(images=[image], return_tensors="np")["pixel_values"][0]
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_allclose(ours, by_open_clip(image), atol=1e-5)
    assert ours.shape == (3, 224, 224)


@pytest.mark.parametrize("kind", ODD)
def test_imagebind_has_clips_preprocessing(kind: str) -> None:
    pixels = all_specs()["imagebind-huge"].pixels
    assert pixels is not None
    ours = pixel_transform(pixels)(rgb(ODD[kind]))
    theirs = open_clip.image_transform(224, is_train=False)(rgb(ODD[kind]))
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("name", ["vig", "pyramid-tnt"])
def test_own_modules_have_timms_preprocessing(name: str, kind: str) -> None:
    import timm

    pixels = all_specs()[name].pixels
    assert pixels is not None
    theirs = timm.data.create_transform(
        input_size=(3, pixels.size, pixels.size),
        interpolation="bicubic",
        crop_pct=0.9,
        mean=(0.5, 0.5, 0.5),
        std=(0.5, 0.5, 0.5),
        is_training=False,
    )
    image = rgb(ODD[kind])
    ours = pixel_transform(pixels)(image).numpy()
    np.testing.assert_allclose(ours, theirs(image).numpy(), atol=1e-6)


def test_the_pixel_rule_decides_what_odd_pixels_mean() -> None:
    """Transparency is white and EXIF is applied before any model sees the image."""
    clear = Image.new("RGBA", (8, 8), (255, 0, 0, 0))
    assert np.asarray(rgb(encoded(clear, "PNG"))).min() == 255
    assert rgb(ODD["turned by EXIF"]).size == (40, 90)
    deep = np.asarray(rgb(ODD["16 bits"]))[..., 0]
    expected = np.round(noise(70, 31, dtype=np.uint16) / 65535 * 255)
    np.testing.assert_array_equal(deep, expected)


@pytest.mark.parametrize("size", [(1, 600), (600, 1), (1, 601), (2, 1001)])
def test_a_line_of_pixels_is_cut_to_its_middle_and_looks_the_same(
    clip: Any, size: tuple[int, int]
) -> None:
    image = Image.fromarray(noise(size[1], size[0], 3))
    cut = tamed(image)
    assert max(cut.size) <= MAX_ASPECT * min(size) + 1
    whole, part = (clip.image_batch([i])["pixel_values"].numpy() for i in (image, cut))
    np.testing.assert_allclose(part, whole, atol=0.02)  # a 255th is 0.015
    assert tamed(cut) is cut or max(cut.size) == MAX_ASPECT * min(size) + 1


def test_a_line_that_would_need_gigabytes_is_encoded(clip: Any) -> None:
    image = Image.fromarray(noise(1, 1_000_000, 3))
    assert np.isfinite(clip.encode_images([image])).all()


def test_a_broken_image_is_null_never_random(clip: Any) -> None:
    """Truncated, a web page, a bomb, nothing: zero rows and no flag; the others as ever."""
    good = ODD["RGBA"]
    bomb = encoded(Image.new("1", (20_000, 5_000)), "PNG")
    blobs = [good, ODD["large"][:500], b"<html>404</html>", bomb, b"", None, good]
    values = [None if blob is None else {"bytes": blob, "path": None} for blob in blobs]
    found = encode_column(clip, layout.IMAGE, len(values), [values], 3)
    assert found.present.tolist() == [True, False, False, False, False, False, True]
    assert not found.vectors[1:6].any()
    np.testing.assert_array_equal(found.vectors[0], found.vectors[6])
    exact = clip.encode_images([rgb(good)])[0]
    np.testing.assert_allclose(found.vectors[0].astype(np.float32), exact, atol=2e-3)
