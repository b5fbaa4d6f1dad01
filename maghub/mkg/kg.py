"""A published knowledge graph as arrays: codes of heads, relations and tails, and their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import ClassLabel, Image, List
from numpy.typing import NDArray

from maghub import layout
from maghub.errors import MaghubError, place
from maghub.loading import resolve
from maghub.mkg.records import repeated
from maghub.reader import RowReader, iter_groups, read_columns
from maghub.schema import features_from_dict
from maghub.spec import ConfigSpec, FolderSpec, read_spec

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
TRIPLET_COLUMNS = (
    layout.HEAD_ID, layout.REL_ID, layout.TAIL_ID,
    layout.HEAD_TEXT, layout.REL_TEXT, layout.TAIL_TEXT,
)  # fmt: skip
ENTITY_ID, KIND, PICTURE_KIND = "entity_id", "kind", "image"


@dataclass(frozen=True)
class Named:
    """Entities or relations: row i has the id, name and description of code i."""

    ids: list[str]
    names: list[str]
    descriptions: list[str]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class KnowledgeGraph:
    """A knowledge graph of E entities, R relations and T triplets.

    Attributes:
        folder, spec: Where it was read.
        entities, relations: Their names.
        heads, rels, tails: int64 [T], codes into ``entities``, ``relations`` and ``entities``.
        pictures: int64 [E], how many pictures an entity has.
        is_picture: bool [E], entities that are nothing but a picture (their name tells nothing).
        counts: What was found wanting while reading, for the report.
    """

    folder: Path
    spec: FolderSpec
    entities: Named
    relations: Named
    heads: Ints
    rels: Ints
    tails: Ints
    pictures: Ints
    is_picture: Bools
    counts: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.heads)

    def words(self, row: int) -> tuple[str, str, str]:
        """Head, relation and tail of a triplet in words."""
        names = self.entities.names
        return (
            names[self.heads[row]],
            self.relations.names[self.rels[row]],
            names[self.tails[row]],
        )

    def ids(self, row: int) -> tuple[str, str, str]:
        """Head, relation and tail of a triplet as ids."""
        ids = self.entities.ids
        return ids[self.heads[row]], self.relations.ids[self.rels[row]], ids[self.tails[row]]


def read_graph(name: str | Path) -> KnowledgeGraph:
    """Open the knowledge graph in a published folder (or its name, or a repo on the Hub).

    It needs a config ``triplets`` with ids and texts. Names, descriptions and pictures come from
    ``entities`` and ``relations`` where there are such configs; what these lack is taken from the
    triplets and counted. A triplet that stands there twice counts once.

    Raises:
        MaghubError: No such folder, no triplets in it, a cell that is no UTF-8, or no id.
    """
    folder = resolve(name)
    spec = read_spec(folder)
    if not spec.has(layout.TRIPLETS):
        raise MaghubError(
            f"holds no config {layout.TRIPLETS}, so it is no knowledge graph",
            where=folder,
            fix="build one, e.g.: maghub build markg --out FOLDER",
        )
    config = spec.config(layout.TRIPLETS)
    if missing := [column for column in TRIPLET_COLUMNS if column not in config.features]:
        raise MaghubError("column is missing", where=place(layout.TRIPLETS, missing[0]))
    if not config.rows:
        raise MaghubError("the knowledge graph holds no triplet", where=folder)
    table = read_columns(folder, config, TRIPLET_COLUMNS)
    counts: dict[str, int] = {}
    entities, entity_config = _entities(folder, spec, table, counts)
    relations = _relations(folder, spec, table, counts)
    pictures, is_picture = _pictured(folder, entity_config, len(entities))
    columns = (
        _codes(table[layout.HEAD_ID], entities.ids),
        _codes(table[layout.REL_ID], relations.ids),
        _codes(table[layout.TAIL_ID], entities.ids),
    )
    first = np.sort(np.unique(np.stack(columns), axis=1, return_index=True)[1])
    heads, rels, tails = (column[first] for column in columns)
    counts["repeated triplets"] = table.num_rows - len(first)
    counts["pictures without an image"] = int((is_picture & (pictures == 0)).sum())
    return KnowledgeGraph(
        folder, spec, entities, relations, heads, rels, tails, pictures, is_picture, counts
    )


def _codes(column: pa.ChunkedArray, ids: Sequence[str]) -> Ints:
    at = pc.index_in(column, value_set=pa.array(ids, pa.string()))
    return np.asarray(at.combine_chunks(), dtype=np.int64)


def _keys(table: pa.Table, column: str, config: str) -> list[str]:
    """A column of ids.

    Raises:
        MaghubError: One is null or empty, or no UTF-8.
    """
    ids = texts(table, column, config)
    if not all(ids):
        where = place(config, column, ids.index(""))
        raise MaghubError("holds no id", where=where, fix="give every row one")
    return ids


def texts(table: pa.Table, column: str, config: str) -> list[str]:
    """A text column as strings, nulls as "".

    Raises:
        MaghubError: A cell is not UTF-8; its row is named.
    """
    if column not in table.column_names:
        return [""] * table.num_rows
    filled = pc.fill_null(table[column], "")
    try:
        return list(filled.to_pylist())
    except UnicodeDecodeError:
        for row, cell in enumerate(filled.cast(pa.binary()).to_pylist()):
            try:
                cell.decode("utf-8")
            except UnicodeDecodeError as error:
                what = f"is not UTF-8 (byte {error.start})"
                fix = "the file is damaged: build the graph again"
                raise MaghubError(what, where=place(config, column, row), fix=fix) from None
        raise


def _columns(config: ConfigSpec, *wanted: str) -> list[str]:
    return [column for column in wanted if column in config.features]


def _entities(
    folder: Path, spec: FolderSpec, triplets: pa.Table, counts: dict[str, int]
) -> tuple[Named, ConfigSpec | None]:
    """Entities of the config, in its order, and after them those that only triplets name."""
    ends = [
        (_keys(triplets, key, layout.TRIPLETS), texts(triplets, text, layout.TRIPLETS))
        for key, text in ((layout.HEAD_ID, layout.HEAD_TEXT), (layout.TAIL_ID, layout.TAIL_TEXT))
    ]
    config = spec.config(layout.ENTITIES) if spec.has(layout.ENTITIES) else None
    own = Named([], [], [])
    if config is not None:
        own = _named(folder, config, ENTITY_ID)
    named = _completed(own, ends, counts, "entities")
    return named, config


def _relations(folder: Path, spec: FolderSpec, triplets: pa.Table, counts: dict[str, int]) -> Named:
    ends = [
        (
            _keys(triplets, layout.REL_ID, layout.TRIPLETS),
            texts(triplets, layout.REL_TEXT, layout.TRIPLETS),
        )
    ]
    own = Named([], [], [])
    if spec.has(layout.RELATIONS):
        own = _named(folder, spec.config(layout.RELATIONS), layout.REL_ID)
    return _completed(own, ends, counts, "relations")


def _named(folder: Path, config: ConfigSpec, key: str) -> Named:
    key = key if key in config.features else layout.ID
    if key not in config.features:
        raise MaghubError("column is missing", where=place(config.name, key))
    columns = _columns(config, key, layout.NAME, layout.DESCRIPTION)
    table = read_columns(folder, config, columns)
    ids = _keys(table, key, config.name)
    if (again := repeated(pa.array(ids, pa.string()))).any():
        first = int(np.argmax(again))
        raise MaghubError(f"id {ids[first]} comes twice", where=place(config.name, key, first))
    names = (texts(table, column, config.name) for column in (layout.NAME, layout.DESCRIPTION))
    return Named(ids, *([text.strip() for text in column] for column in names))


def _completed(
    own: Named, ends: list[tuple[list[str], list[str]]], counts: dict[str, int], what: str
) -> Named:
    """Names that the table lacks, from the triplets; how many have none anywhere is counted."""
    said: dict[str, str] = {}
    for keys, names in ends:
        for key, name in zip(keys, names, strict=True):
            if not said.get(key):
                said[key] = name.strip()
    known = set(own.ids)
    more = [key for key in said if key not in known]
    ids = [*own.ids, *more]
    names = [*own.names, *[""] * len(more)]
    names = [name or said.get(key, "") for key, name in zip(ids, names, strict=True)]
    if own.ids and more:
        counts[f"{what} without a row"] = len(more)
    if without := sum(not name for key, name in zip(ids, names, strict=True) if key in said):
        counts[f"{what} without a text"] = without
    return Named(ids, names, [*own.descriptions, *[""] * len(more)])


def _pictured(folder: Path, config: ConfigSpec | None, entities: int) -> tuple[Ints, Bools]:
    """How many pictures each entity has, and which entities are themselves pictures."""
    pictures, is_picture = np.zeros(entities, np.int64), np.zeros(entities, bool)
    if config is None:
        return pictures, is_picture
    features = features_from_dict(config.features)
    kind = features.get(KIND)
    if isinstance(kind, ClassLabel) and PICTURE_KIND in kind.names:
        codes = read_columns(folder, config, [KIND])[KIND].combine_chunks()
        is_picture[: len(codes)] = np.asarray(codes) == kind.str2int(PICTURE_KIND)
    if (column := picture_column(config)) is None:
        return pictures, is_picture
    row = 0
    for _, _, table in iter_groups(folder, config, [column]):
        pictures[row : row + table.num_rows] = _counted(table[column])
        row += table.num_rows
    return pictures, is_picture


def picture_column(config: ConfigSpec) -> str | None:
    """The column with the pictures of entities: several each, one each, or there is none."""
    features: dict[str, Any] = features_from_dict(config.features)
    several = features.get(layout.IMAGES)
    if isinstance(several, List) and isinstance(several.feature, Image):
        return layout.IMAGES
    return layout.IMAGE if isinstance(features.get(layout.IMAGE), Image) else None


def _counted(column: pa.ChunkedArray) -> Ints:
    """Pictures in each row, of a list or of one: those that have bytes."""
    array = column.combine_chunks()
    if not pa.types.is_struct(array.type):
        rows = np.asarray(pc.list_parent_indices(array))
        return np.bincount(rows, _there(pc.list_flatten(array)), len(array)).astype(np.int64)
    return _there(array)


def _there(pictures: pa.Array) -> Ints:
    """1 for each picture that has bytes, else 0."""
    length = pc.binary_length(pc.struct_field(pictures, "bytes"))
    there = pc.and_(pictures.is_valid(), pc.greater(length, 0))
    return np.asarray(pc.cast(pc.fill_null(there, False), pa.int64()))


class EntityPictures:
    """Bytes of the pictures of entities, read when asked for; reading in row order is cheap.

    Picklable: each process opens the files itself.
    """

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._folder = graph.folder
        self._config = graph.spec.config(layout.ENTITIES)
        column = picture_column(self._config)
        if column is None:
            raise MaghubError("holds no pictures", where=graph.folder)
        self._column = column
        self._reader: RowReader | None = None
        self._last: tuple[int, list[bytes]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reader": None, "_last": None}

    def __call__(self, entity: int) -> list[bytes]:
        """All pictures of an entity, in stored order."""
        if self._last is None or self._last[0] != entity:
            if self._reader is None:
                self._reader = RowReader(self._folder, self._config, [self._column])
            (table,) = self._reader(entity, entity + 1)
            cell = table[self._column][0].as_py()
            cells = cell if isinstance(cell, list) else [cell]
            self._last = entity, [one["bytes"] for one in cells if one and one["bytes"]]
        return self._last[1]
