"""Indices over the vectors of a published folder: where they are kept and which one is meant.

An index of a folder lies in its hidden folder ``.search``, which neither ``validate`` nor ``push``
takes for a part of the dataset, and belongs to the vectors whose checksums it carries.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from maghub import layout
from maghub.errors import MaghubError, nearest
from maghub.features import FeatureView, feature_view, no_vectors
from maghub.loading import load
from maghub.mag import MAG
from maghub.schema import features_from_dict, vector_columns
from maghub.search.approximate import KINDS, Kind, Options
from maghub.search.index import Index, Metric
from maghub.search.storage import BUILD_AGAIN, Origin, kept, opened, read_record, save
from maghub.seeding import DEFAULT_SEED
from maghub.spec import VECTOR_KINDS, ConfigSpec

SEARCH_FOLDER = ".search"


@dataclass(frozen=True)
class Column:
    """One vector column of an opened dataset.

    Attributes:
        mag: The dataset.
        config: The embedding config.
        encoder: Name of the encoder.
        modality: The column, ``text`` or ``image``.
    """

    mag: MAG
    config: ConfigSpec
    encoder: str
    modality: str

    @property
    def origin(self) -> Origin:
        """What an index of these vectors carries."""
        return Origin(
            dataset=self.mag.spec.name,
            encoder=self.encoder,
            config=self.config.name,
            column=self.modality,
            files=tuple(entry.sha256 for entry in self.config.files),
        )

    def place(self, kind: Kind, metric: Metric) -> Path:
        """Where an index is kept unless told otherwise."""
        name = f"{self.config.name}-{self.modality}-{kind}-{metric}"
        return self.mag.folder / SEARCH_FOLDER / name

    def vectors(self) -> FeatureView:
        """[N, D] the vectors, memory-mapped."""
        return feature_view(self.mag.folder, self.mag.config(self.config.name), self.modality)


def columns(mag: MAG) -> list[Column]:
    """All vector columns of a dataset: those of nodes or a corpus first, then in stored order."""
    declared = {facts.config: facts.encoder for facts in mag.spec.encoders}
    found = [
        Column(mag, config, declared.get(config.name, config.name), modality)
        for config in mag.spec.configs
        if config.kind in VECTOR_KINDS
        for modality in vector_columns(features_from_dict(config.features))
    ]
    return sorted(found, key=lambda one: one.config.target not in (layout.NODES, layout.CORPUS))


def find_column(mag: MAG, encoder: str | None = None, modality: str | None = None) -> Column:
    """The vector column that is meant; the first that fits what is given.

    Args:
        mag: The dataset.
        encoder: Name of an encoder, or of an embedding config; None: any.
        modality: ``text`` or ``image``; None: any.

    Raises:
        MaghubError: The dataset has no such vectors.
    """
    known = columns(mag)
    if not known:
        raise no_vectors(mag.spec, mag.folder)
    own = [one for one in known if encoder in (None, one.encoder, one.config.name)]
    if not own:
        error = nearest(str(encoder), {one.encoder for one in known}, kind="encoder of this folder")
        make = f"maghub encode {mag.folder} --encoder {encoder}"
        raise MaghubError(error.what, fix=f"{error.fix}; make it with: {make}")
    fitting = [one for one in own if modality in (None, one.modality)]
    if not fitting:
        if modality not in layout.MODALITIES:
            raise nearest(str(modality), layout.MODALITIES, kind="modality")
        held = ", ".join(f"{one.modality} of {one.encoder}" for one in own)
        raise MaghubError(
            f"holds no {modality} vectors{f' of {encoder}' if encoder else ''}",
            where=mag.folder,
            fix=f"it has: {held}",
        )
    return fitting[0]


def build_index(
    folder: str | Path,
    encoder: str | None = None,
    modality: str | None = None,
    *,
    kind: Kind = "flat",
    metric: Metric = "cosine",
    options: Options | None = None,
    seed: int = DEFAULT_SEED,
    out: str | Path | None = None,
) -> Path:
    """Build an index of published vectors and keep it, replacing an older one.

    The vectors are streamed from their memory map; memory is that of the index.

    Args:
        folder: A folder, a bundled sample by its name, or a repo on the Hub.
        encoder: Whose vectors (or the name of an embedding config); None: the first of the folder.
        modality: ``text`` or ``image``; None: the first that there is.
        kind: ``flat``, ``ivf`` or ``hnsw``.
        metric: ``cosine`` or ``ip``.
        options: Settings of ``ivf`` and ``hnsw``.
        seed: Seed of ``ivf``.
        out: Folder of the index; None: below ``.search`` in the dataset's folder.

    Returns:
        The folder of the index.

    Raises:
        MaghubError: No such vectors, or the disk refuses.
    """
    column = find_column(load(folder), encoder, modality)
    if kind not in KINDS:
        raise nearest(str(kind), KINDS, kind="kind of index")
    view = column.vectors()
    # A mapping of our own that nobody can have written to, so its pages may be given back.
    shape = view.shape
    own = np.memmap(str(view.filename), view.dtype, "r", int(view.offset), shape)
    index = Index.build(own, kind, metric, options=options, seed=seed)
    place = column.place(kind, metric) if out is None else Path(out)
    return save(index, place, column.origin)


def open_index(
    folder: str | Path | MAG,
    encoder: str | None = None,
    modality: str | None = None,
    *,
    kind: Kind | None = None,
    metric: Metric = "cosine",
    index: str | Path | None = None,
) -> Index:
    """The index of published vectors: the kept one, else an exact one over the memory map.

    Args:
        folder: A folder, sample or repo, or an opened dataset.
        encoder: Whose vectors; None: the first of the folder.
        modality: ``text`` or ``image``; None: the first that there is.
        kind: Which kept index; None: whichever there is, the exact one first.
        metric: ``cosine`` or ``ip``.
        index: Folder of an index that is kept elsewhere.

    Raises:
        MaghubError: A kept index belongs to other vectors or is damaged, or there is none of the
            kind asked for.
    """
    mag = folder if isinstance(folder, MAG) else load(folder)
    column = find_column(mag, encoder, modality)
    if index is not None:
        return _belonging(column, Path(index))
    for wanted in KINDS if kind is None else (kind,):
        place = column.place(wanted, metric)  # type: ignore[arg-type]
        if kept(place):
            return _belonging(column, place)
    if kind not in (None, "flat"):
        if kind not in KINDS:
            raise nearest(str(kind), KINDS, kind="kind of index")
        command = f"maghub search build {mag.folder} --encoder {column.encoder} --kind {kind}"
        what = f"no {kind} index of {column.modality} vectors of {column.encoder} is kept here"
        raise MaghubError(what, where=mag.folder, fix=f"build one with: {command}")
    return Index.build(column.vectors(), "flat", metric)


def _belonging(column: Column, place: Path) -> Index:
    """The index in a folder, if it was made of these very vectors."""
    record = read_record(place)
    if record.origin != column.origin:
        made = record.origin
        of = f"{made.config}, {made.column}, of {made.dataset}" if made else "no published folder"
        other = made is not None and (made.dataset, made.config, made.column) != (
            column.origin.dataset,
            column.origin.config,
            column.origin.column,
        )
        why = f"it was made of {of}" if other or not made else "the vectors have changed since"
        raise MaghubError(
            f"does not belong to {column.config.name}, {column.modality}, of {column.mag.folder}: "
            f"{why}",
            where=place,
            fix=f"{BUILD_AGAIN} {column.mag.folder} --encoder {column.encoder}",
        )
    return opened(place)
