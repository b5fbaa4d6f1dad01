"""Finished shards: their form, and the working folder's store of them.

A shard is one Arrow file with a vector and a flag per row and modality. It gets its name only when
it is durable, so a shard that is there is whole.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from maghub import layout
from maghub.encoding.base import Encoder
from maghub.encoding.inputs import Inputs
from maghub.encoding.plan import Plan, Shard
from maghub.encoding.vectors import BadVector, Column, encode_column
from maghub.errors import MaghubError
from maghub.files import fsync_folder, write_bytes

_TOKENS = b"tokens"


def encode_shard(model: Encoder, inputs: Inputs, plan: Plan, shard: Shard) -> pa.Buffer:
    """The finished shard, as the bytes of its file.

    Raises:
        MaghubError: A vector is not finite, or the inputs cannot be read.
    """
    columns = {}
    for modality in plan.modalities:
        values = inputs.chunks(modality, shard.start, shard.stop)
        rows = shard.stop - shard.start
        try:
            columns[modality] = encode_column(model, modality, rows, values, plan.batch_size)
        except BadVector as bad:
            name = inputs.name(shard.start + bad.row)
            raise MaghubError(
                f"{model.spec.name} gave a vector that is not finite in {model.spec.dtype}",
                where=f"{name}, {modality}",
                fix=f"check the {modality} of that {name.split()[0]}",
            ) from None
    return _serialised(columns)


def as_list_array(matrix: NDArray[np.generic]) -> pa.FixedSizeListArray:
    """A matrix as an Arrow column of vectors."""
    flat = pa.array(np.ascontiguousarray(matrix).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, matrix.shape[1])


def _serialised(columns: dict[str, Column]) -> pa.Buffer:
    arrays = {modality: as_list_array(column.vectors) for modality, column in columns.items()}
    flags = {layout.has_column(m): pa.array(column.present) for m, column in columns.items()}
    tokens = json.dumps({m: _counted(column.tokens) for m, column in columns.items()})
    batch = pa.record_batch({**arrays, **flags})
    schema = batch.schema.with_metadata({_TOKENS: tokens.encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(batch.replace_schema_metadata(schema.metadata))
    return sink.getvalue()


def _counted(lengths: NDArray[np.int64]) -> list[list[int]]:
    """Each length and how many texts have it."""
    values, counts = np.unique(lengths, return_counts=True)
    return [values.tolist(), counts.tolist()]


@dataclass(frozen=True)
class ShardStore:
    """The finished shards of one plan in a folder (picklable).

    Args:
        folder: Where they are.
        plan: What they belong to.
    """

    folder: Path
    plan: Plan

    def path(self, index: int) -> Path:
        """The file of a shard."""
        return self.folder / f"shard-{index:06d}.arrow"

    def add(self, shard: Shard, data: pa.Buffer) -> None:
        """Store a finished shard durably."""
        write_bytes(self.path(shard.number), data)
        fsync_folder(self.folder)

    def pending(self) -> Iterator[Shard]:
        """Shards that are not finished, in order."""
        return (shard for shard in self.plan.shards() if not self.path(shard.number).exists())

    def _open(self, index: int) -> pa.RecordBatch:
        return pa.ipc.open_file(pa.memory_map(str(self.path(index)))).get_batch(0)

    def tokens(self, modality: str) -> Counter[int]:
        """How many inputs of a modality have which length in tokens before truncation.

        Raises:
            MaghubError: An older maghub finished a shard, without counting.
        """
        total: Counter[int] = Counter()
        for shard in self.plan.shards():
            metadata = self._open(shard.number).schema.metadata or {}
            if _TOKENS not in metadata:
                what = "was finished by an older maghub"
                raise MaghubError(what, where=self.path(shard.number), fix="use --no-resume")
            found = json.loads(metadata[_TOKENS]).get(modality, ([], []))
            total.update(dict(zip(*found, strict=True)))
        return total

    def rows(self, wanted: NDArray[np.int64]) -> dict[str, pa.Array]:
        """The vector and flag columns of some rows, in the order they are asked for."""
        plan, count = self.plan, len(wanted)
        dims = plan.encoder.dim
        vectors = {m: np.empty((count, dims[m]), plan.encoder.dtype) for m in plan.modalities}
        flags = {m: np.empty(count, bool) for m in plan.modalities}
        owner = wanted // plan.shard_rows
        for index in np.unique(owner):
            at = np.flatnonzero(owner == index)
            within = wanted[at] - index * plan.shard_rows
            batch = self._open(int(index))
            for modality in plan.modalities:
                matrix = batch[modality].values.to_numpy().reshape(-1, dims[modality])
                vectors[modality][at] = matrix[within]
                present = batch[layout.has_column(modality)].to_numpy(zero_copy_only=False)
                flags[modality][at] = present[within]
        columns = {m: as_list_array(matrix) for m, matrix in vectors.items()}
        return columns | {layout.has_column(m): pa.array(flags[m]) for m in plan.modalities}
