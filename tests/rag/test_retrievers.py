"""Every retriever against a slow computation of the same thing."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import networkx
import numpy as np
import pytest

pytest.importorskip("faiss")
pytest.importorskip("bm25s")

from maghub.baselines.rag._data import Corpus, EntityPictures, Questions, Vectors
from maghub.baselines.rag._retriever import RetrieverConfig, get_retriever
from maghub.baselines.rag.retrievers.bm25 import BM25Retriever
from maghub.baselines.rag.retrievers.fusion import FusionRetriever
from maghub.baselines.rag.retrievers.graph import GraphConfig, GraphRetriever
from maghub.baselines.rag.retrievers.hybrid import HybridRetriever
from maghub.baselines.rag.retrievers.none import NoEvidence
from maghub.baselines.rag.retrievers.random import RandomRetriever
from maghub.baselines.rag.retrievers.reranking import RerankingConfig, RerankingRetriever
from maghub.baselines.rag.retrievers.text import TextRetriever
from maghub.errors import MaghubError, MissingExtra
from tests.helpers.ragged import corpus_of, questions_of, ranked, unit64

K = 10


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return corpus_of()


@pytest.fixture(scope="module")
def questions(corpus: Corpus) -> Questions:
    return questions_of(corpus)


def cosines(questions: Questions, corpus: Corpus) -> np.ndarray:
    return unit64(questions.vectors("text").rows) @ unit64(corpus.vectors("text").rows).T


def test_text_is_the_cosine_of_texts(corpus: Corpus, questions: Questions) -> None:
    scores, rows = TextRetriever(corpus, device="cpu").search(questions, K)
    wanted = cosines(questions, corpus)
    assert rows.tolist() == ranked(wanted, K).tolist()
    np.testing.assert_allclose(scores, np.take_along_axis(wanted, rows, 1), atol=1e-6)


def test_fusion_is_the_mean_of_what_there_is(corpus: Corpus, questions: Questions) -> None:
    def fused(vectors: dict[str, Vectors]) -> np.ndarray:
        found = []
        text, image = vectors["text"], vectors["image"]
        for i in range(len(text.rows)):
            parts = [unit64(text.rows[i : i + 1])[0]]
            if image.has[i]:
                parts.append(unit64(image.rows[i : i + 1])[0])
            mean = np.mean(parts, axis=0)
            found.append(mean / np.linalg.norm(mean))
        return np.asarray(found)

    both = ("text", "image")
    wanted = (
        fused({m: questions.vectors(m) for m in both})
        @ fused({m: corpus.vectors(m) for m in both}).T
    )
    scores, rows = FusionRetriever(corpus, device="cpu").search(questions, K)
    assert rows.tolist() == ranked(wanted, K).tolist()
    np.testing.assert_allclose(scores, np.take_along_axis(wanted, rows, 1), atol=1e-6)
    wide = replace(corpus, vectors=lambda m: corpus.vectors(m) if m == "text" else _wide(corpus))
    with pytest.raises(MaghubError, match="16 wide and pictures 32: they cannot be fused"):
        FusionRetriever(wide)
    mixed = replace(corpus, encoders={"text": "a", "image": "b"})
    with pytest.raises(MaghubError, match="texts by a and of pictures by b cannot be fused"):
        FusionRetriever(mixed)


def _wide(corpus: Corpus) -> Vectors:
    own = corpus.vectors("image")
    return Vectors(np.concatenate([own.rows, own.rows], axis=1), own.has)


@pytest.mark.parametrize("entities", [1, 3, 10])
def test_reranking_takes_triplets_of_heads_by_picture(
    corpus: Corpus, questions: Questions, entities: int
) -> None:
    wanted = cosines(questions, corpus)
    pictures = corpus.entity_pictures()
    image = questions.vectors("image")
    near = unit64(image.rows) @ unit64(pictures.vectors.rows).T
    heads = set(corpus.head.tolist())
    for q in np.flatnonzero(image.has):
        order = [int(pictures.entity[p]) for p in np.argsort(-near[q])]
        chosen = list(dict.fromkeys(e for e in order if e in heads))[:entities]
        wanted[q, ~np.isin(corpus.head, chosen)] = -np.inf
    retriever = RerankingRetriever(corpus, RerankingConfig(entities=entities), device="cpu")
    _, rows = retriever.search(questions, K)
    assert rows.tolist() == ranked(wanted, K).tolist()


def test_reranking_without_any_picture_is_text_retrieval(
    corpus: Corpus, questions: Questions
) -> None:
    none = EntityPictures(corpus.entity_pictures().vectors.take(np.arange(0)), np.arange(0))
    bare = replace(corpus, entity_pictures=lambda: none)
    found = RerankingRetriever(bare, device="cpu").search(questions, K)[1]
    assert found.tolist() == TextRetriever(corpus, device="cpu").search(questions, K)[1].tolist()


def test_bm25_is_lucenes_formula() -> None:
    names = ["old river", "river bank", "bank", "stone bridge", "old old bridge", "tower"]
    head, tail = np.asarray([0, 1, 2, 3, 4, 5, 0]), np.asarray([1, 2, 3, 4, 5, 0, 3])
    relation = np.zeros(7, np.int64)
    base = corpus_of(triplets=31)
    made = replace(
        base, ids=list("abcdefg"), head=head, tail=tail, relation=relation, entities=names,
        relations=["crosses"],
    )  # fmt: skip
    asked = ["old bridge [Image]?", "which river crosses a bank", "nothing here", "", "the a"]
    documents = [text.split() for text in made.texts]
    mean = np.mean([len(words) for words in documents])
    k1, b, n = 1.5, 0.75, len(documents)
    wanted = np.full((len(asked), n), -np.inf)
    for q, text in enumerate(asked):
        for word in ["old", "bridge"] if q == 0 else ["river", "crosses", "bank"] if q == 1 else []:
            holding = sum(word in words for words in documents)
            idf = math.log(1 + (n - holding + 0.5) / (holding + 0.5))
            for d, words in enumerate(documents):
                if count := Counter(words)[word]:
                    share = count / (count + k1 * (1 - b + b * len(words) / mean))
                    wanted[q, d] = max(wanted[q, d], 0) + idf * share
        del text
    questions = Questions([str(i) for i in range(5)], asked, base.vectors)
    scores, rows = BM25Retriever(made).search(questions, n)
    assert rows.tolist() == ranked(wanted, n).tolist()
    filled = rows >= 0
    np.testing.assert_allclose(
        scores[filled], np.take_along_axis(wanted, np.maximum(rows, 0), 1)[filled], rtol=1e-5
    )
    assert not filled[2:].any()


def test_hybrid_adds_reciprocal_ranks(corpus: Corpus, questions: Questions) -> None:
    lists = [kind(corpus).search(questions, 100)[1] for kind in (TextRetriever, BM25Retriever)]
    wanted = np.full((len(questions), len(corpus)), -np.inf)
    for rows in lists:
        for q, own in enumerate(rows.tolist()):
            for rank, row in enumerate((r for r in own if r >= 0), 1):
                wanted[q, row] = max(wanted[q, row], 0) + 1 / (60 + rank)
    kind = get_retriever("rag-hybrid")
    assert kind is HybridRetriever
    scores, rows = kind(corpus, kind.Config(depth=100), device="cpu").search(questions, K)
    np.testing.assert_allclose(scores, -np.sort(-wanted, axis=1)[:, :K], rtol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(wanted, rows, 1), scores, rtol=1e-6)


def test_graph_adds_personalised_pagerank_to_the_cosine(
    corpus: Corpus, questions: Questions
) -> None:
    """The walk is networkx's PageRank on the entities; candidates and sums are done one by one."""
    config = GraphConfig(steps=60, restart=0.4, weight=0.7, tail=0.3, depth=20, pictured=0)
    _, rows = GraphRetriever(corpus, config, device="cpu").search(questions, K)
    degree = Counter([*corpus.head.tolist(), *corpus.tail.tolist()])
    steps: dict[tuple[int, int], float] = defaultdict(float)
    for h, t in zip(corpus.head.tolist(), corpus.tail.tolist(), strict=True):
        for start in (h, t):
            for end in (h, t):
                steps[start, end] += 0.5 / degree[start]
    graph = networkx.DiGraph()
    graph.add_weighted_edges_from((a, b, w) for (a, b), w in steps.items())
    cosine = cosines(questions, corpus)
    for q, text in enumerate(questions.texts):
        named = int(text.split()[2].removeprefix("e"))
        mass = networkx.pagerank(graph, alpha=0.6, personalization={named: 1.0}, tol=1e-12)
        near = set(np.argsort(-cosine[q])[:20].tolist())
        own = {i for i in range(len(corpus)) if named in (int(corpus.head[i]), int(corpus.tail[i]))}
        left = {
            i: sum(
                w * mass[e] / degree[e]
                for e, w in ((int(corpus.head[i]), 1), (int(corpus.tail[i]), 0.3))
            )
            for i in near | own
        }
        best = max(left.values())
        score = {i: cosine[q, i] + 0.7 * left[i] / best for i in left}
        wanted = sorted(score, key=lambda i: -score[i])[:K]
        np.testing.assert_allclose([score[i] for i in rows[q]], [score[i] for i in wanted], 1e-5)


