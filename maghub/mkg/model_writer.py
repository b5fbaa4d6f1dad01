"""The writer that asks a language model, with the prompts of ``prompts.yaml``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from maghub.llm import Answer, BadAnswer, Client, Message, Outcome, Request, json_object
from maghub.mkg.kg import Ints, KnowledgeGraph
from maghub.mkg.prompts import PROMPTS, data_digest, described, fill, prompts
from maghub.mkg.writers import Task, Verdict, objection
from maghub.progress import track

VERDICT_TOKENS, QUESTION_TOKENS = 256, 256
SHOWN_REASON = 120


class ModelWriter:
    """Judges and writes through ``maghub.llm``.

    Args:
        client: The model; its cache makes an interrupted run go on where it was.
        seed: Sent with every request.
    """

    def __init__(self, client: Client, seed: int = 0) -> None:
        self.client, self.seed = client, seed
        self.name = client.backend.model

    def judge(self, graph: KnowledgeGraph, rows: Ints) -> list[Outcome[Verdict]]:
        """One request per triplet, see ``Writer.judge``."""
        said = prompts()["filter"]
        entities, relations = graph.entities, graph.relations

        def make(item: int) -> Request:
            row = rows[item]
            head, rel, tail = graph.heads[row], graph.rels[row], graph.tails[row]
            text = fill(
                said["user"],
                head=described(entities.names[head], entities.descriptions[head]),
                relation=described(relations.names[rel], relations.descriptions[rel]),
                tail=described(entities.names[tail], entities.descriptions[tail]),
            )
            return self._request(said["system"], Message("user", text), VERDICT_TOKENS)

        return self.client.ask(
            len(rows), make, _verdict, progress=partial(_bar, description="judging triplets")
        )

    def write(self, tasks: Sequence[Task]) -> list[Outcome[str]]:
        """One request per form, see ``Writer.write``."""
        said = prompts()["question"]

        def make(item: int) -> Request:
            task = tasks[item]
            head = task.head_text
            images: tuple[bytes, ...] = ()
            if task.grounded and task.image is not None:
                head, images = "[Image]", (task.image(),)
            values = {"head": head, "relation": task.relation_text, "tail": task.tail_text}
            text = fill(said[task.mask], **values)
            if task.grounded:
                text = f"{text}\n{said['grounded']}"
            return self._request(said["system"], Message("user", text, images), QUESTION_TOKENS)

        def parse(item: int, answer: Answer) -> str:
            return _question(tasks[item], answer)

        return self.client.ask(
            len(tasks), make, parse, progress=partial(_bar, description="writing questions")
        )

    def _request(self, system: str, user: Message, tokens: int) -> Request:
        return Request((Message("system", system), user), max_tokens=tokens, seed=self.seed)

    def sources(self) -> dict[str, str]:
        """The state of the prompts, and the models as they call themselves."""
        return {PROMPTS: data_digest(PROMPTS), "models": ", ".join(sorted(self.client.models))}

    def counts(self) -> dict[str, int | float]:
        """Requests, answers from the cache, tokens, cost."""
        budget = self.client.budget
        spent: dict[str, int | float] = {
            "prompt tokens": budget.prompt_tokens,
            "completion tokens": budget.completion_tokens,
        }
        if budget.cost:
            spent["cost"] = round(budget.cost, 6)
        return {**dict(sorted(self.client.counts.items())), **spent}

    def close(self) -> None:
        """Close the client."""
        self.client.close()


def _bar(answers: Iterable[Answer], total: int, description: str) -> Iterable[Answer]:
    return track(answers, description, total)


def _verdict(item: int, answer: Answer) -> Verdict:
    again = prompts()["filter"]["again"]
    found = json_object(answer, again)
    keep, reason = found.get("keep"), found.get("reason", "")
    if not isinstance(keep, bool) or not isinstance(reason, str):
        raise BadAnswer("no verdict in the JSON", again)
    return Verdict(keep, " ".join(reason.split())[:SHOWN_REASON])


def _question(task: Task, answer: Answer) -> str:
    said = prompts()["question"]
    question = json_object(answer, said["again"]).get("question")
    if not isinstance(question, str):
        raise BadAnswer("no question in the JSON", said["again"])
    question = question.strip()
    if reason := objection(task, question):
        raise BadAnswer(reason, fill(said["unusable"], reason=reason))
    return question
