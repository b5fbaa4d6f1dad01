"""Opens the Parquet files of one config, checks each as a file, and streams its columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Features
from datasets.features.features import generate_from_arrow_type
from numpy.typing import NDArray

from maghub import layout
from maghub.errors import MaghubError, first_line
from maghub.features import file_sha256
from maghub.reader import DAMAGE, open_parquet
from maghub.schema import describe, features_from_dict, schema_problems
from maghub.spec import ConfigSpec, FileEntry
from maghub.validating.report import Findings

BATCH_ROWS = 65_536
NULL = int(np.iinfo(np.int64).min)
DAMAGED = "copy or build it again"
REBUILD = "build it again with maghub"


class Group(NamedTuple):
    """Some consecutive rows: row of the table they start at, their split, their columns."""

    start: int
    split: str
    batch: pa.RecordBatch

    def integers(self, column: str) -> NDArray[np.int64]:
        """An integer column; nulls become ``NULL``."""
        return np.asarray(pc.fill_null(self.batch[column], NULL), dtype=np.int64)


@dataclass
class Opened:
    """One config of the folder: its files as they really are."""

    folder: Path
    spec: ConfigSpec
    features: Features
    findings: Findings
    files: list[tuple[FileEntry, int]] = field(default_factory=list)
    bad_columns: set[str] = field(default_factory=set)
    whole: bool = True

    @property
    def rows(self) -> int:
        """Rows really present in the readable files."""
        return sum(rows for _, rows in self.files)

    def usable(self, *columns: str) -> bool:
        """Whether all files can be read and have these columns with the declared types."""
        return self.whole and all(c in self.features and c not in self.bad_columns for c in columns)

    def sound(self, column: str) -> bool:
        """Whether the files that can be read have this column with the declared type."""
        return column in self.features and column not in self.bad_columns

    def locate(self, row: int) -> tuple[str, int]:
        """File and row within it of a row of the table."""
        for entry, rows in self.files:
            if row < rows:
                return entry.path, row
            row -= rows
        return self.first_file, row

    @property
    def first_file(self) -> str:
        """The file to blame where no single one is at fault."""
        return self.spec.files[0].path if self.spec.files else layout.SPEC_FILE

    def groups(self, columns: Sequence[str], size: int = BATCH_ROWS) -> Iterator[Group]:
        """Stream columns; a file that turns out damaged is noted and left."""
        start = 0
        for entry, rows in self.files:
            row = start
            try:
                file = open_parquet(self.folder / entry.path, entry.path)
                for batch in file.iter_batches(size, columns=list(columns)):
                    batch.validate(full=True)
                    if row + batch.num_rows > start + rows:
                        raise MaghubError(f"has more than the {rows} rows that its footer says")
                    yield Group(row, entry.split, batch)
                    row += batch.num_rows
                if row < start + rows:
                    raise MaghubError(f"has fewer than the {rows} rows that its footer says")
            except (*DAMAGE, MaghubError) as error:
                self.whole = False
                what = f"cannot be read on from row {row - start} ({first_line(error)})"
                names = ", ".join(columns) if len(columns) < 4 else None
                self.findings.add(entry.path, what, column=names, fix=DAMAGED, kind="damaged")
            start += rows

    def table(self, *columns: str) -> pa.Table | None:
        """Whole columns, or None where they cannot be read or there are no rows."""
        if not self.usable(*columns):
            return None
        batches = [group.batch for group in self.groups(columns)]
        return pa.Table.from_batches(batches) if self.whole and batches else None

    def integers(self, *columns: str) -> list[NDArray[np.int64]]:
        """Whole integer columns (nulls become ``NULL``), or [] where they cannot be read."""
        if not self.usable(*columns):
            return []
        parts: list[list[NDArray[np.int64]]] = [[] for _ in columns]
        for group in self.groups(columns):
            for part, column in zip(parts, columns, strict=True):
                part.append(group.integers(column))
        if not self.whole:
            return []
        return [np.concatenate(part) if part else np.zeros(0, np.int64) for part in parts]


def readable_features(data: Any) -> Features | None:
    """``datasets.Features`` from stored data, or None where ``datasets`` cannot read it."""
    try:
        return features_from_dict(data)
    except (MaghubError, TypeError, ValueError):  # the latter where it is no mapping
        return None


def embedding_key(config: ConfigSpec) -> str | None:
    """The key column of an embedding config."""
    if config.kind != "embeddings":
        return None
    known = {layout.NODES: layout.NODE_ID, layout.EDGES: layout.EDGE_ID}
    return known.get(config.target or layout.NODES) or next(iter(config.features), None)


def open_table(folder: Path, config: ConfigSpec, findings: Findings) -> Opened:
    """Open every file of a config; missing, damaged, changed or wrongly typed ones are noted."""
    features = readable_features(config.features)
    if features is None:
        what = f"features of config {config.name} cannot be read"
        findings.add(layout.SPEC_FILE, what, column="features", fix=REBUILD)
    table = Opened(folder, config, features or Features(), findings)
    table.whole = features is not None
    for entry in config.files:
        rows = _open_file(table, entry)
        if rows is None:
            table.whole = False
        else:
            table.files.append((entry, rows))
    if features is not None:
        _check_contract(table)
    return table


def _check_contract(table: Opened) -> None:
    """Compare the declared columns with what the contract asks of this kind of config."""
    differing = set(table.bad_columns)
    key = embedding_key(table.spec)
    for column, what in schema_problems(table.spec.kind, table.features, key):
        table.bad_columns.add(column)
        if column in differing:
            where = f"configs.{table.spec.name}.features.{column}"
            _add_type(table.findings, layout.SPEC_FILE, where, what)
        else:
            _add_type(table.findings, table.first_file, column, what)


def _open_file(table: Opened, entry: FileEntry) -> int | None:
    """Check one file as a whole; its number of rows, or None where it cannot be opened."""
    findings, path = table.findings, table.folder / entry.path
    try:
        size = path.stat().st_size
        digest = file_sha256(path)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        what = f"named in {layout.SPEC_FILE} but missing" if missing else _os_reason(error)
        fix = DAMAGED if missing else "check its permissions"
        findings.add(entry.path, what, fix=fix)
        return None
    if size != entry.bytes:
        what = f"has {size:,} bytes, maghub.json says {entry.bytes:,}"
        findings.add(entry.path, what, fix=DAMAGED)
    if digest != entry.sha256:
        what = "does not match its checksum in maghub.json"
        findings.add(entry.path, what, fix="it was changed or damaged: " + DAMAGED)
    try:
        file = open_parquet(path, entry.path)
        schema, rows = file.schema_arrow, file.metadata.num_rows
    except MaghubError as error:
        findings.add(entry.path, error.what, fix=error.fix)
        return None
    except DAMAGE as error:
        findings.add(entry.path, f"is not a whole Parquet file ({first_line(error)})", fix=DAMAGED)
        return None
    if rows != entry.rows:
        findings.add(entry.path, f"has {rows:,} rows, maghub.json says {entry.rows:,}", fix=REBUILD)
    _check_schema(table, entry.path, schema)
    return rows


def _os_reason(error: OSError) -> str:
    return f"cannot be read ({error.strerror or error})"


def _check_schema(table: Opened, path: str, schema: pa.Schema) -> None:
    """Compare a file's columns with maghub.json: names, Arrow types, and class names."""
    wanted, own = table.features.arrow_schema, _own_features(schema)
    for name in wanted.names:
        if schema.get_field_index(name) < 0:
            table.bad_columns.add(name)
            _add_type(table.findings, path, name, "column is missing")
        elif schema.field(name).type != wanted.field(name).type:
            table.bad_columns.add(name)
            own_type, declared = _type_name(schema.field(name).type), describe(table.features[name])
            _add_type(table.findings, path, name, f"is {own_type}, maghub.json says {declared}")
        elif name in own and own[name] != table.features[name]:
            what = "its type in the file (e.g. class names) differs from maghub.json"
            _add_type(table.findings, path, name, what)
    for name in schema.names:
        if name not in wanted.names and len(wanted):
            _add_type(table.findings, path, name, "column is not declared in maghub.json")


def _add_type(findings: Findings, path: str, column: str, what: str) -> None:
    findings.add(path, what, column=column, fix=REBUILD, kind="type")


def _own_features(schema: pa.Schema) -> dict[str, Any]:
    """Column types that the file's own ``datasets`` metadata declares, if it has any."""
    try:
        data = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
    except (KeyError, TypeError, ValueError):
        return {}
    return dict(readable_features(data) or {})


def _type_name(kind: pa.DataType) -> str:
    try:
        return describe(generate_from_arrow_type(kind))
    except (TypeError, ValueError):
        return str(kind)
