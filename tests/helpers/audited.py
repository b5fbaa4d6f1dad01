"""Plants known defects into a copy of a published folder, and says where it put them."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pyarrow as pa

import maghub
from maghub import layout
from maghub.audit import Check, Report
from maghub.writing import write_config
from tests.helpers.folders import change_spec, change_table, read_rows, with_column
from tests.helpers.graphs import vectors_table

MANY = 1_000_000
Planted = dict[str, set[int]]


def ids(check: Check) -> set[int]:
    """The first id of every finding."""
    return {example.ids[0] for example in check.examples}


def starting(report: Report, name: str) -> Check:
    """The one check whose name begins so."""
    (found,) = [check for check in report.checks if check.name.startswith(name)]
    return found


def projected(texts: list[str], width: int = 64) -> np.ndarray:
    """Vectors of texts: random projections of their words, unlike anything that audit computes."""
    rng = np.random.default_rng(7)
    table = rng.standard_normal((4_096, width)).astype(np.float32)
    rows = [
        table[[zlib.crc32(word.encode()) % 4_096 for word in text.split()] or [0]].mean(axis=0)
        for text in texts
    ]
    return (np.stack(rows) + 0.02 * rng.standard_normal((len(rows), width))).astype(np.float16)


def pictured(images: list[PIL.Image.Image], width: int = 48) -> np.ndarray:
    """Vectors of pictures: random projections of small copies, squashed."""
    small = [np.asarray(i.convert("RGBA").convert("RGB").resize((6, 6))).ravel() for i in images]
    matrix = np.stack(small).astype(np.float32)
    table = np.random.default_rng(8).standard_normal((108, width)) / 500
    return np.tanh((matrix - matrix.mean(0)) @ table).astype(np.float16)


def add_vectors(folder: Path, name: str, vectors: dict[str, np.ndarray]) -> None:
    """Add an embedding config."""
    config = write_config(folder, vectors_table(vectors, name))
    assert config is not None
    change_spec(folder, lambda spec: spec["configs"].append(json.loads(config.model_dump_json())))


def set_flags(folder: Path, name: str, column: str, value: bool) -> None:
    """Overwrite a has_* column."""
    change = with_column(column, lambda old: pa.array([value] * len(old)))
    change_table(folder, layout.embeddings_config(name), change)


def replace(folder: Path, split: str, column: str, values: dict[int, Any]) -> None:
    """Give some nodes of a split another value."""

    def change(table: pa.Table) -> pa.Table:
        nodes = table[layout.NODE_ID].to_pylist()
        old = table[column].to_pylist()
        new = [values.get(node, value) for node, value in zip(nodes, old, strict=True)]
        return with_column(column, pa.array(new, table.schema.field(column).type))(table)

    change_table(folder, layout.NODES, change, split)


def plant_texts(folder: Path, count: int) -> Planted:
    """Training texts in test rows: as they are but for case and points, and with one letter new."""
    train, test = (read_rows(folder, layout.NODES, split) for split in ("train", "test"))
    long = [row["text"] for row in train if len(row["text"]) >= 90][:count]
    assert len(long) == count
    targets = [row["node_id"] for row in test][::3][: 2 * count]
    equal = {node: text.upper() + " !" for node, text in zip(targets[:count], long, strict=True)}
    near = {
        node: f"{text[:40]}q{text[41:]}" for node, text in zip(targets[count:], long, strict=True)
    }
    replace(folder, "test", "text", equal | near)
    return {"equal texts": set(equal), "near-equal texts": set(near)}


def _copied(data: bytes) -> bytes:
    """A picture in another size and format."""
    image = PIL.Image.open(io.BytesIO(data)).convert("RGBA")
    canvas = PIL.Image.new("RGBA", image.size, "white")
    canvas.alpha_composite(image)
    out = io.BytesIO()
    canvas.convert("RGB").resize((100, 100), PIL.Image.Resampling.BICUBIC).save(out, "JPEG")
    return out.getvalue()


def plant_pictures(folder: Path, count: int) -> Planted:
    """Training pictures in test rows, as they are and in another size and format."""
    train, test = (read_rows(folder, layout.NODES, split) for split in ("train", "test"))
    data = [row["image"]["bytes"] for row in train][:: len(train) // count][:count]
    targets = [row["node_id"] for row in test][1::3][: 2 * count]
    equal = dict(zip(targets[:count], data, strict=True))
    near = dict(zip(targets[count:], map(_copied, data), strict=True))
    images = {node: {"bytes": one, "path": None} for node, one in (equal | near).items()}
    replace(folder, "test", "image", images)
    return {"equal pictures": set(equal), "near-equal pictures": set(near)}


def plant_edges(folder: Path, count: int, *, reverse: bool) -> set[int]:
    """Pairs of training edges in test edges, in the same or the other direction."""
    mag = maghub.load(folder)
    splits = mag.edge_splits()
    src, dst = mag.edge_index.copy()
    held = splits["test"][::5][:count]
    source = splits["train"][::7][:count]
    assert len(held) == len(source) == count
    src[held], dst[held] = (dst[source], src[source]) if reverse else (src[source], dst[source])

    def change(table: pa.Table) -> pa.Table:
        return with_column("dst", pa.array(dst))(with_column("src", pa.array(src))(table))

    change_table(folder, layout.EDGES, change)
    return set(held.tolist())


def plant_negatives(folder: Path, config: str, count: int) -> set[tuple[int, int]]:
    """The positive among the negatives of some test edges; the pairs (query, negative)."""
    pairs: set[tuple[int, int]] = set()

    def change(table: pa.Table) -> pa.Table:
        neg = np.stack(table["neg"].to_numpy()).copy()
        rows = np.arange(0, len(neg), len(neg) // count)[:count]
        neg[rows, 3] = np.asarray(table["positive"])[rows]
        pairs.update(
            zip(np.asarray(table["query"])[rows].tolist(), neg[rows, 3].tolist(), strict=True)
        )
        kind = table.schema.field("neg").type
        array = pa.FixedSizeListArray.from_arrays(pa.array(neg.ravel()), type=kind)
        return with_column("neg", array)(table)

    change_table(folder, config, change, "test")
    return pairs


def stretch_of(n: int) -> tuple[int, int]:
    """The rows that ``misplaced`` shuffles among themselves: a quarter of all."""
    return n // 4, n // 2


def misplaced(matrix: np.ndarray) -> dict[str, np.ndarray]:
    """Vectors in wrong rows: all shuffled, all moved by one, a stretch shuffled."""
    rng = np.random.default_rng(3)
    first, last = stretch_of(len(matrix))
    order = np.arange(len(matrix))
    order[first:last] = rng.permutation(order[first:last])
    return {
        "shuffled": matrix[rng.permutation(len(matrix))],
        "moved": np.roll(matrix, 1, axis=0),
        "stretch": matrix[order],
    }


def change_nodes(folder: Path, split: str, column: str, value: Callable[[Any], Any]) -> None:
    """Change a column of all nodes of a split."""

    def change(table: pa.Table) -> pa.Table:
        values = [value(old) for old in table[column].to_pylist()]
        return with_column(column, pa.array(values, table.schema.field(column).type))(table)

    change_table(folder, layout.NODES, change, split)
