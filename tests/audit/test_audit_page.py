"""The page stands alone, and a real browser opens it without a complaint and shows the pictures."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from maghub.audit import run, write_html
from tests.helpers.browser import browse
from tests.helpers.graphs import random_toy, write_toy

MAGENTA = (255, 0, 255)


def magenta() -> bytes:
    out = io.BytesIO()
    PIL.Image.new("RGB", (64, 64), MAGENTA).save(out, "PNG")
    return out.getvalue()


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """The page of a folder in which every node has the same magenta picture."""
    toy = random_toy()
    toy.texts = [f"<b>text</b> & '{i}' 猫" for i in range(toy.n)]
    toy.images = [magenta()] * toy.n
    write_toy(toy, tmp_path / "toy")
    report = run(tmp_path / "toy")
    assert report.check("equal pictures across splits").verdict == "fail"
    write_html(report, tmp_path / "toy", tmp_path / "audit.html")
    return tmp_path / "audit.html"


def test_the_page_names_nothing_outside_itself(page: Path) -> None:
    text = page.read_text("utf-8")
    addresses = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert {address.split(",")[0] for address in addresses if not address.startswith("#")} == {
        "data:",
        "data:image/png;base64",
    }
    assert "http" not in text
    assert "<b>text" not in text
    assert text.count("<img") >= 20


@pytest.mark.integration
def test_a_browser_shows_the_pictures_and_has_no_complaint(page: Path, tmp_path: Path) -> None:
    console, shot = browse(page, tmp_path)
    assert console == []
    shown = (shot == MAGENTA).all(axis=2).sum()
    assert shown >= 15 * 90 * 90, shown
    assert len(np.unique(shot.reshape(-1, 3), axis=0)) > 20  # and text beside them


@pytest.mark.integration
def test_the_browser_would_tell_of_an_error(page: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.html"
    broken.write_text("<!doctype html><script>console.error('seen'); none()</script>", "utf-8")
    console, shot = browse(broken, tmp_path)
    assert any("seen" in line for line in console)
    assert any("none is not defined" in line for line in console)
    assert not (shot == MAGENTA).all(axis=2).any()
