"""What one question template is, and the answer-format suffixes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from maghub.clegr.index import Index
from maghub.clegr.paths import TooManyStatesError
from maghub.clegr.solver import Answer, Arguments, Solver
from maghub.clegr.well_posed import Readings

FACT: Final = "FactBased"
REASONING: Final = "ReasoningBased"
GROUPS: Final = MappingProxyType({"facts": FACT, "reasoning": REASONING})

STRING, BOOLEAN, NUMERIC, LIST = "String", "Boolean", "Numeric", "List"
NODE, EDGE, SUBGRAPH = "Node", "Edge", "Sub-graph"
AGGREGATION, FILTERING, PATH, TOPOLOGY = "Aggregation", "Filtering", "PathReasoning", "Topology"

SUFFIXES: Final[Mapping[str, str]] = MappingProxyType(
    {
        STRING: "\n\nAnswer directly: ",
        LIST: "\n\nOutput a comma-separated list: ",
        BOOLEAN: "\n\nAnswer with 'True' or 'False':\n\nAnswer: ",
        NUMERIC: "\n\nAnswer with a number:\n\nAnswer: ",
        "Cycle": "\n\nAnswer with 'True' if it is in a cycle, otherwise 'False':\n\nAnswer: ",
    }
)
"""Text after the question, by suffix kind (../shared/specs/clegr.md, "Questions")."""


@dataclass(frozen=True)
class Template:
    """One question template.

    Attributes:
        name: Question type, as the paper's tables name it.
        domain: ``subway`` or ``computer-networks``.
        group: ``FactBased`` or ``ReasoningBased``.
        subgroups: Kinds of reasoning (paper B.3.3); ``Fact`` for facts.
        scope: ``Node``, ``Edge`` or ``Sub-graph``.
        output: ``String``, ``Boolean``, ``Numeric`` or ``List``: how the answer is scored.
        wording: The question, with ``{}`` for each argument.
        slots: Kind of each argument, in the order of the wording.
        solve: The compat answer; None discards the draw.
        draw: How arguments are drawn where not independently: ``edge``, ``line`` (two stations
            of one line), ``common`` (two neighbours of a station).
        distinct: Whether arguments of one kind must differ, in both variants.
        readings: All answers the specification allows, where there can be several.
        stored: Further answers that come from the released way of storing graphs.
        strict: Further answers only the well_posed variant minds.
        suffix: Suffix kind, where it is not the output's.
    """

    name: str
    domain: str
    group: str
    subgroups: tuple[str, ...]
    scope: str
    output: str
    wording: str
    slots: tuple[str, ...]
    solve: Solver
    draw: str = ""
    distinct: bool = False
    readings: Readings | None = None
    stored: Readings | None = None
    strict: Readings | None = None
    suffix: str = ""

    @property
    def suffix_text(self) -> str:
        """The answer-format suffix."""
        return SUFFIXES[self.suffix or self.output]

    @property
    def text(self) -> str:
        """Wording and suffix."""
        return self.wording + self.suffix_text

    def repeats(self, args: Arguments) -> bool:
        """Whether two arguments of one kind are the same."""
        return len(set(zip(self.slots, args, strict=True))) < len(args)


def well_posed_answer(template: Template, index: Index, args: Arguments) -> Answer | None:
    """The one answer of a draw; None when it has none, or more than one reading."""
    if template.repeats(args):
        return None
    answer = template.solve(index, args)
    if answer is None or answer == ():
        return None
    for readings in (template.strict, template.stored, template.readings):
        if readings is not None:
            try:
                if readings(index, args) - {answer}:
                    return None
            except TooManyStatesError:
                return None
    return answer
