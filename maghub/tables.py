"""What a builder hands to the writer: typed tables made part by part, and the facts beside them.

A ``Table`` knows its number of rows and is read by row range. A ``MadeTable`` belongs to a
``Recipe`` that makes the rows of several configs together; how many shows once they are made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from datasets import Features
from datasets.table import table_cast
from numpy.typing import NDArray

from maghub import layout
from maghub.cards import Card
from maghub.errors import MaghubError, nearest
from maghub.spec import EncoderProvenance, Kind, NegativesRule, SplitRule

DEFAULT_PART_SIZE = 50_000
IMAGE_COUNTS = "images"
"""Key of ``Batch.counts`` under which a reader counts what became of its images."""

Part = tuple[int, ...]
"""The arguments that name one unit of work."""


class Batch(NamedTuple):
    """What one unit of work gives.

    Attributes:
        rows: The rows of each config and split; a split without rows may be left out.
        counts: Nested dictionaries of numbers; the sums over all units go into the notes.
    """

    rows: Mapping[str, Mapping[str, pa.Table]]
    counts: Mapping[str, Any] = {}


class Counted(NamedTuple):
    """Rows with what was counted while reading them (see ``Batch.counts``)."""

    rows: pa.Table
    counts: Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """One config as rows ``0..num_rows-1`` that can be read in any range.

    Attributes:
        config: Config name.
        kind: What the table is in the contract.
        features: Column types.
        num_rows: Rows over all splits.
        read: ``read(start, stop)`` gives those rows as an Arrow table, or ``Counted`` rows; a pure
            function, picklable where ``parallel`` is set, so that workers may call it in any order.
        split_names: Names of the splits, in stored order.
        split_ids: int8 [num_rows], index into ``split_names``; None where there is one split.
        part_size: Rows of one unit of work.
        parallel: Whether reading is worth a worker process (decoding images, parsing text).
        target: The config whose rows this table is keyed to.
    """

    config: str
    kind: Kind
    features: Features
    num_rows: int
    read: Callable[[int, int], pa.Table | Counted]
    split_names: tuple[str, ...] = (layout.FULL,)
    split_ids: NDArray[np.int8] | None = None
    part_size: int = DEFAULT_PART_SIZE
    parallel: bool = False
    target: str | None = None

    def parts(self) -> list[tuple[int, int]]:
        """Row ranges of the units of work, in order."""
        starts = range(0, self.num_rows, self.part_size)
        return [(start, min(start + self.part_size, self.num_rows)) for start in starts]

    def present(self) -> list[str]:
        """The splits that have rows, in stored order."""
        if self.split_ids is None:
            return list(self.split_names) if self.num_rows else []
        codes = np.unique(self.split_ids)
        return [self.split_names[code] for code in codes]

    def parts_of(self, split: str) -> Sequence[Part]:
        """The units of work that may hold rows of a split: here, all of them."""
        return self.parts()

    def _read(self, start: int, stop: int) -> Counted:
        """Rows ``start..stop`` cast to exactly the Arrow types of ``features``, and the counts."""
        found = self.read(start, stop)
        rows, counts = found if isinstance(found, Counted) else (found, {})
        return Counted(typed(rows, self.features), counts)

    def read_typed(self, start: int, stop: int) -> pa.Table:
        """Rows ``start..stop`` cast to exactly the Arrow types of ``features``."""
        return self._read(start, stop).rows

    def make(self, start: int, stop: int) -> Batch:
        """Rows ``start..stop`` by split.

        Raises:
            MaghubError: ``read`` gave another number of rows.
        """
        rows, counts = self._read(start, stop)
        if rows.num_rows != stop - start:
            raise MaghubError(
                f"builder gave {rows.num_rows} rows for {start}..{stop}",
                where=self.config,
                fix="this is a bug of the builder",
            )
        if self.split_ids is None:
            return Batch({self.config: {self.split_names[0]: rows}}, counts)
        codes = self.split_ids[start:stop]
        return Batch({self.config: by_split(rows, codes, self.split_names)}, counts)

    def rows_of(self, split: str, start: int, stop: int) -> NDArray[np.bool_] | None:
        """Mask over rows ``start..stop`` that belong to ``split``; None means all of them."""
        if self.split_ids is None:
            return None
        return self.split_ids[start:stop] == self.split_names.index(split)

    def iter_split(self, split: str, parts: Sequence[Part]) -> Iterator[pa.Table]:
        """The rows of one split within the given parts."""
        for start, stop in parts:
            mask = self.rows_of(split, start, stop)
            if mask is None or mask.any():
                table = self.read_typed(start, stop)
                yield table if mask is None else table.filter(pa.array(mask))


@dataclass(frozen=True)
class Recipe:
    """How the rows of several configs are made together, part by part.

    Attributes:
        make: ``make(*part)`` gives the rows of every config in one part; pure and picklable, so
            that workers may call it in any order.
        splits: The parts that hold rows of each split, in stored order; a part may be named in
            several.
    """

    make: Callable[..., Batch]
    splits: Mapping[str, Sequence[Part]]

    def parts(self) -> list[Part]:
        """All parts, each once, in order."""
        return list(dict.fromkeys(part for parts in self.splits.values() for part in parts))


@dataclass(frozen=True)
class MadeTable:
    """One config of a recipe; configs of one recipe are written in one pass.

    Attributes:
        config: Config name.
        kind: What the table is in the contract.
        features: Column types.
        recipe: What makes its rows.
        target: The config whose rows this table is keyed to.
    """

    config: str
    kind: Kind
    features: Features
    recipe: Recipe
    target: str | None = None

    @property
    def split_names(self) -> tuple[str, ...]:
        """Names of the splits, in stored order."""
        return tuple(self.recipe.splits)

    def present(self) -> list[str]:
        """The splits that have rows, in stored order."""
        return [split for split, parts in self.recipe.splits.items() if parts]

    def parts_of(self, split: str) -> Sequence[Part]:
        """The units of work that may hold rows of a split."""
        return self.recipe.splits[split]

    def iter_split(self, split: str, parts: Sequence[Part]) -> Iterator[pa.Table]:
        """The rows of one split within the given parts."""
        for part in parts:
            rows = self.recipe.make(*part).rows[self.config].get(split)
            if rows is not None and rows.num_rows:
                yield typed(rows, self.features)


AnyTable = Table | MadeTable


def typed(table: pa.Table, features: Features) -> pa.Table:
    """A table with the columns of ``features`` in order, cast to exactly their Arrow types."""
    return table_cast(table.select(list(features)), features.arrow_schema)


def by_split(rows: pa.Table, codes: NDArray[np.int8], names: Sequence[str]) -> dict[str, pa.Table]:
    """Rows sorted into splits by their codes (indices into ``names``), order kept."""
    present = np.unique(codes)
    if len(present) == 1:
        return {names[present[0]]: rows}
    return {names[code]: rows.filter(pa.array(codes == code)) for code in present}


def add_counts(total: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add nested dictionaries of numbers to ``total`` in place."""
    for name, value in more.items():
        if isinstance(value, Mapping):
            add_counts(total.setdefault(name, {}), value)
        else:
            total[name] = total.get(name, 0) + value


