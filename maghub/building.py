"""Build a dataset: upstream's raw files or the user's own tables in, a published folder out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maghub import registry
from maghub.cards import Card, read_card
from maghub.errors import MaghubError
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
    if raw_dir is not None and not Path(raw_dir).is_dir():
        raise MaghubError("is not a folder", where=raw_dir, fix="give the folder of the raw files")
    source: Source = registry.get("builders", name).SOURCE(
        Path(raw_dir) if raw_dir is not None else None, seed, **options
    )
    return _write(source, card, out, workers, overwrite)


def build_own(
    name: str,
    out: str | Path,
    source: Any,
    *,
    card: str | Path | Card,
    edges: Any = None,
    images: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
    seed: int = 0,
    workers: int = 1,
    overwrite: bool = False,
    **options: str | int | float | bool | None,
) -> FolderSpec:
    """Build a dataset of your own from tables and pictures, or from a graph of another library.

    Nodes need a column ``id``; ``text``, ``label``, ``image`` and ``split`` are used where they are
    there. Edges need ``src`` and ``dst``, which name ids; ``relation`` and ``edge-split`` are used
    where they are there. ``columns`` says what they are called in your tables. Further columns are
    kept where the card declares them (``columns: {nodes: {year: ...}}``); all others are left out
    and named in the notes of ``maghub.json``. Without a split of your own, labelled nodes are split
    60/20/20 within each class and node pairs 70/10/20.

    Args:
        name: Name of the dataset; the card must have the same.
        out: The folder to make; it appears complete or not at all.
        source: Nodes as .csv, .tsv, .jsonl, .parquet, an Arrow table or a dictionary of columns;
            or a graph: PyG ``Data`` (.pt), networkx (.graphml, .edgelist), a DGL file (.bin).
        card: The card, or its file; ``maghub init NAME`` writes one to fill in.
        edges: Edges, likewise; not needed with a graph. A graph given here gives its edges only.
        images: Folder of pictures, named by the column ``image``, or as the ids are.
        columns: What is called how, e.g. ``{"id": "product_id", "text": "title"}``.
        seed: Seed of our splits and negatives.
        workers: Processes that read pictures; the bytes written do not depend on it.
        overwrite: Replace an existing folder.
        **options: ``self_loops`` (default False) keeps loops, ``negatives`` (default 50) is the
            number of negatives per validation and test edge.

    Raises:
        MaghubError: With file, column and row: an id that stands twice or is missing, an edge that
            names an unknown node, a picture that is not there, a cell that is not UTF-8, ...
    """
    own = card if isinstance(card, Card) else read_card(Path(card))
    if own.spec.name != name:
        what = f"is the card of '{own.spec.name}', not of '{name}'"
        where = "card" if isinstance(card, Card) else card
        raise MaghubError(what, where=where, fix=f"write name: {name} into it")
    made = registry.get("importers", "own")(
        source, card=own, edges=edges, images=images, columns=columns, seed=seed, **options
    )
    return _write(made, own, out, workers, overwrite)


def _write(
    source: Source, card: Card, out: str | Path, workers: int, overwrite: bool
) -> FolderSpec:
    """What a source says, as a published folder."""
    tables, facts = source.tables(), source.facts()
    builder = BuilderInfo(
        name=source.name,
        version=source.version,
        seed=source.seed,
        options=dict(source.options),
        sources=facts.sources,
    )
    own_card = source.complete(card)
    return write_folder(
        Path(out), tables, facts, builder, own_card, workers=workers, overwrite=overwrite
    )
