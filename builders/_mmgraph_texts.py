"""``raw-data/*-raw-text.jsonl`` of MM-Graph, joined to the nodes through ``node_mapping.pt``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from maghub.builders._formats.text import read_jsonl
from maghub.errors import MaghubError

TEXTS_AT_ONCE = 10_000


def texts_by_node(
    path: Path, mapping: Mapping[str, int], num_nodes: int
) -> tuple[pa.ChunkedArray, dict[str, object]]:
    """The raw text of each node, "" where there is none; one line of the file at a time.

    A key of raw text is ``id`` or ``asin``; ``raw_text`` is a string or a list of them. Of two
    texts of one id the first holds.
    """
    chunks, waiting = [], []
    order = np.full(num_nodes, -1)
    count = unknown = repeated = 0
    for record in read_jsonl(path):
        node = mapping.get(record.identifier("id", "asin"))
        if node is None or order[node] >= 0:
            unknown += node is None
            repeated += node is not None
            continue
        order[node], count = count, count + 1
        waiting.append(record.text("raw_text"))
        if len(waiting) == TEXTS_AT_ONCE:
            chunks.append(pa.array(waiting, pa.large_string()))
            waiting = []
    if not count:
        raise MaghubError("none of its ids is in node_mapping.pt", where=path)
    chunks += [pa.array(waiting, pa.large_string()), pa.array([""], pa.large_string())]
    order[order < 0] = count
    notes: dict[str, object] = {
        "texts of unknown ids": unknown,
        "second texts of an id": repeated,
        "nodes without a raw text": num_nodes - count,
    }
    return pa.chunked_array(chunks).take(pa.array(order)), notes
