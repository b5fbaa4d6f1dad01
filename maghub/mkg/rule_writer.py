"""The offline writer: rules judge triplets, templates ask questions; no model takes part.

Lists of relations, templates and the grammar of labels are data: ``rule_writer.yaml``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import yaml

from maghub.llm import Outcome
from maghub.mkg.kg import Bools, Ints, KnowledgeGraph
from maghub.mkg.prompts import data_digest, data_text, fill
from maghub.mkg.text import contains, plain
from maghub.mkg.writers import GIVES_ANSWER, IMAGE_WORD, RULE, Task, Verdict, objection
from maghub.progress import track
from maghub.seeding import child_rng

RULES = "rule_writer.yaml"
PICTURED_HEAD = f"the subject of {IMAGE_WORD}"
KEPT = "specific"
NO_LABEL = "value"
DEFINITIONAL, IDENTITY = "says what the head is", "says only that two things are (not) one"
HOUSEKEEPING = "housekeeping of a wiki"
CONSTANT = "the relation nearly always has this tail"
NESTED = "one name contains the other"


@dataclass(frozen=True)
class _Grammar:
    """Questions for labels of one shape."""

    pattern: re.Pattern[str]
    questions: tuple[str, ...]
    verbs: frozenset[str]

    def templates(self, label: str) -> list[str] | None:
        """The questions for a label in plain words; None where it has another shape."""
        match = self.pattern.match(label)
        if match is None:
            return None
        parts = {name: part or "" for name, part in match.groupdict().items()}
        if self.verbs:
            if parts["verb"] not in self.verbs:
                return None
            parts["verb"] = _infinitive(parts["verb"])
        return [fill(question, label=label, **parts) for question in self.questions]


def _infinitive(verb: str) -> str:
    return f"{verb[:-3]}y" if verb.endswith("ies") else verb[:-1]


@cache
def _rules() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(data_text(RULES))
    return found


class RuleWriter:
    """Judges by rules and asks by templates; draws depend on the seed and the form alone."""

    name = RULE

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self._data = _rules()
        self._fallbacks = 0

    # -- judging -------------------------------------------------------------------------------

    def judge(self, graph: KnowledgeGraph, rows: Ints) -> list[Outcome[Verdict]]:
        """The first rule that speaks against a triplet, see ``Writer.judge``."""
        by_relation = self._relation_reasons(graph)
        by_tail = self._tail_reasons(graph)
        constant = self._constant(graph)
        names = [plain(name) for name in graph.entities.names]
        found = []
        for row in track(rows.tolist(), "judging triplets", len(rows)):
            head, tail = names[graph.heads[row]], names[graph.tails[row]]
            reason = by_relation[graph.rels[row]] or by_tail[graph.tails[row]]
            if reason is None and constant[row]:
                reason = CONSTANT
            if reason is None and (contains(head, tail) or contains(tail, head)):
                reason = NESTED
            found.append(Outcome(Verdict(reason is None, reason or KEPT)))
        return found

    def _relation_reasons(self, graph: KnowledgeGraph) -> list[str | None]:
        """What speaks against a relation as such."""
        lists, relations = self._data["filter"], graph.relations
        sets = {
            reason: {plain(label) for label in lists[key]}
            for reason, key in ((DEFINITIONAL, "definitional"), (IDENTITY, "identity"))
        }
        patterns = [re.compile(one) for one in lists["housekeeping_relation"]]
        found: list[str | None] = []
        for name, description in zip(relations.names, relations.descriptions, strict=True):
            label, told = plain(name), plain(description)
            reason = next((reason for reason, labels in sets.items() if label in labels), None)
            if reason is None and any(one.search(label) or one.search(told) for one in patterns):
                reason = HOUSEKEEPING
            found.append(reason)
        return found

    def _tail_reasons(self, graph: KnowledgeGraph) -> list[str | None]:
        patterns = [re.compile(one, re.I) for one in self._data["filter"]["housekeeping_tail"]]
        return [
            HOUSEKEEPING if any(one.search(name) for one in patterns) else None
            for name in graph.entities.names
        ]

    def _constant(self, graph: KnowledgeGraph) -> Bools:
        """bool [T]: triplets of a relation that has nearly always the same tail, with that tail."""
        lists = self._data["filter"]
        key = graph.rels * len(graph.entities) + graph.tails
        _, inverse, uses = np.unique(key, return_inverse=True, return_counts=True)
        of_relation = np.bincount(graph.rels, minlength=len(graph.relations))[graph.rels]
        share = uses[inverse] / of_relation
        enough: Bools = of_relation >= lists["constant_from"]
        return enough & (share > lists["constant_share"])

    # -- asking --------------------------------------------------------------------------------

    def write(self, tasks: Sequence[Task]) -> list[Outcome[str]]:
        """The first template that gives nothing away, see ``Writer.write``."""
        return [self._ask(task) for task in track(tasks, "writing questions", len(tasks))]

    def _ask(self, task: Task) -> Outcome[str]:
        templates = self._templates(task)
        start = int(child_rng(self.seed, "mkg-question", task.key).integers(len(templates)))
        head = PICTURED_HEAD if task.grounded else task.head
        first: str | None = None
        for template in [*templates[start:], *templates[:start]]:
            question = fill(template, tail=task.tail, head=head)
            question = question[:1].upper() + question[1:]
            reason = objection(task, question)
            if reason is None:
                return Outcome(question)
            first = first or reason
        return Outcome(None, first or GIVES_ANSWER)

    def _templates(self, task: Task) -> list[str]:
        if task.mask == "relation":
            found: list[str] = self._data["relation"]
            return found
        label = plain(task.relation) or " ".join(task.relation.split()) or NO_LABEL
        if label in self._by_label:
            return self._by_label[label]
        self._fallbacks += 1
        for grammar in self._grammar:
            if (templates := grammar.templates(label)) is not None:
                return templates
        raise AssertionError("the last grammar takes any label")

    @cached_property
    def _by_label(self) -> dict[str, list[str]]:
        return {plain(label): questions for label, questions in self._data["tail"].items()}

    @cached_property
    def _grammar(self) -> list[_Grammar]:
        return [
            _Grammar(
                re.compile(one["pattern"]),
                tuple(one["questions"]),
                frozenset(one.get("verbs", ())),
            )
            for one in self._data["grammar"]
        ]

    def sources(self) -> dict[str, str]:
        """The state of the rules and templates."""
        return {RULES: data_digest(RULES)}

    def counts(self) -> dict[str, int | float]:
        """How many questions came from the grammar because their relation has no template."""
        return {"questions by grammar": self._fallbacks}

    def close(self) -> None:
        """Nothing is open."""
