"""``maghub.encode``: streams a published folder through an encoder into embedding configs."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from maghub import layout, registry, schema
from maghub.cards import read_card
from maghub.encoding.base import Encoder
from maghub.encoding.elements import encode_elements, graph_tables
from maghub.encoding.vectors import BLOCK_ROWS, choose_modalities, encode_column, provenance
from maghub.files import fsync_folder, os_errors
from maghub.reader import iter_groups
from maghub.spec import ConfigSpec, EncoderProvenance, FolderSpec, read_spec
from maghub.tables import Table
from maghub.writing import write_config, write_metadata

PLAN = f"blocks of {BLOCK_ROWS} nodes in stored order; texts sorted by tokens within a block"


@dataclass(frozen=True)
class _ReadVectors:
    """Rows of an embedding config from mapped files, one per modality (picklable)."""

    vectors: dict[str, str]
    present: dict[str, NDArray[np.bool_]]

    def __call__(self, start: int, stop: int) -> pa.Table:
        columns: dict[str, object] = {layout.NODE_ID: np.arange(start, stop)}
        for modality, path in self.vectors.items():
            block = np.load(path, mmap_mode="r")[start:stop]
            flat = pa.array(np.ascontiguousarray(block).reshape(-1))
            columns[modality] = pa.FixedSizeListArray.from_arrays(flat, block.shape[1])
        for modality, flags in self.present.items():
            columns[layout.has_column(modality)] = flags[start:stop]
        return pa.table(columns)


def _blocks(
    folder: Path, nodes: ConfigSpec, column: str
) -> Iterator[tuple[NDArray[np.int64], list[object]]]:
    """Blocks of up to BLOCK_ROWS (node ids, values), a pure function of the stored rows."""
    ids: list[NDArray[np.int64]] = []
    values: list[object] = []
    for _, _, table in iter_groups(folder, nodes, [layout.NODE_ID, column]):
        ids.append(np.asarray(table[layout.NODE_ID].combine_chunks()))
        values += table[column].to_pylist()
        while len(values) >= BLOCK_ROWS:
            joined = np.concatenate(ids)
            yield joined[:BLOCK_ROWS], values[:BLOCK_ROWS]
            ids, values = [joined[BLOCK_ROWS:]], values[BLOCK_ROWS:]
    if values:
        yield np.concatenate(ids), values


def encode(
    folder: str | Path,
    encoder: str,
    modalities: Sequence[str] | None = None,
    *,
    device: str = "cpu",
) -> FolderSpec:
    """Write an encoder's vectors into a published folder, as embedding configs.

    Of a graph: ``embeddings-<encoder>``, one row per node. Of question sets with a graph per row
    (CLeGR): ``embeddings-<encoder>-<set>``, one row per node and edge of each graph.
    The configs appear complete or not at all; card and ``maghub.json`` record model, revision,
    pooling, normalisation, dtype, batch plan, library versions, missing inputs and truncations.
    An existing config of the same name is replaced.

    Args:
        folder: A published folder with a ``nodes`` config, or with tables of graphs.
        encoder: A registered encoder name.
        modalities: ``text`` and/or ``image``; None takes all that both sides have.
        device: torch device.

    Raises:
        MaghubError: Unknown encoder, missing extra, nothing to encode, or the disk refuses.
    """
    path = Path(folder)
    spec = read_spec(path)
    model: Encoder = registry.get("encoders", encoder)(device=device)
    make = encode_elements if graph_tables(spec) else _encode_nodes
    with os_errors(path):
        work = Path(tempfile.mkdtemp(prefix=".encode-", dir=path))
        try:
            made = list(make(path, spec, model, modalities, work))
            for config, facts in made:
                spec = _with_config(spec, config, facts)
                _put_in_place(path, work, config)
            write_metadata(path, read_card(path / layout.CARD_SOURCE_FILE), spec)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return spec


def _encode_nodes(
    folder: Path, spec: FolderSpec, model: Encoder, wanted: Sequence[str] | None, work: Path
) -> Iterator[tuple[ConfigSpec, EncoderProvenance]]:
    """The one config of a graph's nodes, and its provenance."""
    nodes = spec.config(layout.NODES)
    chosen = choose_modalities(nodes.features, model, wanted)
    present, counts = {}, {}
    for modality in chosen:
        blocks = _blocks(folder, nodes, modality)
        target = work / f"{modality}.npy"
        present[modality], counts[modality] = encode_column(
            model, modality, nodes.rows, blocks, target
        )
    config = write_config(work, _table(model, chosen, nodes, work, present))
    assert config is not None
    yield config, provenance(model, config.name, chosen, counts, PLAN)


def _table(
    model: Encoder,
    chosen: Sequence[str],
    nodes: ConfigSpec,
    work: Path,
    present: dict[str, NDArray[np.bool_]],
) -> Table:
    dims = {modality: model.spec.dim[modality] for modality in chosen}
    width = sum(dims.values()) * np.dtype(model.spec.dtype).itemsize
    return Table(
        config=layout.embeddings_config(model.spec.name),
        kind="embeddings",
        features=schema.embeddings_features(dims, model.spec.dtype),
        num_rows=nodes.rows,
        read=_ReadVectors({m: str(work / f"{m}.npy") for m in chosen}, present),
        part_size=max(1, (64 << 20) // width),
        target=layout.NODES,
    )


def _put_in_place(folder: Path, work: Path, config: ConfigSpec) -> None:
    """Move the finished config beside the others; the old one goes only when the new one stands."""
    target = folder / config.name
    fsync_folder(work / config.name)
    if target.exists():
        os.replace(target, work / f"old-{config.name}")
    os.replace(work / config.name, target)
    fsync_folder(folder)


def _with_config(spec: FolderSpec, config: ConfigSpec, facts: EncoderProvenance) -> FolderSpec:
    """The folder spec with one embedding config added or replaced."""
    configs = [c for c in spec.configs if c.name != config.name]
    encoders = [e for e in spec.encoders if e.config != config.name]
    return spec.model_copy(update={"configs": (*configs, config), "encoders": (*encoders, facts)})
