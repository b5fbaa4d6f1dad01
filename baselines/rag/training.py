"""Fine-tuning of a text retriever on a benchmark's training questions with hard negatives.

The paper leaves training to its readers (section 1); here is the hook: the train split becomes
(question, relevant triplet, hard negatives), and sentence-transformers' trainer brings question and
triplet together against these and all others of the batch (MultipleNegativesRankingLoss).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset

from maghub.baselines.rag._data import Ints, Opened, Questions, Vectors
from maghub.baselines.rag._pairs import listed
from maghub.baselines.rag._retriever import Retriever
from maghub.baselines.rag._words import asked_text
from maghub.errors import MaghubError
from maghub.libraries import library, loading
from maghub.seeding import child_rng

ANCHOR, POSITIVE, NEGATIVE = "anchor", "positive", "negative"


def hard_negatives(
    opened: Opened, retriever: Retriever, negatives: int, *, depth: int = 50, seed: int = 0
) -> Ints:
    """int64 [n, negatives]: for each judgement, triplets that rank high but are not relevant.

    They are drawn from the first ``depth`` results that are relevant to no judgement of the
    question; where there are too few, from the whole corpus.

    Args:
        opened: Training questions and judgements.
        retriever: Who mines them, e.g. BM25.
        negatives: How many per judgement.
        depth: How deep to look; deeper ones are easier.
        seed: Seed of the draw.

    Raises:
        MaghubError: A question to which nearly all triplets are relevant.
    """
    n, count = len(opened.corpus), len(opened.questions)
    _, rows = retriever.search(opened.questions, min(n, depth))
    wrong = np.unique(opened.query * n + opened.relevant)
    if n - np.bincount(opened.query, minlength=1).max() < negatives:
        raise MaghubError(
            f"there are not {negatives} triplets that are not relevant to some question",
            fix="ask for fewer negatives",
        )
    query, row, place = listed(rows)
    usable = ~np.isin(query * n + row, wrong)
    pool = np.full(rows.shape, -1, np.int64)
    pool[query, place] = np.where(usable, row, -1)
    return _drawn(pool, opened.query, wrong, n, negatives, child_rng(seed, "hard-negatives", count))


def _drawn(
    pool: Ints, query: Ints, wrong: Ints, n: int, negatives: int, rng: np.random.Generator
) -> Ints:
    """Different triplets for each judgement: of its pool where it can, else any that are wrong for
    none."""
    drawn = rng.random((len(query), pool.shape[1]))
    drawn[pool[query] < 0] = np.inf
    order = np.argsort(drawn, axis=1)[:, :negatives]
    found = np.take_along_axis(pool[query], order, axis=1)
    if found.shape[1] < negatives:
        fill = np.full((len(query), negatives - found.shape[1]), -1, np.int64)
        found = np.concatenate([found, fill], axis=1)
    for _ in range(100):
        line, place = np.nonzero(found < 0)
        if not len(line):
            return found
        guess = rng.integers(n, size=len(line))
        bad = np.isin(query[line] * n + guess, wrong) | (found[line] == guess[:, None]).any(axis=1)
        # One guess a judgement and round, so that two equal guesses never meet in one.
        first = np.ones(len(line), bool)
        first[1:] = line[1:] != line[:-1]
        kept = first & ~bad
        found[line[kept], place[kept]] = guess[kept]
    line, place = np.nonzero(found < 0)
    for i, j in zip(line.tolist(), place.tolist(), strict=True):  # next to none get here
        own = wrong[wrong // n == query[i]] % n
        left = np.setdiff1d(np.arange(n), np.concatenate([own, found[i]]))
        found[i, j] = rng.choice(left)
    return found


def training_set(opened: Opened, negatives: Ints) -> Dataset:
    """A row per judgement: anchor, positive, negative_1 ...

    Args:
        opened: Questions, triplets and judgements.
        negatives: int64 [n, m] rows of the corpus.
    """
    asked = [asked_text(text) for text in opened.questions.texts]
    texts = opened.corpus.texts
    columns = {
        ANCHOR: [asked[q] for q in opened.query.tolist()],
        POSITIVE: [texts[row] for row in opened.relevant.tolist()],
    }
    for i in range(negatives.shape[1]):
        columns[f"{NEGATIVE}_{i + 1}"] = [texts[row] for row in negatives[:, i].tolist()]
    return Dataset.from_dict(columns)


def load_two_tower(path: str, device: str = "auto") -> Any:
    """A sentence-transformers model; a plain transformers encoder gets mean pooling.

    Raises:
        MaghubError: It cannot be loaded.
        MissingExtra: sentence-transformers is not installed.
    """
    library_ = library("sentence_transformers", "sentence-transformers", "rag")
    with loading(path, "give a folder with --set tower=FOLDER, or a Hub id"):
        return library_.SentenceTransformer(path, device=None if device == "auto" else device)


def fit(
    model: Any,
    data: Dataset,
    out: Path,
    *,
    epochs: float = 1,
    batch_size: int = 32,
    lr: float = 2e-5,
    warmup: float = 0.1,
    scale: float = 20.0,
    seed: int = 0,
) -> Any:
    """Train in place with MultipleNegativesRankingLoss; no question or triplet twice in a batch.

    Args:
        model: A ``SentenceTransformer``.
        data: See ``training_set``.
        out: Folder for the trainer's own files.
        epochs: Passes over the data.
        batch_size: Rows per step: each positive is a negative of the other rows.
        lr: Largest learning rate of AdamW.
        warmup: Share of the steps in which it rises.
        scale: Inverse temperature.
        seed: Seed of the order; the result is the same for the same seed, data and machine.
    """
    library_ = library("sentence_transformers", "sentence-transformers", "rag")
    library("accelerate", "accelerate", "rag")
    losses = library("sentence_transformers.losses", "sentence-transformers", "rag")
    samplers = library("sentence_transformers.training_args", "sentence-transformers", "rag")
    steps = max(1, round(epochs * len(data) / batch_size))
    arguments = library_.SentenceTransformerTrainingArguments(
        output_dir=str(out),
        num_train_epochs=epochs,
        per_device_train_batch_size=batch_size,
        learning_rate=lr,
        warmup_steps=round(warmup * steps),
        batch_sampler=samplers.BatchSamplers.NO_DUPLICATES,
        seed=seed,
        data_seed=seed,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
        use_cpu=model.device.type == "cpu",
    )
    trainer = library_.SentenceTransformerTrainer(
        model=model,
        args=arguments,
        train_dataset=data,
        loss=losses.MultipleNegativesRankingLoss(model, scale=scale),
    )
    trainer.train()
    return model


def encoded(model: Any, texts: Sequence[str], batch_size: int = 64) -> Vectors:
    """Vectors of texts by the model."""
    rows = model.encode(
        list(texts), batch_size=batch_size, convert_to_numpy=True, show_progress_bar=False
    )
    return Vectors(np.asarray(rows, np.float32), np.ones(len(texts), bool))


def seen_by(model: Any, questions: Questions) -> Questions:
    """The questions with the model's vectors of their texts."""
    own = encoded(model, [asked_text(text) for text in questions.texts])
    return Questions(questions.ids, questions.texts, lambda modality: own, questions.pictures)
