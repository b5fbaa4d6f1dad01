"""One fact on both sides of an edge split, in other words: edges that training says again.

``held-out edges in training`` sees the same pair of nodes. Here a fact is said again

- by nodes with other ids and the same text: (Q1 "Paris", capital of, Q2 "France") is
  (Q7 "paris", capital of, Q8 "France.");
- by a relation that implies it: where r2 holds, r1 holds too in at least ``IMPLIES`` of all pairs
  (in the same direction, or r1 the other way round, r1 = r2 where it is symmetric). These are the
  duplicate, inverse and symmetric relations of Akrami et al., "Realistic Re-evaluation of Knowledge
  Graph Completion Methods" (SIGMOD 2020), section 4, as rules with a confidence.

A relation that gives each source one target, and gives one another on the other side of the split,
is a second check: one of the two is wrong, or both are the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from maghub import layout
from maghub.audit.report import Check, Example, by_share, skipped
from maghub.audit.subject import Bools, Ints, Subject
from maghub.reader import int_columns
from maghub.statistics import edge_keys, read_edge_key

AGAIN, TWICE = "held-out facts said again in training", "one answer in training, another held out"
AGAIN_FAIL, TWICE_FAIL = 0.05, 0.05
IMPLIES, ONE_TARGET, LEAST = 0.8, 0.95, 20
MOST_ALIKE = 5
"""More nodes with one text share a placeholder, not a meaning."""


@dataclass(frozen=True)
class _Facts:
    """Edges as (source, relation, target), all int64 [E]; ``same`` maps nodes to one of their
    text."""

    src: Ints
    relation: Ints
    dst: Ints
    same: Ints
    directed: bool
    nodes: int

    def keys(self, *, canonical: bool, reverse: bool = False, relation: bool = True) -> Ints:
        """One number per edge that is equal for equal facts (or pairs)."""
        ends = (self.dst, self.src) if reverse else (self.src, self.dst)
        src, dst = (self.same[end] if canonical else end for end in ends)
        pairs = edge_keys([src, dst], self.nodes, directed=self.directed)
        if not relation:
            return pairs
        return np.unique(np.stack([pairs, self.relation]), axis=1, return_inverse=True)[1].ravel()


def check_facts(subject: Subject) -> list[Check]:
    """The two checks for every rule that splits edges."""
    if not subject.edge_splits:
        return [skipped(name, "edges are not split") for name in (AGAIN, TWICE)]
    facts = _facts(subject)
    checks = []
    for suffix, train, held in subject.edge_splits:
        checks.append(_again(subject, facts, train, held, AGAIN + suffix))
        checks.append(_twice(subject, facts, train, held, TWICE + suffix))
    return checks


def _facts(subject: Subject) -> _Facts:
    mag = subject.mag
    config = mag.config(layout.EDGES)
    key = [layout.RELATION] if layout.RELATION in config.features else []
    (ids,) = int_columns(mag.folder, config, [layout.EDGE_ID])
    order = np.argsort(ids)
    src, dst, *found = (values[order] for values in read_edge_key(mag.folder, config, key))
    relation = found[0] if found else np.zeros(len(src), np.int64)
    _, relation = np.unique(relation, return_inverse=True)
    return _Facts(src, relation, dst, _same(subject), mag.graph.directed, subject.n)


def _same(subject: Subject) -> Ints:
    """For each node the first with its text; itself where the text is empty or of many."""
    _, first, member, counts = np.unique(
        subject.text_keys, return_index=True, return_inverse=True, return_counts=True
    )
    own = np.arange(subject.n)
    usable = subject.has_text & (counts[member] <= MOST_ALIKE)
    return np.where(usable, first[member], own).astype(np.int64)


def _again(subject: Subject, facts: _Facts, train: Ints, held: Ints, name: str) -> Check:
    pairs = facts.keys(canonical=False, relation=False)
    seen = np.isin(pairs[held], pairs[train])  # the other check's
    alike = facts.keys(canonical=True)
    renamed = np.isin(alike[held], alike[train]) & ~seen
    implied, why = _implied(facts, train, held)
    reasons = np.where(renamed, "by nodes of the same text", why)
    what = "held-out facts are said again in training, by other nodes or relations"
    return _check(subject, name, facts, held, renamed | implied, what, reasons, AGAIN_FAIL)


def _implied(facts: _Facts, train: Ints, held: Ints) -> tuple[Bools, np.ndarray]:
    """Which held-out facts a training edge of an implying relation gives away, and how."""
    found, why = np.zeros(len(held), bool), np.full(len(held), "", dtype=object)
    relations = int(facts.relation.max(initial=0)) + 1
    for reverse in (False, True) if facts.directed else (False,):
        if relations == 1 and not reverse:
            continue
        here, there, size = _joint(facts, reverse)
        all_here = _table(here, facts.relation, size, relations)
        all_there = _table(there, facts.relation, size, relations)
        # joint[r1, r2]: pairs of which r1 holds, and r2 holds (the other way round).
        joint = (all_here.T @ all_there).tocoo()
        total = np.bincount(all_there.tocoo().col, minlength=relations)
        sure = (joint.data >= IMPLIES * total[joint.col]) & (joint.data >= LEAST)
        if not reverse:
            sure &= joint.row != joint.col
        rules = csr_array(
            (np.ones(sure.sum(), np.int32), (joint.col[sure], joint.row[sure])),
            shape=(relations, relations),
        )
        training = _table(there[train], facts.relation[train], size, relations)
        given = (training[here[held]] @ rules).tocoo()
        hits = given.col == facts.relation[held][given.row]
        proper = facts.src[held] != facts.dst[held]
        new = np.zeros(len(held), bool)
        new[given.row[hits & (given.data > 0)]] = True
        new &= proper
        why[new & ~found] = "by a relation that holds the other way round" if reverse else (
            "by a relation that implies it"
        )  # fmt: skip
        found |= new
    return found, why


def _joint(facts: _Facts, reverse: bool) -> tuple[Ints, Ints, int]:
    """Numbers of the node pairs of all edges, and of the same pairs as the evidence has them."""
    here = facts.keys(canonical=False, relation=False)
    there = facts.keys(canonical=False, relation=False, reverse=reverse)
    values, codes = np.unique(np.concatenate([here, there]), return_inverse=True)
    return codes[: len(here)], codes[len(here) :], len(values)


def _table(pairs: Ints, relation: Ints, size: int, relations: int) -> csr_array:
    """0/1 int32 [pairs, relations]: which relation holds of which pair."""
    ones = np.ones(len(pairs), np.int32)
    found = csr_array((ones, (pairs, relation)), shape=(size, relations))
    found.sum_duplicates()
    found.data[:] = 1
    return found


def _twice(subject: Subject, facts: _Facts, train: Ints, held: Ints, name: str) -> Check:
    relations = int(facts.relation.max(initial=0)) + 1
    if not facts.directed or relations == 1:
        return skipped(name, "edges have no direction" if not facts.directed else "one relation")
    asked = facts.same[facts.src] * np.int64(relations) + facts.relation
    triples = np.unique(np.stack([asked, facts.same[facts.dst]]), axis=1)
    questions, targets = np.unique(triples[0], return_counts=True)
    kind = questions % relations
    sources = np.bincount(kind, minlength=relations)
    single = np.bincount(kind[targets == 1], minlength=relations)
    one_target = (single >= ONE_TARGET * sources) & (sources >= LEAST)
    if not one_target.any():
        return skipped(name, "no relation gives each source one target")
    total = held[one_target[facts.relation[held]]]
    answers = facts.keys(canonical=True)
    bad = np.isin(asked[total], asked[train]) & ~np.isin(answers[total], answers[train])
    what = "held-out facts of relations with one target have another target in training"
    reasons = np.full(len(total), "another target trains", dtype=object)
    return _check(subject, name, facts, total, bad, what, reasons, TWICE_FAIL)


def _check(
    subject: Subject, name: str, facts: _Facts, held: Ints, bad: Bools, what: str,
    reasons: np.ndarray, fail_at: float,
) -> Check:  # fmt: skip
    examples = [
        Example(
            of="edges",
            ids=(int(edge),),
            text=f"edge {edge}: {subject.quoted(int(facts.src[edge]), 30)} -> "
            f"{subject.quoted(int(facts.dst[edge]), 30)}, {reason}",
        )
        for edge, reason in zip(
            held[bad][: subject.limit], reasons[bad][: subject.limit], strict=True
        )
    ]
    return by_share(name, int(bad.sum()), len(held), what, fail_at, examples)
