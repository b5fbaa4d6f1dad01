"""The MAGB family: Movies, Toys, Grocery, Reddit-S and Reddit-M.

Upstream: repository sktsherlock/MAGB @68c9308 (code), Hugging Face data set Sherirto/MAGB (data,
cc-by-4.0 by its card; no commit of it is known, so the checksums of what was read are recorded).
Per data set a DGL graph ``{D}Graph.pt`` with the labels, a table ``{D}.csv`` whose ``id`` is the
row, pictures ``{D}Images.tar.gz`` (Reddit-M: in parts) and vectors in ``TextFeature`` and
``ImageFeature``.

What the scripts of that repository do to the data, and so what is in it:

- Amazon edges go from a product to ``also_view`` and ``also_buy``, not symmetrised: directed here.
- Reddit edges join all posts of one author, each post with itself: undirected here.
- ASINs and Reddit ids are thrown away; a missing title or description is the word ``None``.
- Labels count classes in order of first appearance; their names stand in the table alone.
- No split is stored: training draws ``numpy.random.permutation`` after ``seed(42)``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import numpy as np

from maghub import layout, schema
from maghub.builders._fetch import Remote, raw_folder
from maghub.builders._formats.dgl import read_dgl_graph
from maghub.builders._formats.parts import find_parts
from maghub.builders._graph import (
    Graph,
    GraphSource,
    NodeReader,
    Rule,
    edge_rule,
    random_rule,
    store_directed,
    store_undirected,
    uniform_negatives,
    upstream_permutation,
)
from maghub.builders._magb_table import read_node_rows
from maghub.builders._pictures import ArchivePictures
from maghub.builders._source import SourceBuilder
from maghub.builders._upstream_vectors import (
    NOT_RECORDED,
    Matrix,
    UpstreamEncoder,
    chosen,
    upstream_vectors,
)
from maghub.features import file_sha256

HUB = "hf://datasets/Sherirto/MAGB@main"
LICENCE = "cc-by-4.0"
UPSTREAM_SEED = 42
# Which model a feature file is of: its name in the file, - and _ taken as one (sources.md 1.1).
MODELS = {
    "roberta-base": "FacebookAI/roberta-base",
    "modernbert-base": "answerdotai/ModernBERT-base",
    "llama-3.2-1b-instruct": "meta-llama/Llama-3.2-1B-Instruct",
    "llama-3.1-8b-instruct": "meta-llama/Llama-3.1-8B-Instruct",
    "llama-3.2-11b-vision-instruct": "meta-llama/Llama-3.2-11B-Vision-Instruct",
    "ministral-8b-instruct-2410": "mistralai/Ministral-8B-Instruct-2410",
    "paligemma2-3b-pt-448": "google/paligemma2-3b-pt-448",
    "qwen2-vl-7b-instruct": "Qwen/Qwen2-VL-7B-Instruct",
    "openai-clip-vit-large-patch14": "openai/clip-vit-large-patch14",
}
FOLDERS = {layout.TEXT: "TextFeature", layout.IMAGE: "ImageFeature"}


class MagbSource(GraphSource):
    """A MAGB data set; subclasses say what its files are called.

    Options:
        images: Whether to read the pictures.
        vectors: Upstream's vectors: ``present`` (those that lie in the raw folder), ``none``, or
            names with commas between them.
        negatives: Negatives of each validation and test edge; 0 for none.

    Attributes:
        stem: What the names of the files start with.
        folder: The folder of the data set upstream.
        graph_file: Name of the graph file, ``{}`` stands for the stem.
        directed: Whether an edge has a direction.
        default_rule: Name of our node split, the default.
    """

    stem: str
    folder: str
    hub: str = HUB
    graph_file = "{}Graph.pt"
    directed = True
    default_rule = "openmag"
    defaults = {"images": True, "vectors": "present", "negatives": 50}

    @cached_property
    def root(self) -> Path:
        """Where the files are: the raw folder, or upstream's folder of the data set in it."""
        given = self.raw_dir
        if given is not None and (given / self.folder / f"{self.stem}.csv").exists():
            given = given / self.folder
        names = [f"{self.stem}.csv", self.graph_file.format(self.stem)]
        if self.options["images"] and not (given and self._picture_files(given)):
            names += self.picture_names()
        files: Mapping[str, Remote | str] = {
            name: Remote(f"{self.hub}/{self.folder}/{name}") for name in names
        }
        return raw_folder(self.name, given, files)

    def picture_names(self) -> list[str]:
        """The archive of the pictures as upstream names it."""
        return [f"{self.stem}Images.tar.gz"]

    def _picture_files(self, root: Path) -> list[Path]:
        """The archive, its parts, or the unpacked folder; nothing where there are no pictures."""
        unpacked = root / f"{self.stem}Images"
        return find_parts(root, f"{self.stem}Images.tar.gz") or [unpacked] * unpacked.is_dir()

    def read(self) -> Graph:
        """Graph, table, pictures and vectors; they must agree on nodes and labels."""
        k, encoders = self.whole("negatives"), self._encoders()
        table_path = self.root / f"{self.stem}.csv"
        graph_path = self.root / self.graph_file.format(self.stem)
        raw = read_dgl_graph(graph_path)
        n = raw.num_nodes
        rows = read_node_rows(table_path, raw)
        labels = np.asarray(rows.labels, dtype=np.int64)
        self.inputs = {
            path.name: f"sha256 {file_sha256(path)}" for path in (table_path, graph_path)
        }
        store = store_directed if self.directed else store_undirected
        stored = store(raw.src, raw.dst, n)
        edges = edge_rule("random", stored.src, stored.dst, n, self.seed)
        columns, extra = rows.columns()
        pictures = self._pictures(n)
        vectors = upstream_vectors(encoders, n)
        drawn = (edges, stored.src, stored.dst, n, self.seed, k)
        return Graph(
            num_nodes=n,
            nodes=schema.nodes_features(
                rows.label_names(table_path), extra, image=pictures is not None
            ),
            read_nodes=NodeReader(columns, pictures),
            src=stored.src,
            dst=stored.dst,
            directed=self.directed,
            node_rules=(random_rule(self.default_rule, labels, self.seed), _magb_rule(n)),
            edge_rules=(edges,),
            negatives=(uniform_negatives("uniform", *drawn, directed=self.directed),) if k else (),
            extra=tuple(vectors.tables),
            encoders=tuple(vectors.encoders),
            notes={"edges": stored.counts}
            | rows.adjacency_notes(raw)
            | ({"pictures of no node": pictures.foreign} if pictures else {})
            | ({"vectors zeroed for NaN or Inf": vectors.zeroed} if vectors.zeroed else {}),
        )

    def _pictures(self, num_nodes: int) -> ArchivePictures | None:
        if not self.options["images"]:
            return None
        keys = [str(node) for node in range(num_nodes)]
        return ArchivePictures(self._picture_files(self.root), keys)

    def _encoders(self) -> list[UpstreamEncoder]:
        """Upstream's vectors that the option asks for, told apart by their file names."""
        found: dict[str, dict[str, Matrix]] = {}
        for modality, folder in FOLDERS.items():
            for path in sorted((self.root / folder).glob(f"{self.stem}_*.npy")):
                bare = path.stem.removeprefix(f"{self.stem}_").replace("_", "-").lower()
                found.setdefault(f"magb-{bare}", {})[modality] = Matrix(path)
        names = chosen(str(self.options["vectors"]), list(found), list(found))
        return [_encoder(name, found[name]) for name in names]


