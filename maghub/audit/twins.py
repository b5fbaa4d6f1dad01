"""Rows that stand in two splits: from keys and pairs to a check."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from maghub.audit.report import Check, Example, by_share
from maghub.audit.subject import UNASSIGNED, Bools, Ints, Keys, Rows

Twins = dict[int, tuple[int, float]]
"""Held-out node -> its nearest twin in another split, and how alike they are."""


def equal_twins(subject: Rows, keys: Keys, present: Bools) -> Twins:
    """A twin with an equal key in another split for each held-out node (training first)."""
    rows = np.flatnonzero(present & (subject.codes != UNASSIGNED))
    if not len(rows):
        return {}
    order = rows[np.lexsort((subject.codes[rows], keys[rows]))]
    starts = np.flatnonzero(np.r_[True, keys[order][1:] != keys[order][:-1]])
    twins: Twins = {}
    for group in np.split(order, starts[1:]):
        codes = subject.codes[group]
        if codes[0] == codes[-1]:
            continue
        first, last = int(group[0]), int(group[-1])  # of the least and the greatest split
        for node, code in zip(group.tolist(), codes.tolist(), strict=True):
            if code > 0:
                twins[node] = (first if code != codes[0] else last, 1.0)
    return twins


def keep_best(twins: Twins, left: Ints, right: Ints, scores: np.ndarray, subject: Rows) -> None:
    """Add pairs to the twins of their held-out sides; the most alike wins, then training."""
    codes = subject.codes
    for a, b, score in zip(left.tolist(), right.tolist(), scores.tolist(), strict=True):
        for node, twin in ((a, b), (b, a)):
            if codes[node] == 0:
                continue
            old = twins.get(node)
            rank = (score, codes[twin] == 0)
            if old is None or rank > (old[1], codes[old[0]] == 0):
                twins[node] = (twin, score)


def check_of(
    subject: Rows,
    name: str,
    twins: Twins,
    present: Bools,
    what: str,
    fail_at: float,
    describe: Callable[[int, int, float], str],
) -> Check:
    """A check on the share of held-out nodes that have a twin, closest first."""
    total = int((subject.held_out & present).sum())
    examples = [
        Example(of=subject.of, ids=(node, twin), text=describe(node, twin, score))
        for node, (twin, score) in _closest_first(twins)[: subject.limit]
    ]
    return by_share(name, len(twins), total, what, fail_at, examples)


def _closest_first(twins: Mapping[int, tuple[int, float]]) -> list[tuple[int, tuple[int, float]]]:
    return sorted(twins.items(), key=lambda item: (-item[1][1], item[0]))
