"""Edges that training gives away, and negatives that are edges."""

from __future__ import annotations

import numpy as np

from maghub import layout
from maghub.audit.report import Check, Example, by_share, skipped
from maghub.audit.subject import Bools, Ints, Subject
from maghub.statistics import pair_keys

REPEATED, REVERSED = "held-out edges in training", "held-out edges reversed in training"
NEGATIVES = "negatives that are edges"
EDGE_FAIL, NEGATIVE_FAIL = 0.05, 0.001


def check_edges(subject: Subject) -> list[Check]:
    """Held-out edges whose pair trains too: in the same direction, or only the other way round.

    Of an undirected graph both directions are one, whichever way an edge is stored.
    """
    if not subject.edge_splits:
        return [skipped(name, "edges are not split") for name in (REPEATED, REVERSED)]
    return [check for split in subject.edge_splits for check in _check_rule(subject, *split)]


def _check_rule(subject: Subject, suffix: str, train: Ints, held: Ints) -> list[Check]:
    src, dst = subject.mag.edge_index
    directed = subject.mag.graph.directed
    keys = pair_keys(src, dst, subject.n, directed=directed)
    training = np.unique(keys[train])
    repeated = np.isin(keys[held], training)
    what = "held-out edges join a pair that trains too (in another row or relation)"
    checks = [_edge_check(subject, REPEATED + suffix, held, repeated, what)]
    if not directed:
        return [*checks, skipped(REVERSED + suffix, "the graph is undirected: see the check above")]
    back = pair_keys(dst, src, subject.n, directed=True)
    proper = src[held] != dst[held]
    turned = np.isin(back[held], training) & ~repeated & proper
    what = "held-out edges train in the other direction"
    return [*checks, _edge_check(subject, REVERSED + suffix, held, turned, what)]


def _edge_check(subject: Subject, name: str, held: Ints, bad: Bools, what: str) -> Check:
    src, dst = subject.mag.edge_index
    examples = [
        Example(of="edges", ids=(edge,), text=f"edge {edge}: {src[edge]} -> {dst[edge]}")
        for edge in held[bad][: subject.limit].tolist()
    ]
    return by_share(name, int(bad.sum()), len(held), what, EDGE_FAIL, examples)


def check_negatives(subject: Subject) -> list[Check]:
    """Fixed negatives that are edges of the graph, or the positive or the query itself."""
    rules = [config.name for config in subject.mag.spec.of_kind("negatives")]
    if not rules:
        return [skipped(NEGATIVES, "there are no fixed negatives")]
    src, dst = subject.mag.edge_index
    directed = subject.mag.graph.directed
    known = np.unique(pair_keys(src, dst, subject.n, directed=directed))
    checks = []
    for config in rules:
        rule = config.removeprefix(layout.NEGATIVES_PREFIX)
        suffix = f" ({rule})" if len(rules) > 1 else ""
        checks.append(_check_negatives(subject, rule, NEGATIVES + suffix, known))
    return checks


def _check_negatives(subject: Subject, rule: str, name: str, known: Ints) -> Check:
    count, total = 0, 0
    examples: list[Example] = []
    for split, table in subject.mag.negatives(rule).items():
        neg, query = table[layout.NEG], table[layout.QUERY][:, None]
        keys = pair_keys(query, neg, subject.n, directed=subject.mag.graph.directed)
        bad = np.isin(keys, known) | (neg == query) | (neg == table[layout.POSITIVE][:, None])
        count, total = count + int(bad.sum()), total + neg.size
        for row, place in np.argwhere(bad)[: subject.limit - len(examples)].tolist():
            ids = (int(query[row, 0]), int(neg[row, place]))
            edge = table[layout.EDGE_ID][row]
            text = f"edge {edge} ({split}): query {ids[0]}, negative {ids[1]}"
            examples.append(Example(ids=ids, text=text))
    what = "negatives are edges of the graph or the query itself"
    return by_share(name, count, total, what, NEGATIVE_FAIL, examples)
