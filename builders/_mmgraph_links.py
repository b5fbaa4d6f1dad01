"""``lp-edge-split.pt`` of MM-Graph as one graph: train, valid and test positives, fixed negatives.

Each part has ``source_node`` and ``target_node``; valid and test also ``target_node_neg`` [E, K]:
nodes to rank against the target for that source (for sports and cloth hard ones: author in issue
#1). An edge is stored once, whatever its direction. Where a pair stands in two parts, the part
that is held out wins (test, then validation), so that training never sees it; the negatives of the
other part go. Self loops go, with their negatives. Negatives are published as upstream made them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from maghub import layout, schema
from maghub.builders._formats._files import give_back
from maghub.builders._formats.torchfiles import EdgeSplit
from maghub.builders._graph import Negatives, Rule, StoredEdges, store_undirected
from maghub.builders._source import Table
from maghub.errors import MaghubError
from maghub.statistics import pair_keys

HARD = "hard"
HELD_OUT = (layout.VALIDATION, layout.TEST)
PART_BYTES = 64 << 20


@dataclass(frozen=True)
class JoinedParts:
    """The parts as one graph; ``ids`` has the stored edge of each upstream edge, -1 for a loop."""

    stored: StoredEdges
    rule: Rule
    ids: Mapping[str, NDArray[np.int64]]
    notes: dict[str, object]


def joined_parts(name: str, parts: Mapping[str, EdgeSplit], num_nodes: int) -> JoinedParts:
    """Store the edges of all parts once and give each to one part."""
    src = np.concatenate([part.source for part in parts.values()])
    dst = np.concatenate([part.target for part in parts.values()])
    stored = store_undirected(src, dst, num_nodes)
    keys = pair_keys(stored.src, stored.dst, num_nodes, directed=False)
    codes = np.zeros(len(keys), np.int8)
    seen = np.zeros(len(keys), np.int8)
    ids = {}
    for split in (layout.TRAIN, *HELD_OUT):
        part = parts[split]
        wanted = pair_keys(part.source, part.target, num_nodes, directed=False)
        loop = part.source == part.target
        ids[split] = np.where(loop, -1, np.searchsorted(keys, wanted))
        own = np.unique(ids[split][~loop])
        codes[own] = layout.SPLITS.index(split)
        seen[own] += 1
    text = "the split that upstream ships (lp-edge-split.pt); of two parts the held-out one wins"
    notes: dict[str, object] = {"pairs in two or three parts": int((seen > 1).sum())}
    return JoinedParts(stored, Rule(name, codes, text, "upstream"), ids, notes)


@dataclass(frozen=True)
class _Rows:
    """Rows of matrices that stay in their file: row i is row ``row[i]`` of ``blocks[which[i]]``."""

    blocks: tuple[NDArray[np.int64], ...]
    which: NDArray[np.int8]
    row: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.row), self.blocks[0].shape[1]

    def read(self, start: int, stop: int) -> NDArray[np.int64]:
        found = np.empty((stop - start, self.shape[1]), np.int64)
        for number, block in enumerate(self.blocks):
            mine = self.which[start:stop] == number
            found[mine] = block[self.row[start:stop][mine]]
            give_back(block)
        return found


@dataclass(frozen=True)
class _Reader:
    """Reads rows of the config of negatives."""

    columns: pa.Table
    rows: _Rows

    def __call__(self, start: int, stop: int) -> pa.Table:
        values = pa.array(self.rows.read(start, stop).ravel())
        neg = pa.FixedSizeListArray.from_arrays(values, self.rows.shape[1])
        return self.columns.slice(start, stop - start).append_column(layout.NEG, neg)


@dataclass(frozen=True)
class StoredNegatives(Negatives):
    """Negatives of which ``neg`` is read from upstream's file when it is written."""

    neg: Any

    def table(self) -> Table:
        """The config ``negatives-<name>``."""
        columns = {
            layout.EDGE_ID: self.edge_id,
            layout.QUERY: self.query,
            layout.POSITIVE: self.positive,
        }
        k = self.neg.shape[1]
        return Table(
            config=layout.negatives_config(self.name),
            kind="negatives",
            features=schema.negatives_features(k),
            num_rows=len(self.edge_id),
            read=_Reader(pa.table(columns), self.neg),
            split_names=layout.SPLITS,
            split_ids=self.codes,
            part_size=max(1, PART_BYTES // (8 * k)),
            target=layout.EDGES,
        )


def hard_negatives(joined: JoinedParts, parts: Mapping[str, EdgeSplit]) -> Negatives | None:
    """Upstream's negatives in the order of the stored edges; None where it has none."""
    if all(parts[split].negatives is None for split in HELD_OUT):
        return None
    columns: dict[str, list[NDArray[Any]]] = {
        name: [] for name in ("edge", "query", "positive", "which", "row", "code")
    }
    blocks, dropped = [], 0
    for number, split in enumerate(HELD_OUT):
        part, ids, split_code = parts[split], joined.ids[split], layout.SPLITS.index(split)
        if part.negatives is None:
            raise MaghubError(f"lp-edge-split.pt has negatives, but none for {split}")
        blocks.append(part.negatives)
        kept = np.flatnonzero((ids >= 0) & (joined.rule.codes[ids] == split_code))
        kept = kept[np.argsort(ids[kept], kind="stable")]
        dropped += len(ids) - len(kept)
        columns["edge"].append(ids[kept])
        columns["query"].append(part.source[kept])
        columns["positive"].append(part.target[kept])
        columns["which"].append(np.full(len(kept), number, np.int8))
        columns["row"].append(kept)
        columns["code"].append(np.full(len(kept), split_code, np.int8))
    if len({block.shape[1] for block in blocks}) > 1:
        widths = " and ".join(str(block.shape[1]) for block in blocks)
        raise MaghubError(f"lp-edge-split.pt has {widths} negatives per edge, expected one number")
    edge, query, positive, which, row, code = map(np.concatenate, columns.values())
    joined.notes["rows of negatives dropped (loops, pairs of another part)"] = dropped
    return StoredNegatives(
        name=HARD,
        edge_split=joined.rule.name,
        edge_id=edge,
        query=query,
        positive=positive,
        neg=_Rows(tuple(blocks), which, row),
        codes=code,
        description="upstream's fixed negatives for the source of each edge, as published",
        origin="upstream",
    )
