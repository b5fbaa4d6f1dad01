"""The table of a MAGB data set: every column variant that its scripts name (sources.md 1.2).

Amazon: ``id, category, text, description, title, also_buy, also_view, imageURLHighRes,
second_category, label``; Reddit: ``id, subreddit, caption, url, also_posted, label``; either may
have ``neighbors`` in place of the lists and further columns; CS-TAG: ``node_id, label, raw_text,
url, category, neighbor_ids``. Lists are written in Python.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from datasets import List, Value

from maghub import layout
from maghub.builders._formats.dgl import DglGraph
from maghub.builders._formats.tables import Column, Row, Table
from maghub.builders._formats.text import clean_text
from maghub.errors import MaghubError, place

NO_TEXT = "Title: None; Description: None"
ADJACENT = ("neighbors", "also_buy", "also_view", "also_posted", "neighbor_ids")
CATEGORIES, IMAGE_URLS = "categories", "image_urls"
COLUMNS = (
    Column("id", ("node_id",)),
    Column("text", ("caption", "raw_text")),
    Column("label"),
    Column("class", ("second_category", "subreddit", "category")),
    Column("category", (), False),
    Column("urls", ("imageURLHighRes",), False),
    Column("url", (), False),
    *(Column(name, (), False) for name in ADJACENT),
)


@dataclass
class NodeRows:
    """The table in node order; ``pairs`` are the edges that its lists of neighbours name."""

    texts: list[str] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    categories: list[list[str]] = field(default_factory=list)
    image_urls: list[list[str]] = field(default_factory=list)
    pairs: list[tuple[int, int]] = field(default_factory=list)
    unreadable: int = 0

    def add(self, row: Row, node: int) -> None:
        """Take one row; its id must be its place."""
        if row.integer("id") != node:
            raise row.fail("id", f"is {row['id']}, expected {node}: ids count the rows from 0")
        text = clean_text(row["text"])
        self.texts.append("" if text == NO_TEXT else text)
        label, name = row.integer("label", low=-1), clean_text(row["class"])
        self.labels.append(label)
        if label >= 0 and self.names.setdefault(label, name) != name:
            what = (
                f"label {label} is {name[:40]!r} here, {self.names[label][:40]!r} in a row before"
            )
            raise row.fail("label", what)
        if "category" in row.cells and row.cells["category"] != row.cells["class"]:
            self.categories.append([str(item) for item in row.list("category")])
        if "urls" in row.cells:
            self.image_urls.append([str(item) for item in row.list("urls")])
        elif "url" in row.cells:
            self.image_urls.append([row["url"]] if row["url"] else [])
        for column in ADJACENT:
            if column in row.cells:
                self._adjacent(row, column, node)

    def _adjacent(self, row: Row, column: str, node: int) -> None:
        """Neighbours that the table names by node; it serves to check the graph, no more."""
        try:
            others = row.list(column)
        except MaghubError:
            self.unreadable += 1
            return
        self.pairs += [(node, other) for other in others if isinstance(other, int)]

    def label_names(self, where: object) -> list[str]:
        """The names of the classes in label order; a label that no row has keeps its number."""
        top = max(self.labels, default=-1)
        if top >= len(self.labels):
            raise MaghubError(f"label {top} for {len(self.labels)} nodes", where=where)
        names = [self.names.get(label) or str(label) for label in range(top + 1)]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise MaghubError(f"two labels are called {twice[:40]!r}", where=where)
        return names

    def columns(self) -> tuple[pa.Table, dict[str, object]]:
        """All node columns but node_id and image, and the types of the extra ones."""
        labels = [None if label < 0 else label for label in self.labels]
        columns: dict[str, object] = {
            layout.SOURCE_ID: [str(node) for node in range(len(self.texts))],
            layout.TEXT: pa.array(self.texts, pa.string()),
            layout.LABEL: pa.array(labels, pa.int64()),
        }
        lists = {CATEGORIES: self.categories, IMAGE_URLS: self.image_urls}
        extra = {name: List(Value("string")) for name, values in lists.items() if values}
        columns |= {name: pa.array(lists[name], pa.list_(pa.string())) for name in extra}
        return pa.table(columns), dict(extra)

    def check_labels(self, raw: DglGraph, path: Path) -> None:
        """The labels of the graph file, where it has some, must be those of the table."""
        own = raw.node_tensors.get("label")
        if own is None:
            return
        stored = np.asarray(own).reshape(len(self.labels), -1)[:, 0]
        differ = np.flatnonzero(stored != np.asarray(self.labels))
        if len(differ):
            row = int(differ[0])
            what = f"is {self.labels[row]}, the graph file says {stored[row]}"
            raise MaghubError(what, where=place(path, "label", row + 1))

    def adjacency_notes(self, raw: DglGraph) -> dict[str, object]:
        """Whether the lists of neighbours name the edges of the graph (self loops apart)."""
        notes: dict[str, object] = {}
        n = raw.num_nodes
        pairs = np.asarray(self.pairs, dtype=np.int64).reshape(-1, 2)
        inside = ((pairs >= 0) & (pairs < n)).all(axis=1)
        pairs = pairs[inside & (pairs[:, 0] != pairs[:, 1])]
        if len(pairs):
            listed = np.unique(pairs[:, 0] * n + pairs[:, 1])
            proper = raw.src != raw.dst
            stored = np.unique(raw.src[proper] * np.int64(n) + raw.dst[proper])
            notes["neighbours in the table"] = {
                "ordered pairs": len(listed),
                "not in the graph": int((~np.isin(listed, stored)).sum()),
                "only in the graph": int((~np.isin(stored, listed)).sum()),
            }
        if self.unreadable:
            notes["unreadable lists of neighbours"] = self.unreadable
        return notes


def read_node_rows(path: Path, raw: DglGraph) -> NodeRows:
    """The table, one row per node of the graph.

    Raises:
        MaghubError: With column and row, where table and graph do not agree.
    """
    rows = NodeRows()
    for row in Table(path, COLUMNS):
        rows.add(row, row.number - 1)
    if len(rows.texts) != raw.num_nodes:
        what = f"{len(rows.texts)} rows for the {raw.num_nodes} nodes of the graph"
        raise MaghubError(what, where=path)
    rows.check_labels(raw, path)
    return rows
