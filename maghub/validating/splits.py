"""Checks of split tables and fixed negatives against the nodes and edges they are keyed to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from datasets import ClassLabel
from numpy.typing import NDArray

from maghub import layout
from maghub.schema import describe
from maghub.spec import FolderSpec, NegativesRule, SplitRule
from maghub.statistics import pair_keys
from maghub.validating.graph import Edges, check_ids, outside
from maghub.validating.opened import NULL, REBUILD, Group, Opened
from maghub.validating.report import Findings, rowwise
from maghub.validating.vectors import fixed_lists

Ints = NDArray[np.int64]
NEGATIVE_BATCH = 8192
CODES = {name: code for code, name in enumerate(layout.SPLITS)}
DRAW_AGAIN = "draw the negatives again"


def node_codes(nodes: Opened, count: int) -> Ints | None:
    """Split code by node id as the files of ``nodes`` have it (-1: full), if they can be read."""
    if not nodes.usable(layout.NODE_ID):
        return None
    codes = np.full(count, NULL)
    for group in nodes.groups([layout.NODE_ID]):
        ids = group.integers(layout.NODE_ID)
        codes[ids[(ids >= 0) & (ids < count)]] = CODES.get(group.split, -1)
    return codes if nodes.whole else None


def check_split_table(
    table: Opened, key: str, rules: tuple[SplitRule, ...], count: int
) -> dict[str, Ints]:
    """Check a split config; returns the codes by id of each rule that can be read."""
    check_ids(table, key, count)
    _check_rules(table, key, rules)
    found = {}
    for rule in rules:
        if not table.usable(key, rule.name):
            continue
        columns = table.integers(key, rule.name)
        if not columns:
            continue
        ids, values = columns
        valid = ~((ids < 0) | (ids >= count))
        codes = np.full(count, NULL)
        codes[ids[valid]] = values[valid]
        found[rule.name] = codes
        _check_split_counts(table.findings, rule, values)
    return found


def _check_rules(table: Opened, key: str, rules: tuple[SplitRule, ...]) -> None:
    """Every rule has its column and the other way round; the classes are the four splits."""
    names = [rule.name for rule in rules]
    for name in names:
        if name not in table.features:
            what = f"column of split rule {name} is missing"
            table.findings.add(table.first_file, what, column=name, fix=REBUILD)
    for name, feature in table.features.items():
        if name == key:
            continue
        if name not in names:
            what = "is no split rule of maghub.json"
            table.findings.add(table.first_file, what, column=name, fix=REBUILD)
        if isinstance(feature, ClassLabel) and tuple(feature.names) != layout.SPLITS:
            unknown = [split for split in feature.names if split not in layout.SPLITS]
            what = f"unknown split name '{unknown[0]}'" if unknown else "split names out of order"
            fix = f"use {', '.join(layout.SPLITS)}, in this order"
            table.findings.add(table.first_file, what, column=name, fix=fix)


def _check_split_counts(findings: Findings, rule: SplitRule, values: Ints) -> None:
    inside = values[(values >= 0) & (values < len(layout.SPLITS))]
    bins = np.bincount(inside, minlength=len(layout.SPLITS))
    real = {name: int(bins[code]) for name, code in CODES.items() if bins[code]}
    declared = {name: rows for name, rows in rule.counts.items() if rows}
    if real != declared:
        what = f"counts are {declared}, the table has {real}"
        where = f"{rule.of[:-1]}_splits.{rule.name}"
        findings.add(layout.SPEC_FILE, what, column=where, fix=REBUILD)


def check_default_split(table: Opened, rule: str, nodes: Ints) -> None:
    """The default rule must say what the files of ``nodes`` say."""
    if not table.usable(layout.NODE_ID, rule):
        return
    for group in table.groups([layout.NODE_ID, rule]):
        ids, codes = group.integers(layout.NODE_ID), group.integers(rule)
        valid = (ids >= 0) & (ids < len(nodes)) & (codes >= 0) & (codes < len(layout.SPLITS))
        stored = np.full(len(ids), NULL)
        stored[valid] = nodes[ids[valid]]
        bad = valid & (stored != codes) & (stored != NULL)
        message = _disagreement(ids, codes, stored)
        table.findings.rows(table, rule, "default", group.start, bad, message, REBUILD)


def _disagreement(ids: Ints, codes: Ints, stored: Ints) -> Callable[[int], str]:
    names = (*layout.SPLITS, layout.FULL)
    return lambda i: (
        f"node {ids[i]} is in {names[codes[i]]}, but its row is in the {names[stored[i]]} "
        f"split of nodes"
    )


def check_negatives(
    table: Opened,
    rule: NegativesRule,
    edges: Edges | None,
    codes: Ints | None,
    num_nodes: int,
) -> int:
    """Check fixed negatives; returns how many of upstream's own are edges (kept as published).

    Ours may not be an edge; negatives that upstream published are taken as they are.
    """
    neg = table.features.get(layout.NEG)
    if getattr(neg, "length", None) not in (None, rule.k):
        what = f"is {describe(neg)}, maghub.json says k = {rule.k}"
        table.findings.add(table.first_file, what, column=layout.NEG, fix=REBUILD)
    columns = (layout.EDGE_ID, layout.QUERY, layout.POSITIVE, layout.NEG)
    if edges is None or not all(table.sound(column) for column in columns):
        return 0
    pairs, hits = edges.pairs(), 0
    last: dict[str, int] = {}
    for group in table.groups(columns, NEGATIVE_BATCH):
        edge, query, positive = _check_positives(table, group, edges, codes, last)
        hits += _check_drawn(table, group, rule, edges, pairs, (edge, query, positive))
    return hits


def _check_positives(
    table: Opened, group: Group, edges: Edges, codes: Ints | None, last: dict[str, int]
) -> tuple[Ints, Ints, Ints]:
    """edge_id in range, ascending and of this split; query and positive are its two ends."""
    note, start = table.findings.rows, group.start
    edge = group.integers(layout.EDGE_ID)
    query, positive = group.integers(layout.QUERY), group.integers(layout.POSITIVE)
    count, n = len(edges.src), edges.num_nodes
    message = rowwise(f"edge_id {{}} is not within 0..{count - 1}", edge)
    note(table, layout.EDGE_ID, "range", start, outside(edge, count), message, DRAW_AGAIN)
    before = np.concatenate([[last.get(group.split, NULL)], edge[:-1]])
    last[group.split] = int(edge[-1]) if len(edge) else NULL
    message = rowwise("edge_id {} comes after {}", edge, before)
    descends = (edge != NULL) & (edge < before)
    note(table, layout.EDGE_ID, "order", start, descends, message, "sort each split by edge_id")
    valid = (edge >= 0) & (edge < count)
    safe = np.where(valid, edge, 0)
    if codes is not None and count:
        wrong = valid & (codes[safe] != CODES.get(group.split, -1)) & (codes[safe] != NULL)
        message = rowwise(f"edge {{}} is not in the {group.split} split", edge)
        note(table, layout.EDGE_ID, "split", start, wrong, message, DRAW_AGAIN)
    for column, values in ((layout.QUERY, query), (layout.POSITIVE, positive)):
        message = rowwise(f"node {{}} is not within 0..{n - 1}", values)
        note(table, column, "range", start, outside(values, n), message, DRAW_AGAIN)
    if count:
        src, dst = edges.src[safe], edges.dst[safe]
        ends = ((query == src) & (positive == dst)) | ((query == dst) & (positive == src))
        wrong = valid & ~ends & (query != NULL) & (positive != NULL)
        form = "({}, {}) is not edge {}, which joins {} and {}"
        message = rowwise(form, query, positive, edge, src, dst)
        note(table, layout.POSITIVE, "other end", start, wrong, message, DRAW_AGAIN)
    return edge, query, positive


def _check_drawn(
    table: Opened,
    group: Group,
    rule: NegativesRule,
    edges: Edges,
    pairs: Ints,
    positives: tuple[Ints, Ints, Ints],
) -> int:
    """The negatives themselves; returns the ones that are edges where upstream made them."""
    note, start, n = table.findings.rows, group.start, edges.num_nodes
    edge, query, positive = positives
    values, null = fixed_lists(group.batch[layout.NEG])
    width = group.batch[layout.NEG].type.list_size
    absent = np.logical_or(null, np.asarray(values.is_null()).reshape(-1, width).any(axis=1))
    note(table, layout.NEG, "null", start, absent, "negatives are null", DRAW_AGAIN)
    drawn = np.asarray(values.fill_null(NULL), dtype=np.int64).reshape(-1, width)

    def check(kind: str, bad: NDArray[np.bool_], form: str) -> None:
        rows, first = np.asarray(bad.any(axis=1)), bad.argmax(axis=1)
        shown = drawn[np.arange(len(drawn)), first]
        note(table, layout.NEG, kind, start, rows, rowwise(form, shown, query), DRAW_AGAIN)

    off = outside(drawn, n)
    check("range", off, f"node {{}} is not within 0..{n - 1}")
    present = np.not_equal(drawn, NULL)
    same = np.equal(drawn, query[:, None]) & present
    equal = np.equal(drawn, positive[:, None]) & present
    if rule.origin == "maghub":
        check("query", same, "negative {} is the query itself")
        check("positive", equal, "negative {} is the positive")
    safe = ~off & present & ((query >= 0) & (query < n))[:, None]
    hit = _is_edge(drawn, query, edge, edges, pairs, safe) & ~same & ~equal
    if rule.origin == "maghub":
        check("edge", hit, "negative {} is a neighbour of query {}")
        return 0
    return int(hit.sum())


def _is_edge(
    drawn: Ints, query: Ints, edge: Ints, edges: Edges, pairs: Ints, safe: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which (query, negative) pairs are joined, in the positive's direction where directed."""
    head = np.where(safe, np.broadcast_to(query[:, None], drawn.shape), 0)
    tail = np.where(safe, drawn, 0)
    if edges.directed:
        known = (edge >= 0) & (edge < len(edges.src))
        flip = known & (edges.dst[np.where(known, edge, 0)] == query)
        flip &= edges.src[np.where(known, edge, 0)] != query
        head, tail = np.where(flip[:, None], tail, head), np.where(flip[:, None], head, tail)
    wanted = pair_keys(head.ravel(), tail.ravel(), edges.num_nodes, directed=edges.directed)
    spot = np.minimum(np.searchsorted(pairs, wanted), max(len(pairs) - 1, 0))
    found = pairs[spot] == wanted if len(pairs) else np.zeros(len(wanted), bool)
    return found.reshape(drawn.shape) & safe


def default_rule_problems(spec: FolderSpec, findings: Findings) -> None:
    """``default_split`` must name a node rule, and nodes stand in splits only where it does."""
    names = [rule.name for rule in spec.node_splits]
    default = spec.default_split
    if default is not None and default not in names:
        what = f"'{default}' is no node split rule"
        fix = f"known: {', '.join(names) or 'none'}"
        findings.add(layout.SPEC_FILE, what, column="default_split", fix=fix)
    nodes = spec.of_kind("nodes")
    if default is None and nodes and set(nodes[0].splits) - {layout.FULL}:
        what = "is not set although nodes stand in splits"
        findings.add(layout.SPEC_FILE, what, column="default_split", fix=REBUILD)
