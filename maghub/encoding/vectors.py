"""From blocks of texts or images to vectors in a mapped file: batches, counts, provenance."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from maghub import layout
from maghub.encoding.base import Encoder
from maghub.errors import MaghubError
from maghub.images import normalise
from maghub.progress import track
from maghub.spec import EncoderProvenance

BLOCK_ROWS = 4096
FLOAT16_MAX = float(np.finfo(np.float16).max)


@dataclass
class Counts:
    """Inputs that were cut or absent."""

    truncated: int = 0
    missing: int = 0


def _batches(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def _encode_texts(
    encoder: Encoder, values: Sequence[object], counts: Counts
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
    encoder: Encoder, values: Sequence[object], counts: Counts
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


def encode_column(
    encoder: Encoder,
    modality: str,
    rows: int,
    blocks: Iterable[tuple[NDArray[np.int64], Sequence[object]]],
    target: Path,
    row_name: str = "node",
) -> tuple[NDArray[np.bool_], Counts]:
    """Encode one modality into a mapped .npy [rows, D]; rows without input stay zero.

    Args:
        encoder: What encodes.
        modality: ``text`` or ``image``.
        rows: Number of rows.
        blocks: (row numbers, values) of up to ``BLOCK_ROWS`` rows each.
        target: The file to make.
        row_name: What a row is called in an error.

    Returns:
        Which rows have a vector, and what was counted.
    """
    shape = (rows, encoder.spec.dim[modality])
    array = np.lib.format.open_memmap(target, "w+", np.dtype(encoder.spec.dtype), shape)
    present = np.zeros(rows, bool)
    counts = Counts()
    label = f"{encoder.spec.name} {modality}"
    for ids, values in track(blocks, label, -(-rows // BLOCK_ROWS)):
        for at, vectors in _ENCODE[modality](encoder, values, counts):
            bad = ~np.isfinite(vectors).all(axis=1) | (np.abs(vectors).max(axis=1) > FLOAT16_MAX)
            if bad.any():
                raise MaghubError(
                    f"{encoder.spec.name} gave a vector that is not finite in {encoder.spec.dtype}",
                    where=f"{row_name} {ids[at[int(np.argmax(bad))]]}, {modality}",
                    fix=f"check the input of that {row_name}",
                )
            array[ids[at]] = vectors.astype(array.dtype)
            present[ids[at]] = True
    array.flush()
    return present, counts


def choose_modalities(
    held: Collection[str], encoder: Encoder, wanted: Sequence[str] | None
) -> list[str]:
    """Modalities to encode: what the encoder serves, the dataset holds and the user asked for."""
    served = [m for m in encoder.spec.dim if m in held]
    chosen = [m for m in (wanted or served) if m in served]
    missing = [m for m in wanted or [] if m not in served]
    if missing or not chosen:
        raise MaghubError(
            f"{encoder.spec.name} encodes {', '.join(encoder.spec.dim)}; cannot make "
            f"{', '.join(missing) or 'anything'} for this dataset",
            fix="choose another encoder or modality",
        )
    return chosen


def provenance(
    model: Encoder, config: str, chosen: Sequence[str], counts: Mapping[str, Counts], plan: str
) -> EncoderProvenance:
    """What ``maghub.json`` says about the vectors of one config."""
    own = model.spec
    return EncoderProvenance(
        encoder=own.name,
        config=config,
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
        batch_plan=plan,
        versions=model.versions(),
        missing={modality: counts[modality].missing for modality in chosen},
        truncated_texts=counts[layout.TEXT].truncated if layout.TEXT in chosen else None,
    )
