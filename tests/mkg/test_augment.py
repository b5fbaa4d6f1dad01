"""Augmentation of question images: frequencies, ranges, pixels, determinism."""

from __future__ import annotations

import io
from collections import Counter

import numpy as np
import PIL.Image
import pytest
from scipy.stats import chisquare, kstest

from maghub.mkg.augment import OPERATIONS, Plan, augment, carry_out, plan
from maghub.seeding import child_rng

DRAWS = 4_000


def draw(images: int = 3, count: int = DRAWS, **named: str) -> list[Plan]:
    names = {"setting": "s", "split": "test", **named}
    return [plan(images, seed=0, qid=f"mm-{i}", **names) for i in range(count)]


def photo(seed: int = 0, size: tuple[int, int] = (64, 48)) -> bytes:
    pixels = child_rng(seed, "photo").integers(0, 256, (size[1], size[0], 3)).astype(np.uint8)
    out = io.BytesIO()
    PIL.Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def opened(data: bytes) -> PIL.Image.Image:
    return PIL.Image.open(io.BytesIO(data))


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    return draw()


def test_the_six_operations_are_equally_probable(plans: list[Plan]) -> None:
    counts = Counter(one.operation for one in plans)
    assert set(counts) == set(OPERATIONS)
    assert chisquare(list(counts.values())).pvalue > 1e-3


def test_with_one_image_the_other_five_are() -> None:
    counts = Counter(one.operation for one in draw(images=1))
    assert set(counts) == set(OPERATIONS) - {"swap"}
    assert chisquare(list(counts.values())).pvalue > 1e-3


def test_blur_and_quality(plans: list[Plan]) -> None:
    blurred = [one.blur for one in plans if one.blur is not None]
    assert chisquare([len(blurred), DRAWS - len(blurred)], [0.3 * DRAWS, 0.7 * DRAWS]).pvalue > 1e-3
    assert kstest(blurred, "uniform", (0.4, 0.6)).pvalue > 1e-3  # from 0.4 to 1.0
    qualities = Counter(one.quality for one in plans)
    assert set(qualities) == set(range(85, 96))
    assert chisquare(list(qualities.values())).pvalue > 1e-3


def test_ranges(plans: list[Plan]) -> None:
    crops = [one.crop for one in plans if one.crop is not None]
    angles = [one.degrees for one in plans if one.degrees is not None]
    factors = np.asarray([one.jitter for one in plans if one.jitter is not None])
    assert kstest([share for share, _, _ in crops], "uniform", (0.75, 0.20)).pvalue > 1e-3
    assert kstest(angles, "uniform", (-10, 20)).pvalue > 1e-3
    for column, (low, width) in enumerate([(0.85, 0.3)] * 3 + [(0.9, 0.2)]):
        assert kstest(factors[:, column], "uniform", (low, width)).pvalue > 1e-3
    for one in plans:
        wanted = {name: name in one.operation for name in ("crop", "rotate", "jitter")}
        assert wanted == {
            "crop": one.crop is not None,
            "rotate": one.degrees is not None,
            "jitter": one.jitter is not None,
        }


def test_a_swap_takes_any_other_image(plans: list[Plan]) -> None:
    swapped = Counter(one.chosen for one in plans if one.operation == "swap")
    assert set(swapped) == {1, 2}
    assert all(one.chosen == 0 for one in plans if one.operation != "swap")
    shown = [plan(3, seed=0, setting="s", split="t", qid=str(i), shown=1) for i in range(200)]
    assert {one.chosen for one in shown if one.operation == "swap"} == {0, 2}


@pytest.mark.parametrize("name", ["seed", "setting", "split", "qid"])
def test_each_name_makes_another_draw(name: str) -> None:
    names = {"seed": 0, "setting": "S4", "split": "test", "qid": "mm-1"}
    others = [{**names, name: value} for value in (range(1, 9) if name == "seed" else "abcdefgh")]
    images = [photo(1), photo(2)]
    first, again = (augment(images, **names) for _ in range(2))  # type: ignore[arg-type]
    assert first == again
    assert first is not None
    made = {augment(images, **one)[0] for one in others}  # type: ignore[arg-type, index]
    assert len(made | {first[0]}) == 9


def apply(**changed: object) -> PIL.Image.Image:
    """A grey picture of 100 x 80 after one operation."""
    todo = Plan("swap", 0, None, None, None, None, 95)
    todo = Plan(**{**todo.__dict__, **changed})  # type: ignore[arg-type]
    image = PIL.Image.new("RGB", (100, 80), (100, 100, 100))
    image.paste((200, 0, 0), (0, 0, 50, 80))
    return opened(carry_out(image, todo)).convert("RGB")


def test_pixels_of_each_operation() -> None:
    plain = np.asarray(apply()).astype(int)
    assert np.abs(plain[:, :40] - [200, 0, 0]).max() <= 4
    assert np.abs(plain[:, 60:] - 100).max() <= 4
    cropped = apply(crop=(0.8, 1.0, 0.0))  # the right 80 %, the upper 80 %
    assert cropped.size == (80, 64)
    assert np.abs(np.asarray(cropped).astype(int)[:, :25] - [200, 0, 0]).max() <= 6
    assert np.abs(np.asarray(cropped).astype(int)[:, 36:] - 100).max() <= 6
    turned = np.asarray(apply(degrees=10.0)).astype(int)
    assert turned.shape == (80, 100, 3)
    assert turned[0, 0].min() > 240  # white corners
    edge = [int(np.flatnonzero(turned[row, 15:85, 0] < 150)[0]) for row in (15, 65)]
    assert edge[0] < edge[1]  # counter-clockwise: the upper end of the border moves left
    bright = np.asarray(apply(jitter=(1.15, 1.0, 1.0, 1.0))).astype(int)
    assert np.abs(bright[:, 60:] - 115).max() <= 4
    grey = np.asarray(apply(jitter=(1.0, 1.0, 0.85, 1.0))).astype(int)
    luminance = 0.299 * 200
    assert np.abs(grey[:, :40, 0] - (luminance + 0.85 * (200 - luminance))).max() <= 4
    blurred = np.asarray(apply(blur=1.0)).astype(int)
    assert 110 < blurred[40, 49, 0] < 190  # the border is soft now


def test_it_is_a_jpeg_of_the_quality_drawn() -> None:
    images = [photo()]
    made, todo = augment(images, seed=0, setting="s", split="test", qid="mm-0") or (b"", None)
    assert todo is not None
    assert opened(made).format == "JPEG"
    out = io.BytesIO()
    PIL.Image.new("RGB", (8, 8)).save(out, "JPEG", quality=todo.quality)
    assert opened(made).quantization == opened(out.getvalue()).quantization  # type: ignore[attr-defined]


def test_what_is_no_image() -> None:
    assert augment([b"<html>"], seed=0, setting="s", split="test", qid="mm-0") is None
