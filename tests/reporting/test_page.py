"""The page stands alone, can be read without eyes and on a phone, and a browser draws it all."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from maghub.reporting import summarise, svg, to_html
from tests.helpers.browser import browse
from tests.reporting.records import showcase


@pytest.fixture(scope="module")
def text() -> str:
    return to_html(summarise(showcase()))


@pytest.fixture
def page(text: str, tmp_path: Path) -> Path:
    path = tmp_path / "report.html"
    path.write_text(text, "utf-8")
    return path


def test_nothing_is_named_outside_the_page(text: str) -> None:
    assert "http" not in text
    assert "<script" not in text
    assert "@import" not in text
    addresses = re.findall(r'(?:src|href)="([^"]*)"', text)
    ids = re.findall(r' id="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    assert {a for a in addresses if a != "data:,"} <= {f"#{own}" for own in ids}
    assert "#b1-a" in addresses


def test_pictures_have_names_and_descriptions_and_tables_have_headers(text: str) -> None:
    pictures = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(pictures) >= 10
    for picture in pictures:
        assert 'role="img"' in picture
        named = re.search(r'aria-labelledby="(\S+) (\S+)"', picture)
        assert named is not None
        title = re.search(rf'<title id="{named[1]}">([^<]+)</title>', picture)
        description = re.search(rf'<desc id="{named[2]}">([^<]+)</desc>', picture)
        assert title is not None
        assert description is not None
        assert re.search(r"\d\.\d", description[1])  # the numbers themselves
    assert text.count("<table>") == text.count("<caption>") == text.count('role="region"') == 4
    assert "<td" not in text.split("<thead>")[1].split("</thead>")[0]
    assert '<html lang="en">' in text
    assert "width=device-width" in text


def count(shot: np.ndarray, colour: str) -> int:
    """Pixels of exactly a colour."""
    wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return int((shot == wanted).all(axis=2).sum())


@pytest.mark.integration
def test_a_browser_draws_bars_lines_marks_and_has_no_complaint(page: Path, tmp_path: Path) -> None:
    console, shot = browse(page, tmp_path, "1200,3200")
    assert console == []
    assert count(shot, svg.colour(0)) > 20_000  # bars, 12 pixels high each
    assert count(shot, svg.GREY) > 2_000  # the bar of the row with a note
    for number in range(3):
        assert count(shot, svg.colour(number)) > 500  # lines and marks of three series
    blank = np.array([len(np.unique(band.reshape(-1, 3), axis=0)) for band in np.split(shot, 16)])
    assert (blank > 4).sum() >= 10  # drawn on all over, not one picture at the top


@pytest.mark.integration
def test_it_fits_a_phone(page: Path, tmp_path: Path, text: str) -> None:
    probe = "<script>console.log('wide', document.documentElement.scrollWidth, innerWidth)</script>"
    page.write_text(text.replace("</body>", f"{probe}</body>"), "utf-8")
    console, shot = browse(page, tmp_path, "390,4000")
    (line,) = console
    found = re.search(r"wide (\d+) (\d+)", line)
    assert found is not None, line
    assert int(found[1]) <= int(found[2]) <= 500
    assert count(shot, svg.colour(0)) > 10_000
