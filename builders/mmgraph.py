"""The MM-Graph family: ele-fashion, goodreads-nc, sports, cloth and goodreads-lp.

Upstream: repository mm-graph-benchmark/mm-graph-benchmark @0769fa6 (code, MIT), Hugging Face data
set mm-graph-org/mm-graph (data, apache-2.0 by its card; no commit of it is known, so the checksums
of what was read are recorded). Per data set a folder of ``.pt`` files, and in ``raw-data`` the
texts and the pictures:

- ``node_mapping.pt``: raw id -> node. Texts and pictures are joined through it, never by order.
- Node classification: ``labels-w-missing.pt`` (names of classes are not published, nor what marks a
  missing label: a label outside the classes is null here, and counted), ``nc_edges-nodeid.pt``,
  ``split.pt``. Training makes the graph bidirected without self loops: undirected here.
- Link prediction: ``lp-edge-split.pt`` (see ``_mmgraph_links``).
- ``{clip,imagebind,t5vit,t5dino}_feat.pt``: one tensor, the first half text, the second image
  (author in issue #2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from maghub import layout, schema
from maghub.builders._fetch import Remote, raw_folder
from maghub.builders._formats.features import open_features
from maghub.builders._formats.torchfiles import (
    read_edge_split,
    read_edges,
    read_labels,
    read_node_mapping,
    read_split,
)
from maghub.builders._graph import (
    EDGE_FRACTIONS,
    NODE_FRACTIONS,
    Graph,
    GraphSource,
    NodeReader,
    Rule,
    StoredEdges,
    edge_rule,
    random_rule,
    store_undirected,
    uniform_negatives,
)
from maghub.builders._mmgraph_links import hard_negatives, joined_parts
from maghub.builders._mmgraph_texts import texts_by_node
from maghub.builders._pictures import ArchivePictures
from maghub.builders._source import SourceBuilder
from maghub.builders._upstream_vectors import (
    Matrix,
    UpstreamEncoder,
    UpstreamVectors,
    chosen,
    upstream_vectors,
)
from maghub.features import file_sha256

HUB = "hf://datasets/mm-graph-org/mm-graph@main"
LICENCE = "apache-2.0"
UPSTREAM = "mm-graph"
# What upstream names, without a checkpoint; the widths are those of the two halves together.
ENCODERS = {
    "clip": "CLIP, text and image (1024)",
    "imagebind": "ImageBind, text and image (2048)",
    "t5vit": "T5 for text, ViT for images (1536)",
    "t5dino": "T5 for text, DINOv2 for images (1536)",
}


class MmGraphSource(GraphSource):
    """An MM-Graph data set; subclasses say what its files are called and how they are read.

    Options:
        images: Whether to read the pictures.
        vectors: Upstream's vectors: ``present`` (those that lie in the raw folder), ``none``, or
            names of ``mm-graph-{clip,imagebind,t5vit,t5dino}`` with commas between them, which are
            downloaded too.
        negatives: Negatives of each validation and test edge of our own edge split; 0 for none.

    Attributes:
        folder: The folder of the ``.pt`` files upstream.
        raw: What the names in ``raw-data`` start with.
        graph_files: The ``.pt`` files that make the graph.
    """

    folder: str
    raw: str
    hub: str = HUB
    graph_files: tuple[str, ...]
    defaults = {"images": True, "vectors": "present", "negatives": 50}

    @cached_property
    def root(self) -> Path:
        """The raw folder, which has upstream's folders in it."""
        names = [f"{self.folder}/{file}" for file in ("node_mapping.pt", *self.graph_files)]
        names.append(f"raw-data/{self.raw}-raw-text.jsonl")
        if self.options["images"] and not (self.raw_dir and self._picture_files(self.raw_dir)):
            names.append(f"raw-data/{self.raw}-images.tar")
        names += [self._feature_file(name) for name in self._encoder_names()]
        files: Mapping[str, Remote | str] = {name: Remote(f"{self.hub}/{name}") for name in names}
        return raw_folder(self.name, self.raw_dir, files)

    def _picture_files(self, root: Path) -> list[Path]:
        """The archive or the unpacked folder; nothing where there are no pictures."""
        places = [root / "raw-data" / f"{self.raw}-images{suffix}" for suffix in (".tar", "")]
        return [place for place in places if place.exists()][:1]

    def _feature_file(self, encoder: str) -> str:
        return f"{self.folder}/{encoder.removeprefix(f'{UPSTREAM}-')}_feat.pt"

    def _encoder_names(self) -> list[str]:
        raw, known = self.raw_dir, [f"{UPSTREAM}-{name}" for name in ENCODERS]
        present = [n for n in known if raw is not None and (raw / self._feature_file(n)).exists()]
        return chosen(str(self.options["vectors"]), present, known)

    def path(self, file: str) -> Path:
        """One of the ``.pt`` files."""
        return self.root / self.folder / file

    def vectors(self, num_nodes: int) -> UpstreamVectors:
        """Upstream's vectors that the option asks for, text and image told apart."""
        return upstream_vectors(
            [
                UpstreamEncoder(
                    name=name,
                    matrices={
                        modality: Matrix(self.root / self._feature_file(name), half)
                        for half, modality in enumerate(layout.MODALITIES)
                    },
                    model_id=ENCODERS[name.removeprefix(f"{UPSTREAM}-")],
                    licence=LICENCE,
                    release="mm-graph-org/mm-graph",
                )
                for name in self._encoder_names()
            ],
            num_nodes,
        )

    def nodes(
        self, mapping: dict[str, int], num_nodes: int, labels: pa.Array | None = None
    ) -> tuple[NodeReader, dict[str, object]]:
        """Raw id, text, picture and label of each node, and what could not be joined."""
        raw_ids = [""] * num_nodes
        for raw, node in mapping.items():
            raw_ids[node] = raw
        path = self.root / "raw-data" / f"{self.raw}-raw-text.jsonl"
        texts, notes = texts_by_node(path, mapping, num_nodes)
        columns = {layout.SOURCE_ID: pa.array(raw_ids, pa.string()), layout.TEXT: texts}
        if labels is not None:
            columns[layout.LABEL] = labels
        notes["nodes without a raw id"] = num_nodes - len(mapping)
        pictures = None
        if self.options["images"]:
            numbers = [str(node) for node in range(num_nodes)]
            pictures = ArchivePictures(self._picture_files(self.root), raw_ids, numbers)
            notes["pictures of no node"] = pictures.foreign
            by_node = pictures.keys == tuple(numbers)
            notes["pictures are named by"] = "node" if by_node else "raw id"
        return NodeReader(pa.table(columns), pictures), notes

    def finished(
        self,
        reader: NodeReader,
        notes: dict[str, object],
        label_names: Sequence[str] | None,
        edges: StoredEdges,
        **more: Any,
    ) -> Graph:
        """The graph with what all of these data sets have: nodes, vectors, checksums, notes."""
        n = reader.columns.num_rows
        vectors = self.vectors(n)
        files = [self.path(file) for file in ("node_mapping.pt", *self.graph_files)]
        files.append(self.root / "raw-data" / f"{self.raw}-raw-text.jsonl")
        self.inputs = {path.name: f"sha256 {file_sha256(path)}" for path in files}
        if vectors.zeroed:
            notes["vectors zeroed for NaN or Inf"] = vectors.zeroed
        return Graph(
            num_nodes=n,
            nodes=schema.nodes_features(label_names, image=reader.image is not None),
            read_nodes=reader,
            src=edges.src,
            dst=edges.dst,
            extra=tuple(vectors.tables),
            encoders=tuple(vectors.encoders),
            notes={"edges": edges.counts, **notes},
            **more,
        )


