"""Vectors of the nodes and edges of many small graphs: one config per table of graphs.

A row of the vectors is one node or edge of one graph, in stored order: graph by graph, its nodes
and then its edges. Each distinct sentence of a table is encoded once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from maghub import layout, schema
from maghub.encoding.base import Encoder
from maghub.encoding.vectors import (
    BLOCK_ROWS,
    Counts,
    choose_modalities,
    encode_column,
    provenance,
)
from maghub.reader import iter_groups
from maghub.spec import ConfigSpec, EncoderProvenance, FolderSpec
from maghub.tables import Table
from maghub.writing import write_config

PLAN = (
    f"distinct sentences in order of first use, blocks of {BLOCK_ROWS}; "
    "sorted by tokens within a block"
)
Ints = NDArray[np.int64]
_TEXTS = dict(zip(layout.PARTS, (layout.NODE_TEXTS, layout.EDGE_TEXTS), strict=True))


def graph_tables(spec: FolderSpec) -> list[ConfigSpec]:
    """The configs whose rows are graphs with sentences of their nodes and edges."""
    wanted = {layout.GRAPH_ID, *_TEXTS.values()}
    return [c for c in spec.of_kind("table") if wanted <= set(c.features)]


class Elements(NamedTuple):
    """All nodes and edges of a table of graphs, in row order.

    Attributes:
        graph_ids: Id of each graph.
        graph: Which graph an element belongs to, as an index into ``graph_ids``.
        part: 0 for a node, 1 for an edge.
        position: Index of the element among the graph's nodes or edges.
    """

    graph_ids: pa.Array
    graph: Ints
    part: Ints
    position: Ints


def elements_of(graph_ids: pa.Array, nodes: Ints, edges: Ints) -> Elements:
    """The elements of graphs with so many nodes and edges each."""
    counts = np.stack([nodes, edges], axis=1).ravel()
    runs = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    return Elements(graph_ids, runs // 2, runs % 2, np.arange(len(runs)) - starts[runs])


def _read(folder: Path, config: ConfigSpec) -> tuple[Elements, list[str], Ints]:
    """The elements of a table, its distinct sentences, and which of them each element has."""
    ids: list[pa.Array] = []
    sizes: list[Ints] = []
    known: dict[str, int] = {}
    which: list[int] = []
    for _, _, table in iter_groups(folder, config, [layout.GRAPH_ID, *_TEXTS.values()]):
        ids += table[layout.GRAPH_ID].chunks
        texts = [table[column] for column in _TEXTS.values()]
        lengths = [np.asarray(pc.list_value_length(column), dtype=np.int64) for column in texts]
        sizes.append(np.stack(lengths))
        for nodes, edges in zip(*(column.to_pylist() for column in texts), strict=True):
            which += [known.setdefault(text, len(known)) for text in (*nodes, *edges)]
    nodes, edges = np.concatenate(sizes, axis=1)
    graph_ids = pa.concat_arrays(ids)
    return elements_of(graph_ids, nodes, edges), list(known), np.asarray(which, dtype=np.int64)


@dataclass(frozen=True)
class _ReadRows:
    """Rows of the config: keys, and the vectors of their sentences from a mapped file."""

    elements: Elements
    which: Ints
    vectors: str
    present: NDArray[np.bool_]

    def __call__(self, start: int, stop: int) -> pa.Table:
        part, which = slice(start, stop), self.which[start:stop]
        block = np.load(self.vectors, mmap_mode="r")[which]
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(block.reshape(-1)), block.shape[1])
        return pa.table(
            {
                layout.GRAPH_ID: self.elements.graph_ids.take(pa.array(self.elements.graph[part])),
                layout.PART: self.elements.part[part],
                layout.POSITION: self.elements.position[part],
                layout.TEXT: vectors,
                layout.has_column(layout.TEXT): self.present[which],
            }
        )


def _blocks(texts: Sequence[str]) -> Iterator[tuple[Ints, Sequence[str]]]:
    for start in range(0, len(texts), BLOCK_ROWS):
        block = texts[start : start + BLOCK_ROWS]
        yield np.arange(start, start + len(block)), block


def encode_elements(
    folder: Path, spec: FolderSpec, model: Encoder, wanted: Sequence[str] | None, work: Path
) -> Iterator[tuple[ConfigSpec, EncoderProvenance]]:
    """One config of vectors per table of graphs, written below ``work``, and its provenance.

    Args:
        folder: The published folder.
        spec: Its spec.
        model: The encoder; it must encode text.
        wanted: Modalities asked for; only text can be.
        work: Folder to write into.

    Raises:
        MaghubError: The encoder does not encode text, or a vector is not finite.
    """
    chosen = choose_modalities([layout.TEXT], model, wanted)
    for graphs in graph_tables(spec):
        elements, texts, which = _read(folder, graphs)
        path = work / f"{graphs.name}.npy"
        present, counts = encode_column(
            model, layout.TEXT, len(texts), _blocks(texts), path, "sentence"
        )
        missing = int((~present[which]).sum())
        name = graphs.name.removesuffix(layout.GRAPHS_SUFFIX)
        width = model.spec.dim[layout.TEXT] * np.dtype(model.spec.dtype).itemsize
        table = Table(
            config=layout.set_embeddings_config(model.spec.name, name),
            kind="element_embeddings",
            features=schema.element_embeddings_features(
                model.spec.dim[layout.TEXT], model.spec.dtype
            ),
            num_rows=len(which),
            read=_ReadRows(elements, which, str(path), present),
            part_size=max(1, (64 << 20) // width),
            target=graphs.name,
        )
        config = write_config(work, table)
        if config is not None:
            counted = {layout.TEXT: Counts(counts.truncated, missing)}
            yield config, provenance(model, config.name, chosen, counted, PLAN)
        path.unlink()
