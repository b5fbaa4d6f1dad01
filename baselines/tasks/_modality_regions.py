"""Phrases and boxes of pictures, which of them belong together, and their vectors.

A dataset with them has the config ``entities``: per thing in a picture its boxes (corners inside,
counted from 0) and the phrases that name it. Every distinct phrase of a thing makes a pair with
every box of it. Vectors come from the joint encoder whose vectors the nodes have; they are kept in
maghub's cache, since they do not depend on the model or the seed.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from maghub import layout, registry
from maghub.errors import MaghubError, place
from maghub.features import cache_folder
from maghub.files import os_errors, write_bytes
from maghub.mag import MAG
from maghub.reader import read_columns

if TYPE_CHECKING:
    from PIL.Image import Image

    from maghub.encoding.base import Encoder

ENTITIES, BOXES, PHRASES = "entities", "boxes", "phrases"
_AGAIN = "leave them out, and build the folder again"
Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Grounding:
    """Pairs of a phrase and a box of the same picture, those of a picture together.

    Attributes:
        node: int64 [P] the picture of each pair.
        phrase: [P] words.
        box: int64 [P, 4] xmin, ymin, xmax, ymax, both corners inside.
    """

    node: Ints
    phrase: NDArray[np.str_]
    box: Ints

    def __len__(self) -> int:
        return len(self.node)

    def take(self, rows: Ints) -> Grounding:
        """The pairs with these places."""
        return Grounding(self.node[rows], self.phrase[rows], self.box[rows])


def has_regions(mag: MAG) -> bool:
    """Whether a dataset has phrases and boxes."""
    wanted = {layout.NODE_ID, BOXES, PHRASES}
    return mag.spec.has(ENTITIES) and wanted <= set(mag.spec.config(ENTITIES).features)


def read_grounding(mag: MAG, nodes: Ints) -> Grounding:
    """All pairs on the given nodes, by node, then as stored.

    Raises:
        MaghubError: A phrase or box is null, or something else stands in their place.
    """
    table = read_columns(mag.folder, mag.config(ENTITIES), [layout.NODE_ID, BOXES, PHRASES])
    _check(table)
    table = table.filter(np.isin(np.asarray(table[layout.NODE_ID]), nodes)).combine_chunks()
    count = table.num_rows
    if not count:
        return Grounding(np.zeros(0, np.int64), np.zeros(0, np.str_), np.zeros((0, 4), np.int64))
    thing = np.asarray(pc.list_parent_indices(table[PHRASES]), dtype=np.int64)
    words = np.asarray(pc.list_flatten(table[PHRASES]).to_pylist(), dtype=np.str_)
    codes = np.unique(words, return_inverse=True)[1].reshape(-1)
    first = np.sort(np.unique(np.stack([thing, codes]), axis=1, return_index=True)[1])
    thing, words = thing[first], words[first]
    owner = np.asarray(pc.list_parent_indices(table[BOXES]), dtype=np.int64)
    corners = pc.list_flatten(pc.list_flatten(table[BOXES]))
    boxes = np.asarray(corners, dtype=np.int64).reshape(-1, 4)
    # Boxes of a thing stand together: pair k of a phrase is the k-th of them.
    size = np.bincount(owner, minlength=count)
    pairs = size[thing]
    which = np.arange(int(pairs.sum())) - np.repeat(np.cumsum(pairs) - pairs, pairs)
    which += np.repeat((np.cumsum(size) - size)[thing], pairs)
    node = np.asarray(table[layout.NODE_ID], dtype=np.int64)[np.repeat(thing, pairs)]
    found = Grounding(node, np.repeat(words, pairs), boxes[which])
    return found.take(np.argsort(node, kind="stable"))


def _check(table: pa.Table) -> None:
    """Raise unless phrases are texts and boxes four whole numbers each, none of them null."""
    words, boxes = (table.schema.field(name).type for name in (PHRASES, BOXES))
    text = pa.types.is_list(words) and pa.types.is_string(words.value_type)
    box = pa.types.is_list(boxes) and pa.types.is_fixed_size_list(boxes.value_type)
    box = (
        box and boxes.value_type.list_size == 4 and pa.types.is_integer(boxes.value_type.value_type)
    )
    for column, good, what in ((PHRASES, text, "texts"), (BOXES, box, "boxes of whole numbers")):
        where = place(ENTITIES, column)
        if not good:
            raise MaghubError(f"holds no lists of {what}", where=where, fix=_AGAIN)
        parts = pc.list_flatten(table[column])
        nulls = parts.null_count
        if column == BOXES:
            nulls += pc.list_flatten(parts).null_count
        if nulls:
            raise MaghubError(f"{nulls:,} of these {what} are null", where=where, fix=_AGAIN)


class RegionVectors:
    """Vectors of phrases and boxes by the encoder of the nodes' vectors.

    Args:
        mag: The dataset.
        encoder: Name of the encoder.
        model_path: Local folder with its files; None takes the Hub or its cache.
        device: torch device.
    """

    def __init__(self, mag: MAG, encoder: str, model_path: str | None, device: str) -> None:
        self.mag, self.encoder, self.model_path, self.device = mag, encoder, model_path, device

    def __call__(self, pairs: Grounding) -> tuple[Floats, Floats]:
        """float32 [P, D] of the phrase and of the box of each pair, each distinct one made once.

        The vector of a box outside of its picture is NaN.

        Raises:
            MaghubError: The encoder cannot be had, is another version than made the nodes'
                vectors, or does not serve text and images.
        """
        words, phrase = np.unique(pairs.phrase, return_inverse=True)
        places = np.column_stack([pairs.node, pairs.box])
        spots, region = np.unique(places, axis=0, return_inverse=True)
        kept = self._file(words, spots)
        found = _read(kept)
        if found is None or [len(part) for part in found] != [len(words), len(spots)]:
            model = self._loaded()
            found = self._encoded(model, words.tolist(), spots)
            buffer = io.BytesIO()
            np.savez(buffer, text=found[0], image=found[1])
            with os_errors(kept):
                kept.parent.mkdir(parents=True, exist_ok=True)
                write_bytes(kept, buffer.getbuffer())
        text, image = (part.astype(np.float32) for part in found)
        return text[phrase.reshape(-1)], image[region.reshape(-1)]

    def _encoded(
        self, model: Encoder, words: Sequence[str], spots: Ints
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Vectors of texts and of boxes, NaN for a box outside of its picture."""
        size, dtype = model.spec.batch_size, model.spec.dtype
        text = _in_batches(model.encode_texts, iter(words), size, dtype)
        there: list[bool] = []

        def inside() -> Iterator[Image]:
            for part in crops(self.mag, spots):
                there.append(part is not None)
                if part is not None:
                    yield part

        image = np.full((len(spots), text.shape[1]), np.nan, dtype)
        found = _in_batches(model.encode_images, inside(), size, dtype)
        image[np.asarray(there)] = found.reshape(-1, text.shape[1])
        return text, image

    def _file(self, words: NDArray[np.str_], spots: Ints) -> Path:
        """Where these vectors are kept: named by everything they depend on."""
        spec = self.mag.spec
        files = [e.sha256 for c in spec.configs if c.name == layout.NODES for e in c.files]
        made = self._provenance()
        parts = [spec.name, *files, self.encoder, str(made), str(self.model_path)]
        digest = hashlib.sha256("\0".join(parts).encode())
        digest.update("\0".join(words.tolist()).encode())
        digest.update(np.ascontiguousarray(spots).tobytes())
        return cache_folder() / "regions" / f"{digest.hexdigest()}.npz"

    def _provenance(self) -> str | None:
        """The revision that made the nodes' vectors; None where nobody recorded it."""
        config = layout.embeddings_config(self.encoder)
        found = (e for e in self.mag.spec.encoders if e.config == config and e.origin == "maghub")
        return next((facts.revision for facts in found), None)

    def _loaded(self) -> Encoder:
        options = {} if self.model_path is None else {"model_path": self.model_path}
        model: Encoder = registry.get("encoders", self.encoder)(device=self.device, **options)
        if not set(layout.MODALITIES) <= set(model.spec.dim):
            raise MaghubError(
                f"encoder {self.encoder} does not serve text and images",
                fix="take one that does, e.g. clip-vit-large-patch14",
            )
        made = self._provenance()
        if made is not None and made != model.spec.revision:
            raise MaghubError(
                f"the nodes' vectors were made by {self.encoder} at {made}, this is it at "
                f"{model.spec.revision}",
                where=self.mag.spec.name,
                fix=f"make them again: maghub encode {self.mag.folder} --encoder {self.encoder}",
            )
        return model