def test_graph_without_a_name_takes_picture_or_nearest_texts(
    corpus: Corpus, questions: Questions
) -> None:
    mute = replace(questions, texts=["[Image]?"] * len(questions))
    retriever = GraphRetriever(corpus, device="cpu")
    scores, rows = retriever.search(mute, K)
    assert (rows >= 0).all()
    assert np.isfinite(scores).all()
    bare = replace(corpus, entity_pictures=_no_pictures)
    assert (GraphRetriever(bare, device="cpu").search(mute, K)[1] >= 0).all()


def _no_pictures() -> EntityPictures:
    raise MaghubError("no image vectors")


def test_random_draws_different_triplets_by_seed(corpus: Corpus, questions: Questions) -> None:
    first = RandomRetriever(corpus, seed=3).search(questions, K)[1]
    assert first.tolist() == RandomRetriever(corpus, seed=3).search(questions, K)[1].tolist()
    assert first.tolist() != RandomRetriever(corpus, seed=4).search(questions, K)[1].tolist()
    assert all(len(set(own)) == K for own in first.tolist())
    many = questions_of(corpus, 4000)
    counts = np.bincount(RandomRetriever(corpus).search(many, K)[1].ravel(), minlength=120)
    expected = 4000 * K / 120  # 333; a binomial of 4,000 draws deviates by 17.5
    assert np.abs(counts - expected).max() < 5 * 17.5