class NodeClassificationSource(MmGraphSource):
    """Labelled nodes, an edge list, and upstream's split of the nodes.

    Attributes:
        classes: How many classes upstream says there are; their names are their numbers.
        fractions: Of our split, as Table 7 of OpenMAG has them.
    """

    graph_files = ("labels-w-missing.pt", "nc_edges-nodeid.pt", "split.pt")
    classes: int
    fractions: Sequence[float] = NODE_FRACTIONS

    def read(self) -> Graph:
        """Undirected, without self loops, each pair once."""
        k = self.whole("negatives")
        labels = read_labels(self.path("labels-w-missing.pt"))
        n = len(labels)
        mapping = read_node_mapping(self.path("node_mapping.pt"), n)
        pairs = read_edges(self.path("nc_edges-nodeid.pt"), n)
        stored = store_undirected(pairs[:, 0], pairs[:, 1], n)
        known = (labels >= 0) & (labels < self.classes)
        column = pa.array(np.where(known, labels, 0), mask=~known)
        reader, notes = self.nodes(mapping, n, column)
        odd, counts = np.unique(labels[~known], return_counts=True)
        if len(odd):
            found = {str(label): int(count) for label, count in zip(odd, counts, strict=True)}
            notes[f"labels outside 0..{self.classes - 1}, null here"] = found
        labels = np.where(known, labels, -1)
        split = edge_rule("random", stored.src, stored.dst, n, self.seed, EDGE_FRACTIONS)
        drawn = (split, stored.src, stored.dst, n, self.seed, k)
        return self.finished(
            reader,
            notes,
            [str(label) for label in range(self.classes)],
            stored,
            node_rules=(
                random_rule("openmag", labels, self.seed, self.fractions),
                self._upstream_rule(n),
            ),
            edge_rules=(split,),
            negatives=(uniform_negatives("uniform", *drawn),) if k else (),
        )

    def _upstream_rule(self, num_nodes: int) -> Rule:
        codes = np.full(num_nodes, layout.SPLITS.index(layout.UNASSIGNED), np.int8)
        for part, rows in read_split(self.path("split.pt"), num_nodes).items():
            codes[rows] = layout.SPLITS.index(part)
        return Rule(UPSTREAM, codes, "the split that upstream ships (split.pt)", "upstream")


