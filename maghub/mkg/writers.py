"""Who judges triplets and writes questions, and what every question must satisfy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from maghub.errors import nearest
from maghub.llm import KINDS, Outcome, Settings
from maghub.mkg.kg import Ints, KnowledgeGraph
from maghub.mkg.records import Mask
from maghub.mkg.text import says

RULE = "rule"
IMAGE_WORD = "[Image]"
LONGEST_QUESTION = 400
GIVES_ANSWER, NAMES_HEAD = "it contains the answer", "it names the head that the picture shows"
NO_IMAGE_WORD = f"it does not refer to {IMAGE_WORD}"
NOT_ONE_LINE = "it is empty, too long, or no single line"


@dataclass(frozen=True)
class Verdict:
    """Whether a triplet is of use, and why."""

    keep: bool
    reason: str


@dataclass(frozen=True)
class Task:
    """A masked form to be asked about.

    Attributes:
        key: Names the form: what its draws and pictures depend on.
        mask: The part asked for.
        head, relation, tail: Names; the masked one is "".
        head_text, relation_text, tail_text: The same with what is known of them, for prompts.
        answers: All gold answers.
        grounded: Whether the question is about a picture of the head.
        image: Bytes of that picture.
    """

    key: str
    mask: Mask
    head: str
    relation: str
    tail: str
    head_text: str
    relation_text: str
    tail_text: str
    answers: tuple[str, ...]
    grounded: bool = False
    image: Callable[[], bytes] | None = None


class Writer(Protocol):
    """Judges triplets and writes questions; equal inputs give equal outputs.

    Attributes:
        name: ``rule``, or the name of the model: it stands in every row.
    """

    name: str

    def judge(self, graph: KnowledgeGraph, rows: Ints) -> list[Outcome[Verdict]]:
        """A verdict for each of these triplets, or why there is none."""

    def write(self, tasks: Sequence[Task]) -> list[Outcome[str]]:
        """A question for each task that passes ``objection``, or why there is none."""

    def sources(self) -> dict[str, str]:
        """What its words come from: name -> state, the same however often a run was stopped."""

    def counts(self) -> dict[str, int | float]:
        """What this run took: requests, tokens and the like."""

    def close(self) -> None:
        """Let go of files and connections."""


def objection(task: Task, question: str) -> str | None:
    """Why a question cannot be used, or None.

    It must be one line, must not contain any gold answer, and, about a picture, must say
    ``[Image]`` and not name the head. Names are compared in plain words, see ``maghub.mkg.text``.
    """
    if not question or len(question) > LONGEST_QUESTION or len(question.splitlines()) > 1:
        return NOT_ONE_LINE
    if task.grounded and IMAGE_WORD not in question:
        return NO_IMAGE_WORD
    words = question.replace(IMAGE_WORD, " ")
    if any(says(words, answer) for answer in task.answers):
        return GIVES_ANSWER
    if task.grounded and says(words, task.head):
        return NAMES_HEAD
    return None


def open_writer(name: str, *, seed: int = 0, settings: Settings | None = None) -> Writer:
    """The writer called ``rule``, ``openai:MODEL`` or ``local:FOLDER_OR_ID``.

    Raises:
        MaghubError: Another name; or as ``maghub.llm.open_client``.
    """
    kind = name.partition(":")[0]
    if kind not in KINDS and name != RULE:
        raise nearest(name, [RULE, "openai:MODEL", "local:PATH"], kind="writer")
    if name == RULE:
        from maghub.mkg.rule_writer import RuleWriter

        return RuleWriter(seed)
    from maghub.llm import open_client
    from maghub.mkg.model_writer import ModelWriter

    return ModelWriter(open_client(name, settings), seed)
