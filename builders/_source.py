"""The builder pattern: a source parses upstream once; one generic builder exposes its tables.

A dataset is a ``maghub.tables.Source`` (what the upstream files say, as typed tables) and a
subclass of ``SourceBuilder`` that names it::

    class Emoji(SourceBuilder):
        SOURCE = EmojiSource

so that ``Emoji(config_name="edges").download_and_prepare()`` and ``.as_dataset()`` work as users of
``datasets`` expect, while ``maghub.build`` sends the same tables through the one Parquet writer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import datasets
import pyarrow as pa

import maghub
from maghub.errors import MaghubError, nearest
from maghub.tables import (
    AnyTable,
    Batch,
    Facts,
    MadeTable,
    Part,
    Recipe,
    Source,
    Table,
    by_split,
    in_memory,
)

__all__ = [
    "AnyTable",
    "Batch",
    "Facts",
    "MadeTable",
    "Part",
    "Recipe",
    "Source",
    "SourceBuilder",
    "SourceConfig",
    "Table",
    "by_split",
    "in_memory",
    "require_raw",
]


@dataclass
class SourceConfig(datasets.BuilderConfig):
    """Config of any table of any source; ``raw_state`` makes a changed raw folder a new cache."""

    raw_dir: str | None = None
    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    raw_state: str = ""


def _state(raw_dir: str | None, source: str) -> str:
    """Digest of source, versions and the raw files' names, sizes and times: no cache is stale."""
    digest = hashlib.sha256(f"{maghub.__version__}\0{source}\n".encode())
    for path in sorted(Path(raw_dir).rglob("*")) if raw_dir is not None else ():
        if path.is_file():
            info = path.stat()
            digest.update(f"{path}\0{info.st_size}\0{info.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


class SourceBuilder(datasets.ArrowBasedBuilder):
    """Exposes every table of ``SOURCE`` as a ``datasets`` builder config of the same name.

    Options of the source are keyword arguments: ``Clegr(config_name="subway-facts", graphs=20)``.
    """

    SOURCE: ClassVar[type[Source]]
    BUILDER_CONFIG_CLASS = SourceConfig
    DEFAULT_CONFIG_NAME = "nodes"

    def __init__(
        self,
        cache_dir: str | None = None,
        *,
        config_name: str | None = None,
        raw_dir: str | Path | None = None,
        **kwargs: Any,
    ) -> None:
        raw = None if raw_dir is None else str(raw_dir)
        name = config_name or self.DEFAULT_CONFIG_NAME
        state = _state(raw, f"{self.SOURCE.name} {self.SOURCE.version}")
        if options := {key: kwargs.pop(key) for key in self.SOURCE.defaults if key in kwargs}:
            kwargs["options"] = options
        super().__init__(cache_dir, config_name=name, raw_dir=raw, raw_state=state, **kwargs)

    def _info(self) -> datasets.DatasetInfo:
        if self.SOURCE.configs and self.config.name not in self.SOURCE.configs:
            raise nearest(self.config.name, self.SOURCE.configs, kind="config")
        return datasets.DatasetInfo()

    def _split_generators(self, dl_manager: Any) -> list[datasets.SplitGenerator]:
        raw = None if self.config.raw_dir is None else Path(self.config.raw_dir)
        tables = self.SOURCE(raw, self.config.seed, **self.config.options).tables()
        by_name = {table.config: table for table in tables}
        if self.config.name not in by_name:
            raise nearest(self.config.name, by_name, kind="config")
        table = by_name[self.config.name]
        self.info.features = table.features
        return [
            datasets.SplitGenerator(
                name=split,
                gen_kwargs={"table": table, "split": split, "parts": list(table.parts_of(split))},
            )
            for split in table.present()
        ]

    def _generate_tables(
        self, table: AnyTable, split: str, parts: list[Part]
    ) -> Iterator[tuple[Any, pa.Table]]:
        for index, rows in enumerate(table.iter_split(split, parts)):
            yield (parts[0][0], index), rows


def require_raw(name: str, raw_dir: Path | None, files: dict[str, str]) -> Path:
    """The raw folder, once every needed file lies there.

    Args:
        name: Dataset name, for the message.
        raw_dir: The folder given by the user.
        files: Relative path to a word on how to get it.

    Raises:
        MaghubError: Lists everything that is missing at once.
    """
    missing = [
        f"{path} ({how})"
        for path, how in files.items()
        if raw_dir is None or not (raw_dir / path).exists()
    ]
    if missing or raw_dir is None:
        raise MaghubError(
            f"{name} needs: {'; '.join(missing)}",
            where=raw_dir or "no --raw-dir given",
            fix="put them into one folder and pass it as --raw-dir",
        )
    return raw_dir
