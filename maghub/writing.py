"""Writes tables and facts as a published folder: Parquet configs, card and maghub.json."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from maghub import layout
from maghub.cards import Card, card_problems
from maghub.croissant import render_croissant
from maghub.errors import MaghubError
from maghub.files import staged_folder, write_text
from maghub.parallel import ordered_map
from maghub.parquet import SplitWriter
from maghub.picturing import render_picture
from maghub.progress import track
from maghub.rendering import render_readme
from maghub.spec import BuilderInfo, ConfigSpec, FolderSpec, GraphSpec
from maghub.statistics import measure, measure_texts
from maghub.tables import IMAGE_COUNTS, AnyTable, Batch, Facts, Part, Table, add_counts, typed


@dataclass(frozen=True)
class _Pass:
    """Tables that are written in one pass: what makes a part of them, and the parts."""

    tables: tuple[AnyTable, ...]
    make: Callable[..., Batch]
    parts: Sequence[Part]
    parallel: bool


def _passes(tables: Sequence[AnyTable]) -> list[_Pass]:
    """One pass per table; the tables of one recipe share theirs."""
    passes: dict[int, _Pass] = {}
    for table in tables:
        if isinstance(table, Table):
            passes[id(table)] = _Pass((table,), table.make, table.parts(), table.parallel)
            continue
        recipe, key = table.recipe, id(table.recipe)
        shared = (*passes[key].tables, table) if key in passes else (table,)
        passes[key] = _Pass(shared, recipe.make, recipe.parts(), True)
    return list(passes.values())


@dataclass(frozen=True)
class _MakeAny:
    """Makes a part of any of several passes (picklable): one pool of workers serves them all."""

    makers: tuple[Callable[..., Batch], ...]

    def __call__(self, number: int, *part: int) -> Batch:
        return self.makers[number](*part)


def write_tables(
    folder: Path, tables: Sequence[AnyTable], workers: int = 1
) -> tuple[list[ConfigSpec], dict[str, Any]]:
    """Write configs; those without rows are left out.

    Returns:
        The configs in the order of ``tables``, and the sums of what was counted while making them.
    """
    written: dict[str, ConfigSpec] = {}
    counts: dict[str, Any] = {}
    passes = _passes(tables)
    for parallel in (True, False):
        chosen = [one for one in passes if one.parallel is parallel]
        units = [(number, *part) for number, one in enumerate(chosen) for part in one.parts]
        make_any = _MakeAny(tuple(one.make for one in chosen))
        with closing(ordered_map(make_any, units, workers if parallel else 1)) as batches:
            for one in chosen:
                for config in _write_pass(folder, one, batches, counts):
                    written[config.name] = config
    return [written[table.config] for table in tables if table.config in written], counts


def _write_pass(
    folder: Path, one: _Pass, batches: Iterator[Batch], counts: dict[str, Any]
) -> list[ConfigSpec]:
    """Write the tables of one pass from the next batches; a split's files start with its rows."""
    writers: dict[str, dict[str, SplitWriter]] = {table.config: {} for table in one.tables}
    label = f"writing {', '.join(writers)}"
    with ExitStack() as stack:
        for batch in track(islice(batches, len(one.parts)), label, len(one.parts)):
            add_counts(counts, batch.counts)
            for table in one.tables:
                own = writers[table.config]
                for split, rows in batch.rows.get(table.config, {}).items():
                    if not rows.num_rows:
                        continue
                    if split not in own:
                        writer = SplitWriter(folder, table.config, split, table.features)
                        own[split] = stack.enter_context(writer)
                    own[split].write(typed(rows, table.features))
    return [_spec(table, writers[table.config]) for table in one.tables if writers[table.config]]


def _spec(table: AnyTable, writers: dict[str, SplitWriter]) -> ConfigSpec:
    """What was written of one table, splits in stored order."""
    ordered = [writers[split] for split in table.split_names if split in writers]
    return ConfigSpec(
        name=table.config,
        kind=table.kind,
        target=table.target,
        features=table.features.to_dict(),
        splits={writer.split: sum(e.rows for e in writer.entries) for writer in ordered},
        num_bytes={writer.split: writer.num_bytes for writer in ordered},
        files=tuple(entry for writer in ordered for entry in writer.entries),
    )


def write_config(folder: Path, table: AnyTable, workers: int = 1) -> ConfigSpec | None:
    """Write one config; None (and nothing written) where the table has no rows."""
    configs, _ = write_tables(folder, [table], workers)
    return configs[0] if configs else None


def _graph(folder: Path, configs: Sequence[ConfigSpec], facts: Facts) -> dict[str, object]:
    """The measured fields of the spec for a folder that holds a graph."""
    nodes = next((c for c in configs if c.kind == "nodes"), None)
    if nodes is None:
        return {}
    edges = next((c for c in configs if c.kind == "edges"), None)
    statistics, pairs = measure(folder, nodes, edges, directed=facts.directed, key=facts.edge_key)
    graph = GraphSpec(
        directed=facts.directed,
        self_loops=facts.self_loops,
        multi_edges=facts.multi_edges,
        key=facts.edge_key,
        num_nodes=nodes.rows,
        num_edges=edges.rows if edges else 0,
        unique_pairs=pairs,
    )
    return {"graph": graph, "statistics": statistics}


def write_folder(
    out: Path,
    tables: Sequence[AnyTable],
    facts: Facts,
    builder: BuilderInfo,
    card: Card,
    *,
    workers: int = 1,
    overwrite: bool = False,
) -> FolderSpec:
    """Write a whole published folder; it appears at ``out`` complete or not at all.

    Raises:
        MaghubError: ``out`` exists, the OS refuses to write, or the card leaves columns or split
            rules of the tables undeclared.
    """
    columns = {table.config: list(table.features) for table in tables}
    split_rules = (*facts.node_splits, *facts.edge_splits, *facts.query_splits)
    rules = [rule.name for rule in split_rules]
    if problems := card_problems(card, columns, rules):
        raise MaghubError("; ".join(problems), where=f"card {card.spec.name}", fix="declare them")
    with staged_folder(out, overwrite=overwrite) as staging:
        configs, counts = write_tables(staging, tables, workers)
        if not configs:
            raise MaghubError("every table is empty", where=builder.name, fix="check the raw files")
        images = {**facts.images, **counts.pop(IMAGE_COUNTS, {})}
        spec = FolderSpec(
            name=card.spec.name,
            dataset_version=card.spec.version,
            builder=builder,
            policy=card.spec.policy,
            default_split=facts.default_split,
            node_splits=facts.node_splits,
            edge_splits=facts.edge_splits,
            query_splits=facts.query_splits,
            negatives=facts.negatives,
            encoders=facts.encoders,
            images=images,
            notes={**facts.notes, **counts},
            text_lengths=measure_texts(staging, configs),
            configs=tuple(configs),
            **_graph(staging, configs, facts),  # type: ignore[arg-type]
        )
        write_metadata(staging, card, spec)
    return spec


def write_metadata(folder: Path, card: Card, spec: FolderSpec) -> None:
    """Write maghub.json, card.md, what is rendered from both, each atomically, the README last."""
    write_text(folder / layout.SPEC_FILE, spec.to_json())
    write_text(folder / layout.CARD_SOURCE_FILE, card.to_markdown())
    write_text(folder / layout.CROISSANT_FILE, render_croissant(card, spec))
    write_text(folder / layout.PICTURE_FILE, render_picture(spec))
    write_text(folder / layout.CARD_FILE, render_readme(card, spec))
