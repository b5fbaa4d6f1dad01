"""Takes parts out of a published folder: what remains is again a valid published folder.

Pictures and texts are blanked (null, and "" for text) so that the columns stay; embeddings, and
tables that would be nothing without their texts, go as whole configs with what refers to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from datasets import ClassLabel, Features, Value

from maghub import layout
from maghub.cards import Card, read_card
from maghub.errors import MaghubError
from maghub.files import os_errors
from maghub.parquet import SplitWriter
from maghub.reader import iter_groups
from maghub.schema import features_from_dict, vector_columns
from maghub.spec import TABLE_KINDS, VECTOR_KINDS, ConfigSpec, FolderSpec
from maghub.statistics import measure, measure_texts
from maghub.tables import typed
from maghub.validation import validate
from maghub.writing import write_metadata

_IDS = (layout.SOURCE_ID, layout.GRAPH_ID)
_TEXT_TYPES = ("string", "large_string")


def _leaves(feature: object) -> Iterator[object]:
    """The types within a nested column type."""
    if isinstance(feature, dict):
        for child in feature.values():
            yield from _leaves(child)
    elif isinstance(feature, (list, tuple)):
        yield from _leaves(feature[0])
    elif hasattr(feature, "feature"):
        yield from _leaves(feature.feature)
    else:
        yield feature


def _is_text(feature: object) -> bool:
    return any(isinstance(leaf, Value) and leaf.dtype in _TEXT_TYPES for leaf in _leaves(feature))


def _is_media(feature: object) -> bool:
    """Pictures, and whatever else may hide some: bytes, audio, video."""
    return any(
        leaf.dtype.endswith("binary") if isinstance(leaf, Value) else True
        for leaf in _leaves(feature)
        if not isinstance(leaf, ClassLabel)
    )


def columns_of(config: ConfigSpec, part: str) -> list[str]:
    """Columns of a config that belong to ``text``, ``images`` or ``embeddings``."""
    features = features_from_dict(config.features)
    if part == "embeddings":
        return list(vector_columns(features))
    if part == "images":
        return [name for name, feature in features.items() if _is_media(feature)]
    return [n for n, feature in features.items() if n not in _IDS and _is_text(feature)]


def holds(spec: FolderSpec, part: str) -> bool:
    """Whether a folder has anything of a part."""
    return part == "graph" or any(columns_of(config, part) for config in spec.configs)


def _dropped(spec: FolderSpec, parts: Sequence[str]) -> set[str]:
    """Configs that go as a whole, with those keyed to them."""
    gone: set[str] = set()
    for config in spec.configs:
        vectors = config.kind in VECTOR_KINDS and "embeddings" in parts
        texts = config.kind in TABLE_KINDS and "text" in parts and columns_of(config, "text")
        if vectors or texts:
            gone.add(config.name)
    while more := {c.name for c in spec.configs if c.target in gone} - gone:
        gone |= more
    return gone


def _blanked(table: pa.Table, features: Features, blank: Sequence[str]) -> pa.Table:
    """The table with its blank columns put back: "" for text, else null."""
    schema = features.arrow_schema
    for name in blank:
        kind = schema.field(name).type
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        values = pa.repeat(pa.scalar("", kind), len(table)) if text else pa.nulls(len(table), kind)
        table = table.append_column(name, values)
    return typed(table, features)


def _rewrite(folder: Path, out: Path, config: ConfigSpec, blank: Sequence[str]) -> ConfigSpec:
    """Write a config with blank columns, whose stored values are not even read."""
    features = features_from_dict(config.features)
    kept = [name for name in features if name not in blank]
    writers = []
    for split in config.splits:
        with SplitWriter(out, config.name, split, features) as writer:
            for _, _, table in iter_groups(folder, config, kept, split):
                writer.write(_blanked(table, features, blank))
        writers.append(writer)
    num_bytes = {writer.split: writer.num_bytes for writer in writers}
    files = tuple(entry for writer in writers for entry in writer.entries)
    return config.model_copy(update={"num_bytes": num_bytes, "files": files})


def _link(folder: Path, out: Path, config: ConfigSpec) -> ConfigSpec:
    """Links to the files of a config that stays as it is."""
    for entry in config.files:
        (out / entry.path).parent.mkdir(parents=True, exist_ok=True)
        (out / entry.path).symlink_to((folder / entry.path).resolve())
    return config


def _noted(card: Card, parts: Sequence[str], kept: set[str]) -> Card:
    """The card, telling readers what is not there."""
    lines = [f"This copy leaves out the {part}: their policy is `local`." for part in parts]
    quirks = tuple(dict.fromkeys((*card.spec.quirks, *lines)))
    declared = card.spec.columns.items()
    columns = {config: columns for config, columns in declared if config in kept}
    update = {"quirks": quirks, "columns": columns}
    return card.model_copy(update={"spec": card.spec.model_copy(update=update)})


def _left(folder: Path, out: Path, spec: FolderSpec, parts: Sequence[str]) -> FolderSpec:
    """Write the configs that remain; the spec that describes them, measured again."""
    gone = _dropped(spec, parts)
    configs = []
    for config in spec.configs:
        if config.name in gone:
            continue
        blank = sorted({name for part in parts for name in columns_of(config, part)})
        configs.append(
            _rewrite(folder, out, config, blank) if blank else _link(folder, out, config)
        )
    if not configs:
        parts_text = " and ".join(parts)
        what = f"nothing would be left without its {parts_text}, whose policy is local"
        raise MaghubError(what, where=spec.name)
    update: dict[str, object] = {
        "configs": tuple(configs),
        "encoders": tuple(encoder for encoder in spec.encoders if encoder.config not in gone),
        "images": {} if "images" in parts else spec.images,
        "text_lengths": measure_texts(out, configs),
    }
    if spec.graph is not None and spec.has(layout.NODES):
        nodes = next(config for config in configs if config.kind == "nodes")
        edges = next((config for config in configs if config.kind == "edges"), None)
        graph = spec.graph
        update["statistics"], _ = measure(out, nodes, edges, directed=graph.directed, key=graph.key)
    return spec.model_copy(update=update)


def strip(folder: Path, spec: FolderSpec, parts: Sequence[str], out: Path) -> FolderSpec:
    """Write into ``out`` the folder without some parts; same input, same bytes.

    Args:
        folder: A valid published folder.
        spec: Its ``maghub.json``.
        parts: Of ``text``, ``images`` and ``embeddings``.
        out: An empty folder; what does not change becomes a link to the original.

    Raises:
        MaghubError: Nothing would be left, or the disk refuses.
    """
    with os_errors(out):
        left = _left(folder, out, spec, parts)
        card = read_card(folder / layout.CARD_SOURCE_FILE)
        write_metadata(out, _noted(card, parts, {config.name for config in left.configs}), left)
    report = validate(out)
    if not report.ok:
        line = report.problems[0].line()
        raise MaghubError(f"is not valid without its {' and '.join(parts)} ({line})", where=folder)
    return left
