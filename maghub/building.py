"""Build a dataset by name: upstream raw files in, a published folder out."""

from __future__ import annotations

from pathlib import Path

from maghub import registry
from maghub.spec import BuilderInfo, FolderSpec
from maghub.tables import Source
from maghub.writing import write_folder


def build(
    name: str,
    out: str | Path,
    raw_dir: str | Path | None = None,
    *,
    seed: int = 0,
    workers: int = 1,
    overwrite: bool = False,
    **options: str | int | float | bool | None,
) -> FolderSpec:
    """Build the registered dataset ``name`` into the folder ``out``.

    Args:
        name: A name from ``maghub.list_datasets()``.
        out: The folder to make; it appears complete or not at all.
        raw_dir: Where the upstream files lie; None lets the builder use what it ships or fetches.
        seed: Seed of our own splits and negatives.
        workers: Processes that read and decode; the bytes written do not depend on it.
        overwrite: Replace an existing folder.
        **options: Options of that builder.

    Raises:
        MaghubError: Unknown name, missing or damaged raw files, or the disk refuses.
    """
    card = registry.card(name)
    source: Source = registry.get("builders", name).SOURCE(
        Path(raw_dir) if raw_dir is not None else None, seed, **options
    )
    tables, facts = source.tables(), source.facts()
    builder = BuilderInfo(
        name=name,
        version=source.version,
        seed=seed,
        options=dict(source.options),
        sources=facts.sources,
    )
    return write_folder(
        Path(out), tables, facts, builder, card, workers=workers, overwrite=overwrite
    )
