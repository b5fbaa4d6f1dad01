"""Answers: their metrics by hand, the prompts, and whole runs with each kind of generator."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("bm25s")
pytest.importorskip("sacrebleu")

import maghub
from maghub.baselines.rag.answers import NAMES, bleu1, normal, score_answer
from maghub.baselines.rag.generators import Item, evidence_lines, messages_of, open_generator
from maghub.errors import MaghubError
from maghub.results import read_records
from tests.helpers.llm_server import KEY, LLMServer

# -- metrics ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "gold", "wanted"),
    [
        ("Paris", ["paris"], (1, 1, 1, 1)),
        ("The Paris!", ["Paris", "London"], (1, 1, 1, 1)),
        # Two of three words right, one of two gold words: P 1/3, R 1/2.
        ("city of Paris", ["Paris region"], (0, 2 * (1 / 3) * (1 / 2) / (5 / 6), 0, 1 / 3)),
        ("It is New York.", ["New York"], (0, 2 * 0.5 * 1 / 1.5, 1, 0.5)),
        # A short answer: every word right, BLEU's penalty exp(1 - 4/2).
        ("united nations", ["the united nations general assembly"], (0, 2 / 3, 0, math.exp(-1))),
        ("north", ["no"], (0, 0, 0, 0)),
        ("", ["Paris"], (0, 0, 0, 0)),
        ("A", ["a"], (1, 1, 1, 1)),  # nothing would be left of either: they stay as they are
        ("", ["The"], (0, 0, 0, 0)),
        ("a", ["the", "..."], (0, 0, 0, 0)),
        ("x y", ["y", "x y z"], (0, 0.8, 1, math.exp(-0.5))),  # each metric its own best
    ],
)
def test_metrics_by_hand(answer: str, gold: list[str], wanted: tuple[float, ...]) -> None:
    found = score_answer(answer, gold)
    assert list(found) == list(NAMES)
    assert list(found.values()) == pytest.approx(list(wanted), abs=1e-9)


def test_normal_form() -> None:
    assert normal("  The U.S.A. -- an Example, a\ttest ") == "usa example test"
    assert normal("Theory of a thing") == "theory of thing"


WORDS = st.lists(st.sampled_from(["x", "y", "z", "w"]), min_size=1, max_size=6).map(" ".join)


@settings(deadline=None, max_examples=60)
@given(answer=WORDS, gold=WORDS)
def test_bleu1_is_clipped_precision_with_the_penalty(answer: str, gold: str) -> None:
    said, wanted = answer.split(), gold.split()
    hits = sum(min(said.count(word), wanted.count(word)) for word in set(said))
    penalty = 1.0 if len(said) >= len(wanted) else math.exp(1 - len(wanted) / len(said))
    assert bleu1(answer, gold) == pytest.approx(penalty * hits / len(said), abs=1e-9)


def test_without_a_gold_answer_there_is_nothing_to_measure() -> None:
    with pytest.raises(MaghubError, match="no gold answer"):
        score_answer("x", [])


# -- prompts and generators ------------------------------------------------------------------------


def test_evidence_is_numbered_and_never_filled_in_twice() -> None:
    item = Item("Who {evidence}?", "tail", [("{question}", "r", "t"), ("h2", "r2", "t2")])
    assert evidence_lines(item.evidence) == (
        "Triplet 1: (head, relation, tail) = ({question}, r, t)\n"
        "Triplet 2: (head, relation, tail) = (h2, r2, t2)"
    )
    system, user = messages_of(item)
    assert system.role == "system"
    assert user.text.endswith("Question: Who {evidence}?\nAnswer:")
    assert user.text.startswith("Triplet 1:")
    _, free = messages_of(Item("Who?", "tail", [], b"\xff\xd8\xff"))
    assert free.text == (
        "The picture shows what the question calls the subject or [Image].\nQuestion: Who?\nAnswer:"
    )
    assert free.images == (b"\xff\xd8\xff",)


def test_extractive_copies_the_masked_slot() -> None:
    triplets = [("h", "r", "t"), ("h2", "r2", "t2")]
    items = [Item("?", "tail", triplets), Item("?", "relation", triplets), Item("?", "tail", [])]
    assert list(open_generator("extractive").answer(items)) == ["t", "r", ""]
    with pytest.raises(
        MaghubError, match=r"unknown generator 'extractiv'. Did you mean extractive"
    ):
        open_generator("extractiv")


# -- whole runs ------------------------------------------------------------------------------------


def lines_of(out: Path) -> list[dict[str, Any]]:
    (path,) = out.with_name(f"{out.stem}-answers").glob("*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_runs_with_other_settings_keep_their_own_answers(rag_folder: Path, tmp_path: Path) -> None:
    """A run again takes its own file; one of other settings never that of another."""
    out = tmp_path / "results.jsonl"
    changes: list[dict[str, Any]] = [{}, {"evidence": 2}, {"limit": 1}, {"k1": 0.5}, {}]
    for change in changes:
        settings = {"setting": "S2", **change}
        maghub.run("rag-bm25", rag_folder, "kg-generation", settings=settings, out=out)
    assert len(list(out.with_name("results-answers").glob("*.jsonl"))) == len(changes) - 1


def test_seeds_do_not_share_a_file_of_answers(rag_folder: Path, tmp_path: Path) -> None:
    settings = {"setting": "S2", "answers": str(tmp_path / "a.jsonl")}
    maghub.run("rag-random", rag_folder, "kg-generation", settings=settings, seeds=3)
    found = sorted(path.name for path in tmp_path.iterdir())
    assert found == ["a-seed1.jsonl", "a-seed2.jsonl", "a.jsonl"]


def test_extractive_run_equals_what_the_files_say(rag_folder: Path, tmp_path: Path) -> None:
    """Metrics recomputed from the published tables and the lines that were written."""
    out = tmp_path / "results.jsonl"
    (record,) = maghub.run(
        "rag-bm25", rag_folder, "kg-generation", settings={"setting": "S2"}, out=out
    )
    assert list(record.metrics) == list(NAMES)
    assert "qa" in record.dataset.checksums
    assert "answers" not in record.task_settings
    assert "cache" not in record.task_settings
    assert read_records([out]) == [record]
    lines = lines_of(out)
    (file,) = (rag_folder / "qa").glob("test-*.parquet")
    qa = {row["query-id"]: row for row in pq.read_table(file).to_pylist()}
    (file,) = (rag_folder / "corpus").glob("full-*.parquet")
    corpus = {row["id"]: row for row in pq.read_table(file).to_pylist()}
    (file,) = (rag_folder / "qrels").glob("test-*.parquet")
    qrels = {(row["query-id"], row["corpus-id"]) for row in pq.read_table(file).to_pylist()}
    assert [line["query_id"] for line in lines] == [key for key in qa if key.startswith("text")]
    for line in lines:
        own = qa[line["query_id"]]
        assert line["answers"] == own["answers"]
        assert line["question"] == own["question"]
        assert 1 <= len(line["evidence"]) <= 5
        for one in line["evidence"]:
            row = corpus[one["id"]]
            assert one["triplet"] == [row["head_text"], row["rel_text"], row["tail_text"]]
            assert one["relevant"] == ((line["query_id"], one["id"]) in qrels)
        scores = [one["score"] for one in line["evidence"]]
        assert scores == sorted(scores, reverse=True)
        best = corpus[line["evidence"][0]["id"]]
        assert line["answer"] == best["rel_text" if own["masked"] else "tail_text"]
        assert line["metrics"]["exact_match"] == float(line["answer"] in own["answers"])
    mean = sum(line["metrics"]["exact_match"] for line in lines) / len(lines)
    assert record.metrics["exact_match"] == pytest.approx(mean)
    assert mean > 0.3  # words name the head, and every fourth triplet of a head answers


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LLMServer]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with LLMServer(reply=tail_of_the_first) as running:
        yield running


def tail_of_the_first(body: dict[str, Any]) -> str:
    """What a model would say that reads the first triplet; nothing of use without one."""
    content = body["messages"][-1]["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    first = next((line for line in text.splitlines() if line.startswith("Triplet 1")), None)
    if first is None:
        return "<think>hm</think> I do not know"
    return f"<think>it says {first}</think>\n{first[:-1].split(', ')[-1]}"


@pytest.mark.integration
def test_a_served_model_with_and_without_evidence(
    rag_folder: Path, tmp_path: Path, server: LLMServer
) -> None:
    out = tmp_path / "r.jsonl"
    reached = {"base_url": server.url, "cache": str(tmp_path / "answers.sqlite"), "concurrency": 2}
    ask = {"generator": "openai:m", "setting": "S4", **reached}
    (record,) = maghub.run("rag-reranking", rag_folder, "kg-generation", settings=ask, out=out)
    lines = lines_of(out)
    assert {line["answer"] for line in lines} == {
        line["evidence"][0]["triplet"][2] for line in lines
    }
    shown = [
        entry
        for entry in server.answered()
        if not isinstance(entry.body["messages"][1]["content"], str)
    ]
    assert len(shown) == len({entry.key for entry in server.answered()})  # each with its picture
    assert "secret" not in json.dumps(record.model_dump(mode="json"))
    assert record.task_settings["generator"] == "openai:m"
    assert not {"base_url", "cache", "concurrency"} & set(record.task_settings)
    paid = len(server.log)
    (again,) = maghub.run("rag-reranking", rag_folder, "kg-generation", settings=ask, out=out)
    assert again.metrics == record.metrics
    assert len(server.log) == paid  # all answers were kept
    (free,) = maghub.run("rag-free", rag_folder, "kg-generation", settings=ask)
    assert free.metrics["exact_match"] == 0
    assert free.encoders == {}
    assert "Triplet" not in server.log[-1].last
    assert server.log[-1].last.endswith("Answer:")


@pytest.mark.integration
def test_a_local_model_answers(rag_folder: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    from tests.helpers.tiny_encoders import tokenizer

    folder = tmp_path / "model"
    size = tokenizer(folder, ["<s>"], ["</s>"], "<pad>")
    config = transformers.LlamaConfig(
        vocab_size=size, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, intermediate_size=16,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    ask = {
        "generator": f"local:{folder}", "setting": "S2", "limit": 3, "max_tokens": 4,
        "cache": str(tmp_path / "a.sqlite"),
    }  # fmt: skip
    out = tmp_path / "r.jsonl"
    (record,) = maghub.run(
        "rag-bm25", rag_folder, "kg-generation", settings=ask, out=out, device="cpu"
    )
    assert len(lines_of(out)) == 3
    assert set(record.metrics) == set(NAMES)
    assert record.task_settings["generator"] == "local:model"  # no path of this machine
