"""Which of the user's edges are stored, and how they are split."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from maghub.builders._graph import Rule
from maghub.builders._own_columns import splits
from maghub.builders._own_read import Frame


def given_edges(frame: Frame, rows: NDArray[np.int64]) -> Rule:
    """The user's split of the edges that are kept."""
    text = f"column {frame.names['edge-split']} of the user's edges"
    return Rule("given-edges", splits(frame, "edge-split")[rows], text, origin="upstream")


def require_whole(
    frame: Frame, kept: NDArray[np.int8], rows: NDArray[np.int64], keys: NDArray[np.int64]
) -> None:
    """No node pair may stand on two sides."""
    order = np.argsort(keys, kind="stable")
    same = keys[order][1:] == keys[order][:-1]
    torn = np.flatnonzero(same & (kept[order][1:] != kept[order][:-1]))
    if torn.size:
        what = "this pair of nodes stands in two splits"
        fix = "put all edges of a pair into one split"
        raise frame.fail("edge-split", int(rows[order[torn[0] + 1]]), what, fix)


def kept_rows(
    src: NDArray[np.int64], dst: NDArray[np.int64], relation: NDArray[np.int64], self_loops: bool
) -> tuple[NDArray[np.int64], dict[str, object]]:
    """The rows that are stored, sorted by (src, dst, relation); the first of equal ones holds."""
    order = np.lexsort((relation, dst, src))
    if not self_loops:
        order = order[src[order] != dst[order]]
    keys = np.stack([src[order], dst[order], relation[order]])
    first = np.ones(len(order), bool)
    first[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    rows = order[first]
    loops = int((src == dst).sum())
    counts: dict[str, object] = {"edges given": len(src), "folded duplicates": int((~first).sum())}
    counts["self loops kept" if self_loops else "self loops dropped"] = loops
    return rows, counts


def taken(values: object, rows: NDArray[np.int64]) -> object:
    """Rows of an array of either kind."""
    return values.take(pa.array(rows)) if isinstance(values, pa.Array) else values[rows]  # type: ignore[index]
