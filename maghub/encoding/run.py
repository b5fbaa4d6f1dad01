"""``maghub.encode``: streams a published folder through an encoder into an embedding config."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import PIL.Image
import pyarrow as pa
from numpy.typing import NDArray

from maghub import layout, registry, schema
from maghub.cards import read_card
from maghub.encoding.base import Encoder
from maghub.errors import MaghubError
from maghub.files import fsync_folder, os_errors
from maghub.images import normalise
from maghub.progress import track
from maghub.reader import iter_groups
from maghub.spec import ConfigSpec, EncoderProvenance, FolderSpec, read_spec
from maghub.tables import Table
from maghub.writing import write_config, write_metadata

BLOCK_ROWS = 4096
PLAN = f"blocks of {BLOCK_ROWS} nodes in stored order; texts sorted by tokens within a block"
FLOAT16_MAX = float(np.finfo(np.float16).max)


@dataclass
class _Counts:
    truncated: int = 0
    missing: int = 0


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


def _batches(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def _encode_texts(
    encoder: Encoder, values: Sequence[object], counts: _Counts
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """(positions, vectors) of the non-empty texts of a block, longest batches last."""
    rows = np.asarray([i for i, value in enumerate(values) if value], dtype=np.int64)
    texts = [str(values[i]) for i in rows]
    counts.missing += len(values) - len(rows)
    if not texts:
        return
    lengths = encoder.text_lengths(texts)
    if encoder.spec.max_length is not None:
        counts.truncated += int((lengths > encoder.spec.max_length).sum())
    order = np.argsort(lengths, kind="stable")
    for batch in _batches(len(order), encoder.spec.batch_size):
        chosen = order[batch]
        yield rows[chosen], encoder.encode_texts([texts[i] for i in chosen])


def _rgb(value: object) -> PIL.Image.Image | None:
    """The stored image as upright RGB on white; None where there is none or it is unreadable."""
    blob = value.get("bytes") if isinstance(value, dict) else None
    data = normalise(blob).data if blob else None
    return None if data is None else PIL.Image.open(io.BytesIO(data)).convert("RGB")


def _encode_images(
    encoder: Encoder, values: Sequence[object], counts: _Counts
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """(positions, vectors) of the readable images of a block, decoded batch by batch."""
    for batch in _batches(len(values), encoder.spec.batch_size):
        images = [_rgb(value) for value in values[batch]]
        kept = [i for i, image in enumerate(images) if image is not None]
        counts.missing += len(images) - len(kept)
        if kept:
            rows = np.asarray(kept, dtype=np.int64) + batch.start
            yield rows, encoder.encode_images([image for image in images if image is not None])


_ENCODE = {layout.TEXT: _encode_texts, layout.IMAGE: _encode_images}


def _encode_modality(
    folder: Path, nodes: ConfigSpec, encoder: Encoder, modality: str, target: Path
) -> tuple[NDArray[np.bool_], _Counts]:
    """Encode one modality into a mapped .npy [N, D]; rows without input stay zero."""
    shape = (nodes.rows, encoder.spec.dim[modality])
    array = np.lib.format.open_memmap(target, "w+", np.dtype(encoder.spec.dtype), shape)
    present = np.zeros(nodes.rows, bool)
    counts = _Counts()
    total = -(-nodes.rows // BLOCK_ROWS)
    label = f"{encoder.spec.name} {modality}"
    blocks = track(_blocks(folder, nodes, modality), label, total)
    for ids, values in blocks:
        for rows, vectors in _ENCODE[modality](encoder, values, counts):
            bad = ~np.isfinite(vectors).all(axis=1) | (np.abs(vectors).max(axis=1) > FLOAT16_MAX)
            if bad.any():
                raise MaghubError(
                    f"{encoder.spec.name} gave a vector that is not finite in {encoder.spec.dtype}",
                    where=f"node {ids[rows[int(np.argmax(bad))]]}, {modality}",
                    fix="check the input of that node",
                )
            array[ids[rows]] = vectors.astype(array.dtype)
            present[ids[rows]] = True
    array.flush()
    return present, counts


def _modalities(nodes: ConfigSpec, encoder: Encoder, wanted: Sequence[str] | None) -> list[str]:
    """Modalities to encode: what the encoder serves, the nodes hold and the user asked for."""
    served = [m for m in encoder.spec.dim if m in nodes.features]
    chosen = [m for m in (wanted or served) if m in served]
    missing = [m for m in wanted or [] if m not in served]
    if missing or not chosen:
        raise MaghubError(
            f"{encoder.spec.name} encodes {', '.join(encoder.spec.dim)}; cannot make "
            f"{', '.join(missing) or 'anything'} for this dataset",
            fix="choose another encoder or modality",
        )
    return chosen


def encode(
    folder: str | Path,
    encoder: str,
    modalities: Sequence[str] | None = None,
    *,
    device: str = "cpu",
) -> FolderSpec:
    """Write the config ``embeddings-<encoder>`` of a published folder, rows in node order.

    The config appears complete or not at all; card and ``maghub.json`` record model, revision,
    pooling, normalisation, dtype, batch plan, library versions, missing inputs and truncations.
    An existing config of the same name is replaced.

    Args:
        folder: A published folder with a ``nodes`` config.
        encoder: A registered encoder name.
        modalities: ``text`` and/or ``image``; None takes all that both sides have.
        device: torch device.

    Raises:
        MaghubError: Unknown encoder, missing extra, nothing to encode, or the disk refuses.
    """
    path = Path(folder)
    spec = read_spec(path)
    model: Encoder = registry.get("encoders", encoder)(device=device)
    nodes = spec.config(layout.NODES)
    chosen = _modalities(nodes, model, modalities)
    with os_errors(path):
        work = Path(tempfile.mkdtemp(prefix=".encode-", dir=path))
        try:
            present, counts = {}, {}
            for modality in chosen:
                target = work / f"{modality}.npy"
                present[modality], counts[modality] = _encode_modality(
                    path, nodes, model, modality, target
                )
            table = _table(model, chosen, nodes, work, present)
            config = write_config(work, table)
            assert config is not None
            spec = _with_config(spec, config, _provenance(model, chosen, counts))
            _put_in_place(path, work, config)
            write_metadata(path, read_card(path / layout.CARD_SOURCE_FILE), spec)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return spec


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
        os.replace(target, work / "old")
    os.replace(work / config.name, target)
    fsync_folder(folder)


def _with_config(
    spec: FolderSpec, config: ConfigSpec, provenance: EncoderProvenance
) -> FolderSpec:
    """The folder spec with one embedding config added or replaced."""
    configs = [c for c in spec.configs if c.name != config.name]
    encoders = [e for e in spec.encoders if e.config != config.name]
    return spec.model_copy(
        update={"configs": (*configs, config), "encoders": (*encoders, provenance)}
    )


def _provenance(
    model: Encoder, chosen: Sequence[str], counts: dict[str, _Counts]
) -> EncoderProvenance:
    own = model.spec
    return EncoderProvenance(
        encoder=own.name,
        config=layout.embeddings_config(own.name),
        modalities=tuple(chosen),
        model_id=own.model_id,
        revision=own.revision,
        library=own.library,
        licence=own.licence,
        dim={modality: own.dim[modality] for modality in chosen},
        pooling=own.pooling,
        normalized=own.normalized,
        dtype=own.dtype,
        max_length=own.max_length if layout.TEXT in chosen else None,
        image_size=own.image_size if layout.IMAGE in chosen else None,
        batch_size=own.batch_size,
        batch_plan=PLAN,
        versions=model.versions(),
        missing={modality: counts[modality].missing for modality in chosen},
        truncated_texts=counts[layout.TEXT].truncated if layout.TEXT in chosen else None,
    )
