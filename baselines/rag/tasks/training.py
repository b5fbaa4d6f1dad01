"""Fine-tune a text retriever on the training questions, and measure it before and after."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from maghub import layout
from maghub.baselines.rag import training
from maghub.baselines.rag._data import Opened
from maghub.baselines.rag._opening import open_setting
from maghub.baselines.rag._retriever import RetrieverConfig, get_retriever
from maghub.baselines.rag._task import KGTaskConfig, Measured
from maghub.baselines.rag.ranking import CUTS
from maghub.baselines.rag.retrievers.text import TextRetriever
from maghub.baselines.rag.tasks.retrieval import KGRetrieval, measured
from maghub.errors import MaghubError


class KGTrainingConfig(KGTaskConfig):
    """Settings; ``limit`` cuts training and test questions.

    Attributes:
        tower: Folder or Hub id of the text encoder that is fine-tuned (sentence-transformers).
        save: Folder for the fine-tuned model, with ``-seed1`` in its name for seed 1 and so on;
            None keeps it nowhere.
        mined_by: Who finds hard negatives: ``rag-bm25``, or ``rag-text`` with published vectors.
        negatives: Hard negatives per judgement.
        depth: How deep they are looked for.
        epochs, batch_size, lr, warmup, scale: Of the trainer, see ``training.fit``.
    """

    tower: str = "sentence-transformers/all-MiniLM-L6-v2"
    save: Path | None = None
    mined_by: Literal["rag-bm25", "rag-text"] = "rag-bm25"
    negatives: int = Field(default=4, ge=1)
    depth: int = Field(default=50, ge=1)
    epochs: float = Field(default=1.0, gt=0)
    batch_size: int = Field(default=32, ge=2)
    lr: float = Field(default=2e-5, gt=0)
    warmup: float = Field(default=0.1, ge=0, le=1)
    scale: float = Field(default=20.0, gt=0)


class KGTraining(KGRetrieval):
    """The metrics of text retrieval by the fine-tuned encoder; ``before_*`` are its own without
    training. Hard negatives are relevant to no judgement of their question."""

    name = "kg-training"
    Config = KGTrainingConfig
    config: KGTrainingConfig
    no_result = frozenset({"save"})

    def check(self) -> None:
        """Only text retrieval has something to be trained here."""
        if self.kind is not TextRetriever:
            raise MaghubError(
                f"{self.request.model} is not trained: the task fine-tunes text vectors",
                fix="use it as: maghub run rag-text --task kg-training",
            )
        if self.config.split == layout.TRAIN:
            raise MaghubError("the training split cannot be measured", fix="choose split=test")

    def modalities(self) -> tuple[str, ...]:
        """Published vectors matter only where they mine negatives."""
        return (layout.TEXT,) if self.config.mined_by == "rag-text" else ()

    def measure(self, opened: Opened, config: RetrieverConfig) -> Measured:
        """Measure, mine, train, measure again."""
        own, seed = self.config, self.request.seed
        model = training.load_two_tower(own.tower, self.request.device)
        before = self._ranked(model, opened)
        train = open_setting(
            self.rag, own.setting, layout.TRAIN, own.rule, self.encoders, own.limit
        )
        miner = get_retriever(own.mined_by)(train.corpus, seed=seed, device=self.request.device)
        found = training.hard_negatives(train, miner, own.negatives, depth=own.depth, seed=seed)
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="maghub-training-") as scratch:
            training.fit(
                model,
                training.training_set(train, found),
                Path(scratch),
                epochs=own.epochs,
                batch_size=own.batch_size,
                lr=own.lr,
                warmup=own.warmup,
                scale=own.scale,
                seed=seed,
            )
        spent = time.monotonic() - begin
        after = self._ranked(model, opened)
        if own.save is not None:
            model.save(str(self.own_path(own.save)))
        return Measured(
            after,
            controls={f"before_{name}": value for name, value in before.items()},
            notes=[f"fine-tuned on {len(train.questions):,} questions of the train split"],
            train_seconds=round(spent, 3),
            parameters=sum(p.numel() for p in model.parameters()),
        )

    def _ranked(self, model: Any, opened: Opened) -> dict[str, float]:
        """Metrics of text retrieval with the model's vectors."""
        texts = training.encoded(model, opened.corpus.texts)
        corpus = replace(opened.corpus, vectors=lambda modality: texts)
        retriever = TextRetriever(corpus, device=self.request.device)
        _, rows = retriever.search(training.seen_by(model, opened.questions), max(CUTS))
        return measured(opened, rows)
