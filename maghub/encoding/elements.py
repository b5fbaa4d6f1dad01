"""Vectors of the nodes and edges of many small graphs: one config per table of graphs.

A row of the vectors is one node or edge of one graph (see ``maghub.elements``). Each distinct
sentence of a table is encoded once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from maghub import layout, schema
from maghub.elements import Elements, Ints, elements_of
from maghub.encoding.base import EncoderSpec
from maghub.encoding.inputs import SentenceInputs
from maghub.encoding.job import Job
from maghub.encoding.vectors import choose_modalities
from maghub.reader import iter_groups
from maghub.spec import ConfigSpec, FolderSpec

_TEXTS = dict(zip(layout.PARTS, (layout.NODE_TEXTS, layout.EDGE_TEXTS), strict=True))


def graph_tables(spec: FolderSpec) -> list[ConfigSpec]:
    """The configs whose rows are graphs with sentences of their nodes and edges."""
    wanted = {layout.GRAPH_ID, *_TEXTS.values()}
    return [c for c in spec.of_kind("table") if wanted <= set(c.features)]


def _read(folder: Path, config: ConfigSpec) -> tuple[Elements, list[str], Ints]:
    """The elements of a table, its distinct sentences, and which of them each element has."""
    ids: list[pa.Array] = []
    sizes: list[Ints] = []
    known: dict[str, int] = {}
    which: list[Ints] = []
    for _, _, table in iter_groups(folder, config, [layout.GRAPH_ID, *_TEXTS.values()]):
        ids += table[layout.GRAPH_ID].chunks
        texts = [table[column] for column in _TEXTS.values()]
        lengths = [np.asarray(pc.list_value_length(column), dtype=np.int64) for column in texts]
        sizes.append(np.stack(lengths))
        for nodes, edges in zip(*(column.to_pylist() for column in texts), strict=True):
            found = [known.setdefault(text, len(known)) for text in (*nodes, *edges)]
            which.append(np.asarray(found, dtype=np.int64))
    nodes, edges = np.concatenate(sizes, axis=1)
    elements = elements_of(pa.concat_arrays(ids), nodes, edges)
    return elements, list(known), np.concatenate(which)


@dataclass(frozen=True)
class _Keys:
    """The columns that name an element."""

    elements: Elements

    def __call__(self, start: int, stop: int) -> Mapping[str, object]:
        elements, part = self.elements, slice(start, stop)
        return {
            layout.GRAPH_ID: elements.graph_ids.take(pa.array(elements.graph[part])),
            layout.PART: elements.part[part],
            layout.POSITION: elements.position[part],
        }


def element_jobs(
    folder: Path, spec: FolderSpec, encoder: EncoderSpec, wanted: Sequence[str] | None
) -> Iterator[Job]:
    """One job per table of graphs.

    Args:
        folder: The published folder.
        spec: Its spec.
        encoder: The encoder; it must encode text.
        wanted: Modalities asked for; only text can be.

    Raises:
        MaghubError: The encoder does not encode text, or more than text is asked for.
    """
    chosen = choose_modalities([layout.TEXT], encoder, wanted)
    for graphs in graph_tables(spec):
        elements, texts, which = _read(folder, graphs)
        name = graphs.name.removesuffix(layout.GRAPHS_SUFFIX)
        yield Job(
            config=layout.set_embeddings_config(encoder.name, name),
            kind="element_embeddings",
            target=graphs,
            features=schema.element_embeddings_features(encoder.dim[layout.TEXT], encoder.dtype),
            modalities=chosen,
            inputs=SentenceInputs(texts),
            num_inputs=len(texts),
            num_rows=len(which),
            index=partial(np.save, arr=which),
            keys=_Keys(elements),
        )
