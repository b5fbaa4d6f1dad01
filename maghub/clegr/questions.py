"""Asking every template of one graph: two instances each, a few draws per instance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from maghub.clegr.arguments import argument_texts, draw_arguments
from maghub.clegr.draws import Draws
from maghub.clegr.index import Index
from maghub.clegr.solver import Answer
from maghub.clegr.template import Template, well_posed_answer

INSTANCES: Final = 2
"""Questions per template and graph (paper B.3.1)."""
DRAWS: Final = {"compat": 3, "well_posed": 20}
"""Most draws of arguments per question."""


@dataclass
class Question:
    """One question of a graph; ``answer`` is a tuple of names for list answers."""

    template: Template
    instance: int
    arguments: list[str]
    answer: Answer


@dataclass
class DrawCounts:
    """What became of one template's draws.

    Attributes:
        instances: Questions asked for.
        draws: Draws of arguments made.
        discarded: Draws without a valid (in well_posed: single) answer.
        lost: Questions that no draw gave.
    """

    instances: int = 0
    draws: int = 0
    discarded: int = 0
    lost: int = 0

    def add(self, other: DrawCounts) -> None:
        """Add another part's counts."""
        self.instances += other.instances
        self.draws += other.draws
        self.discarded += other.discarded
        self.lost += other.lost


def ask(
    index: Index,
    templates: Iterable[Template],
    draws: Draws,
    variant: str,
    counts: dict[str, DrawCounts],
) -> Iterator[Question]:
    """Questions of one graph, in template order.

    Args:
        index: The graph.
        templates: The templates to ask.
        draws: The graph's own stream of draws.
        variant: ``compat`` or ``well_posed``.
        counts: Draw counts per question type, added to.
    """
    most = DRAWS[variant]
    strict = variant == "well_posed"
    for template in templates:
        tally = counts.setdefault(template.name, DrawCounts())
        tries = most if template.slots else 1
        solve = template.solve
        for instance in range(INSTANCES):
            tally.instances += 1
            for _ in range(tries):
                tally.draws += 1
                args = draw_arguments(template, index, draws)
                if args is not None:
                    answer = (
                        well_posed_answer(template, index, args) if strict else solve(index, args)
                    )
                    if answer is not None:
                        texts = argument_texts(template, index, args)
                        yield Question(template, instance, texts, answer)
                        break
                tally.discarded += 1
            else:
                tally.lost += 1


def answer_text(answer: Answer) -> str:
    """The string serialisation of an answer (lists: names joined by a comma and a space)."""
    return ", ".join(answer) if isinstance(answer, tuple) else str(answer)
