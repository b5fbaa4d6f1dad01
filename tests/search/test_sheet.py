"""The contact sheet: the right pictures in the right places, the same bytes each time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from maghub.errors import MaghubError
from maghub.images import decode
from maghub.search import Hit
from maghub.search.sheet import CAPTION, COLUMNS, GAP, TILE, write_sheet
from tests.helpers.built import columns

pytestmark = pytest.mark.integration


def hits(*nodes: int) -> list[Hit]:
    return [Hit(rank, 1 - rank / 10, node, "", "") for rank, node in enumerate(nodes, start=1)]


def tile(sheet: Image.Image, place: int) -> np.ndarray:
    left = GAP + place % COLUMNS * (TILE + GAP)
    top = GAP + place // COLUMNS * (TILE + CAPTION + GAP)
    return np.asarray(sheet)[top : top + TILE, left : left + TILE]


def test_pictures_stand_in_order_of_rank(encoded: Path, tmp_path: Path) -> None:
    nodes = (25, 3, 9, 50, 0, 41)
    write_sheet(encoded, hits(*nodes), tmp_path / "sheet.png")
    sheet = Image.open(tmp_path / "sheet.png")
    assert sheet.size == (GAP + 5 * (TILE + GAP), GAP + 2 * (TILE + CAPTION + GAP))
    stored = columns(encoded, "nodes")["image"]
    for place, node in enumerate(nodes):
        found = tile(sheet, place)
        if stored[node] is None:
            assert node == 9
            assert (found == found[0, 0]).all()
            continue
        picture = decode(stored[node]["bytes"])
        assert picture is not None
        assert picture.size == (64, 64)
        expected = np.asarray(picture.resize((TILE, TILE), Image.Resampling.LANCZOS))
        assert (found == expected).all()
    caption = np.asarray(sheet)[GAP + TILE : GAP + TILE + CAPTION, GAP : GAP + TILE]
    assert (caption < 128).any()


def test_equal_results_give_equal_bytes(encoded: Path, tmp_path: Path) -> None:
    for name in ("a.png", "b.png", "c.jpg"):
        write_sheet(encoded, hits(1, 2, 3), tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert Image.open(tmp_path / "c.jpg").format == "JPEG"


def test_bad_names(encoded: Path, tmp_path: Path) -> None:
    for name, text in (("sheet.gif", "End it in .png or .jpg"), ("no/sheet.png", "Check the path")):
        with pytest.raises(MaghubError, match=text):
            write_sheet(encoded, hits(1), tmp_path / name)
    assert not list(tmp_path.iterdir())
