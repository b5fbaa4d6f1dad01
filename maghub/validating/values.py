"""Checks of single values: nulls where none may be, class labels out of range, broken images."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import PIL.Image
import PIL.ImageFile
import pyarrow as pa
import pyarrow.compute as pc
from datasets import ClassLabel, Image, LargeList, List
from numpy.typing import NDArray

from maghub import layout
from maghub.images import FORMATS, PixelRule
from maghub.progress import track
from maghub.schema import nullable, required_columns
from maghub.spec import VECTOR_KINDS
from maghub.validating.opened import NULL, Opened, embedding_key
from maghub.validating.report import rowwise

IMAGE_BATCH = 64
MAX_PIXELS = PixelRule().max_pixels


def required_values(table: Opened) -> list[str]:
    """Columns of a config in which no value may be null (vectors and negatives apart)."""
    kind = table.spec.kind
    if kind in ("node_splits", "edge_splits"):
        return list(table.features)
    names = list(required_columns(kind, embedding_key(table.spec)))
    if kind in VECTOR_KINDS:
        names += [layout.has_column(m) for m in layout.MODALITIES if m in table.features]
    free = nullable(kind)
    return [name for name in names if name in table.features and name not in free]


def check_values(table: Opened) -> None:
    """Nulls in required columns and class labels outside their names, in one pass."""
    labels = {n: f.num_classes for n, f in table.features.items() if isinstance(f, ClassLabel)}
    required = required_values(table)
    columns = [c for c in dict.fromkeys([*required, *labels]) if table.sound(c)]
    if not columns:
        return
    for group in table.groups(columns):
        for column in columns:
            if column in required:
                null = np.asarray(group.batch[column].is_null())
                fix = 'write ""' if column == layout.TEXT else "give every row a value"
                table.findings.rows(table, column, "null", group.start, null, "is null", fix)
            if column in labels:
                codes, top = group.integers(column), labels[column]
                bad = (codes != NULL) & ((codes < 0) | (codes >= top))
                table.findings.rows(
                    table,
                    column,
                    "label",
                    group.start,
                    bad,
                    rowwise(f"label {{}} is not within 0..{top - 1}", codes),
                    "use null for no label" if table.spec.kind == "nodes" else None,
                )


def _image_message(reasons: dict[int, str]) -> Callable[[int], str]:
    return lambda i: f"image cannot be decoded ({reasons[i]})"


def _image_columns(table: Opened) -> list[str]:
    names = []
    for name, feature in table.features.items():
        inner = feature.feature if isinstance(feature, (List, LargeList)) else feature
        if isinstance(inner, Image) and table.sound(name):
            names.append(name)
    return names


def check_images(table: Opened) -> int:
    """Decode every picture; returns how many there were."""
    decoded = 0
    for column in _image_columns(table):
        with _strict_decoding(), ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
            total = -(-table.rows // IMAGE_BATCH)
            groups = table.groups([column], IMAGE_BATCH)
            for group in track(groups, f"decoding {table.spec.name}.{column}", total):
                rows, blobs = _blobs(group.batch[column])
                decoded += len(blobs)
                reasons = dict(zip(rows.tolist(), pool.map(picture_problem, blobs), strict=True))
                found = {row: reason for row, reason in reasons.items() if reason}
                bad = np.zeros(group.batch.num_rows, bool)
                bad[list(found)] = True
                table.findings.rows(
                    table,
                    column,
                    "image",
                    group.start,
                    bad,
                    _image_message(found),
                    "replace it, or make it null",
                )
    return decoded


def _blobs(array: pa.Array) -> tuple[NDArray[np.int64], list[bytes | None]]:
    """Row and bytes of each picture that is there; the bytes are None where only a path is."""
    rows = np.arange(len(array))
    if not pa.types.is_struct(array.type):
        rows = np.asarray(pc.list_parent_indices(array))
        array = array.flatten()
    valid = np.asarray(array.is_valid())
    content = pc.struct_field(array, "bytes")
    return rows[valid], [content[int(i)].as_py() for i in np.flatnonzero(valid)]


class _strict_decoding:
    """Inside, PIL refuses truncated pictures and keeps quiet about large ones."""

    def __enter__(self) -> None:
        self._lenient = PIL.ImageFile.LOAD_TRUNCATED_IMAGES
        PIL.ImageFile.LOAD_TRUNCATED_IMAGES = False
        self._warnings = warnings.catch_warnings()
        self._warnings.__enter__()
        warnings.simplefilter("ignore")

    def __exit__(self, *error: object) -> None:
        self._warnings.__exit__(None, None, None)
        PIL.ImageFile.LOAD_TRUNCATED_IMAGES = self._lenient


def picture_problem(blob: bytes | None) -> str | None:
    """Why a picture cannot be used, or None; its size is looked at before it is decoded."""
    if not blob:
        return "it has no bytes"
    try:
        with PIL.Image.open(io.BytesIO(blob), formats=FORMATS) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                return f"{width} x {height} pixels are over the limit of {MAX_PIXELS:,}"
            image.verify()
        with PIL.Image.open(io.BytesIO(blob), formats=FORMATS) as image:
            image.load()
    except Exception as error:  # PIL's decoders raise many types for malformed data
        text = str(error) if "BytesIO object" not in str(error) else "not a known image format"
        return " ".join(text.split()) or type(error).__name__
    return None
