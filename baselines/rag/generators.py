"""Who answers: a language model through ``maghub.llm``, or ``extractive``, offline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Protocol

import yaml

from maghub import layout
from maghub.errors import nearest
from maghub.llm import KINDS, REFUSED, Client, Message, Request, Settings, open_client, said
from maghub.mkg.prompts import fill
from maghub.progress import track

EXTRACTIVE = "extractive"


@dataclass(frozen=True)
class Item:
    """One question to be answered.

    Attributes:
        question: Its text.
        masked: Which part of a triplet it asks for, ``tail`` or ``relation``.
        evidence: (head, relation, tail) of what was retrieved, best first.
        picture: Bytes of its picture.
    """

    question: str
    masked: str
    evidence: Sequence[tuple[str, str, str]]
    picture: bytes | None = None


class Generator(Protocol):
    """Answers questions; equal items give equal answers.

    Attributes:
        refused: How many it was not given an answer to.
    """

    refused: int

    def answer(self, items: Iterable[Item]) -> Iterator[str]:
        """An answer for each item, in order; "" where there is none."""

    def close(self) -> None:
        """Let go of files and connections."""


class Extractive:
    """Says what stands in the masked slot of the best triplet: what copying alone is worth."""

    refused = 0

    def answer(self, items: Iterable[Item]) -> Iterator[str]:
        """Tail or relation of the first triplet; "" without evidence."""
        for item in items:
            if not item.evidence:
                yield ""
                continue
            _, relation, tail = item.evidence[0]
            yield relation if item.masked == layout.MASK_RELATION else tail

    def close(self) -> None:
        """Nothing to do."""


class ModelGenerator:
    """Asks a language model, see ``maghub.llm``."""

    def __init__(self, client: Client, *, max_tokens: int = 64, seed: int = 0) -> None:
        self.client, self.max_tokens, self.seed = client, max_tokens, seed
        self.refused = 0

    def answer(self, items: Iterable[Item]) -> Iterator[str]:
        """One request each; answers are kept, see ``Client.map``."""
        requests = (self._request(item) for item in items)
        for answer in track(self.client.map(requests), "answering"):
            self.refused += answer.finish == REFUSED
            yield "" if answer.finish == REFUSED else said(answer).strip()

    def _request(self, item: Item) -> Request:
        return Request(messages_of(item), max_tokens=self.max_tokens, seed=self.seed)

    def close(self) -> None:
        """Close the client."""
        self.client.close()


@cache
def prompts() -> dict[str, Any]:
    """The content of ``prompts.yaml``."""
    text = (files("maghub.baselines.rag") / "prompts.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def evidence_lines(evidence: Sequence[tuple[str, str, str]]) -> str:
    """``Triplet 1: (head, relation, tail) = (..)`` and so on, a line each."""
    template = prompts()["with_evidence"]["triplet"]
    return "\n".join(
        fill(template, number=str(number), head=head, relation=relation, tail=tail)
        for number, (head, relation, tail) in enumerate(evidence, 1)
    )


def messages_of(item: Item) -> tuple[Message, Message]:
    """System and user turn of one question."""
    own = prompts()["with_evidence" if item.evidence else "without_evidence"]
    text = fill(own["user"], evidence=evidence_lines(item.evidence), question=item.question)
    if item.picture is None:
        return Message("system", own["system"]), Message("user", text)
    text = f"{prompts()['picture']}\n{text}"
    return Message("system", own["system"]), Message("user", text, (item.picture,))


def open_generator(
    name: str, settings: Settings | None = None, *, max_tokens: int = 64, seed: int = 0
) -> Generator:
    """The generator called ``extractive``, ``openai:MODEL`` or ``local:FOLDER_OR_ID``.

    Raises:
        MaghubError: Another name; or as ``maghub.llm.open_client``.
    """
    if name == EXTRACTIVE:
        return Extractive()
    if name.partition(":")[0] not in KINDS:
        raise nearest(name, [EXTRACTIVE, "openai:MODEL", "local:PATH"], kind="generator")
    return ModelGenerator(open_client(name, settings), max_tokens=max_tokens, seed=seed)
