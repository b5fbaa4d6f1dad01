"""What a builder hands to the writer: typed tables read by row range, and the facts beside them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from datasets import Features
from datasets.table import table_cast
from numpy.typing import NDArray

from maghub import layout
from maghub.spec import Kind, NegativesRule, SplitRule

DEFAULT_PART_SIZE = 50_000


@dataclass(frozen=True)
class Table:
    """One config as rows ``0..num_rows-1`` that can be read in any range.

    Attributes:
        config: Config name.
        kind: What the table is in the contract.
        features: Column types.
        num_rows: Rows over all splits.
        read: ``read(start, stop)`` gives those rows as an Arrow table; a pure function, picklable
            where ``parallel`` is set, so that workers may call it in any order.
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
    read: Callable[[int, int], pa.Table]
    split_names: tuple[str, ...] = (layout.FULL,)
    split_ids: NDArray[np.int8] | None = None
    part_size: int = DEFAULT_PART_SIZE
    parallel: bool = False
    target: str | None = None

    def parts(self) -> list[tuple[int, int]]:
        """Row ranges of the units of work, in order."""
        starts = range(0, self.num_rows, self.part_size)
        return [(start, min(start + self.part_size, self.num_rows)) for start in starts]

    def read_typed(self, start: int, stop: int) -> pa.Table:
        """Rows ``start..stop`` cast to exactly the Arrow types of ``features``."""
        table = self.read(start, stop).select(list(self.features))
        return table_cast(table, self.features.arrow_schema)

    def rows_of(self, split: str, start: int, stop: int) -> NDArray[np.bool_] | None:
        """Mask over rows ``start..stop`` that belong to ``split``; None means all of them."""
        if self.split_ids is None:
            return None
        return self.split_ids[start:stop] == self.split_names.index(split)

    def iter_split(self, split: str, parts: Sequence[tuple[int, int]]) -> Iterator[pa.Table]:
        """The rows of one split within the given parts."""
        for start, stop in parts:
            mask = self.rows_of(split, start, stop)
            if mask is None or mask.any():
                table = self.read_typed(start, stop)
                yield table if mask is None else table.filter(pa.array(mask))


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
    negatives: tuple[NegativesRule, ...] = ()
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
    defaults: dict[str, str | int | float | bool | None] = {}

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
            from maghub.errors import nearest

            raise nearest(unknown[0], self.defaults, kind=f"option of builder {self.name}")
        self.options = {**self.defaults, **options}

    @abstractmethod
    def tables(self) -> list[Table]:
        """All configs of the dataset, ``nodes`` (the default) first."""

    @abstractmethod
    def facts(self) -> Facts:
        """Graph nature, split rules and provenance of what ``tables`` gives."""
