"""From masked forms to questions: what is asked, of whom, and what came of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial

import numpy as np

from maghub.images import PixelRule, normalise
from maghub.llm import Outcome
from maghub.mkg.kg import Bools, EntityPictures, Ints, KnowledgeGraph
from maghub.mkg.masking import RELATION, TAIL, Forms, masked_forms
from maghub.mkg.prompts import described
from maghub.mkg.writers import Task, Writer

AMBIGUOUS = "another masked form has the same words"
UNNAMED = "an answer without a text"
TEXT, MULTIMODAL = "text", "multimodal"
SENT_SIDE = 768
"""Longest side in pixels of a picture that a model is shown: more costs tokens."""


@dataclass(frozen=True)
class Questions:
    """The forms that got a question.

    Attributes:
        forms: The masked forms, text-only ones first, each kind in an order that reads pictures
            one entity after the other.
        grounded: bool [F], whether the question is about a picture of the head.
        texts: The questions.
        report: row -> modality -> what became of the masked forms: asked about, or dropped by
            reason.
    """

    forms: Forms
    grounded: Bools
    texts: list[str]
    report: dict[str, dict[str, int]]


def ask(graph: KnowledgeGraph, kept: Bools, writer: Writer) -> Questions:
    """Ask about every masked form of the kept triplets.

    Args:
        graph: The whole graph.
        kept: bool [T], triplets of use.
        writer: Who writes.
    """
    forms = masked_forms(graph, kept)
    grounded = graph.pictures[forms.heads] > 0
    order = np.lexsort((np.where(grounded, forms.heads, 0), grounded))
    forms, grounded = forms.take(order), grounded[order]
    reasons = _unaskable(graph, forms)
    open_rows = np.flatnonzero([reason is None for reason in reasons])
    pictures = EntityPictures(graph) if grounded.any() else None
    tasks = [_task(graph, forms, row, pictures) for row in open_rows.tolist()]
    outcomes: list[Outcome[str]] = writer.write(tasks)
    texts: list[str] = []
    written = np.zeros(len(forms), bool)
    for row, outcome in zip(open_rows.tolist(), outcomes, strict=True):
        reasons[row] = outcome.reason
        if outcome.value is not None:
            written[row] = True
            texts.append(outcome.value)
    report = _report(reasons, grounded)
    chosen = np.flatnonzero(written)
    return Questions(forms.take(chosen), grounded[chosen], texts, report)


def _unaskable(graph: KnowledgeGraph, forms: Forms) -> list[str | None]:
    """Why a form cannot be asked about, whoever writes."""
    named = np.asarray([bool(name) for name in graph.entities.names])
    told = np.asarray([bool(name) for name in graph.relations.names])
    spoken = np.where(
        np.repeat(forms.mask == TAIL, np.diff(forms.starts)),
        named[graph.tails[forms.members]],
        told[graph.rels[forms.members]],
    )
    unnamed = np.add.reduceat(~spoken, forms.starts[:-1]) > 0 if len(forms) else ~spoken
    return [
        AMBIGUOUS if twice else UNNAMED if silent else None
        for twice, silent in zip(forms.ambiguous, unnamed, strict=True)
    ]


def _task(graph: KnowledgeGraph, forms: Forms, row: int, pictures: EntityPictures | None) -> Task:
    """What a writer is told of a form; the gold answers are there for checking alone."""
    entities, relations = graph.entities, graph.relations
    mask, head = int(forms.mask[row]), int(forms.heads[row])
    relation, tail = int(forms.rels[row]), int(forms.tails[row])
    members = forms.positives(row)
    if mask == TAIL:
        answers = [entities.names[code] for code in graph.tails[members]]
        seen = f"{entities.ids[head]}\t{relations.ids[relation]}\t"
    else:
        answers = [relations.names[code] for code in graph.rels[members]]
        seen = f"{entities.ids[head]}\t\t{entities.ids[tail]}"
    grounded = bool(graph.pictures[head] > 0)
    names = {
        "head": (entities, head),
        "relation": (relations, relation if mask == TAIL else -1),
        "tail": (entities, tail if mask == RELATION else -1),
    }
    plain = {key: named.names[code] if code >= 0 else "" for key, (named, code) in names.items()}
    told = {
        f"{key}_text": described(plain[key], named.descriptions[code] if code >= 0 else "")
        for key, (named, code) in names.items()
    }
    image = partial(_first, pictures, head) if grounded and pictures is not None else None
    return Task(
        key=seen,
        mask="tail" if mask == TAIL else "relation",
        answers=tuple(dict.fromkeys(answers)),
        grounded=grounded,
        image=image,
        **plain,
        **told,
    )


def _first(pictures: EntityPictures, entity: int) -> bytes:
    """The picture that stands in the corpus, no larger than a writer needs it."""
    stored = pictures(entity)[0]
    return normalise(stored, PixelRule(max_side=SENT_SIDE)).data or stored


def _report(reasons: list[str | None], grounded: Bools) -> dict[str, dict[str, int]]:
    """Forms that got a question, and forms dropped by reason, by modality."""
    counted = {
        modality: Counter(
            reason for reason, shown in zip(reasons, grounded, strict=True) if shown is flag
        )
        for modality, flag in ((TEXT, np.False_), (MULTIMODAL, np.True_))
    }
    rows = {"questions": {name: counter[None] for name, counter in counted.items()}}
    found: Counter[str] = Counter()
    for counter in counted.values():
        found.update({reason: n for reason, n in counter.items() if reason is not None})
    for reason, _ in sorted(found.items(), key=lambda item: (-item[1], item[0])):
        rows[f"dropped: {reason}"] = {name: own[reason] for name, own in counted.items()}
    return rows


def heads_in_order(graph: KnowledgeGraph, rows: Ints) -> Ints:
    """Triplets sorted so that the pictures of their heads are read one after the other."""
    shown = graph.pictures[graph.heads[rows]] > 0
    return rows[np.lexsort((rows, np.where(shown, graph.heads[rows], 0), shown))]
