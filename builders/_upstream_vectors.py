"""Feature matrices that upstream publishes, as embedding configs.

Row i is node i. A row with a NaN or an infinite value is zeroed as a whole and flagged absent (see
``_formats.features``); everything else is published as it is, in upstream's precision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from maghub import layout, schema
from maghub.builders._formats.features import Features, open_features
from maghub.builders._source import Table
from maghub.errors import nearest
from maghub.progress import track
from maghub.spec import EncoderProvenance

NOT_RECORDED = "not recorded"
PART_BYTES = 64 << 20
PRESENT, NONE = "present", "none"


@dataclass(frozen=True)
class Matrix:
    """Some columns of a feature file: all, or one half (0: first, 1: second)."""

    path: Path
    half: int | None = None

    def open(self, num_nodes: int) -> Features:
        """The columns, unread; the file must have one row per node."""
        features = open_features(self.path, num_nodes)
        return features if self.half is None else features.halves()[self.half]


@dataclass(frozen=True)
class UpstreamEncoder:
    """What is known of one set of vectors.

    Attributes:
        name: Our name of the encoder; the config is ``embeddings-<name>``.
        matrices: Modality -> where its vectors are.
        model_id: The model, as far as upstream names it.
        licence: Of the vectors.
        release: Which release of upstream holds them.
        pooling: How a vector is made of the model's output.
        max_length: Tokens after which texts were cut.
    """

    name: str
    matrices: Mapping[str, Matrix]
    model_id: str
    licence: str
    release: str
    pooling: str = NOT_RECORDED
    max_length: int | None = None


@dataclass
class _Reader:
    """Reads rows of the vectors; each process maps the files for itself."""

    matrices: Mapping[str, Matrix]
    num_nodes: int
    dtype: str

    def __getstate__(self) -> dict[str, object]:
        names = ("matrices", "num_nodes", "dtype")
        return {name: getattr(self, name) for name in names}

    @cached_property
    def _open(self) -> dict[str, Features]:
        return {name: matrix.open(self.num_nodes) for name, matrix in self.matrices.items()}

    def __call__(self, start: int, stop: int) -> pa.Table:
        """Rows ``start..stop``."""
        columns: dict[str, object] = {layout.NODE_ID: np.arange(start, stop)}
        for modality, features in self._open.items():
            block, has = features.read(start, stop)
            values = pa.array(block.astype(self.dtype, copy=False).ravel())
            columns[modality] = pa.FixedSizeListArray.from_arrays(values, block.shape[1])
            columns[layout.has_column(modality)] = has
        return pa.table(columns)


@dataclass
class UpstreamVectors:
    """The tables of several encoders, and what was measured on the way."""

    tables: list[Table] = field(default_factory=list)
    encoders: list[EncoderProvenance] = field(default_factory=list)
    zeroed: dict[str, dict[str, int]] = field(default_factory=dict)


def upstream_vectors(encoders: Sequence[UpstreamEncoder], num_nodes: int) -> UpstreamVectors:
    """One config per encoder; every file is read once here to count rows without numbers."""
    found = UpstreamVectors()
    for encoder in encoders:
        opened = {name: matrix.open(num_nodes) for name, matrix in encoder.matrices.items()}
        half = all(features.array.dtype.itemsize == 2 for features in opened.values())
        dtype = "float16" if half else "float32"
        dims = {name: features.shape[1] for name, features in opened.items()}
        unit = [_scan(f"{encoder.name} {name}", one) for name, one in opened.items()]
        missing = {
            name: one.counts.zeroed_rows + one.counts.zero_rows for name, one in opened.items()
        }
        if bad := {
            n: one.counts.zeroed_rows for n, one in opened.items() if one.counts.zeroed_rows
        }:
            found.zeroed[encoder.name] = bad
        config = layout.embeddings_config(encoder.name)
        found.tables.append(
            Table(
                config=config,
                kind="embeddings",
                features=schema.embeddings_features(dims, dtype),
                num_rows=num_nodes,
                read=_Reader(encoder.matrices, num_nodes, dtype),
                part_size=max(1, PART_BYTES // (4 * sum(dims.values()))),
                target=layout.NODES,
            )
        )
        found.encoders.append(
            EncoderProvenance(
                origin="upstream",
                encoder=encoder.name,
                config=config,
                modalities=tuple(dims),
                model_id=encoder.model_id,
                revision=NOT_RECORDED,
                library=encoder.release,
                licence=encoder.licence,
                dim=dims,
                pooling=encoder.pooling,
                normalized=all(unit),
                dtype=dtype,
                max_length=encoder.max_length,
                missing=missing,
            )
        )
    return found


def _scan(what: str, features: Features) -> bool:
    """Count rows without numbers; whether all others have length 1 (to half precision)."""
    unit, rows = True, max(1, PART_BYTES // (4 * features.shape[1]))
    for block, has in track(
        features.blocks(rows), f"reading {what}", -(-features.shape[0] // rows)
    ):
        length = np.linalg.norm(block[has].astype(np.float32, copy=False), axis=1)
        unit = unit and bool((np.abs(length - 1) < 1e-2).all())
    return unit


def chosen(option: str, present: Sequence[str], known: Sequence[str]) -> list[str]:
    """The encoders that the option ``vectors`` asks for.

    Args:
        option: ``present``, ``none``, or names with commas between them.
        present: Encoders whose files lie in the raw folder.
        known: Encoders that may be asked for by name.
    """
    if option in (PRESENT, NONE):
        return list(present) if option == PRESENT else []
    names = [name.strip() for name in option.split(",")]
    for name in names:
        if name not in known:
            raise nearest(name, known, kind="encoder of upstream")
    return names
