"""Graphs whose edges are ours to make: the options, vectors and rules that their sources share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maghub import layout
from maghub.builders._edges import Ids, Pairs, multiplicity, mutual_knn
from maghub.builders._formats.features import open_features
from maghub.builders._graph import (
    GraphSource,
    Negatives,
    Rule,
    edge_rule,
    random_rule,
    store_undirected,
    uniform_negatives,
)
from maghub.errors import MaghubError
from maghub.features import file_sha256
from maghub.loading import load
from maghub.reader import read_columns

EDGE_RULE, NEGATIVES_RULE, NODE_RULE = "random", "uniform", "random-nodes"
FRACTIONS = (0.6, 0.2, 0.2)
"""Table 7 of OpenMAG gives 60/20/20 for all of these datasets."""
MUTUAL_KNN = "mutual-knn"


@dataclass(frozen=True)
class Vectors:
    """One vector per node, and where they come from: file -> what identifies its contents."""

    array: NDArray[np.float32]
    origin: dict[str, str]


class Edges(NamedTuple):
    """Undirected edges as they are stored, float32 weights, and what was counted."""

    src: Ids
    dst: Ids
    weight: NDArray[np.float32]
    notes: dict[str, object]


def counted_edges(pairs: Pairs, num_nodes: int) -> Edges:
    """Each pair once, without loops; its weight is how often it came, in either direction."""
    stored = store_undirected(pairs.src, pairs.dst, num_nodes)
    weight = multiplicity(stored.src, stored.dst, pairs, num_nodes)
    return Edges(stored.src, stored.dst, weight, dict(stored.counts))


class LinkedSource(GraphSource):
    """A source whose edges follow a rule chosen by option.

    Options of every such source:
        edges: The edge rule, one of ``edge_rules``.
        k: Neighbours that count for ``mutual-knn``.
        embeddings: What ``mutual-knn`` compares: an ``.npy`` or ``.pt`` file (row i is node i), or
            the path of a config in a published folder of this dataset (``FOLDER/embeddings-NAME``);
            several with commas between them are averaged. Looked for in the raw folder first.
        negatives: Negatives of each validation and test edge; 0 for none.
    """

    edge_rules: tuple[str, ...] = (MUTUAL_KNN,)
    defaults = {"edges": MUTUAL_KNN, "k": 10, "embeddings": None, "negatives": 50}

    def __init__(
        self,
        raw_dir: Path | None = None,
        seed: int = 0,
        **options: str | int | float | bool | None,
    ) -> None:
        super().__init__(raw_dir, seed, **options)
        given = str(self.options["embeddings"] or "")
        self._vector_paths = [part.strip() for part in given.split(",") if part.strip()]
        # A path of this machine is of no use to others: maghub.json gets names, notes the contents.
        self.options["embeddings"] = ",".join(_shown(path) for path in self._vector_paths) or None
        self.check()

    def check(self) -> None:
        """Refuse options that cannot be, before anything is read."""
        self.choice("edges", self.edge_rules)
        self.whole("k", 1)
        self.whole("negatives")

    def choice(self, option: str, known: Sequence[str]) -> str:
        """The value of an option that must be one of these."""
        value = self.options[option]
        if value not in known:
            what = f"option {option} is {value!r}, must be one of {', '.join(known)}"
            raise MaghubError(what, where=self.name)
        return str(value)

    def vectors(self, source_ids: Sequence[str]) -> Vectors:
        """The mean of the given embeddings, as the released code of OpenMAG takes it.

        Raises:
            MaghubError: None are given, or one does not fit these nodes.
        """
        if not self._vector_paths:
            fix = "give the option embeddings: an .npy or .pt file, or FOLDER/embeddings-NAME"
            raise MaghubError(f"{MUTUAL_KNN} edges need embeddings", where=self.name, fix=fix)
        found = [_read(self._resolved(path), source_ids) for path in self._vector_paths]
        arrays = [array for one in found for array in one[0]]
        total: NDArray[np.float32] = arrays[0].astype(np.float32)
        for array in arrays[1:]:
            if array.shape != total.shape:
                what = f"embeddings of {total.shape[1]} and {array.shape[1]} columns have no mean"
                raise MaghubError(what, where=self.options["embeddings"])
            total += array
        names = [_shown(path) for path in self._vector_paths]
        origin = dict(zip(names, (one[1] for one in found), strict=True))
        return Vectors(total / np.float32(len(arrays)), origin)

    def _resolved(self, path: str) -> Path:
        return Path(path) if self.raw_dir is None else self.raw_dir / path

    def knn(self, source_ids: Sequence[str]) -> Edges:
        """Mutual nearest neighbours among the given embeddings; the weight is their cosine."""
        vectors = self.vectors(source_ids)
        found = mutual_knn(vectors.array, self.whole("k"))
        empty = int((~vectors.array.any(axis=1)).sum())
        notes: dict[str, object] = {"embeddings": vectors.origin, "nodes without a vector": empty}
        return Edges(*found, notes)

    def link_prediction(self, src: Ids, dst: Ids, num_nodes: int) -> tuple[Rule, list[Negatives]]:
        """The edge split, and negatives unless there shall be none."""
        if not len(src):
            what = f"{self.name}: edges={self.options['edges']} gives no edge"
            raise MaghubError(what, where=self.raw_dir)
        rule = edge_rule(EDGE_RULE, src, dst, num_nodes, self.seed, FRACTIONS)
        k = self.whole("negatives")
        if not k:
            return rule, []
        name = NEGATIVES_RULE
        return rule, [uniform_negatives(name, rule, src, dst, num_nodes, self.seed, k)]

    def node_rule(self, num_nodes: int) -> Rule:
        """The default node split of a graph without labels."""
        return random_rule(NODE_RULE, np.zeros(num_nodes, np.int64), self.seed, FRACTIONS)


def _shown(path: str) -> str:
    """What ``maghub.json`` calls a path: its last name, for a published config the last two."""
    parts = Path(path).parts
    return "/".join(parts[-2:] if parts[-1].startswith(layout.EMBEDDINGS_PREFIX) else parts[-1:])


def _read(path: Path, source_ids: Sequence[str]) -> tuple[list[NDArray[np.floating]], str]:
    """The matrices behind one path, rows without numbers zeroed, and what identifies them."""
    if path.name.startswith(layout.EMBEDDINGS_PREFIX) and (path.parent / layout.SPEC_FILE).exists():
        return _published(path, source_ids)
    features = open_features(path, len(source_ids))
    blocks = [block.astype(np.float32) for block, _ in features.blocks()]
    return [np.concatenate(blocks)], f"sha256 {file_sha256(path)}"


def _published(path: Path, source_ids: Sequence[str]) -> tuple[list[NDArray[np.floating]], str]:
    """The vectors of a published folder, once its nodes are known to be these."""
    mag = load(path.parent)
    config = mag.spec.config(path.name)
    nodes = read_columns(
        path.parent, mag.spec.config(layout.NODES), [layout.NODE_ID, layout.SOURCE_ID]
    )
    if nodes.sort_by(layout.NODE_ID)[layout.SOURCE_ID].to_pylist() != list(source_ids):
        what = "its nodes are not those of the raw files"
        raise MaghubError(what, where=path.parent, fix="encode a folder built from the same files")
    encoder = next(e.encoder for e in mag.spec.encoders if e.config == config.name)
    modalities = [name for name in layout.MODALITIES if name in config.features]
    arrays = [np.asarray(mag.features(encoder, modality)) for modality in modalities]
    return arrays, "; ".join(f"sha256 {entry.sha256}" for entry in config.files)