@dataclass(frozen=True)
class _Slices:
    """Reads ranges of an Arrow table in memory (picklable)."""

    table: pa.Table

    def __call__(self, start: int, stop: int) -> pa.Table:
        return self.table.slice(start, stop - start)


def in_memory(
    config: str,
    kind: Kind,
    features: Features,
    columns: dict[str, object] | pa.Table,
    *,
    split_names: tuple[str, ...] = (layout.FULL,),
    split_ids: NDArray[np.int8] | None = None,
    target: str | None = None,
) -> Table:
    """A ``Table`` over columns already in memory (numpy arrays, lists or an Arrow table)."""
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    return Table(
        config=config,
        kind=kind,
        features=features,
        num_rows=table.num_rows,
        read=_Slices(table),
        split_names=split_names,
        split_ids=split_ids,
        target=target,
    )


@dataclass(frozen=True)
class Facts:
    """What a source says about its tables beyond their columns (measured counts come later)."""

    directed: bool = False
    self_loops: bool = False
    multi_edges: bool = False
    edge_key: tuple[str, ...] = (layout.SRC, layout.DST)
    default_split: str | None = None
    node_splits: tuple[SplitRule, ...] = ()
    edge_splits: tuple[SplitRule, ...] = ()
    query_splits: tuple[SplitRule, ...] = ()
    negatives: tuple[NegativesRule, ...] = ()
    encoders: tuple[EncoderProvenance, ...] = ()
    images: dict[str, int] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    notes: dict[str, object] = field(default_factory=dict)


class Source(ABC):
    """One upstream dataset: parses raw files once and yields typed tables.

    Subclasses set ``name`` and ``configs`` and implement ``tables`` and ``facts``; both may be
    called any number of times and must give the same answer for the same files and seed.
    """

    name: str
    version: str = "1.0.0"
    configs: tuple[str, ...] = ()
    defaults: ClassVar[dict[str, str | int | float | bool | None]] = {}

    def __init__(
        self,
        raw_dir: Path | None = None,
        seed: int = 0,
        **options: str | int | float | bool | None,
    ) -> None:
        self.raw_dir = Path(raw_dir) if raw_dir is not None else None
        self.seed = seed
        unknown = sorted(set(options) - set(self.defaults))
        if unknown:
            if not self.defaults:
                raise MaghubError(f"builder {self.name} has no options, so not '{unknown[0]}'")
            raise nearest(unknown[0], self.defaults, kind=f"option of builder {self.name}")
        self.options = {**self.defaults, **options}

    @abstractmethod
    def tables(self) -> Sequence[AnyTable]:
        """All configs of the dataset, the default one (``nodes`` of a graph) first."""

    @abstractmethod
    def facts(self) -> Facts:
        """Graph nature, split rules and provenance of what ``tables`` gives."""

    def complete(self, card: Card) -> Card:
        """The card with what only this source knows; here, as it is."""
        return card
