"""A contact sheet: the pictures of search results in one picture, with rank, node and score."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from maghub import layout
from maghub.errors import MaghubError
from maghub.files import check_outside, os_errors, write_bytes
from maghub.images import decode
from maghub.loading import load
from maghub.search.folders import find_column
from maghub.search.queries import Hit, table_rows

TILE, CAPTION, GAP, COLUMNS = 128, 18, 8, 5
_FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}
_WHITE, _BLACK, _GREY = (255, 255, 255), (0, 0, 0), (225, 225, 225)


def picture_format(path: Path) -> str:
    """PNG or JPEG, as the name says.

    Raises:
        MaghubError: It says something else.
    """
    if path.suffix.lower() not in _FORMATS:
        raise MaghubError("is no name of a picture", where=path, fix="end it in .png or .jpg")
    return _FORMATS[path.suffix.lower()]


def write_sheet(
    folder: str | Path, hits: Sequence[Hit], path: Path, config: str | None = None
) -> None:
    """Write the pictures of results, best first, as one PNG or JPEG.

    A node without a picture has a grey tile. Equal results give equal bytes (for one Pillow).

    Args:
        folder: The dataset that was searched.
        hits: The results.
        path: A file named .png or .jpg.
        config: Embedding config that was searched; None: the first.

    Raises:
        MaghubError: Another suffix, or the disk refuses.
    """
    form = picture_format(path)
    check_outside(path)
    column = find_column(load(folder), config)
    stored = table_rows(column, [layout.IMAGE], [hit.id for hit in hits])
    across = max(1, min(COLUMNS, len(hits)))
    down = max(1, -(-len(hits) // across))
    size = (GAP + across * (TILE + GAP), GAP + down * (TILE + CAPTION + GAP))
    sheet = Image.new("RGB", size, _WHITE)
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(12)
    for place, hit in enumerate(hits):
        left = GAP + place % across * (TILE + GAP)
        top = GAP + place // across * (TILE + CAPTION + GAP)
        sheet.paste(_tile(stored.get(hit.id, {}).get(layout.IMAGE)), (left, top))
        caption = f"{hit.rank}. #{hit.id}  {hit.score:.3f}"
        draw.text((left, top + TILE + 2), caption, _BLACK, font)
    out = io.BytesIO()
    sheet.save(out, form)
    with os_errors(path):
        write_bytes(path, out.getvalue())


def _tile(value: object) -> Image.Image:
    """The picture fitted into a square; a grey square where there is none."""
    blob = value.get("bytes") if isinstance(value, dict) else None
    picture = decode(blob) if blob else None
    if picture is None:
        return Image.new("RGB", (TILE, TILE), _GREY)
    scale = TILE / max(picture.size)
    fitted = tuple(max(1, round(side * scale)) for side in picture.size)
    tile = Image.new("RGB", (TILE, TILE), _WHITE)
    small = picture.resize((fitted[0], fitted[1]), Image.Resampling.LANCZOS)
    tile.paste(small, ((TILE - fitted[0]) // 2, (TILE - fitted[1]) // 2))
    return tile
