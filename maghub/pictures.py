"""Pictures of the rows of a table, several a row, as rows of their own: row by row, in order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from maghub import layout

Ints = NDArray[np.int64]


class Pictures(NamedTuple):
    """All pictures of a list column, in row order.

    Attributes:
        ids: Id of each row of the table.
        row: Which row a picture belongs to, as an index into ``ids``.
        position: Index of the picture among those of its row.
    """

    ids: pa.ChunkedArray
    row: Ints
    position: Ints


def pictures_of(table: pa.Table) -> Pictures:
    """The pictures of a table of entities, counted by ``image_paths``.

    A picture that could not be read keeps its place (null), so the paths count them all.
    """
    lengths = pc.fill_null(pc.list_value_length(table[layout.IMAGE_PATHS]), 0)
    counts = np.asarray(lengths, dtype=np.int64)
    row = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    return Pictures(table[layout.ID], row, np.arange(len(row)) - starts[row])
