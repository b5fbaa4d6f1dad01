"""The config of vectors that upstream stores as a table of numbers: words of Planetoid, OGB's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from maghub import layout, schema
from maghub.builders._source import Table
from maghub.spec import EncoderProvenance

PART_BYTES = 8 << 20


@dataclass(frozen=True)
class _Rows:
    dense: Callable[[int, int], NDArray[np.floating]]
    present: NDArray[np.bool_]
    dtype: str

    def __call__(self, start: int, stop: int) -> pa.Table:
        block = self.dense(start, stop).astype(self.dtype, copy=False)
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(block.ravel()), block.shape[1])
        return pa.table(
            {
                layout.NODE_ID: np.arange(start, stop),
                layout.TEXT: vectors,
                layout.has_column(layout.TEXT): self.present[start:stop],
            }
        )


def text_vectors(
    provenance: EncoderProvenance,
    dense: Callable[[int, int], NDArray[np.floating]],
    present: NDArray[np.bool_],
) -> Table:
    """The config ``embeddings-<encoder>`` of vectors made from the nodes' texts.

    Args:
        provenance: Names the config, the width and the type.
        dense: Rows of the matrix by range, rows that are not present zero; picklable.
        present: bool [N], which nodes have a vector.
    """
    width = provenance.dim[layout.TEXT]
    features = schema.embeddings_features({layout.TEXT: width}, provenance.dtype)
    return Table(
        config=provenance.config,
        kind="embeddings",
        features=features,
        num_rows=len(present),
        read=_Rows(dense, present, provenance.dtype),
        part_size=max(1, PART_BYTES // (4 * width)),
        target=layout.NODES,
    )
