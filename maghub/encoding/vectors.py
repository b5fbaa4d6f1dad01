"""From the texts or images of a shard to its vectors: batches, truncations, missing inputs."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maghub import layout
from maghub.encoding.base import Encoder, EncoderSpec
from maghub.encoding.plan import batches
from maghub.errors import MaghubError
from maghub.images import decode

if TYPE_CHECKING:
    from PIL.Image import Image

    Images = list[Image | None]

DECODERS = 4
Found = tuple[NDArray[np.int64], NDArray[np.float32]]


@dataclass
class Column:
    """The vectors of one modality of a shard.

    Attributes:
        vectors: [rows, D] in the stored dtype; a row without input is zero.
        present: Which rows have a vector.
        tokens: Length of each text that was encoded, in tokens before truncation.
    """

    vectors: NDArray[np.floating]
    present: NDArray[np.bool_]
    tokens: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))


def encode_column(
    encoder: Encoder,
    modality: str,
    rows: int,
    values: Iterable[Sequence[object]],
    batch_size: int,
) -> Column:
    """Encode one modality of a shard.

    Args:
        encoder: What encodes.
        modality: ``text`` or ``image``.
        rows: Number of rows.
        values: The rows' texts or stored images, a few at a time.
        batch_size: Most rows in a batch.

    Raises:
        BadVector: A vector is not finite in the dtype it is stored in.
    """
    dtype = np.dtype(encoder.spec.dtype)
    found = Column(np.zeros((rows, encoder.spec.dim[modality]), dtype), np.zeros(rows, bool))
    encode = _texts if modality == layout.TEXT else _images
    limit = float(np.finfo(dtype).max)
    for at, vectors in encode(encoder, values, batch_size, found):
        bad = ~(np.abs(vectors) <= limit).all(axis=1)
        if bad.any():
            raise BadVector(int(at[int(np.argmax(bad))]))
        found.vectors[at] = vectors
        found.present[at] = True
    return found


class BadVector(Exception):
    """A vector is not finite; carries the row of the shard."""

    def __init__(self, row: int) -> None:
        self.row = row
        super().__init__(row)


def _texts(
    encoder: Encoder, values: Iterable[Sequence[object]], size: int, found: Column
) -> Iterator[Found]:
    """(rows, vectors) of the non-empty texts, shortest batches first."""
    kept = [(row, str(text)) for row, text in enumerate(chain.from_iterable(values)) if text]
    if not kept:
        return
    rows = np.asarray([row for row, _ in kept], dtype=np.int64)
    texts = [text for _, text in kept]
    lengths = found.tokens = encoder.text_lengths(texts)
    for chosen in batches(lengths, size):
        yield rows[chosen], encoder.encode_texts([texts[i] for i in chosen])


def _image(value: object) -> Image | None:
    """The stored image as upright RGB on white; None where there is none or it is unreadable."""
    blob = value.get("bytes") if isinstance(value, dict) else None
    return decode(blob) if blob else None


def _decoded(values: Iterable[Sequence[object]], size: int) -> Iterator[Images]:
    """The images of each batch; the next batch is decoded while one is being encoded."""
    stream = chain.from_iterable(values)
    waiting: deque[list[Future[Image | None]]] = deque()
    with ThreadPoolExecutor(DECODERS) as pool:
        while batch := list(islice(stream, size)):
            waiting.append([pool.submit(_image, value) for value in batch])
            if len(waiting) > 1:
                yield [future.result() for future in waiting.popleft()]
        while waiting:
            yield [future.result() for future in waiting.popleft()]


def _images(
    encoder: Encoder, values: Iterable[Sequence[object]], size: int, found: Column
) -> Iterator[Found]:
    """(rows, vectors) of the readable images, batches of consecutive rows."""
    start = 0
    for images in _decoded(values, size):
        kept = [(start + i, image) for i, image in enumerate(images) if image is not None]
        start += len(images)
        if kept:
            rows = np.asarray([row for row, _ in kept], dtype=np.int64)
            yield rows, encoder.encode_images([image for _, image in kept])


def choose_modalities(
    held: Collection[str], spec: EncoderSpec, wanted: Sequence[str] | None
) -> tuple[str, ...]:
    """Modalities to encode: what the encoder serves, the dataset holds and the user asked for."""
    served = [m for m in spec.dim if m in held]
    chosen = tuple(m for m in (wanted or served) if m in served)
    missing = [m for m in wanted or [] if m not in served]
    if missing or not chosen:
        raise MaghubError(
            f"{spec.name} encodes {', '.join(spec.dim)}; cannot make "
            f"{', '.join(missing) or 'anything'} for this dataset",
            fix="choose another encoder or modality",
        )
    return chosen
