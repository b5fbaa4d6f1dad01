"""Hard negatives, and a tiny text encoder that learns a planted benchmark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("bm25s")
pytest.importorskip("sentence_transformers")

import maghub
from maghub.baselines.rag._data import Opened
from maghub.baselines.rag._opening import open_setting
from maghub.baselines.rag.retrievers.bm25 import BM25Retriever
from maghub.baselines.rag.retrievers.random import RandomRetriever
from maghub.baselines.rag.training import hard_negatives, training_set
from maghub.errors import MaghubError
from maghub.mkg import Qrel, Query, Relation, Triplet, write_benchmark
from tests.helpers.kgrag import BUILDER, own_card, picture, small_records
from tests.helpers.ragged import corpus_of, questions_of


def opened_of(seed: int, triplets: int, share: float) -> Opened:
    corpus = corpus_of(seed, triplets=triplets, entities=8)
    questions = questions_of(corpus, 7, seed)
    rng = np.random.default_rng(seed)
    judged = rng.random((7, triplets)) < share
    judged[:, 0] = True
    query, relevant = np.nonzero(judged)
    return Opened(questions, corpus, query, relevant, np.arange(7), np.zeros(0, np.int64))


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 1000), negatives=st.integers(1, 4), share=st.sampled_from([0.1, 0.5]))
def test_negatives_are_never_relevant_and_differ(seed: int, negatives: int, share: float) -> None:
    opened = opened_of(seed, 20, share)
    miner = BM25Retriever(opened.corpus)
    try:
        found = hard_negatives(opened, miner, negatives, depth=6, seed=seed)
    except MaghubError:
        most = np.bincount(opened.query).max()
        assert 20 - most < negatives
        return
    assert found.shape == (len(opened.query), negatives)
    relevant = set(zip(opened.query.tolist(), opened.relevant.tolist(), strict=True))
    ranked = miner.search(opened.questions, 6)[1]
    for query, own in zip(opened.query.tolist(), found.tolist(), strict=True):
        assert len(set(own)) == negatives
        assert all(0 <= row < 20 and (query, row) not in relevant for row in own)
        pool = {r for r in ranked[query].tolist() if r >= 0 and (query, r) not in relevant}
        assert len(set(own) & pool) == min(negatives, len(pool))  # the hard ones come first
    again = hard_negatives(opened, miner, negatives, depth=6, seed=seed)
    assert again.tolist() == found.tolist()


def test_the_training_set_has_a_row_per_judgement() -> None:
    opened = opened_of(0, 20, 0.2)
    found = hard_negatives(opened, RandomRetriever(opened.corpus), 2, depth=20)
    data = training_set(opened, found)
    assert data.column_names == ["anchor", "positive", "negative_1", "negative_2"]
    for i, row in enumerate(data):
        assert row["anchor"] == opened.questions.texts[opened.query[i]]
        assert row["positive"] == opened.corpus.texts[opened.relevant[i]]
        assert row["negative_2"] == opened.corpus.texts[found[i, 1]]


HEADS, KINDS = 60, ("red", "green", "blue")


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Questions say ``rot`` for red and so on: no model knows it, the training split tells it."""
    words = {"red": "rot", "green": "gruen", "blue": "blau"}
    triplets, queries, qrels = [], [], []
    for h in range(HEADS):
        for kind in KINDS:
            key = f"text-{len(triplets)}"
            triplets.append(Triplet(key, f"Q{h}", f"P{kind}", "Q0", f"thing{h}", kind, "thing0"))
            queries.append(
                Query(
                    key,
                    f"thing{h} {words[kind]}?",
                    "tail",
                    f"Q{h}",
                    rel_id=f"P{kind}",
                    tail_id=None,
                )
            )
            qrels.append(Qrel(key, key))
    relations = [Relation(f"P{kind}", kind) for kind in KINDS]
    records = small_records(
        triplets=triplets, queries=queries, qrels=qrels, relations=relations, entities=_entities()
    )
    folder = tmp_path_factory.mktemp("planted") / "rag"
    write_benchmark(records, own_card(), folder, builder=BUILDER, pictures=picture)
    return folder


def _entities() -> list:
    from maghub.mkg import Entity

    return [Entity(f"Q{h}", f"thing{h}", "", ()) for h in range(HEADS)]


@pytest.fixture(scope="module")
def tower(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with random weights and words of its own."""
    import torch
    import transformers

    folder = tmp_path_factory.mktemp("tower")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "?", *KINDS, "rot", "gruen", "blau"]
    words += [f"thing{h}" for h in range(HEADS)]
    (folder / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(folder)
    return folder


def test_training_improves_a_tiny_model_and_repeats_itself(
    planted: Path, tower: Path, tmp_path: Path
) -> None:
    pytest.importorskip("accelerate")
    chosen = {
        "tower": str(tower), "epochs": 6, "batch_size": 16, "lr": 5e-3, "negatives": 2,
        "setting": "S2", "save": str(tmp_path / "tuned"), "rule": "group_split",
    }  # fmt: skip
    runs = [
        maghub.run("rag-text", planted, "kg-training", settings=chosen, seeds=[3], device="cpu")[0]
        for _ in range(2)
    ]
    after, before = runs[0].metrics["ndcg@10"], runs[0].controls["before_ndcg@10"]
    assert after > before + 0.2, (before, after)
    assert runs[0].metrics == runs[1].metrics
    assert runs[0].train_seconds > 0
    assert runs[0].parameters
    assert "save" not in runs[0].task_settings
    assert runs[0].encoders == {}  # no published vector was read
    # The saved model is the one that was measured.
    from maghub.baselines.rag.tasks.retrieval import measured
    from maghub.baselines.rag.training import encoded, load_two_tower
    from tests.helpers.ragged import ranked, unit64

    opened = open_setting(maghub.load(planted), "S2", "test", "group_split")  # type: ignore[arg-type]
    model = load_two_tower(str(tmp_path / "tuned-seed3"), "cpu")
    scores = (
        unit64(encoded(model, list(opened.questions.texts)).rows)
        @ unit64(encoded(model, opened.corpus.texts).rows).T
    )
    assert measured(opened, ranked(scores, 100))["ndcg@10"] == pytest.approx(after, abs=1e-3)


def test_what_cannot_be_trained(planted: Path, tower: Path, tmp_path: Path) -> None:
    for model, chosen, line in (
        ("rag-bm25", {}, "rag-bm25 is not trained"),
        ("rag-text", {"split": "train"}, "training split cannot be measured"),
        ("rag-text", {"tower": str(tmp_path / "none")}, "cannot be loaded"),
        ("rag-text", {"tower": str(tower), "mined_by": "rag-text"}, "maghub encode"),
    ):
        with pytest.raises(MaghubError, match=line):
            maghub.run(model, planted, "kg-training", settings=chosen, device="cpu")
