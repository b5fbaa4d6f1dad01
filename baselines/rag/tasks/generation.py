"""Answers with the top triplets as evidence, or without any (paper, 4.3)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from maghub import layout
from maghub.baselines.rag._data import Ints, Opened
from maghub.baselines.rag._retriever import RetrieverConfig
from maghub.baselines.rag._task import KGTask, KGTaskConfig, Measured
from maghub.baselines.rag.answers import NAMES, score_answer
from maghub.baselines.rag.generators import Item, open_generator
from maghub.errors import MaghubError
from maghub.files import os_errors, write_text
from maghub.llm import Limits, RetryPolicy, Settings, short_name
from maghub.mkg.records import rows_of

_REACHED = ("base_url", "key_variable", "cache", "concurrency", "batch_size", "timeout", "attempts")
_SPENT = ("max_requests", "max_total_tokens", "max_cost", "input_price", "output_price")


class KGGenerationConfig(KGTaskConfig):
    """Settings.

    Attributes:
        generator: ``extractive``, ``openai:MODEL`` (any compatible server) or ``local:PATH``.
        evidence: Triplets shown to the generator.
        pictures: Whether it sees the question's picture.
        max_tokens: Longest answer.
        answers: JSON-lines file of the answers, with ``-seed1`` in its name for seed 1 and so on;
            None: beside the result records.
        base_url, key_variable, cache, concurrency, batch_size, timeout, attempts: How a model is
            reached, see ``maghub.llm.Settings``; the key comes from the environment.
        parameters: Sent with every request in place of our own; null leaves one out.
        max_requests, max_total_tokens, max_cost, input_price, output_price: What one run may spend.
    """

    generator: str = "extractive"
    evidence: int = Field(default=5, ge=1)
    pictures: bool = True
    max_tokens: int = Field(default=64, ge=1)
    parameters: dict[str, Any] = {}
    answers: Path | None = None
    base_url: str | None = None
    key_variable: str | None = None
    cache: Path | None = None
    concurrency: int = Field(default=8, ge=1)
    batch_size: int = Field(default=8, ge=1)
    timeout: float = Field(default=120.0, gt=0)
    attempts: int = Field(default=6, ge=1)
    max_requests: int | None = Field(default=None, ge=1)
    max_total_tokens: int | None = Field(default=None, ge=1)
    max_cost: float | None = Field(default=None, ge=0)
    input_price: float = Field(default=0.0, ge=0)
    output_price: float = Field(default=0.0, ge=0)

    def client_settings(self, device: str) -> Settings:
        """How the model is reached."""
        return Settings(
            base_url=self.base_url,
            key_variable=self.key_variable,
            cache=self.cache,
            concurrency=self.concurrency,
            batch_size=self.batch_size,
            timeout=self.timeout,
            retry=RetryPolicy(attempts=self.attempts),
            limits=Limits(
                self.max_requests,
                self.max_total_tokens,
                self.max_cost,
                self.input_price,
                self.output_price,
            ),
            parameters=self.parameters,
            device=device,
        )


class KGGeneration(KGTask):
    """Exact match, token F1, Contains@1 and BLEU-1 of answers to the questions of a setting."""

    name = "kg-generation"
    Config = KGGenerationConfig
    config: KGGenerationConfig
    no_result = frozenset({"answers", *_REACHED, *_SPENT})

    def reads(self) -> tuple[str, ...]:
        """Gold answers."""
        return (layout.QA,)

    def recorded(self) -> dict[str, Any]:
        """The settings, a local model by its name alone."""
        return {**super().recorded(), "generator": short_name(self.config.generator)}

    def measure(self, opened: Opened, config: RetrieverConfig) -> Measured:
        """Retrieve, answer, compare, and write everything down."""
        own = self.config
        scores, rows = self.retriever(opened, config).search(opened.questions, own.evidence)
        gold, masked = self._gold(opened)
        generator = open_generator(
            own.generator,
            own.client_settings(self.request.device),
            max_tokens=own.max_tokens,
            seed=self.request.seed,
        )
        try:
            answers = list(generator.answer(self._items(opened, rows, masked)))
        finally:
            generator.close()
        results = [score_answer(said, right) for said, right in zip(answers, gold, strict=True)]
        path = self.answers_path(config)
        if path is not None:
            self._write(path, opened, scores, rows, gold, masked, answers, results)
        metrics = {name: float(np.mean([one[name] for one in results])) for name in NAMES}
        notes = [f"answers by {short_name(own.generator)}"]
        if generator.refused:
            notes.append(f"{generator.refused:,} questions were refused and count as not answered")
        return Measured(metrics, notes=notes)

    def _gold(self, opened: Opened) -> tuple[list[list[str]], list[str]]:
        """Gold answers and the masked part of each question."""
        ids = pa.chunked_array([pa.array(opened.questions.ids, pa.string())])
        table = self.rag.qa()
        at = rows_of(ids, table[layout.QUERY_ID])
        if (at < 0).any():
            unknown = opened.questions.ids[int(np.argmax(at < 0))]
            raise MaghubError(
                f"query {unknown} has no gold answer",
                where=self.rag.folder,
                fix="check the folder with: maghub validate",
            )
        picked = table.take(pa.array(at))
        masks = [layout.MASKS[code] for code in picked[layout.MASKED].to_pylist()]
        return picked[layout.ANSWERS].to_pylist(), masks

    def _items(self, opened: Opened, rows: Ints, masked: list[str]) -> Iterator[Item]:
        questions = opened.questions
        shown = questions.pictures() if self.config.pictures else iter([None] * len(questions))
        for text, part, own, picture in zip(questions.texts, masked, rows, shown, strict=True):
            yield Item(text, part, opened.corpus.triplets(own[own >= 0]), picture)

    def _write(
        self,
        path: Path,
        opened: Opened,
        scores: np.ndarray,
        rows: Ints,
        gold: list[list[str]],
        masked: list[str],
        answers: list[str],
        results: list[dict[str, float]],
    ) -> None:
        """One JSON line per question; whole or not at all."""
        relevant = set(zip(opened.query.tolist(), opened.relevant.tolist(), strict=True))
        lines = []
        for q, key in enumerate(opened.questions.ids):
            line = {
                "query_id": key,
                "question": opened.questions.texts[q],
                "masked": masked[q],
                "answers": gold[q],
                "answer": answers[q],
                "metrics": results[q],
                "evidence": [
                    {
                        "id": opened.corpus.ids[row],
                        "triplet": opened.corpus.triplets(np.asarray([row]))[0],
                        "score": float(scores[q, place]),
                        "relevant": (q, int(row)) in relevant,
                    }
                    for place, row in enumerate(rows[q])
                    if row >= 0
                ],
            }
            lines.append(json.dumps(line, ensure_ascii=False))
        with os_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, "".join(f"{line}\n" for line in lines))

    def answers_path(self, model: RetrieverConfig) -> Path | None:
        """Where the answers go: the setting, else a file beside the records, named by the run.

        The name ends in a digest of all that decides the answers, so that no run with other
        settings takes the file of another.
        """
        request, config = self.request, self.config
        if config.answers is not None:
            return self.own_path(config.answers)
        if request.out is None:
            return None
        who = short_name(config.generator).replace(":", "-").replace("/", "-")
        deciding = [model.model_dump(mode="json"), self.recorded(), dict(self.encoders)]
        text = json.dumps(deciding, sort_keys=True, ensure_ascii=False)
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        parts = (self.rag.spec.name, request.model, who, config.setting, config.split, config.rule)
        name = "-".join([*parts, f"seed{request.seed}", digest]) + ".jsonl"
        return request.out.with_name(f"{request.out.stem}-answers") / name