def _encoder(name: str, matrices: dict[str, Matrix]) -> UpstreamEncoder:
    """What a file name such as ``Toys_roberta_base_512_mean.npy`` says of its vectors."""
    bare = name.removeprefix("magb-")
    match = re.fullmatch(r"(.+?)(?:-(\d{2,4})-(mean|cls)|-(visual))?", bare)
    model = match[1] if match else bare
    return UpstreamEncoder(
        name=name,
        matrices=matrices,
        model_id=MODELS.get(model, model),
        licence=LICENCE,
        release="Sherirto/MAGB",
        pooling=(match and match[3]) or NOT_RECORDED,
        max_length=int(match[2]) if match and match[2] else None,
    )


def _magb_rule(num_nodes: int) -> Rule:
    """Upstream's split: numpy seed 42, one permutation, ``int(.6 N)``, ``int(.2 N)``, the rest."""
    train = int(0.6 * num_nodes)
    ends = (train, train + int(0.2 * num_nodes))
    text = "60/20/20 by upstream's code: numpy.random.seed(42), one permutation of all nodes"
    return upstream_permutation("magb", np.arange(num_nodes), ends, num_nodes, UPSTREAM_SEED, text)


class MoviesSource(MagbSource):
    """Amazon movies and TV."""

    name, stem, folder = "movies", "Movies", "Movies"


class ToysSource(MagbSource):
    """Amazon toys and games."""

    name, stem, folder = "toys", "Toys", "Toys"


class GrocerySource(MagbSource):
    """Amazon grocery and gourmet food."""

    name, stem, folder = "grocery", "Grocery", "Grocery"


class RedditSSource(MagbSource):
    """Posts of 20 subreddits; edges join posts of one author."""

    name, stem, folder, directed = "reddit-s", "RedditS", "Reddit-S", False


class RedditMSource(MagbSource):
    """As Reddit-S, about six times as large; its pictures come in three parts."""

    name, stem, folder, directed = "reddit-m", "RedditM", "Reddit-M", False
    default_rule = "random-nodes"

    def picture_names(self) -> list[str]:
        """Three parts, to be read one after the other."""
        return [f"{self.stem}Images_part{letter}" for letter in "abc"]


class Movies(SourceBuilder):
    """``datasets`` builder of movies."""

    SOURCE = MoviesSource


class Toys(SourceBuilder):
    """``datasets`` builder of toys."""

    SOURCE = ToysSource


class Grocery(SourceBuilder):
    """``datasets`` builder of grocery."""

    SOURCE = GrocerySource


class RedditS(SourceBuilder):
    """``datasets`` builder of reddit-s."""

    SOURCE = RedditSSource


class RedditM(SourceBuilder):
    """``datasets`` builder of reddit-m."""

    SOURCE = RedditMSource