def test_no_evidence_finds_nothing(corpus: Corpus, questions: Questions) -> None:
    assert (NoEvidence(corpus).search(questions, K)[1] == -1).all()


@pytest.mark.parametrize(
    "name", ["rag-text", "rag-fusion", "rag-reranking", "rag-bm25", "rag-hybrid", "rag-graph"]
)
def test_batches_k_and_empty_questions(corpus: Corpus, questions: Questions, name: str) -> None:
    """What a question gets depends on nothing else in its batch; more than there is is padded."""
    retriever = get_retriever(name)(corpus, device="cpu")
    scores, rows = retriever.search(questions, len(corpus) + 5)
    assert rows.shape == scores.shape == (len(questions), len(corpus) + 5)
    assert (rows[:, len(corpus) :] == -1).all()
    for own in rows.tolist():
        found = [row for row in own if row >= 0]
        assert len(found) == len(set(found)) > 0
    _, few = retriever.search(questions, K)
    parts = [retriever.search(questions.part(i, i + 7), K)[1] for i in range(0, len(questions), 7)]
    assert np.concatenate(parts).tolist() == few.tolist()
    assert retriever.search(questions.part(0, 0), K)[1].shape == (0, K)
    with pytest.raises(MaghubError, match="0 triplets cannot be found"):
        retriever.search(questions, 0)


