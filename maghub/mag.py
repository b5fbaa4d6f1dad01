"""A loaded multimodal-attributed graph: tables, splits, features and exports.

The files of a folder on the Hub are fetched config by config, when something first reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import datasets
import numpy as np
from numpy.typing import NDArray

from maghub import layout
from maghub.errors import MaghubError, MissingExtra, first_line, nearest, root_cause
from maghub.features import FeatureView, feature_view
from maghub.reader import int_columns, read_columns
from maghub.schema import features_from_dict, vector_columns
from maghub.spec import ConfigSpec, FolderSpec, GraphSpec
from maghub.statistics import unique_pairs

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data

    from maghub.hub.opening import HubFolder

NODE_CLASSIFICATION, LINK_PREDICTION = "node_classification", "link_prediction"
TASKS = (NODE_CLASSIFICATION, LINK_PREDICTION)
Task = Literal["node_classification", "link_prediction", "node-classification", "link-prediction"]


class MAG:
    """A published folder opened for reading; nothing is read before it is asked for."""

    def __init__(self, folder: Path, spec: FolderSpec, hub: HubFolder | None = None) -> None:
        self.folder = folder
        self.spec = spec
        self._hub = hub

    def __repr__(self) -> str:
        counts = ", ".join(f"{config.name} {config.rows:,}" for config in self.spec.configs)
        return f"MAG({self.spec.name}: {counts})"

    def config(self, name: str) -> ConfigSpec:
        """The config called ``name``, with its files at hand (fetched from the Hub if need be)."""
        config = self.spec.config(name)
        if self._hub is not None:
            self._hub.fetch(config)
        return config

    @property
    def revision(self) -> str | None:
        """The commit it was opened at, None for a folder on this machine."""
        return self._hub.commit if self._hub is not None else None

    @property
    def source(self) -> str:
        """What ``maghub.load`` opens again: the folder, or ``ORG/NAME@COMMIT`` of the Hub."""
        return str(self.folder) if self._hub is None else f"{self._hub.repo}@{self._hub.commit}"

    # -- tables ------------------------------------------------------------------------------

    def _load(self, config: ConfigSpec, files: dict[str, list[str]], streaming: bool) -> Any:
        """All splits of some files, one after the other."""
        features = features_from_dict(config.features)
        options: dict[str, Any] = {"features": features, "streaming": streaming}
        try:
            loaded = datasets.load_dataset("parquet", data_files=files, **options)
        except (datasets.exceptions.DatasetsError, FileNotFoundError, ValueError) as error:
            raise MaghubError(
                f"config {config.name} cannot be read ({first_line(root_cause(error))})",
                where=self.folder,
                fix="find out why with: maghub validate FOLDER",
            ) from error
        return datasets.concatenate_datasets(list(loaded.values()))

    def table(self, config: str) -> datasets.Dataset:
        """Any config as one ``datasets.Dataset``, splits one after the other in stored order."""
        found = self.config(config)
        return self._load(found, _files(found, lambda path: str(self.folder / path)), False)

    def stream(self, config: str, split: str | None = None) -> datasets.IterableDataset:
        """Any config row by row, nothing stored here: for data larger than the disk.

        Args:
            config: Its name.
            split: One of its splits; all of them, one after the other, if None.
        """
        found = self.spec.config(config)
        if split is not None and split not in found.splits:
            raise nearest(split, found.splits, kind=f"split of {config}")
        address = self._hub.address if self._hub else lambda path: str(self.folder / path)
        files = _files(found, address)
        return self._load(found, files if split is None else {split: files[split]}, True)

    @cached_property
    def nodes(self) -> datasets.Dataset:
        """All nodes in node_id order (a view; images are decoded when a row is read)."""
        nodes = self.config(self._nodes.name)
        (node_ids,) = int_columns(self.folder, nodes, [layout.NODE_ID])
        return self.table(nodes.name).select(np.argsort(node_ids, kind="stable"))

    @cached_property
    def edges(self) -> datasets.Dataset:
        """All edges in edge_id order."""
        return self.table(layout.EDGES)

    @property
    def _nodes(self) -> ConfigSpec:
        for config in self.spec.of_kind("nodes"):
            return config
        raise MaghubError(f"dataset {self.spec.name} holds no nodes table")

    @property
    def graph(self) -> GraphSpec:
        """Declared nature and counts of the graph."""
        if self.spec.graph is None:
            raise MaghubError(f"dataset {self.spec.name} is not one graph")
        return self.spec.graph

    @property
    def num_nodes(self) -> int:
        """Number of nodes N."""
        return self.graph.num_nodes

    @cached_property
    def edge_index(self) -> NDArray[np.int64]:
        """int64 [2, E], edges as stored (undirected ones once, src <= dst)."""
        if not self.spec.has(layout.EDGES):
            return np.zeros((2, 0), np.int64)
        config = self.config(layout.EDGES)
        return np.stack(int_columns(self.folder, config, [layout.SRC, layout.DST]))

    # -- labels and splits -------------------------------------------------------------------

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """int64 [N] class of each node, -1 where there is none.

        Raises:
            MaghubError: The dataset has no labels.
        """
        if layout.LABEL not in self._nodes.features:
            raise MaghubError(
                f"dataset {self.spec.name} has no node labels",
                fix="choose another task, e.g. link-prediction",
            )
        nodes = self.config(self._nodes.name)
        table = read_columns(self.folder, nodes, [layout.NODE_ID, layout.LABEL])
        labels = np.full(self.num_nodes, -1, np.int64)
        column = table[layout.LABEL].fill_null(-1).combine_chunks()
        labels[np.asarray(table[layout.NODE_ID].combine_chunks())] = np.asarray(column)
        return labels

    @property
    def label_names(self) -> list[str]:
        """Class names, in label order."""
        feature = features_from_dict(self._nodes.features).get(layout.LABEL)
        return list(feature.names) if feature is not None else []

    def _split_codes(self, config: str, rule: str | None, default: str | None) -> NDArray[np.int64]:
        rules = list(self.spec.config(config).features)[1:] if self.spec.has(config) else []
        if not rules:
            raise MaghubError(f"dataset {self.spec.name} has no {config}")
        rule = rule or default or rules[0]
        if rule not in rules:
            raise nearest(rule, rules, kind=f"split rule in {config}")
        key = layout.NODE_ID if config == layout.NODE_SPLITS else layout.EDGE_ID
        ids, codes = int_columns(self.folder, self.config(config), [key, rule])
        ordered = np.empty_like(codes)
        ordered[ids] = codes
        return ordered

    def splits(self, rule: str | None = None) -> dict[str, NDArray[np.int64]]:
        """Node ids per split of a named rule (the default rule if None).

        Raises:
            MaghubError: No such rule; the nearest names are given.
        """
        codes = self._split_codes(layout.NODE_SPLITS, rule, self.spec.default_split)
        return _by_split(codes)

    def edge_splits(self, rule: str | None = None) -> dict[str, NDArray[np.int64]]:
        """Edge ids per split of a named rule (the first if None)."""
        return _by_split(self._split_codes(layout.EDGE_SPLITS, rule, None))

    def negatives(self, rule: str | None = None) -> dict[str, dict[str, NDArray[np.int64]]]:
        """Fixed negatives: split -> {edge_id [M], query [M], positive [M], neg [M, K]}."""
        names = [config.name for config in self.spec.of_kind("negatives")]
        if not names:
            raise MaghubError(f"dataset {self.spec.name} has no negatives")
        name = layout.negatives_config(rule) if rule else names[0]
        if name not in names:
            raise nearest(name, names, kind="negatives config")
        config = self.config(name)
        found = {}
        for split in config.splits:
            table = read_columns(self.folder, config, list(config.features), split)
            columns = [layout.EDGE_ID, layout.QUERY, layout.POSITIVE]
            arrays = {c: np.asarray(table[c].combine_chunks(), dtype=np.int64) for c in columns}
            flat = np.asarray(table[layout.NEG].combine_chunks().flatten(), dtype=np.int64)
            found[split] = {**arrays, layout.NEG: flat.reshape(len(table), -1)}
        return found

    # -- features ----------------------------------------------------------------------------

    @property
    def encoders(self) -> dict[str, dict[str, int]]:
        """encoder -> modality -> width of the stored node vectors: what ``features`` can give."""
        prefix, nodes = layout.EMBEDDINGS_PREFIX, self._nodes.name
        return {
            config.name.removeprefix(prefix): vector_columns(features_from_dict(config.features))
            for config in self.spec.of_kind("embeddings")
            if config.target in (None, nodes)
        }

    def _embedding(self, encoder: str) -> ConfigSpec:
        name = layout.embeddings_config(encoder)
        if not self.spec.has(name):
            error = nearest(encoder, self.encoders, kind="encoder of this folder")
            folder = self.folder if self._hub is None else "FOLDER (from maghub pull)"
            make = f"maghub encode {folder} --encoder {encoder}"
            raise MaghubError(error.what, fix=f"{error.fix}; make it with: {make}")
        return self.config(name)

    def features(self, encoder: str, modality: str) -> FeatureView:
        """[N, D] vectors of one modality, memory-mapped, in the stored dtype.

        ``.torch()`` gives a tensor over the same memory. Row i is node i; a node without that
        modality has a row of zeros (see ``has``).
        """
        return feature_view(self.folder, self._embedding(encoder), modality)

    def has(self, encoder: str, modality: str) -> NDArray[np.bool_]:
        """bool [N]: which nodes really have a vector of that modality."""
        column = layout.has_column(modality)
        table = read_columns(self.folder, self._embedding(encoder), [column])
        return np.asarray(table[column].combine_chunks().to_numpy(zero_copy_only=False))

    # -- exports -----------------------------------------------------------------------------

    def message_edges(self, task: Task, edge_rule: str | None = None) -> NDArray[np.int64]:
        """int64 [2, M] edges that may carry messages: both directions where undirected.

        For link prediction these are the training edges alone.

        Raises:
            MaghubError: No such task, or no such edge rule.
        """
        edges = self.edge_index
        if task_name(task) == LINK_PREDICTION:
            training = self.edge_splits(edge_rule).get(layout.TRAIN)
            edges = edges[:, training] if training is not None else edges[:, :0]
        if not self.graph.directed:
            proper = edges[:, edges[0] != edges[1]]
            edges = np.concatenate([edges, proper[::-1]], axis=1)
        return unique_pairs(edges, self.num_nodes)

    def to_pyg(
        self,
        encoder: str | Mapping[str, str] | None = None,
        modalities: Sequence[str] | str | None = None,
        task: Task = "node_classification",
        *,
        node_rule: str | None = None,
        edge_rule: str | None = None,
    ) -> Data:
        """A ``torch_geometric.data.Data`` ready for a task.

        Args:
            encoder: Encoder name, or modality -> encoder name; None leaves features out.
            modalities: Which of them to attach, all that the encoder has if None; ``x_<modality>``
                shares memory with the mapped file, and ``x`` is that tensor where there is one
                modality, else all of them side by side (a copy).
            task: ``node_classification`` gives y (-1 = none) and train/val/test masks;
                ``link_prediction`` gives an edge_index of training edges only and
                ``{train,val,test}_edge_index`` [2, M] of positives as stored.
            node_rule: Named node split; the default one if None.
            edge_rule: Named edge split; the first if None.
        """
        from maghub.pyg import to_data

        wanted = [modalities] if isinstance(modalities, str) else modalities
        if isinstance(encoder, str):
            self._embedding(encoder)  # names the nearest where there is none
            stored = self.encoders[encoder]
            chosen = dict.fromkeys(wanted or stored, encoder)
        else:
            chosen = {m: e for m, e in (encoder or {}).items() if not wanted or m in wanted}
        return to_data(self, chosen, task_name(task), node_rule, edge_rule)

    def to_networkx(self) -> networkx.Graph:
        """A networkx graph (multigraph where declared) with all scalar node and edge columns."""
        from maghub.networkx_export import to_graph

        return to_graph(self)


def task_name(task: str) -> str:
    """The canonical name of a task; a hyphen is as good as an underscore.

    Raises:
        MaghubError: No such task; the nearest are given.
    """
    name = str(task).replace("-", "_")
    if name not in TASKS:
        raise nearest(str(task), TASKS, kind="task")
    return name


def _files(config: ConfigSpec, address: Callable[[str], str]) -> dict[str, list[str]]:
    """Where the files of each split of a config are."""
    return {
        split: [address(entry.path) for entry in config.files if entry.split == split]
        for split in config.splits
    }


def _by_split(codes: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    found = {name: np.flatnonzero(codes == code) for code, name in enumerate(layout.SPLITS)}
    return {name: ids for name, ids in found.items() if len(ids)}


__all__ = ["MAG", "MissingExtra", "Task"]
