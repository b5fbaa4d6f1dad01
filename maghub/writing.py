"""Writes tables and facts as a published folder: Parquet configs, card and maghub.json."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa

from maghub import layout
from maghub.cards import Card, card_problems
from maghub.errors import MaghubError
from maghub.files import staged_folder, write_text
from maghub.parallel import ordered_map
from maghub.parquet import SplitWriter
from maghub.progress import track
from maghub.rendering import render_readme
from maghub.spec import BuilderInfo, ConfigSpec, FolderSpec, GraphSpec
from maghub.statistics import measure
from maghub.tables import Facts, Table


def write_config(folder: Path, table: Table, workers: int = 1) -> ConfigSpec | None:
    """Write one config; None (and nothing written) where the table has no rows."""
    if table.num_rows == 0:
        return None
    codes = range(len(table.split_names))
    present = [
        code for code in codes if table.split_ids is None or bool((table.split_ids == code).any())
    ]
    parts = table.parts()
    pool = workers if table.parallel else 1
    with ExitStack() as stack:
        writers = {
            code: stack.enter_context(
                SplitWriter(folder, table.config, table.split_names[code], table.features)
            )
            for code in present
        }
        results = ordered_map(table.read_typed, parts, pool)
        for (start, stop), rows in zip(
            parts, track(results, f"writing {table.config}", len(parts)), strict=True
        ):
            _route(table, writers, start, stop, rows)
    ordered = list(writers.values())
    return ConfigSpec(
        name=table.config,
        kind=table.kind,
        target=table.target,
        features=table.features.to_dict(),
        splits={writer.split: sum(e.rows for e in writer.entries) for writer in ordered},
        num_bytes={writer.split: writer.num_bytes for writer in ordered},
        files=tuple(entry for writer in ordered for entry in writer.entries),
    )


def _route(
    table: Table, writers: dict[int, SplitWriter], start: int, stop: int, rows: pa.Table
) -> None:
    """Send rows ``start..stop`` to the writers of their splits."""
    if rows.num_rows != stop - start:
        raise MaghubError(
            f"builder gave {rows.num_rows} rows for {start}..{stop}",
            where=table.config,
            fix="this is a bug of the builder",
        )
    if table.split_ids is None:
        writers[0].write(rows)
        return
    ids = table.split_ids[start:stop]
    for code in np.unique(ids):
        writers[int(code)].write(rows.filter(pa.array(ids == code)))


def _graph(
    folder: Path, configs: Sequence[ConfigSpec], facts: Facts
) -> dict[str, object]:
    """The measured fields of the spec for a folder that holds a graph."""
    nodes = next((c for c in configs if c.kind == "nodes"), None)
    if nodes is None:
        return {}
    edges = next((c for c in configs if c.kind == "edges"), None)
    statistics, pairs = measure(
        folder, nodes, edges, directed=facts.directed, key=facts.edge_key
    )
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
    tables: Sequence[Table],
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
    rules = [rule.name for rule in (*facts.node_splits, *facts.edge_splits)]
    if problems := card_problems(card, columns, rules):
        raise MaghubError("; ".join(problems), where=f"card {card.spec.name}", fix="declare them")
    with staged_folder(out, overwrite=overwrite) as staging:
        written = [write_config(staging, table, workers) for table in tables]
        configs = tuple(config for config in written if config is not None)
        if not configs:
            raise MaghubError("every table is empty", where=builder.name, fix="check the raw files")
        spec = FolderSpec(
            name=card.spec.name,
            dataset_version=card.spec.version,
            builder=builder,
            policy=card.spec.policy,
            default_split=facts.default_split,
            node_splits=facts.node_splits,
            edge_splits=facts.edge_splits,
            negatives=facts.negatives,
            images=facts.images,
            notes=dict(facts.notes),
            configs=configs,
            **_graph(staging, configs, facts),  # type: ignore[arg-type]
        )
        write_metadata(staging, card, spec)
    return spec


def write_metadata(folder: Path, card: Card, spec: FolderSpec) -> None:
    """Write maghub.json, the card source and the README, each atomically, README last."""
    write_text(folder / layout.SPEC_FILE, spec.to_json())
    write_text(folder / layout.CARD_SOURCE_FILE, card.to_markdown())
    write_text(folder / layout.CARD_FILE, render_readme(card, spec))
