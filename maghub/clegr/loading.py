"""Reading a published CLeGR folder: question and graph rows, and PyG objects with vectors.

Only the columns that are needed are read; vectors stay in their memory-mapped file.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from maghub import layout
from maghub.clegr.generate import SetConfig, generate, split_of_graph
from maghub.clegr.graph import Graph
from maghub.clegr.pyg import ClegrPyG, Embeddings
from maghub.clegr.rows import graph_from_row
from maghub.clegr.schema import DOMAINS, SETS, SIZES
from maghub.errors import MaghubError, nearest
from maghub.features import feature_view
from maghub.loading import resolve
from maghub.reader import iter_groups, read_columns
from maghub.spec import ConfigSpec, FolderSpec, read_spec

_TEXT_COLUMNS = (layout.NODE_TEXTS, layout.EDGE_TEXTS, "context")


def question_sets(spec: FolderSpec) -> list[ConfigSpec]:
    """The configs of questions, in stored order."""
    return [c for c in spec.of_kind("table") if c.target and "question_type" in c.features]


def open_set(folder: str | Path, config: str | None = None) -> tuple[Path, FolderSpec, ConfigSpec]:
    """A published folder and one of its question sets (the default one if None).

    Raises:
        MaghubError: No such folder, it holds no question sets, or none of that name.
    """
    path = resolve(folder)
    spec = read_spec(path)
    known = {one.name: one for one in question_sets(spec)}
    if not known:
        raise MaghubError("holds no CLeGR questions", where=path, fix="give a CLeGR folder")
    name = config or next(iter(known))
    if name not in known:
        raise nearest(name, known, kind="question set")
    return path, spec, known[name]


def check_split(config: ConfigSpec, split: str | None) -> None:
    """Refuse a split that the config does not have."""
    if split is not None and split not in config.splits:
        raise nearest(split, config.splits, kind=f"split of {config.name}")


def question_rows(
    folder: str | Path, config: str | None = None, split: str | None = None
) -> Iterator[dict[str, Any]]:
    """Question rows of one set, all splits unless one is named, a row group in memory at a time."""
    path, _, chosen = open_set(folder, config)
    check_split(chosen, split)
    return _rows(path, chosen, list(chosen.features), split)


def graph_rows(
    folder: str | Path, config: str | None = None, split: str | None = None, *, texts: bool = False
) -> Iterator[dict[str, Any]]:
    """Graph rows of one question set; ``texts`` reads sentences and context as well."""
    path, spec, chosen = open_set(folder, config)
    check_split(chosen, split)
    graphs = spec.config(chosen.target or "")
    columns = [name for name in graphs.features if texts or name not in _TEXT_COLUMNS]
    return _rows(path, graphs, columns, split)


def _rows(
    folder: Path, config: ConfigSpec, columns: list[str], split: str | None
) -> Iterator[dict[str, Any]]:
    for _, _, table in iter_groups(folder, config, columns, split):
        yield from table.to_pylist()


def find_graph(folder: str | Path, config: str | None, graph: str) -> Graph:
    """One graph of a question set, by its number in stored order or by its id.

    Raises:
        MaghubError: The set has no such graph.
    """
    count = 0
    for number, row in enumerate(graph_rows(folder, config)):
        if graph in (str(number), row[layout.GRAPH_ID]):
            return graph_from_row(row)
        count = number + 1
    fix = f"give 0 to {count - 1}, or an id"
    raise MaghubError(f"there is no graph '{graph}'", where=folder, fix=fix)


def default_questions(
    config: str | None, variant: str, split: str | None
) -> Iterator[dict[str, Any]]:
    """Question rows of a set of the default build (seed 0, 500 graphs), made anew.

    Args:
        config: Name of the set, e.g. ``subway-reasoning``; ``subway-facts`` if None.
        variant: ``well_posed`` or ``compat``.
        split: ``train``, ``validation`` or ``test``; all of them if None.
    """
    choices = product(DOMAINS, SETS, SIZES)
    known = {one.name: one for one in (SetConfig(*names, variant=variant) for names in choices)}
    name = config or SetConfig().name
    if name not in known:
        raise nearest(name, known, kind="question set")
    splits = (layout.TRAIN, layout.VALIDATION, layout.TEST)
    if split is not None and split not in splits:
        raise nearest(split, splits, kind="split")
    chosen = known[name]
    return (row for row in _generated(chosen) if split in (None, _split_of(chosen, row)))


def _generated(config: SetConfig) -> Iterator[dict[str, Any]]:
    for part in generate(config):
        yield from part.questions.to_pylist()


def _split_of(config: SetConfig, row: dict[str, Any]) -> str:
    return split_of_graph(int(row[layout.GRAPH_ID].rpartition("-")[2]), config.graphs)


def embeddings(folder: str | Path, config: str | None, encoder: str) -> Embeddings:
    """Vectors per graph: (nodes [N, D], edges [E, D]), views of one memory-mapped file.

    Raises:
        MaghubError: The folder has no vectors of that encoder for that set.
    """
    path, spec, chosen = open_set(folder, config)
    name = layout.set_embeddings_config(encoder, chosen.name)
    if not spec.has(name):
        known = {item.encoder for item in spec.encoders}
        what = nearest(encoder, known, kind="encoder of this folder")
        fix = f"{what.fix}; make it with: maghub encode {path} --encoder {encoder}"
        raise MaghubError(what.what, where=path, fix=fix)
    vectors = feature_view(path, spec.config(name), layout.TEXT)
    columns = [layout.GRAPH_ID, layout.NODE_TEXTS, layout.EDGE_TEXTS]
    table = read_columns(path, spec.config(chosen.target or ""), columns)
    sizes = [np.asarray(pc.list_value_length(table[column])) for column in columns[1:]]
    ends = np.cumsum(np.stack(sizes, axis=1).ravel(), dtype=np.int64)
    bounds = np.concatenate([[0], ends]).tolist()
    return {
        graph_id: (
            vectors[bounds[2 * at] : bounds[2 * at + 1]],
            vectors[bounds[2 * at + 1] : bounds[2 * at + 2]],
        )
        for at, graph_id in enumerate(table[layout.GRAPH_ID].to_pylist())
    }


def load_pyg(
    folder: str | Path,
    config: str | None = None,
    encoder: str | None = None,
    *,
    split: str | None = None,
) -> ClegrPyG:
    """The questions of one set as torch_geometric ``Data`` objects (paper C.4).

    Args:
        folder: A published CLeGR folder.
        config: The question set, e.g. ``subway-reasoning``; the default one if None.
        encoder: Whose vectors become ``x`` and ``edge_attr``, in their stored dtype; None leaves
            both out. The paper's encoder is ``bert-base-uncased``.
        split: ``train``, ``validation`` or ``test``; all of them if None.

    Raises:
        MaghubError: Unknown folder, set, split or encoder.
        MissingExtra: Without torch or torch_geometric.
    """
    questions = question_rows(folder, config, split)
    vectors = None if encoder is None else embeddings(folder, config, encoder)
    return ClegrPyG(graph_rows(folder, config, split), questions, vectors)
