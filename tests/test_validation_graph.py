"""``validate`` on edges, splits and negatives: the rules that join the tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from maghub import layout
from maghub.validation import Report, validate
from tests.helpers.folders import (
    change_spec,
    change_table,
    config_of,
    data_path,
    read_rows,
    with_value,
    write_valid,
)
from tests.helpers.graphs import RULES
from tests.helpers.reports import found, lines

N = 40
RULE = RULES[0]
NEGATIVES = layout.negatives_config(RULE)


# -- edges ---------------------------------------------------------------------------------------


def edge_table(folder: Path, edit: Callable[[list[dict[str, Any]]], None]) -> str:
    def change(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        edit(rows)
        return pa.Table.from_pylist(rows, schema=table.schema)

    return change_table(folder, "edges", change)


def test_duplicate_edge_by_declared_key(folder: Path) -> None:
    def edit(rows: list[dict[str, Any]]) -> None:
        rows[8].update({k: rows[3][k] for k in ("src", "dst", "relation")})

    path = edge_table(folder, edit)
    src, dst = (read_rows(folder, "edges")[8][k] for k in ("src", "dst"))
    problem = found(validate(folder), path, "relation", f"edge ({src}, {dst}) occurs in an earlier")
    assert problem.row == 8
    change_spec(folder, lambda spec: spec["graph"].update(multi_edges=True))
    assert "occurs in an earlier" not in " ".join(lines(validate(folder)))


def test_undeclared_multi_edge_where_the_key_is_the_pair(folder: Path) -> None:
    change_spec(folder, lambda spec: spec["graph"].update(key=["src", "dst"]))
    problem = found(validate(folder), data_path(folder, "edges"), "dst", "by key src, dst")
    pairs = [(row["src"], row["dst"]) for row in read_rows(folder, "edges")]
    assert problem.count == len(pairs) - len(set(pairs)) > 0
    assert "declare multi_edges" in problem.line()


def test_key_of_a_column_that_is_not_there(folder: Path) -> None:
    change_spec(folder, lambda spec: spec["graph"].update(key=["src", "dst", "year"]))
    found(validate(folder), layout.SPEC_FILE, "graph.key", "key column year")


def test_undeclared_self_loop(folder: Path) -> None:
    path = edge_table(folder, lambda rows: rows[5].update(dst=rows[5]["src"]))
    assert found(validate(folder), path, "dst", "undeclared self loop").row == 5
    change_spec(folder, lambda spec: spec["graph"].update(self_loops=True))
    assert "self loop" not in " ".join(lines(validate(folder)))


def test_src_above_dst_only_matters_where_undirected(folder: Path) -> None:
    path = edge_table(folder, lambda rows: rows[5].update(src=rows[5]["dst"], dst=rows[5]["src"]))
    report = validate(folder)
    assert found(report, path, "src", "in an undirected graph").row == 5
    assert len(report.problems) == 1
    change_spec(folder, lambda spec: spec["graph"].update(directed=True))
    assert "undirected" not in " ".join(lines(validate(folder)))


# -- splits and negatives ------------------------------------------------------------------------


def test_split_disagrees_with_the_files_of_nodes(folder: Path) -> None:
    code = read_rows(folder, "node-splits")[3][RULE]
    path = change_table(folder, "node-splits", with_value(RULE, 3, (code + 1) % 4))
    report = validate(folder)
    problem = found(report, path, RULE, "node 3 is in")
    assert problem.row == 3
    assert f"in the {layout.SPLITS[code]} split of nodes" in problem.message
    found(report, layout.SPEC_FILE, f"node_splits.{RULE}", "counts are")


def test_unknown_split_names(folder: Path) -> None:
    def rename(spec: dict[str, Any]) -> None:
        config_of(spec, "edges")["splits"] = {"all": config_of(spec, "edges")["splits"]["full"]}
        names = config_of(spec, "edge-splits")["features"][RULE]["names"]
        names[1] = "val"

    change_spec(folder, rename)
    report = validate(folder)
    found(report, layout.SPEC_FILE, "configs.edges.splits", "unknown split name 'all'")
    found(report, data_path(folder, "edge-splits"), RULE, "unknown split name 'val'")


def test_default_split_that_is_no_rule(folder: Path) -> None:
    change_spec(folder, lambda spec: spec.update(default_split="open"))
    found(validate(folder), layout.SPEC_FILE, "default_split", "'open' is no node split rule")
    change_spec(folder, lambda spec: spec.update(default_split=None))
    found(validate(folder), layout.SPEC_FILE, "default_split", "is not set")


def drawn(folder: Path, choose: Callable[[dict[str, Any], set[tuple[int, int]]], int]) -> Report:
    """Replace one negative of the first validation row."""
    edges = {(row["src"], row["dst"]) for row in read_rows(folder, "edges")}
    row = read_rows(folder, NEGATIVES, "validation")[0]
    neg = [choose(row, edges), *row["neg"][1:]]
    change_table(folder, NEGATIVES, with_value("neg", 0, neg), "validation")
    return validate(folder)


def neighbour(row: dict[str, Any], edges: set[tuple[int, int]]) -> int:
    both = edges | {(b, a) for a, b in edges}
    return min(b for a, b in both if a == row["query"] and b != row["positive"])


def test_negatives_that_are_none(folder: Path) -> None:
    path = data_path(folder, NEGATIVES, "validation")
    assert (
        found(drawn(folder, lambda row, _: row["query"]), path, "neg", "is the query itself").row
        == 0
    )
    assert (
        found(drawn(folder, lambda row, _: row["positive"]), path, "neg", "is the positive").row
        == 0
    )
    report = drawn(folder, neighbour)
    assert found(report, path, "neg", "is a neighbour of query").row == 0
    assert len(report.problems) == 1


def test_upstream_negatives_are_counted_not_refused(folder: Path) -> None:
    drawn(folder, neighbour)
    change_spec(folder, lambda spec: spec["negatives"][0].update(origin="upstream"))
    report = validate(folder)
    assert lines(report) == []
    assert report.checked["upstream_negatives_that_are_edges"] == 1


def test_directed_negatives_are_asked_in_the_direction_of_the_edge(tmp_path: Path) -> None:
    write_valid(tmp_path / "toy", 30, 1, directed=True)
    edges = {(row["src"], row["dst"]) for row in read_rows(tmp_path / "toy", "edges")}
    row = read_rows(tmp_path / "toy", NEGATIVES, "validation")[0]
    back = [a for a, b in edges if b == row["query"] and (b, a) not in edges]
    ahead = [b for a, b in edges if a == row["query"] and b != row["positive"]]
    assert back or ahead
    if back:
        assert drawn(tmp_path / "toy", lambda *_: back[0]).ok
    if ahead:
        report = drawn(tmp_path / "toy", lambda *_: ahead[0])
        found(report, data_path(tmp_path / "toy", NEGATIVES, "validation"), "neg", "is a neighbour")
