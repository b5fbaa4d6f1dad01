"""Where the texts and images of a plan's rows come from; read by range, in any process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maghub import layout
from maghub.errors import MaghubError
from maghub.reader import RowReader
from maghub.spec import ConfigSpec


class Inputs(ABC):
    """Rows of texts or images (picklable: another process reads its own shards)."""

    @abstractmethod
    def chunks(self, modality: str, start: int, stop: int) -> Iterator[Sequence[object]]:
        """The values of rows ``start..stop``, a few at a time."""

    @abstractmethod
    def name(self, row: int) -> str:
        """What an error calls a row."""


class ColumnInputs(Inputs):
    """The rows of a config of a published folder, in stored order.

    Args:
        folder: The folder; where other machines encode, they must see it under the same path.
        config: The config; a modality is a column of the same name.
        key: The column that names a row.
    """

    def __init__(self, folder: Path, config: ConfigSpec, key: str) -> None:
        self.folder, self.config, self.key = folder.resolve(), config, key
        self._readers: dict[str, RowReader] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_readers": {}}

    def chunks(self, modality: str, start: int, stop: int) -> Iterator[Sequence[object]]:
        """One chunk per row group."""
        reader = self._readers.setdefault(modality, RowReader(self.folder, self.config, [modality]))
        rows = 0
        for table in reader(start, stop):
            rows += table.num_rows
            yield table[modality].to_pylist()
        if rows != stop - start:
            raise MaghubError(
                f"has {rows:,} rows where maghub.json says {stop - start:,}",
                where=f"{self.folder}, config {self.config.name}",
                fix="build it again",
            )

    def name(self, row: int) -> str:
        """Its id."""
        (table,) = RowReader(self.folder, self.config, [self.key])(row, row + 1)
        word = "node" if self.key == layout.NODE_ID else self.config.name
        return f"{word} {table[self.key][0]}"


def node_inputs(folder: Path, nodes: ConfigSpec) -> ColumnInputs:
    """The nodes of a published folder, in stored order."""
    return ColumnInputs(folder, nodes, layout.NODE_ID)


@dataclass(frozen=True)
class SentenceInputs(Inputs):
    """Texts in memory."""

    texts: Sequence[str]

    def chunks(self, modality: str, start: int, stop: int) -> Iterator[Sequence[object]]:
        """All of them at once."""
        yield self.texts[start:stop]

    def name(self, row: int) -> str:
        """Its number."""
        return f"sentence {row}"
