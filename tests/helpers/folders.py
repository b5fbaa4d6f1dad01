"""Small valid published folders, and ways to damage exactly one thing in them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from maghub import layout
from maghub.cards import read_card
from maghub.spec import EncoderProvenance, FolderSpec, read_spec
from maghub.writing import write_metadata
from tests.helpers.graphs import ENCODER, Toy, random_toy, write_toy

EMBEDDINGS = layout.embeddings_config(ENCODER)


def write_valid(out: Path, n: int = 40, seed: int = 0, *, directed: bool = False) -> Toy:
    """Write a folder with every kind of config in which nothing is wrong."""
    toy = random_toy(n, seed, directed=directed)
    assert toy.images is not None
    missing = [node for node, image in enumerate(toy.images) if image is None]
    toy.vectors[layout.IMAGE][missing] = 0
    spec = write_toy(toy, out)
    write_metadata(out, read_card(out / layout.CARD_SOURCE_FILE), with_provenance(spec, toy))
    return toy


def with_provenance(spec: FolderSpec, toy: Toy) -> FolderSpec:
    """The spec with the encoder of its vectors declared."""
    empty = {name: int((~matrix.any(axis=1)).sum()) for name, matrix in toy.vectors.items()}
    encoder = EncoderProvenance(
        encoder=ENCODER,
        config=EMBEDDINGS,
        modalities=tuple(toy.vectors),
        model_id="toy/encoder",
        revision="1",
        library="numpy",
        licence="MIT",
        dim={name: matrix.shape[1] for name, matrix in toy.vectors.items()},
        pooling="none",
        normalized=False,
        dtype="float16",
        batch_size=8,
        batch_plan="stored order",
        versions={"numpy": "2"},
        missing=empty,
    )
    return spec.model_copy(update={"encoders": (encoder,)})


def data_path(folder: Path, config: str, split: str | None = None) -> str:
    """Relative path of the first file of a config (of one of its splits)."""
    files = read_spec(folder).config(config).files
    return next(entry.path for entry in files if split in (None, entry.split))


def read_rows(folder: Path, config: str, split: str | None = None) -> list[dict[str, Any]]:
    """Rows of the first file of a config."""
    return pq.read_table(folder / data_path(folder, config, split)).to_pylist()


def change_table(
    folder: Path,
    config: str,
    change: Callable[[pa.Table], pa.Table],
    split: str | None = None,
    *,
    record: bool = True,
) -> str:
    """Rewrite one file of a config with plain pyarrow; returns its path.

    With ``record``, maghub.json and README.md are brought up to date (rows, bytes, checksum), so
    that only the change itself is wrong.
    """
    path = data_path(folder, config, split)
    pq.write_table(change(pq.read_table(folder / path)), folder / path)
    if record:
        record_file(folder, path)
    return path


def record_file(folder: Path, path: str) -> None:
    """Bring maghub.json and README.md up to date with one changed data file."""
    data = (folder / path).read_bytes()
    rows = pq.ParquetFile(folder / path).metadata.num_rows
    spec = json.loads((folder / layout.SPEC_FILE).read_text("utf-8"))
    for config in spec["configs"]:
        for entry in config["files"]:
            if entry["path"] == path:
                config["splits"][entry["split"]] += rows - entry["rows"]
                digest = hashlib.sha256(data).hexdigest()
                entry.update(rows=rows, bytes=len(data), sha256=digest)
    write_spec(folder, spec, readme=True)


def write_spec(folder: Path, spec: dict[str, Any], *, readme: bool = False) -> None:
    """Store changed data as maghub.json (and render the README from it)."""
    if readme:
        card = read_card(folder / layout.CARD_SOURCE_FILE)
        write_metadata(folder, card, FolderSpec.model_validate_json(json.dumps(spec)))
    else:
        (folder / layout.SPEC_FILE).write_text(json.dumps(spec), "utf-8")


def change_spec(
    folder: Path, change: Callable[[dict[str, Any]], object], *, readme: bool = False
) -> None:
    """Change the data of maghub.json in place."""
    spec = json.loads((folder / layout.SPEC_FILE).read_text("utf-8"))
    change(spec)
    write_spec(folder, spec, readme=readme)


def config_of(spec: dict[str, Any], name: str) -> dict[str, Any]:
    """The data of one config of maghub.json."""
    return next(config for config in spec["configs"] if config["name"] == name)


def with_column(column: str, values: Any) -> Callable[[pa.Table], pa.Table]:
    """A change that replaces a whole column, keeping the schema's own metadata."""

    def change(table: pa.Table) -> pa.Table:
        index = table.column_names.index(column)
        array = values(table[column]) if callable(values) else values
        changed = table.set_column(index, column, array)
        return changed.replace_schema_metadata(table.schema.metadata)

    return change


def with_value(column: str, row: int, value: Any) -> Callable[[pa.Table], pa.Table]:
    """A change of one value."""

    def replace(array: pa.ChunkedArray) -> pa.Array:
        values = array.to_pylist()
        values[row] = value
        return pa.array(values, array.type)

    return with_column(column, replace)


def with_vector_value(column: str, row: int, value: float) -> Callable[[pa.Table], pa.Table]:
    """A change of the first number of one vector."""

    def replace(array: pa.ChunkedArray) -> pa.Array:
        width = array.type.list_size
        flat = array.combine_chunks().flatten().to_numpy().copy()
        flat[row * width] = value
        return pa.FixedSizeListArray.from_arrays(pa.array(flat), type=array.type)

    return with_column(column, replace)


def take_rows(rows: Callable[[int], Sequence[int]]) -> Callable[[pa.Table], pa.Table]:
    """A change that keeps or repeats rows in the order that a function of their number gives."""

    def change(table: pa.Table) -> pa.Table:
        return table.take(np.asarray(rows(table.num_rows)))

    return change


def cast_column(column: str, kind: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    """A change of a column's type; like a plain writer it drops the ``datasets`` metadata."""

    def change(table: pa.Table) -> pa.Table:
        index = table.column_names.index(column)
        return table.set_column(index, column, table[column].cast(kind)).replace_schema_metadata()

    return change
