"""Retrieval over the triplets of MKG-RAG-Bench-G: 25,517 x 512, 2,000 questions, k 100, one core.

Targets: ``rag-text`` in batches at least 10 times a torch loop over questions and 0.9 times raw
FAISS; ``rag-graph`` at least 200 questions a second. The other retrievers are shown beside them.
Run: OMP_NUM_THREADS=1 python -m tests.benchmarks.bench_rag
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from maghub.baselines.rag._data import Corpus, EntityPictures, Questions, Vectors
from maghub.baselines.rag._retriever import get_retriever
from maghub.search.backend import library
from tests.benchmarks._timing import best_of, seconds, show

TRIPLETS, WIDTH, QUESTIONS, ENTITIES, RELATIONS, K = 25_517, 512, 2_000, 11_292, 192, 100
RAW_TARGET, LOOP_TARGET, GRAPH_TARGET = 0.9, 10.0, 200.0
NAMES = ("rag-random", "rag-text", "rag-fusion", "rag-reranking", "rag-bm25", "rag-hybrid",
         "rag-graph")  # fmt: skip


def benchmark(seed: int = 0) -> tuple[Corpus, Questions]:
    """Random vectors; heads and tails with a few hubs, as MarKG has; names of two words."""
    rng = np.random.default_rng(seed)
    words = [f"word{i}" for i in range(3_000)]

    def named(count: int) -> list[str]:
        return [" ".join(rng.choice(words, 2)) for _ in range(count)]

    weight = 1 / np.arange(1, ENTITIES + 1) ** 0.8
    ends = rng.choice(ENTITIES, size=(2, TRIPLETS), p=weight / weight.sum())
    entities, relations = named(ENTITIES), named(RELATIONS)
    shown = rng.random(TRIPLETS) < 0.5
    image = rng.standard_normal((TRIPLETS, WIDTH), dtype=np.float32) * shown[:, None]
    held = {
        "text": _all(rng.standard_normal((TRIPLETS, WIDTH), dtype=np.float32)),
        "image": Vectors(image, shown),
    }
    pictures = EntityPictures(
        _all(rng.standard_normal((ENTITIES, WIDTH), dtype=np.float32)), np.arange(ENTITIES)
    )
    corpus = Corpus(
        [f"text-{i}" for i in range(TRIPLETS)], ends[0], rng.integers(RELATIONS, size=TRIPLETS),
        ends[1], entities, relations, held.__getitem__, lambda: pictures,
    )  # fmt: skip
    about = rng.integers(TRIPLETS, size=QUESTIONS)
    texts = [
        f"which is the {relations[corpus.relation[row]]} that belongs to {entities[ends[0][row]]}?"
        for row in about.tolist()
    ]
    asked = {name: _all(rng.standard_normal((QUESTIONS, WIDTH), dtype=np.float32)) for name in held}
    ids = [f"text-{i}" for i in range(QUESTIONS)]
    return corpus, Questions(ids, texts, asked.__getitem__)


def _all(rows: np.ndarray) -> Vectors:
    return Vectors(rows, np.ones(len(rows), bool))


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def main() -> None:
    """All of it."""
    torch.set_num_threads(1)
    faiss = library()  # with the kernels that ours has
    faiss.omp_set_num_threads(1)
    corpus, questions = benchmark()
    text, asked = corpus.vectors("text").rows, questions.vectors("text").rows
    plain = faiss.IndexFlatIP(WIDTH)
    plain.add(unit(text))
    matrix, each = torch.from_numpy(unit(text)), torch.from_numpy(unit(asked))

    def loop() -> None:
        for query in each:
            torch.topk(matrix @ query, K)

    ways: dict[str, Callable[[], Any]] = {"raw FAISS": lambda: plain.search(unit(asked), K)}
    for name in NAMES:
        retriever = get_retriever(name)(corpus, device="cpu")
        ways[name] = lambda r=retriever: r.search(questions, K)
    best = best_of(ways, 3)
    best["torch loop"] = seconds(loop)
    rows = [[way, f"{time * 1e3:,.0f}", f"{QUESTIONS / time:,.0f}"] for way, time in best.items()]
    title = f"{TRIPLETS:,} x {WIDTH}, {QUESTIONS:,} questions, k {K}, one core"
    show(title, ["way", "ms", "questions/s"], rows)
    raw, many = best["raw FAISS"] / best["rag-text"], best["torch loop"] / best["rag-text"]
    print(f"rag-text: {raw:.2f} of raw FAISS (target {RAW_TARGET}), ", end="")
    print(f"{many:.1f} times the torch loop (target {LOOP_TARGET:.0f})")
    speed = QUESTIONS / best["rag-graph"]
    print(f"rag-graph: {speed:,.0f} questions/s (target {GRAPH_TARGET:.0f})")


if __name__ == "__main__":
    main()
