"""Cora and CiteSeer from Planetoid, with paper ids from gnn-benchmark and texts by paper id.

Sources: kimiyoung/planetoid (``ind.NAME.*``) and shchur/gnn-benchmark (``NAME.npz``), both MIT. Raw
text is in neither; see ``_papers.read_texts`` for what the user may put beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pyarrow as pa
from datasets import Value
from numpy.typing import NDArray

from maghub import layout, schema
from maghub.builders._clegr_splits import clegr_rules
from maghub.builders._fetch import Remote, raw_folder
from maghub.builders._formats.npz import read_gnn_benchmark
from maghub.builders._formats.planetoid import Planetoid, read_planetoid
from maghub.builders._graph import (
    Graph,
    GraphSource,
    NodeReader,
    Rule,
    edge_rule,
    store_undirected,
    uniform_negatives,
)
from maghub.builders._matrix_config import text_vectors
from maghub.builders._papers import match_papers, read_texts
from maghub.builders._source import SourceBuilder
from maghub.spec import EncoderProvenance

PLANETOID = "af6abf468a772cc055bec88c52e4d6f51b7c37e3"
GNN_BENCHMARK = "1e72912a0810cdf27ae54fd589a3b43358a2b161"
PARTS = ("y", "allx", "ally", "tx", "ty", "graph", "test.index")
EDGE_RULE, NEGATIVES_RULE, WORDS = "random", "uniform", "bag-of-words"
WITHOUT_DATA = "without_data"


class PlanetoidSource(GraphSource):
    """One graph of Planetoid."""

    flagged: ClassVar[bool] = False
    twins_left_out: ClassVar[bool] = False
    inputs = {"planetoid": PLANETOID, "gnn-benchmark": GNN_BENCHMARK}
    configs = (
        layout.NODES,
        layout.EDGES,
        layout.NODE_SPLITS,
        layout.EDGE_SPLITS,
        layout.negatives_config(NEGATIVES_RULE),
        layout.embeddings_config(WORDS),
    )

    def files(self) -> dict[str, Remote | str]:
        """What must lie in the raw folder, or is downloaded without one."""
        planetoid = f"https://raw.githubusercontent.com/kimiyoung/planetoid/{PLANETOID}/data"
        npz = f"https://raw.githubusercontent.com/shchur/gnn-benchmark/{GNN_BENCHMARK}/data/npz"
        found = {name: f"{planetoid}/{name}" for name in _names(self.name)}
        found[f"{self.name}.npz"] = f"{npz}/{self.name}.npz"
        return {name: Remote(url) for name, url in found.items()}

    def read(self) -> Graph:
        """Undirected, each pair once, without self loops."""
        folder = raw_folder(self.name, self.raw_dir, self.files())
        raw = read_planetoid(folder, self.name)
        npz = folder / f"{self.name}.npz"
        papers = match_papers(npz, raw, read_gnn_benchmark(npz))
        texts = read_texts(folder, self.name)
        n = raw.num_nodes
        stored = store_undirected(raw.src, raw.dst, n)
        edges = edge_rule(EDGE_RULE, stored.src, stored.dst, n, self.seed)
        present = np.ones(n, bool)
        present[raw.without_data] = False
        columns = {
            layout.SOURCE_ID: [papers.source_id(node) for node in range(n)],
            layout.TEXT: [texts.of(ids) for ids in papers.candidates],
            layout.LABEL: pa.array(raw.labels, mask=raw.labels < 0),
        }
        if self.flagged:
            columns[WITHOUT_DATA] = ~present
        extra = {WITHOUT_DATA: Value("bool")} if self.flagged else {}
        words = self._provenance(raw, present)
        counts = [len(ids) for ids in papers.candidates]
        certain = {"certain": counts.count(1), "unknown": counts.count(0)}
        certain["not told apart"] = n - sum(certain.values())
        return Graph(
            num_nodes=n,
            nodes=schema.nodes_features(papers.class_names, extra, image=False),
            read_nodes=NodeReader(pa.table(columns)),
            src=stored.src,
            dst=stored.dst,
            node_rules=(_public(raw), *_clegr(raw, self.twins_left_out)),
            edge_rules=(edges,),
            negatives=(
                uniform_negatives(NEGATIVES_RULE, edges, stored.src, stored.dst, n, self.seed),
            ),
            extra=(text_vectors(words, raw.features.dense, present),),
            encoders=(words,),
            notes={"edges": stored.counts, "paper ids": certain, "texts": texts.origin},
            part_size=4096,
            parallel=False,
        )

    def _provenance(self, raw: Planetoid, present: NDArray[np.bool_]) -> EncoderProvenance:
        return EncoderProvenance(
            origin="upstream",
            encoder=WORDS,
            config=layout.embeddings_config(WORDS),
            modalities=(layout.TEXT,),
            model_id=f"kimiyoung/planetoid ind.{self.name}",
            revision=PLANETOID,
            library="Planetoid",
            licence="MIT",
            dim={layout.TEXT: raw.features.shape[1]},
            pooling="1 where the paper has the word, else 0",
            normalized=False,
            dtype="float16",
            missing={layout.TEXT: int((~present).sum())},
        )


def _names(name: str) -> Iterator[str]:
    return (f"ind.{name}.{part}" for part in PARTS)


def _public(raw: Planetoid) -> Rule:
    """Planetoid's own split; most nodes are in no part of it."""
    codes = np.full(raw.num_nodes, layout.SPLITS.index(layout.UNASSIGNED), np.int8)
    for code, part in enumerate((raw.train, raw.validation, raw.test)):
        codes[part] = code
    return Rule("public", codes, "Planetoid: rows of y, the next 500, test.index", "upstream")


def _clegr(raw: Planetoid, twins_left_out: bool) -> Iterator[Rule]:
    """CLeGR's splits; its Cora loader leaves out nodes with the words of an earlier one."""
    if not twins_left_out:
        return clegr_rules(np.flatnonzero(raw.labels >= 0), raw.num_nodes)
    first: dict[bytes, int] = {}
    for node, key in enumerate(raw.features.row_keys()):
        first.setdefault(key, node)
    rows = np.array(sorted(first.values()), np.int64)
    more = f"; {raw.num_nodes - len(rows)} nodes with the words of an earlier one left out"
    return clegr_rules(rows, raw.num_nodes, more)


class CoraSource(PlanetoidSource):
    """Cora: 2,708 machine-learning papers in 7 classes."""

    name = "cora"
    twins_left_out = True


class CiteSeerSource(PlanetoidSource):
    """CiteSeer: 3,327 papers in 6 classes, 15 of them with citations but no data."""

    name = "citeseer"
    flagged = True


class Cora(SourceBuilder):
    """``datasets`` builder: ``Cora(config_name="nodes", raw_dir=...)``."""

    SOURCE = CoraSource


class CiteSeer(SourceBuilder):
    """``datasets`` builder: ``CiteSeer(config_name="nodes", raw_dir=...)``."""

    SOURCE = CiteSeerSource