@pytest.mark.parametrize("what", ["names of letters", "names of stopwords", "few vectors"])
@pytest.mark.parametrize(
    "name", ["rag-text", "rag-fusion", "rag-reranking", "rag-bm25", "rag-hybrid", "rag-graph"]
)
def test_poor_corpora(corpus: Corpus, questions: Questions, name: str, what: str) -> None:
    """Names without a word to index, triplets without a vector: fewer are found, none twice."""
    poor = corpus
    if what != "few vectors":
        words = "xyz" if what == "names of letters" else ("the", "a", "of")
        entities = [words[i % 3] for i in range(len(corpus.entities))]
        poor = replace(corpus, entities=entities, relations=[words[0]] * len(corpus.relations))
    else:
        held = {m: Vectors(*map(np.copy, (v.rows, v.has))) for m in ("text", "image")
                if (v := corpus.vectors(m))}  # fmt: skip
        for own in held.values():
            own.rows[3:], own.has[3:] = 0, False
        poor = replace(corpus, vectors=held.__getitem__)
    scores, rows = get_retriever(name)(poor, device="cpu").search(questions, len(corpus))
    assert np.isneginf(scores[rows < 0]).all()
    assert np.isfinite(scores[rows >= 0]).all()
    for own in rows.tolist():
        found = [row for row in own if row >= 0]
        assert len(found) == len(set(found))
    if name == "rag-bm25" and what != "few vectors":
        assert (rows < 0).all()
    if name == "rag-hybrid" and what != "few vectors":  # then it is the list of the vectors alone
        wanted = TextRetriever(poor, device="cpu").search(questions, len(corpus))[1]
        assert rows.tolist() == wanted.tolist()


def test_a_missing_library_names_the_extra(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "bm25s", None)
    with pytest.raises(MissingExtra, match=r"bm25s.*pip install 'maghub\[rag\]'"):
        BM25Retriever(corpus)


def test_unknown_retriever_or_none() -> None:
    with pytest.raises(MaghubError, match="Did you mean rag-text"):
        get_retriever("rag-txt")
    assert issubclass(RetrieverConfig, object)


def cross_encoder(folder: Path) -> None:
    """A tiny cross-encoder with random weights, as a download of a real one lies on the disk."""
    import torch
    import transformers

    from tests.helpers.tiny_encoders import tokenizer

    torch.manual_seed(0)
    size = tokenizer(folder, ["[CLS]"], ["[SEP]"], "[PAD]")
    config = transformers.BertConfig(
        vocab_size=size, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, num_labels=1, initializer_range=0.4,
    )  # fmt: skip
    transformers.BertForSequenceClassification(config).save_pretrained(folder)


def _activated(logits: np.ndarray) -> np.ndarray:
    """sentence-transformers puts the sigmoid on the one logit."""
    return 1 / (1 + np.exp(-logits))


def test_cross_encoder_reorders_the_first_stage(
    corpus: Corpus, questions: Questions, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("sentence_transformers")
    import torch

    cross_encoder(tmp_path)
    kind = get_retriever("rag-cross-encoder")
    few = questions.part(0, 5)
    config = kind.Config(encoder=str(tmp_path), first="rag-text", depth=8)
    scores, rows = kind(corpus, config, device="cpu").search(few, 12)
    first = TextRetriever(corpus, device="cpu").search(few, 12)[1]
    words = transformers.AutoTokenizer.from_pretrained(tmp_path)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    for q, text in enumerate(few.texts):
        said = []
        for row in first[q, :8]:
            with torch.no_grad():
                inputs = words(text, corpus.texts[row], return_tensors="pt")
                said.append(float(model(**inputs).logits))
        assert sorted(rows[q, :8].tolist()) == sorted(first[q, :8].tolist())
        by_row = dict(zip(first[q, :8].tolist(), said, strict=True))
        np.testing.assert_allclose(
            [by_row[row] for row in rows[q, :8].tolist()], -np.sort(-np.asarray(said)), atol=1e-4
        )
        np.testing.assert_allclose(
            scores[q, :8], _activated(-np.sort(-np.asarray(said))), atol=1e-4
        )
        assert rows[q, 8:].tolist() == first[q, 8:].tolist()
    assert (np.diff(scores, axis=1) <= 0).all()
    with pytest.raises(MaghubError, match="cannot be loaded"):
        kind(corpus, kind.Config(encoder=str(tmp_path / "none")), device="cpu")
