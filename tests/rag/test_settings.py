"""The settings S1 to S5, and that no retriever sees what a question was made of."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("bm25s")

import maghub
from maghub.baselines.rag._opening import SETTINGS, open_setting
from maghub.baselines.rag._retriever import get_retriever
from maghub.baselines.rag.tasks.retrieval import measured
from maghub.errors import MaghubError
from maghub.mkg.benchmark import KGRag
from tests.helpers.kgrag import picture

ENCODERS = {"text": "stand-in", "image": "stand-in"}
NAMES = ["rag-random", "rag-text", "rag-fusion", "rag-reranking", "rag-bm25", "rag-hybrid",
         "rag-graph"]  # fmt: skip


@pytest.fixture
def rag(rag_folder: Path) -> KGRag:
    found = maghub.load(rag_folder)
    assert isinstance(found, KGRag)
    return found


def rows_of(folder: Path, config: str, split: str) -> list[dict]:
    (file,) = (folder / config).glob(f"{split}-*.parquet")
    return pq.read_table(file).to_pylist()


@pytest.mark.parametrize("rule", ["released", "group_split"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_take_the_right_questions_and_triplets(
    rag: KGRag, rag_folder: Path, setting: str, rule: str
) -> None:
    """Read from the Parquet files themselves."""
    asked = {"S1": "", "S2": "text", "S3": "text", "S4": "mm", "S5": "mm"}[setting]
    found = {"S1": "", "S2": "text", "S3": "", "S4": "mm", "S5": ""}[setting]
    before = "" if rule == "released" else "group-"
    opened = open_setting(rag, setting, "test", rule, ENCODERS)
    queries = [
        row
        for row in rows_of(rag_folder, f"{before}queries", "test")
        if row["id"].startswith(asked)
    ]
    corpus = [r for r in rows_of(rag_folder, "corpus", "full") if r["id"].startswith(found)]
    assert list(opened.questions.ids) == [row["id"] for row in queries]
    assert list(opened.questions.texts) == [row["text"] for row in queries]
    assert list(opened.corpus.ids) == [row["id"] for row in corpus]
    assert opened.corpus.texts == [row["text"] for row in corpus]
    judged = {
        (row["query-id"], row["corpus-id"])
        for row in rows_of(rag_folder, f"{before}qrels", "test")
        if row["query-id"].startswith(asked)
    }
    pairs = zip(opened.query, opened.relevant, strict=True)
    ours = {(opened.questions.ids[q], opened.corpus.ids[row]) for q, row in pairs}
    assert ours == judged
    assert len(opened.unreachable) == 0
    text = opened.questions.vectors("text")
    for row, vector in zip(queries, text.rows, strict=True):
        digest = hashlib.sha256(row["text"].encode()).digest()
        assert vector[:6].astype(int).tolist() == list(digest[:6])
    shown = [None if row["image"] is None else row["image"]["bytes"] for row in queries]
    assert list(opened.questions.pictures()) == shown
    assert opened.questions.vectors("image").has.tolist() == [one is not None for one in shown]


def test_entity_pictures_belong_to_their_entities(rag: KGRag) -> None:
    from tests.helpers.stand_in import WIDTH

    opened = open_setting(rag, "S4", "test", encoders=ENCODERS)
    shown = opened.corpus.entity_pictures()
    assert shown.vectors.rows.shape[1] == WIDTH
    names = [opened.corpus.entities[e] for e in shown.entity.tolist()]
    # Of n1 one picture, of n2 two, of n3 three, of n4 none; n5 has one that can be read.
    assert [names.count(f"n{i}") for i in (1, 2, 3, 4, 5)] == [1, 2, 3, 0, 1]
    assert picture("Q5/broken") == b"no picture"


def test_gold_ids_change_nothing(rag_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With head, relation, tail, kind and picture path of every question replaced, every retriever
    finds the same."""
    found = {}
    queries = KGRag.queries

    def scrambled(self: KGRag, *args: object, **kwargs: object) -> pa.Table:
        table = queries(self, *args, **kwargs)  # type: ignore[arg-type]
        for name in ("head_id", "rel_id", "tail_id", "image_path", "group_kind"):
            if name in table.column_names:
                at = table.column_names.index(name)
                table = table.set_column(at, name, pa.array(["Q3"] * len(table)))
        return table

    for scramble in (False, True):
        with monkeypatch.context() as patch:
            if scramble:
                patch.setattr(KGRag, "queries", scrambled)
            opened = open_setting(maghub.load(rag_folder), "S1", "test", encoders=ENCODERS)  # type: ignore[arg-type]
            for name in NAMES:
                retriever = get_retriever(name)(opened.corpus, device="cpu")
                rows = retriever.search(opened.questions, 20)[1]
                found[scramble, name] = (rows.tolist(), measured(opened, rows))
    for name in NAMES:
        assert found[False, name] == found[True, name]
    seen = set(vars(opened.questions))
    assert seen == {"ids", "texts", "vectors", "pictures"}


def test_parts_of_questions_carry_their_own_vectors_and_pictures(rag: KGRag) -> None:
    whole = open_setting(rag, "S1", "test", encoders=ENCODERS).questions
    part = whole.part(3, 7)
    assert part.texts == whole.texts[3:7]
    np.testing.assert_array_equal(part.vectors("text").rows, whole.vectors("text").rows[3:7])
    assert list(part.pictures()) == list(whole.pictures())[3:7]
    again = part.part(1, 9)
    assert again.texts == whole.texts[4:7]
    np.testing.assert_array_equal(again.vectors("image").has, whole.vectors("image").has[4:7])


def test_bad_input(rag: KGRag, text_folder: Path) -> None:
    with pytest.raises(MaghubError, match=r"no setting 'S9'. Known: S1, S2, S3, S4, S5"):
        open_setting(rag, "S9")
    with pytest.raises(MaghubError, match=r"unknown split of queries 'tset'. Did you mean test"):
        open_setting(rag, "S1", "tset")
    with pytest.raises(MaghubError, match="unknown split rule 'group'"):
        open_setting(rag, "S1", "test", "group")
    texts = maghub.load(text_folder)
    assert isinstance(texts, KGRag)
    with pytest.raises(MaghubError, match=r"S4 needs multimodal test queries, .* has none"):
        open_setting(texts, "S4")
    opened = open_setting(texts, "S2")
    with pytest.raises(
        MaghubError, match=r"text vectors .* maghub encode .*texts --encoder all-mini"
    ):
        opened.corpus.vectors("text")
    with pytest.raises(MaghubError, match=r"image vectors .* --encoder clip-vit-base-patch32"):
        opened.corpus.entity_pictures()
