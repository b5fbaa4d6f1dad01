"""Pictures of the user's nodes: a folder and what the nodes call them, or bytes in the table."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from maghub.builders._own_read import Frame
from maghub.builders._pictures import SUFFIXES
from maghub.errors import MaghubError
from maghub.files import os_errors


@dataclass(frozen=True)
class OwnPictures:
    """The picture of each node: a file, its bytes, or None (picklable); or a column of bytes."""

    items: tuple[Path | bytes | None, ...] | pa.ChunkedArray

    def __call__(self, node: int) -> bytes | None:
        """The bytes of a node's picture."""
        item = self.items[node]
        if isinstance(item, pa.Scalar):
            item = item.as_py()
            item = item.get("bytes") if isinstance(item, dict) else item
        if not isinstance(item, Path):
            return item
        with os_errors(item):
            return item.read_bytes()


class _Folder:
    """The pictures below a folder, by path, file name, or name without suffix."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise MaghubError("there is no such folder of pictures", where=folder)
        self.folder = folder
        self.found: dict[str, set[Path]] = defaultdict(set)
        with os_errors(folder):
            for root, _, names in os.walk(folder):
                for name in sorted(names):
                    path = Path(root, name)
                    if path.suffix.lower() in SUFFIXES:
                        self._add(path)

    def _add(self, path: Path) -> None:
        relative = path.relative_to(self.folder)
        for key in {relative.as_posix(), relative.with_suffix("").as_posix(), path.name, path.stem}:
            self.found[key].add(path)

    def get(self, name: str) -> list[Path]:
        """The pictures of that name, the one at exactly that path alone."""
        exact = self.folder / name
        found = self.found.get(name.removeprefix("./"), set())
        return [exact] if exact in found else sorted(found)


class _Beside:
    """The files whose paths a table names, from its own folder on; nothing is searched for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, name: str) -> list[Path]:
        """The file at that path, if there is one within the folder."""
        path = self.folder / name
        within = path.resolve().is_relative_to(self.folder.resolve())
        return [path] if within and path.is_file() else []


def find_pictures(frame: Frame, ids: Sequence[str], folder: Path | None) -> OwnPictures | None:
    """The picture of each node; None where there are none to look for.

    With a column of pictures, its cells name files below the folder (or hold the bytes), without
    a folder by their path from the table on; an empty cell is a node without a picture. Without
    such a column, a node's picture is the file named as its id.

    Raises:
        MaghubError: A cell names no picture or several, or not one picture is named as an id.
    """
    if "image" not in frame.columns:
        return None if folder is None else _by_id(frame, ids, _Folder(folder))
    cells = frame.columns["image"]
    if isinstance(cells, pa.ChunkedArray):
        if _holds_bytes(cells):  # they stay where they are
            return OwnPictures(cells)
        cells = cells.to_pylist()
    files: _Folder | _Beside | None = None
    items: list[Path | bytes | None] = []
    for row, cell in enumerate(cells):
        name = _bytes_or_name(frame, row, cell)
        if isinstance(name, bytes):
            items.append(name)
            continue
        if name and files is None:
            files = _Folder(folder) if folder else _Beside(Path(frame.where).parent)
        items.append(_only(frame, "image", row, name, files) if name and files else None)
    return OwnPictures(tuple(items))


def _holds_bytes(cells: pa.ChunkedArray) -> bool:
    """Whether all pictures are bytes, by themselves or as ``datasets`` writes them."""
    kind = cells.type
    if pa.types.is_struct(kind) and {"bytes", "path"} <= {field.name for field in kind}:
        data, path = (pc.struct_field(cells, name) for name in ("bytes", "path"))
        named = pc.and_(pc.is_null(data), pc.is_valid(path))
        return pa.types.is_binary(data.type) and not pc.any(named).as_py()
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def _bytes_or_name(frame: Frame, row: int, cell: Any) -> bytes | str:
    """What a cell holds: a picture, or the name of one ("" where there is none)."""
    if isinstance(cell, dict):
        if not {"bytes", "path"} & set(cell):
            fix = "give its bytes or its name"
            raise frame.fail("image", row, f"no picture has the fields {list(cell)[:5]}", fix)
        data = cell.get("bytes")
        cell = cell.get("path") if data is None else data
    return bytes(cell) if isinstance(cell, bytes | bytearray) else frame.as_text("image", row, cell)


def _by_id(frame: Frame, ids: Sequence[str], files: _Folder) -> OwnPictures:
    items = [
        _only(frame, "id", row, name, files) if name in files.found else None
        for row, name in enumerate(ids)
    ]
    if ids and not any(items):
        what = f"not one picture is named as a node's {frame.names['id']} (e.g. {ids[0]}.jpg)"
        fix = "name the column that names them with --map image=COLUMN"
        raise MaghubError(what, where=files.folder, fix=fix)
    return OwnPictures(tuple(items))


def _only(frame: Frame, field: str, row: int, name: str, files: _Folder | _Beside) -> Path:
    found = files.get(name)
    if not found:
        fix = "add the picture, leave the cell empty, or name the folder with --images"
        raise frame.fail(field, row, f"no picture '{name}' in {files.folder}", fix)
    if len(found) > 1:
        fix = "give the path below the folder"
        raise frame.fail(field, row, f"'{name}' names {len(found)} pictures", fix)
    return found[0]