class LinkPredictionSource(MmGraphSource):
    """Unlabelled nodes; the edges are the positives of upstream's split, with hard negatives."""

    graph_files = ("lp-edge-split.pt",)

    def read(self) -> Graph:
        """Undirected, without self loops, each pair once, on the side that is held out."""
        mapping = read_node_mapping(self.path("node_mapping.pt"))
        n = self._count(mapping)
        parts = read_edge_split(self.path("lp-edge-split.pt"), n)
        joined = joined_parts(UPSTREAM, parts, n)
        reader, notes = self.nodes(mapping, n)
        negatives = hard_negatives(joined, parts)
        return self.finished(
            reader,
            {**notes, **joined.notes},
            None,
            joined.stored,
            edge_rules=(joined.rule,),
            negatives=(negatives,) if negatives is not None else (),
        )

    def _count(self, mapping: Mapping[str, int]) -> int:
        """How many nodes: the rows of a feature file, else as many as the mapping numbers."""
        for name in self._encoder_names():
            return open_features(self.root / self._feature_file(name)).shape[0]
        return max(mapping.values(), default=-1) + 1


class EleFashionSource(NodeClassificationSource):
    """Electronics and fashion of Amazon, 12 classes."""

    name, folder, raw, classes = "ele-fashion", "ele-fashion", "ele-fashion", 12


class GoodreadsNcSource(NodeClassificationSource):
    """Books of Goodreads, 11 classes; Table 7 of OpenMAG splits them 10/5/85."""

    name, folder, raw, classes = "goodreads-nc", "books-nc", "books-nc", 11
    fractions = (0.1, 0.05, 0.85)


class SportsSource(LinkPredictionSource):
    """Sports articles of Amazon bought together."""

    name, folder, raw = "sports", "sports-copurchase", "sports"


class ClothSource(LinkPredictionSource):
    """Clothes of Amazon bought together."""

    name, folder, raw = "cloth", "cloth-copurchase", "cloth"


class GoodreadsLpSource(LinkPredictionSource):
    """Books of Goodreads, for link prediction."""

    name, folder, raw = "goodreads-lp", "books-lp", "books-lp"


class EleFashion(SourceBuilder):
    """``datasets`` builder of ele-fashion."""

    SOURCE = EleFashionSource


class GoodreadsNc(SourceBuilder):
    """``datasets`` builder of goodreads-nc."""

    SOURCE = GoodreadsNcSource


class Sports(SourceBuilder):
    """``datasets`` builder of sports."""

    SOURCE = SportsSource


class Cloth(SourceBuilder):
    """``datasets`` builder of cloth."""

    SOURCE = ClothSource


class GoodreadsLp(SourceBuilder):
    """``datasets`` builder of goodreads-lp."""

    SOURCE = GoodreadsLpSource