def crops(mag: MAG, spots: Ints) -> Iterator[Image | None]:
    """The part of the picture in each box, every picture decoded once; None outside of it.

    Args:
        mag: The dataset.
        spots: int64 [R, 5] node and box, rows of a node together.

    Raises:
        MaghubError: A node has no picture.
    """
    nodes, first = np.unique(spots[:, 0], return_index=True)
    pictures = mag.nodes.select_columns([layout.IMAGE]).select(nodes)
    for node, row, boxes in zip(
        nodes.tolist(), pictures, np.split(spots[:, 1:], first[1:]), strict=True
    ):
        picture = row[layout.IMAGE]
        if picture is None:
            raise MaghubError(f"node {node} has boxes but no picture", where=mag.spec.name)
        picture = picture.convert("RGB")
        low = np.maximum(boxes[:, :2], 0)
        high = np.minimum(boxes[:, 2:] + 1, picture.size)
        for corners, inside in zip(np.hstack([low, high]), (low < high).all(axis=1), strict=True):
            yield picture.crop(tuple(corners.tolist())) if inside else None


def _in_batches(
    encode: Callable[[Sequence[Item]], Floats], items: Iterator[Item], size: int, dtype: str
) -> NDArray[np.floating]:
    """[n, D] as they would be published."""
    parts = []
    while part := list(islice(items, size)):
        parts.append(encode(part).astype(dtype))
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def _read(path: Path) -> tuple[NDArray[np.floating], NDArray[np.floating]] | None:
    """What is kept, None where nothing is or it is damaged."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            return stored["text"], stored["image"]
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
