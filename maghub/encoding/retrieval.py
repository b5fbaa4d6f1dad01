"""Vectors of a retrieval benchmark: of its corpus, its queries and the pictures of its entities.

``embeddings-<encoder>-corpus`` and ``-queries`` have a row per row of their target, texts and
pictures side by side; ``embeddings-<encoder>-entities`` has a row per picture of each entity. The
tables of the group-safe split hold the same rows in another order and need no vectors of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from maghub import layout, schema
from maghub.encoding.base import EncoderSpec
from maghub.encoding.inputs import ColumnInputs, Inputs
from maghub.encoding.job import Job
from maghub.encoding.vectors import choose_modalities
from maghub.pictures import Pictures, pictures_of
from maghub.reader import RowReader, read_columns
from maghub.spec import ConfigSpec, FolderSpec

_TEXT_TARGETS = (layout.CORPUS, layout.QUERIES)


def is_retrieval(spec: FolderSpec) -> bool:
    """Whether the folder is a retrieval benchmark."""
    return bool(spec.of_kind("corpus"))


@dataclass(frozen=True)
class _Keys:
    """The columns that name rows ``start..stop``."""

    columns: Mapping[str, pa.ChunkedArray | np.ndarray]

    def __call__(self, start: int, stop: int) -> Mapping[str, object]:
        return {name: column[start:stop] for name, column in self.columns.items()}


class PictureInputs(Inputs):
    """The pictures of a list column one after the other, those of a row together."""

    def __init__(self, folder: Path, config: ConfigSpec, pictures: Pictures) -> None:
        self.folder, self.config, self.pictures = folder.resolve(), config, pictures

    def chunks(self, modality: str, start: int, stop: int) -> Iterator[Sequence[object]]:
        """One chunk per row group."""
        if start >= stop:
            return
        first, last = int(self.pictures.row[start]), int(self.pictures.row[stop - 1])
        at = start - int(self.pictures.position[start])  # the first picture of the first row
        for table in RowReader(self.folder, self.config, [layout.IMAGES])(first, last + 1):
            found = [one for row in table[layout.IMAGES].to_pylist() for one in row or ()]
            yield found[max(start - at, 0) : stop - at]
            at += len(found)

    def name(self, row: int) -> str:
        """The id of its entity, and which of its pictures it is."""
        key = self.pictures.ids[int(self.pictures.row[row])]
        return f"picture {self.pictures.position[row]} of {key}"


def retrieval_jobs(
    folder: Path, spec: FolderSpec, encoder: EncoderSpec, wanted: Sequence[str] | None
) -> Iterator[Job]:
    """One job per target that holds something the encoder takes.

    Args:
        folder: The published folder.
        spec: Its spec.
        encoder: The encoder.
        wanted: Modalities asked for; None takes all.

    Raises:
        MaghubError: The encoder takes nothing that the folder holds.
    """
    entities = spec.config(layout.ENTITIES) if spec.has(layout.ENTITIES) else None
    shown = entities is not None and layout.IMAGES in entities.features
    targets = [spec.config(name) for name in _TEXT_TARGETS]
    held = {m for config in targets for m in layout.MODALITIES if m in config.features}
    held |= {layout.IMAGE} if shown else set()
    chosen = choose_modalities(held, encoder, wanted)
    for config in targets:
        if own := tuple(m for m in chosen if m in config.features):
            yield _rows_job(folder, config, encoder, own)
    if shown and entities is not None and layout.IMAGE in chosen:
        yield _pictures_job(folder, entities, encoder)


def _rows_job(
    folder: Path, config: ConfigSpec, encoder: EncoderSpec, modalities: tuple[str, ...]
) -> Job:
    """A vector per row and modality."""
    dims = {modality: encoder.dim[modality] for modality in modalities}
    ids = read_columns(folder, config, [layout.ID])[layout.ID]
    return Job(
        config=layout.set_embeddings_config(encoder.name, config.name),
        kind="embeddings",
        target=config,
        features=schema.embeddings_features(dims, encoder.dtype, layout.ID),
        modalities=modalities,
        inputs=ColumnInputs(folder, config, layout.ID),
        num_inputs=config.rows,
        num_rows=config.rows,
        index=partial(np.save, arr=np.arange(config.rows)),
        keys=_Keys({layout.ID: ids}),
    )


def _pictures_job(folder: Path, config: ConfigSpec, encoder: EncoderSpec) -> Job:
    """A vector per picture."""
    pictures = pictures_of(read_columns(folder, config, [layout.ID, layout.IMAGE_PATHS]))
    keys = {layout.ID: pictures.ids.take(pa.array(pictures.row))}
    return Job(
        config=layout.set_embeddings_config(encoder.name, config.name),
        kind="picture_embeddings",
        target=config,
        features=schema.picture_embeddings_features(encoder.dim[layout.IMAGE], encoder.dtype),
        modalities=(layout.IMAGE,),
        inputs=PictureInputs(folder, config, pictures),
        num_inputs=len(pictures.row),
        num_rows=len(pictures.row),
        index=partial(np.save, arr=np.arange(len(pictures.row))),
        keys=_Keys({**keys, layout.POSITION: pictures.position}),
    )
