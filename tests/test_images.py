"""The pixel rule: what comes out of each quirk that upstream images have."""

from __future__ import annotations

import io
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFile

from maghub.images import ImageSummary, PixelRule, decode, normalise

sys.path.insert(0, str(Path(__file__).parent / "fixtures"))
import pictures


def opened(data: bytes | None) -> Image.Image:
    assert data is not None
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def corners(image: Image.Image) -> np.ndarray:
    array = np.asarray(image.convert("RGB")).astype(int)
    return array[[0, 0, -1, -1], [0, -1, 0, -1]]


@pytest.mark.parametrize("make", [pictures.jpeg, pictures.png, pictures.grey])
def test_fine_images_pass_byte_for_byte(make):
    data = make()
    result = normalise(data)
    assert result.data == data
    assert (result.action, result.steps) == ("kept", ())
    assert (result.width, result.height) == (24, 16)


@pytest.mark.parametrize(
    ("make", "steps", "kind"),
    [
        (pictures.cmyk, ("CMYK",), "JPEG"),
        (pictures.rotated, ("turned",), "JPEG"),
        (pictures.palette, ("transparency",), "PNG"),
        (lambda: pictures.palette(transparent=False), ("palette",), "PNG"),
        (pictures.grey_alpha, ("transparency",), "PNG"),
        (pictures.rgba, ("transparency",), "PNG"),
        (pictures.grey_16, ("16 bits",), "PNG"),
        (pictures.rgb_16, ("16 bits",), "PNG"),
        (pictures.gif, ("first frame",), "PNG"),
        (pictures.webp, ("first frame",), "PNG"),
        (lambda: pictures.webp(frames=1), ("format",), "PNG"),
    ],
)
def test_other_images_are_encoded_anew_and_then_pass(make, steps, kind):
    result = normalise(make())
    assert result.action == "encoded"
    assert set(steps) <= set(result.steps)
    image = opened(result.data)
    assert image.format == kind
    assert image.mode in ("RGB", "L")
    assert not image.has_transparency_data
    assert image.size == (result.width, result.height)
    assert normalise(result.data).action == "kept"  # the rule has nothing more to say
    assert normalise(make()).data == result.data  # same bytes again


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (pictures.html(), "html"),
        (b"\xef\xbb\xbf  <HTML>", "html"),
        (pictures.not_found(), "text"),
        (b'{"error": 404}', "text"),
        (b"\x00\x01\x02\xff" * 9, "unreadable"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "text"),
        (pictures.truncated(), "damaged"),
        (pictures.png()[:-30], "damaged"),
        (pictures.bomb(), "too many pixels"),
    ],
)
def test_what_is_no_image_is_refused_with_a_reason(data, reason):
    result = normalise(data)
    assert (result.data, result.action, result.reason) == (None, "refused", reason)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(orientation):
    upright = Image.fromarray(pictures.pixels())
    stored = pictures.rotated(orientation=orientation)
    result = normalise(stored)
    image = opened(result.data)
    turned = upright.size if orientation < 5 else upright.size[::-1]
    assert image.size == turned
    assert image.getexif().get(0x0112, 1) == 1
    first = {1: 0, 2: 1, 3: 3, 4: 2, 5: 0, 6: 1, 7: 3, 8: 2}[orientation]
    assert np.abs(corners(image)[first] - corners(upright)[0]).max() < 12
    assert (result.action == "kept") == (orientation == 1)


def test_transparency_shows_white_and_half_of_it_half_white():
    assert opened(normalise(pictures.palette()).data).getpixel((0, 0)) == (255, 255, 255)
    assert opened(normalise(pictures.palette()).data).getpixel((20, 0)) == (200, 40, 40)
    assert opened(normalise(pictures.grey_alpha()).data).getpixel((0, 0)) == (255, 255, 255)
    assert opened(normalise(pictures.grey_alpha()).data).getpixel((20, 0)) == (100, 100, 100)
    assert opened(normalise(pictures.rgba()).data).getpixel((0, 0)) == (255, 255, 255)
    assert opened(normalise(pictures.rgba()).data).getpixel((20, 0)) == (255, 127, 127)


def test_sixteen_bits_are_scaled_not_clipped():
    image = opened(normalise(pictures.grey_16()).data)
    assert image.mode == "L"
    assert (image.getpixel((0, 0)), image.getpixel((20, 0))) == (20, 200)
    assert opened(normalise(pictures.rgb_16()).data).getpixel((0, 0)) == (10, 128, 240)


