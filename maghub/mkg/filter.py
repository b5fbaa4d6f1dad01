"""The utility filter (section 3.1, step 1): which triplets questions are made from, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from datasets import Features

from maghub import layout
from maghub.llm import Outcome
from maghub.mkg.kg import Bools, Ints, KnowledgeGraph
from maghub.mkg.writers import Verdict, Writer
from maghub.schema import BOOL, STRING
from maghub.tables import Table, in_memory

FILTER = "filter"
KEEP, REASON, STRUCTURE = "keep", "reason", "structure"
SELF_LOOP = "self loop"
NO_TEXT = {name: f"{name} without a text" for name in ("head", "relation", "tail")}
NO_PICTURE = "the head is a picture that is not there"
PICTURE_TAIL = "the tail is a picture"
NO_VERDICT = "no verdict: "
EXAMPLES = 3


@dataclass(frozen=True)
class Judged:
    """What became of the triplets that were judged.

    Attributes:
        rows: int64 [J], rows of the graph's triplets.
        keep: bool [J].
        reasons: Why, in a few words.
        judges: Who said so: the writer, or ``structure`` for what no question can be made of.
    """

    rows: Ints
    keep: Bools
    reasons: list[str]
    judges: list[str]

    def report(self, graph: KnowledgeGraph) -> dict[str, object]:
        """Counts by reason, and examples of each reason for dropping (most frequent first)."""
        dropped = [reason for reason, keep in zip(self.reasons, self.keep, strict=True) if not keep]
        examples: dict[str, list[str]] = {}
        for row, reason, keep in zip(self.rows.tolist(), self.reasons, self.keep, strict=True):
            if not keep and len(shown := examples.setdefault(reason, [])) < EXAMPLES:
                shown.append(" | ".join(graph.words(row)))
        counted = Counter(dropped).most_common()
        common = dict(counted[:MOST_REASONS])
        if rest := sum(count for _, count in counted[MOST_REASONS:]):
            common["other reasons"] = rest
        return {
            "judged": len(self.rows),
            "not judged": len(graph) - len(self.rows),
            "kept": int(self.keep.sum()),
            "dropped": common,
            "examples": {reason: examples[reason] for reason in common if reason in examples},
        }

    def table(self, graph: KnowledgeGraph) -> Table:
        """The config ``filter``: one row per judged triplet."""
        ids = [graph.ids(row) for row in self.rows.tolist()]
        heads, rels, tails = zip(*ids, strict=True) if ids else ((), (), ())
        names = (layout.HEAD_ID, layout.REL_ID, layout.TAIL_ID)
        features = Features(
            {**dict.fromkeys(names, STRING), KEEP: BOOL, REASON: STRING, layout.WRITER: STRING}
        )
        columns = {
            **dict(zip(names, map(list, (heads, rels, tails)), strict=True)),
            KEEP: self.keep,
            REASON: self.reasons,
            layout.WRITER: self.judges,
        }
        rows = pa.table(columns, schema=pa.schema(features.arrow_schema))
        return in_memory(FILTER, "table", features, rows)


MOST_REASONS = 20
"""A model words its reasons freely; the report lists so many, the config has them all."""


def structural_reasons(graph: KnowledgeGraph, rows: Ints) -> list[str | None]:
    """Why no question can be made of a triplet at all, whoever writes it; None where one can."""
    heads, rels, tails = graph.heads[rows], graph.rels[rows], graph.tails[rows]
    named = np.asarray([bool(name) for name in graph.entities.names])
    told = np.asarray([bool(name) for name in graph.relations.names])
    cases = [
        (NO_TEXT["relation"], ~told[rels]),
        (NO_TEXT["head"], ~named[heads]),
        (NO_TEXT["tail"], ~named[tails]),
        (SELF_LOOP, heads == tails),
        (NO_PICTURE, graph.is_picture[heads] & (graph.pictures[heads] == 0)),
        (PICTURE_TAIL, graph.is_picture[tails]),
    ]
    reasons: list[str | None] = [None] * len(rows)
    for reason, mask in cases:
        for at in np.flatnonzero(mask):
            reasons[at] = reasons[at] or reason
    return reasons


def judge_triplets(graph: KnowledgeGraph, rows: Ints, writer: Writer) -> Judged:
    """Judge triplets: first what is wrong in itself, then the writer.

    A triplet for which the writer gives no readable verdict is not kept; its reason says so.
    """
    reasons = structural_reasons(graph, rows)
    sound = np.asarray([reason is None for reason in reasons], dtype=bool)
    judges = [writer.name if ok else STRUCTURE for ok in sound]
    keep = np.zeros(len(rows), bool)
    outcomes: list[Outcome[Verdict]] = writer.judge(graph, rows[sound])
    for at, outcome in zip(np.flatnonzero(sound).tolist(), outcomes, strict=True):
        if outcome.value is None:
            reasons[at] = f"{NO_VERDICT}{outcome.reason}"
        else:
            keep[at], reasons[at] = outcome.value.keep, outcome.value.reason
    return Judged(rows, keep, [reason or "" for reason in reasons], judges)
