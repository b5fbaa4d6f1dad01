"""Checks of element embeddings: one row per node and edge of each graph of the target, in order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from maghub import layout
from maghub.elements import Elements, elements_of
from maghub.validating.opened import NULL, REBUILD, Opened
from maghub.validating.vectors import ENCODE

_TEXTS = (layout.NODE_TEXTS, layout.EDGE_TEXTS)
_KEY = (layout.GRAPH_ID, layout.PART, layout.POSITION)


def check_elements(table: Opened, target: Opened | None) -> None:
    """Compare the keys of every row with the nodes and edges of the target's graphs."""
    if target is None or not all(column in target.features for column in (_KEY[0], *_TEXTS)):
        what = f"target of config {table.spec.name} is no table of graphs"
        table.findings.add(layout.SPEC_FILE, what, column="configs", fix=REBUILD)
        return
    elements = _elements(target)
    if elements is None:
        return
    if table.whole and table.rows != len(elements.graph):
        what = (
            f"has {table.rows:,} rows, the graphs of {target.spec.name} have "
            f"{len(elements.graph):,} nodes and edges"
        )
        table.findings.add(table.first_file, what, kind="target rows", fix=ENCODE)
    if all(table.sound(column) for column in _KEY):
        _check_keys(table, elements)


def _elements(target: Opened) -> Elements | None:
    """The nodes and edges of the target's graphs; None where they cannot be read."""
    if not target.usable(_KEY[0], *_TEXTS):
        return None
    ids: list[pa.Array] = []
    sizes: list[NDArray[np.int64]] = []
    for group in target.groups([_KEY[0], *_TEXTS], 1024):
        ids.append(group.batch[_KEY[0]])
        lengths = [pc.fill_null(pc.list_value_length(group.batch[name]), 0) for name in _TEXTS]
        sizes.append(np.stack([np.asarray(length, dtype=np.int64) for length in lengths]))
    if not target.whole or not ids:
        return None
    nodes, edges = np.concatenate(sizes, axis=1)
    return elements_of(pa.concat_arrays(ids), nodes, edges)


def _check_keys(table: Opened, elements: Elements) -> None:
    """Row i must be element i."""
    names = elements.graph_ids

    def shown(graph: int, part: int, position: int) -> str:
        known = 0 <= graph < len(names) and 0 <= part < len(layout.PARTS)
        return f"{names[graph]}, {layout.PARTS[part]} {position}" if known else "no known element"

    wanted = np.stack([elements.graph, elements.part, elements.position], axis=1)
    for group in table.groups(_KEY):
        at = pc.fill_null(pc.index_in(group.batch[_KEY[0]], names).cast(pa.int64()), NULL)
        columns = [np.asarray(at, dtype=np.int64), *(group.integers(name) for name in _KEY[1:])]
        found = np.stack(columns, axis=1)
        expected = np.full_like(found, NULL)
        own = wanted[group.start : group.start + len(found)]
        expected[: len(own)] = own
        bad = (found != expected).any(axis=1)

        def message(
            i: int, found: NDArray[np.int64] = found, expected: NDArray[np.int64] = expected
        ) -> str:
            return f"holds {shown(*found[i])}, this row must be {shown(*expected[i])}"

        table.findings.rows(table, _KEY[0], "row", group.start, bad, message, ENCODE)
