"""Computers, Photo and History of CS-TAG (sktsherlock/TAG-Benchmark, data on the Hub as CSTAG).

Per dataset ``{D}.csv`` (node_id, text, label; category where upstream wrote it) and ``{D}.pt``, a
DGL file with the node tensors label and, for the electronics, year. These are not Shchur's
co-purchase graphs of the same names. (Layout: the loaders of CS-TAG and CLeGR; the real files of
the family that are published in git, WebKB, have it too.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from datasets import Value
from numpy.typing import NDArray

from maghub import layout, schema
from maghub.builders._clegr_splits import clegr_rules
from maghub.builders._fetch import Remote, raw_folder
from maghub.builders._formats.dgl import DglGraph, read_dgl_graph
from maghub.builders._formats.tables import Column, Table
from maghub.builders._formats.text import clean_text
from maghub.builders._graph import (
    Graph,
    GraphSource,
    NodeReader,
    Rule,
    edge_rule,
    store_undirected,
    uniform_negatives,
    upstream_permutation,
)
from maghub.builders._source import SourceBuilder
from maghub.builders._upstream_vectors import (
    Matrix,
    UpstreamEncoder,
    UpstreamVectors,
    upstream_vectors,
)
from maghub.errors import MaghubError

HUB = "hf://datasets/Sherirto/CSTAG"
CSTAG_SEED = 42
UNASSIGNED = layout.SPLITS.index(layout.UNASSIGNED)
EDGE_RULE, NEGATIVES_RULE, YEAR, LABEL = "random", "uniform", "year", "label"
COLUMNS = (
    Column("node_id"),
    Column("text", aliases=("raw_text",)),
    Column("label"),
    Column("category", required=False),
)


class CsTagSource(GraphSource):
    """One graph of CS-TAG.

    Attributes:
        stem: Upstream's name of the files.
        class_names: Names in the order of CLeGR's loader, for a CSV without the column category.
        years: First year of validation and of test (CS-TAG's loader); None splits at random.
    """

    stem: ClassVar[str]
    class_names: ClassVar[tuple[str, ...]] = ()
    years: ClassVar[tuple[int, int] | None] = None
    inputs = {"CSTAG": "as the user has it"}
    configs = (
        layout.NODES,
        layout.EDGES,
        layout.NODE_SPLITS,
        layout.EDGE_SPLITS,
        layout.negatives_config(NEGATIVES_RULE),
    )

    def files(self) -> tuple[Path, Path]:
        """The table and the graph, in a folder of their name or beside each other."""
        names = (f"{self.stem}.csv", f"{self.stem}.pt")
        flat = self.raw_dir is not None and any((self.raw_dir / name).exists() for name in names)
        paths = [name if flat else f"{self.stem}/{name}" for name in names]
        remote = {path: Remote(f"{HUB}/{self.stem}/{Path(path).name}") for path in paths}
        folder = raw_folder(self.name, self.raw_dir, remote)
        return folder / paths[0], folder / paths[1]

    def read(self) -> Graph:
        """Undirected, each pair once, without self loops."""
        table, path = self.files()
        raw = read_dgl_graph(path)
        n = raw.num_nodes
        texts, labels, names = self._nodes(table, n)
        if LABEL in raw.node_tensors and not np.array_equal(raw.node_tensors[LABEL], labels):
            row = int(np.flatnonzero(raw.node_tensors[LABEL] != labels)[0])
            what = f"node {row} has label {labels[row]}, {path.name} says otherwise"
            raise MaghubError(what, where=table, fix="take both files from one revision")
        stored = store_undirected(raw.src, raw.dst, n)
        edges = edge_rule(EDGE_RULE, stored.src, stored.dst, n, self.seed)
        vectors = self._vectors(table.parent, n)
        columns = {
            layout.SOURCE_ID: [str(node) for node in range(n)],
            layout.TEXT: texts,
            layout.LABEL: pa.array(labels, mask=labels < 0),
        }
        extra = {}
        if YEAR in raw.node_tensors:
            columns[YEAR], extra[YEAR] = raw.node_tensors[YEAR].astype(np.int64), Value("int64")
        return Graph(
            num_nodes=n,
            nodes=schema.nodes_features(names, extra, image=False),
            read_nodes=NodeReader(pa.table(columns)),
            src=stored.src,
            dst=stored.dst,
            node_rules=tuple(_labelled(rule, labels) for rule in self._rules(raw)),
            edge_rules=(edges,),
            negatives=(
                uniform_negatives(NEGATIVES_RULE, edges, stored.src, stored.dst, n, self.seed),
            ),
            extra=tuple(vectors.tables),
            encoders=tuple(vectors.encoders),
            notes={"edges": stored.counts},
            part_size=10_000,
            parallel=False,
        )

    def _vectors(self, folder: Path, n: int) -> UpstreamVectors:
        """Upstream's RoBERTa vectors, where the user has them."""
        path = folder / "Feature" / f"{self.stem}_roberta_base_512_cls.npy"
        encoder = UpstreamEncoder(
            name="roberta-base",
            matrices={layout.TEXT: Matrix(path)},
            model_id="roberta-base",
            licence="MIT",
            release="CSTAG",
            pooling="first token",
            max_length=512,
        )
        return upstream_vectors([encoder] if path.exists() else [], n)

    def _nodes(self, path: Path, n: int) -> tuple[list[str], NDArray[np.int64], list[str]]:
        """Texts and labels by node id, and the names of the classes."""
        texts: list[str | None] = [None] * n
        labels = np.full(n, -1, np.int64)
        named: dict[int, str] = {}
        for row in Table(path, COLUMNS):
            node, label = row.integer("node_id", 0, n - 1), row.integer("label", -1, 10_000)
            if texts[node] is not None:
                raise row.fail("node_id", f"node {node} comes twice")
            texts[node], labels[node] = clean_text(row["text"]), label
            category = clean_text(row.get("category")) if label >= 0 else ""
            if category and named.setdefault(label, category) != category:
                what = f"label {label} is called {named[label]!r} and {category!r}"
                raise row.fail("category", what)
        if None in texts:
            raise MaghubError(f"no row has node_id {texts.index(None)}", where=path)
        count = max(int(labels.max(initial=-1)) + 1, len(self.class_names))
        return texts, labels, [self._class_name(c, named) for c in range(count)]  # type: ignore

    def _class_name(self, label: int, named: dict[int, str]) -> str:
        if label in named:
            return named[label]
        return self.class_names[label] if label < len(self.class_names) else f"class {label}"

    def _rules(self, raw: DglGraph) -> Iterator[Rule]:
        """CS-TAG's own split, then CLeGR's with each seed of the paper."""
        n = raw.num_nodes
        rows = np.arange(n)
        if self.years is None:
            text = "CS-TAG code: numpy.random.seed(42) permutation, 60/20/20"
            ends = (int(n * 0.6), int(n * 0.6) + int(n * 0.2))
            yield upstream_permutation("cstag", rows, ends, n, CSTAG_SEED, text)
        elif YEAR in raw.node_tensors:
            low, high = self.years
            codes = np.digitize(raw.node_tensors[YEAR], self.years).astype(np.int8)
            text = f"CS-TAG code: train before {low}, validation before {high}, test later"
            yield Rule("cstag", codes, text, "upstream")
        yield from clegr_rules(rows, n)


def _labelled(rule: Rule, labels: NDArray[np.int64]) -> Rule:
    """The rule with nodes without a label (-1) taken out, as CS-TAG does."""
    return replace(rule, codes=np.where(labels < 0, np.int8(UNASSIGNED), rule.codes))


class ComputersSource(CsTagSource):
    """Computers: 87,229 Amazon products in 10 classes."""

    name, stem, years = "computers", "Computers", (2017, 2018)
    class_names = (
        "computer accessories and peripherals", "tablet accessories", "laptop accessories",
        "computers and tablets", "computer components", "data storage", "networking products",
        "monitors", "servers", "tablet replacement parts",
    )  # fmt: skip


class PhotoSource(CsTagSource):
    """Photo: 48,362 Amazon products in 12 classes."""

    name, stem, years = "photo", "Photo", (2015, 2016)
    class_names = (
        "Film Photography", "Video", "Digital Cameras", "Accessories", "Binoculars & Scopes",
        "Lenses", "Bags & Cases", "Lighting & Studio", "Flashes", "Tripods & Monopods",
        "Underwater Photography", "Video Surveillance",
    )  # fmt: skip


class HistorySource(CsTagSource):
    """History: 41,551 Amazon books; 12 class names are known, CS-TAG's settings say 13."""

    name, stem = "history", "History"
    class_names = (
        "World", "Americas", "Asia", "Military", "Europe", "Russia", "Africa",
        "Ancient Civilizations", "Middle East", "Historical Study & Educational Resources",
        "Australia & Oceania", "Arctic & Antarctica",
    )  # fmt: skip


class Computers(SourceBuilder):
    """``datasets`` builder: ``Computers(config_name="nodes", raw_dir=...)``."""

    SOURCE = ComputersSource


class Photo(SourceBuilder):
    """``datasets`` builder: ``Photo(config_name="nodes", raw_dir=...)``."""

    SOURCE = PhotoSource


class History(SourceBuilder):
    """``datasets`` builder: ``History(config_name="nodes", raw_dir=...)``."""

    SOURCE = HistorySource
