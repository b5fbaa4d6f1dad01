"""``maghub.validate``: everything that is wrong with a published folder, in one run."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from maghub import layout
from maghub.errors import MaghubError
from maghub.files import os_errors
from maghub.reader import open_parquet
from maghub.spec import VECTOR_KINDS, FolderSpec
from maghub.validating.graph import (
    Edges,
    check_counts,
    check_edges,
    check_ids,
    check_statistics,
    read_edges,
)
from maghub.validating.keys import KEY_CHECKS
from maghub.validating.metadata import (
    check_card,
    check_readme,
    check_rendered,
    check_spec,
    check_stray,
    load_spec,
)
from maghub.validating.opened import Opened, open_table
from maghub.validating.report import Findings, Problem, Report
from maghub.validating.retrieval import check_retrieval
from maghub.validating.splits import (
    check_default_split,
    check_negatives,
    check_split_table,
    default_rule_problems,
    node_codes,
)
from maghub.validating.values import check_images, check_values
from maghub.validating.vectors import check_provenance, check_vectors

__all__ = ["Problem", "Report", "validate"]


def validate(path: str | Path, *, images: bool = True) -> Report:
    """Check a published folder against the contract and its tables against each other.

    All problems are found in one run; of one kind of problem in one column the first offending row
    and the number of rows are given. Text, images and vectors are streamed; of ids, edges and split
    codes one array each is held in memory.

    Args:
        path: The folder.
        images: Whether to decode every picture (the slowest check) and, where nothing is wrong,
            measure the statistics again.

    Raises:
        MaghubError: The folder cannot be looked at at all: missing, empty, not readable, or without
            ``maghub.json``.
    """
    folder = Path(path)
    _require_folder(folder)
    findings = Findings()
    checked = {"configs": 0, "files": 0, "rows": 0}
    spec = load_spec(folder, findings)
    if spec is None:
        checked["files"] = _check_unlisted(folder, findings)
        return Report(str(folder), findings.problems(), checked)
    check_spec(spec, findings)
    default_rule_problems(spec, findings)
    check_readme(folder, spec, findings)
    check_card(folder, spec, findings)
    check_stray(folder, spec, findings)
    tables = {config.name: open_table(folder, config, findings) for config in spec.configs}
    check_rendered(folder, spec, findings)
    for table in tables.values():
        check_values(table)
    _check_graph(spec, tables, findings, checked)
    check_retrieval(spec, tables, findings)
    _check_embeddings(spec, tables)
    if images:
        checked["images"] = sum(check_images(table) for table in tables.values())
    if images and not findings.problems():
        check_statistics(folder, spec, findings)
    checked["configs"] = len(tables)
    checked["files"] = sum(len(table.files) for table in tables.values())
    checked["rows"] = sum(table.rows for table in tables.values())
    return Report(str(folder), findings.problems(), checked)


def _require_folder(folder: Path) -> None:
    """Refuse what cannot be looked at."""
    with os_errors(folder):
        try:
            names = os.listdir(folder)
        except FileNotFoundError:
            fix = "give the path of a built dataset"
            raise MaghubError("there is no such folder", where=folder, fix=fix) from None
        except NotADirectoryError:
            fix = "give the path of a built dataset"
            raise MaghubError("is not a folder", where=folder, fix=fix) from None
        if layout.SPEC_FILE not in names:
            what = f"holds no {layout.SPEC_FILE}" if names else "is empty"
            fix = "build one with: maghub build NAME --out FOLDER"
            raise MaghubError(what + ", so it is not a published folder", where=folder, fix=fix)
        (folder / layout.SPEC_FILE).open("rb").close()


def _check_unlisted(folder: Path, findings: Findings) -> int:
    """Without a readable maghub.json, at least every Parquet file must open; how many there are."""
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet"))
    for path in paths:
        try:
            open_parquet(folder / path, path)
        except MaghubError as error:
            findings.add(path, error.what, fix=error.fix)
    return len(paths)


def _check_graph(
    spec: FolderSpec, tables: dict[str, Opened], findings: Findings, checked: dict[str, int]
) -> None:
    """Nodes, edges, splits and negatives, where the folder has nodes."""
    nodes = tables.get(layout.NODES)
    if nodes is None or nodes.spec.kind != "nodes":
        return
    edge_table = tables.get(layout.EDGES)
    check_counts(spec, nodes, edge_table, findings)
    num_nodes = nodes.rows if nodes.whole else max(nodes.rows, nodes.spec.rows)
    check_ids(nodes, layout.NODE_ID, num_nodes)
    edges = _check_edges(spec, edge_table, num_nodes)
    stored = node_codes(nodes, num_nodes)
    for table in tables.values():
        if table.spec.kind == "node_splits":
            check_split_table(table, layout.NODE_ID, spec.node_splits, num_nodes)
            if stored is not None and spec.default_split is not None:
                check_default_split(table, spec.default_split, stored)
    if edge_table is not None:
        _check_edge_splits(spec, tables, edge_table, edges, num_nodes, checked)


def _check_edges(spec: FolderSpec, table: Opened | None, num_nodes: int) -> Edges | None:
    if table is None or table.spec.kind != "edges" or spec.graph is None:
        return None
    check_ids(table, layout.EDGE_ID, table.rows if table.whole else table.spec.rows)
    edges = read_edges(table, num_nodes, directed=spec.graph.directed)
    if edges is not None:
        check_edges(table, edges, spec.graph)
    return edges


def _check_edge_splits(
    spec: FolderSpec,
    tables: dict[str, Opened],
    edge_table: Opened,
    edges: Edges | None,
    num_nodes: int,
    checked: dict[str, int],
) -> None:
    """Edge splits and the negatives drawn for them."""
    count = edge_table.rows if edge_table.whole else edge_table.spec.rows
    codes: dict[str, NDArray[np.int64]] = {}
    for table in tables.values():
        if table.spec.kind == "edge_splits":
            codes |= check_split_table(table, layout.EDGE_ID, spec.edge_splits, count)
    for rule in spec.negatives:
        found = tables.get(layout.negatives_config(rule.name))
        if found is None or found.spec.kind != "negatives":
            continue
        hits = check_negatives(found, rule, edges, codes.get(rule.edge_split), num_nodes)
        if hits:
            checked["upstream_negatives_that_are_edges"] = hits


def _check_embeddings(spec: FolderSpec, tables: dict[str, Opened]) -> None:
    encoders = {encoder.config: encoder for encoder in spec.encoders}
    for table in tables.values():
        if table.spec.kind not in VECTOR_KINDS:
            continue
        target = tables.get(table.spec.target or layout.NODES)
        KEY_CHECKS[table.spec.kind](table, target)
        absent = check_vectors(table)
        if table.spec.name in encoders:
            check_provenance(table, encoders[table.spec.name], absent)