def test_cmyk_keeps_its_colours():
    expected = corners(Image.fromarray(pictures.pixels()))
    assert np.abs(corners(opened(normalise(pictures.cmyk()).data)) - expected).max() < 12


@pytest.mark.parametrize("make", [pictures.gif, pictures.webp])
def test_the_first_frame_of_an_animation(make):
    image = opened(normalise(make()).data)
    red, green, blue = image.getpixel((5, 5))
    assert red > 190
    assert green < 10
    assert blue < 10


def test_the_longer_side_is_limited():
    data = pictures.jpeg(width=100, height=40)
    assert normalise(data, PixelRule(max_side=100)).data == data
    result = normalise(data, PixelRule(max_side=50))
    assert (result.width, result.height, result.steps) == (50, 20, ("resized",))
    assert opened(result.data).size == (50, 20)


def test_limits_of_pixels_and_bytes():
    data = pictures.jpeg(width=100, height=40)
    assert normalise(data, PixelRule(max_pixels=3999)).reason == "too many pixels"
    assert normalise(data, PixelRule(max_pixels=4000)).action == "kept"
    assert normalise(data, PixelRule(max_bytes=len(data) - 1)).reason == "too many bytes"


def test_unknown_pixels():
    floats = pictures.encode(Image.fromarray(np.zeros((4, 4), dtype=np.float32)), "TIFF")
    assert normalise(floats).reason == "unknown pixels"


def test_metadata_of_images_encoded_anew_is_left_behind_but_not_the_colour_profile():
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 3, "a camera"
    image = Image.fromarray(pictures.pixels())
    data = pictures.encode(image, exif=exif, icc_profile=b"profile", comment="private")
    info = opened(normalise(data).data).info
    assert info.get("icc_profile") == b"profile"
    assert not {"exif", "comment"} & set(info)


def test_pillow_settings_are_left_as_they_were(monkeypatch):
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    filters = list(warnings.filters)
    assert normalise(pictures.truncated()).reason == "damaged"
    normalise(pictures.bomb())
    assert ImageFile.LOAD_TRUNCATED_IMAGES is True
    assert warnings.filters == filters
    assert Image.MAX_IMAGE_PIXELS == 89_478_485


def test_threads_give_the_same_bytes():
    data = [pictures.cmyk(seed) for seed in range(8)] * 4
    expected = [normalise(item).data for item in data]
    results: list[bytes | None] = [None] * len(data)

    def work(part: int) -> None:
        for at in range(part, len(data), 4):
            results[at] = normalise(data[at]).data

    threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == expected


def test_a_summary_counts_everything():
    summary = ImageSummary()
    for data in (pictures.jpeg(), pictures.cmyk(), pictures.html(), pictures.html(), b""):
        summary.add(normalise(data))
    summary.add(None)
    assert summary.as_dict() == {
        "actions": {"encoded": 1, "kept": 1, "missing": 1, "refused": 3},
        "refused": {"empty": 1, "html": 2},
        "steps": {"CMYK": 1},
    }


def test_the_rule_says_what_it_does():
    text = PixelRule(max_side=256).describe()
    assert "at most 256 px" in text
    assert "on white" in text


def test_mutated_images_never_raise():
    rng = np.random.Generator(np.random.PCG64(7))
    makes = [
        pictures.jpeg, pictures.png, pictures.cmyk, pictures.rotated, pictures.palette,
        pictures.grey_16, pictures.gif, pictures.webp,
    ]  # fmt: skip
    reasons = set()
    for number in range(800):
        data = bytearray(makes[number % len(makes)]())
        for _ in range(int(rng.integers(1, 6))):
            data[int(rng.integers(len(data)))] = int(rng.integers(256))
        result = normalise(bytes(data), PixelRule(max_pixels=1_000_000))
        assert (result.data is None) == (result.action == "refused")
        reasons.add(result.reason)
    assert {"damaged", "unreadable"} <= reasons


def test_a_picture_without_its_end_is_damaged_though_all_pixels_are_there():
    data = pictures.png()
    for cut in (5, 8, 12, 16, 20, 40):  # the last four bytes are a checksum of nothing
        assert normalise(data[:-cut]).reason == "damaged"
        assert decode(data[:-cut]) is None
    wrong = bytearray(data)
    wrong[-13] ^= 1  # the checksum of the pixels
    assert normalise(bytes(wrong)).reason == "damaged"
