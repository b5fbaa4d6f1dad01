"""The construction with a language model behind a loopback server."""

from __future__ import annotations

import base64
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from maghub.errors import MaghubError
from maghub.llm import BudgetReached, Limits, RetryPolicy, Settings
from maghub.mkg.pipeline import build_benchmark
from tests.helpers.built import check_valid
from tests.helpers.graphs import files_of
from tests.helpers.kg_folders import check_benchmark, rows_of, write_graph
from tests.helpers.llm_replies import construct
from tests.helpers.llm_server import KEY, Fault, LLMServer
from tests.helpers.tiny_encoders import tiny
from tests.mkg.test_pipeline import towns


@pytest.fixture(scope="module")
def kg(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_graph(towns(), tmp_path_factory.mktemp("kg") / "towns")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with LLMServer(reply=construct) as running:
        yield running


def settings(server: LLMServer, cache: Path, limits: Limits | None = None) -> Settings:
    retry = RetryPolicy(attempts=3, first_wait=0.01)
    return Settings(server.url, cache=cache, retry=retry, limits=limits or Limits())


def test_a_model_builds_a_valid_benchmark(server: LLMServer, kg: Path, tmp_path: Path) -> None:
    graph, own = towns(), settings(server, tmp_path / "c.sqlite")
    built = build_benchmark(kg, tmp_path / "out", llm="openai:m", settings=own)
    check_valid(tmp_path / "out")
    check_benchmark(tmp_path / "out", graph.triplets, graph.entities, graph.relations)
    queries = rows_of(tmp_path / "out", "queries")
    assert {row["writer"] for row in queries} == {"m"}
    assert "written by openai:m" in (tmp_path / "out" / "README.md").read_text()
    assert {row["writer"] for row in rows_of(tmp_path / "out", "filter")} == {"m"}
    judged = [e for e in server.log if "keep" in e.body["messages"][0]["content"]]
    assert len(judged) == len(graph.triplets)  # one request per triplet
    text = json.dumps([entry.body["messages"] for entry in judged])
    assert "country" in text
    assert built.counts["sent"] == len(server.log)
    assert built.spec.builder.sources["models"] == "test-model-2026"
    assert built.spec.builder.sources["prompts.yaml"].startswith("sha256 ")


def test_the_picture_is_sent_and_the_head_is_not_named(
    server: LLMServer, kg: Path, tmp_path: Path
) -> None:
    own = settings(server, tmp_path / "c.sqlite")
    build_benchmark(kg, tmp_path / "out", llm="openai:m", settings=own)
    graph = towns()
    firsts = {base64.b64encode(images[0]).decode() for images in graph.images.values()}
    shown = [e.body["messages"][1]["content"] for e in server.log]
    shown = [content for content in shown if isinstance(content, list)]
    assert len(shown) > 20
    for text, image in shown:
        assert "Head: [Image]" in text["text"]
        assert image["image_url"]["url"].removeprefix("data:image/jpeg;base64,") in firsts
    # The gold answer of a masked tail is nowhere in its request.
    for entry in server.log:
        last = entry.last
        if "Tail: [Mask]" in last and "official language" in last:
            assert "German" not in json.dumps(entry.body)


def test_bad_questions_are_asked_again_then_dropped_and_counted(
    server: LLMServer, kg: Path, tmp_path: Path
) -> None:
    def reply(body: dict[str, Any]) -> str:
        good = construct(body)
        text = json.dumps(body["messages"][1])
        turns = len(body["messages"])
        if "keep" in body["messages"][0]["content"]:
            if "Town7" in text and "Land2" in text:
                return "I would say yes."  # never a verdict
            return good
        if "Tail: [Mask]" in text and "Town9" in text and "country" in text:
            return json.dumps({"question": "Is Town9 in Land4?"})  # the answer, again and again
        if "Tail: [Mask]" in text and "Town11" in text and turns == 2:
            return "Hm."  # better at the second try
        if "[Image]" in text and turns == 2:
            return json.dumps({"question": "Where is it?"})  # without the mark
        return good

    server.reply = reply
    own = settings(server, tmp_path / "c.sqlite")
    spec = build_benchmark(kg, tmp_path / "out", llm="openai:m", settings=own).spec
    check_valid(tmp_path / "out")
    check_benchmark(tmp_path / "out", towns().triplets, towns().entities, towns().relations)
    numbers = spec.notes["utility_filter"]["judged triplets"]
    assert numbers["dropped: no verdict: malformed JSON"] == {"number": 1}
    report = spec.notes["question_synthesis"]["masked forms"]
    # Town9, and Land4 City, whose land no question about it can leave out.
    assert report["dropped: it contains the answer"] == {"text": 2, "multimodal": 0}
    queries = rows_of(tmp_path / "out", "queries")
    assert sum(row["head_id"] == "T11" for row in queries) > 1
    assert sum(row["is_multimodal"] for row in queries) == report["questions"]["multimodal"] > 10
    tries = [e for e in server.log if "Is Town9 in Land4?" in json.dumps(e.body)]
    assert len(tries) == 2  # told twice what is wrong
    assert "it contains the answer" in tries[-1].last


def test_a_spent_budget_stops_in_one_line_and_the_rest_costs_the_rest(
    server: LLMServer, kg: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "c.sqlite"
    whole = build_benchmark(
        kg, tmp_path / "whole", llm="openai:m", settings=settings(server, tmp_path / "other")
    )
    needed = len(server.log)
    server.log.clear()
    own = settings(server, cache, Limits(requests=60))
    for _ in range(-(-needed // 60) - 1):
        with pytest.raises(BudgetReached, match="budget of 60 requests is spent"):
            build_benchmark(kg, tmp_path / "out", llm="openai:m", settings=own)
        assert not (tmp_path / "out").exists()
    build_benchmark(kg, tmp_path / "out", llm="openai:m", settings=own)
    assert len(server.log) == needed  # nothing was asked twice
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")
    assert whole.counts["sent"] == needed


def test_a_server_that_goes_away(server: LLMServer, kg: Path, tmp_path: Path) -> None:
    server.faults = [Fault(503)] * 100_000
    own = settings(server, tmp_path / "c.sqlite")
    with pytest.raises(MaghubError) as error:
        build_benchmark(kg, tmp_path / "out", llm="openai:m", settings=own)
    line = error.value.line()
    assert "no answer after 3 tries (last: HTTP 503)" in line
    assert KEY not in line
    assert not (tmp_path / "out").exists()


SAYING = '{"keep": true, "reason": "clear", "question": "What is meant here?"}'


def parrot(folder: Path) -> Path:
    """A real causal model that says one thing, whatever it reads: one token, then the end.

    Its layers add nothing; the embedding of every token but that one asks for that token.
    """
    import torch
    import transformers

    tiny("qwen2-7b-instruct", folder, width=64)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens([SAYING])
    tokenizer.save_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    model.resize_token_embeddings(len(tokenizer))
    said, end = tokenizer.convert_tokens_to_ids(SAYING), tokenizer.eos_token_id
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        for matrix in (model.get_input_embeddings().weight, model.get_output_embeddings().weight):
            matrix.zero_()
        model.get_input_embeddings().weight[:, 0] = 1.0
        model.get_input_embeddings().weight[said] = torch.eye(64)[1]
        model.get_output_embeddings().weight[said, 0] = 10.0
        model.get_output_embeddings().weight[end, 1] = 10.0
    model.save_pretrained(folder)
    return folder


def test_a_local_model_builds_a_valid_benchmark(tmp_path: Path) -> None:
    graph = towns()
    graph.images = {}
    kg, model = write_graph(graph, tmp_path / "kg"), parrot(tmp_path / "parrot")
    own = Settings(cache=tmp_path / "c.sqlite", device="cpu")
    build = partial(build_benchmark, kg, llm=f"local:{model}", limit=10, settings=own)
    built = build(tmp_path / "out")
    check_valid(tmp_path / "out")
    check_benchmark(tmp_path / "out", graph.triplets, graph.entities, graph.relations)
    queries = rows_of(tmp_path / "out", "queries")
    assert {(row["text"], row["writer"]) for row in queries} == {
        ("What is meant here?", "local:parrot")
    }
    assert built.counts["sent"] >= 10 + len(queries)
    assert "sent" not in build(tmp_path / "again").counts
    assert str(tmp_path) not in built.spec.to_json()  # whose folders are where is nobody's business
    assert files_of(tmp_path / "again") == files_of(tmp_path / "out")


def test_a_local_model_that_babbles_is_no_writer(tmp_path: Path) -> None:
    model = tiny("qwen2-7b-instruct", tmp_path / "lm", width=64)
    kg = write_graph(towns(), tmp_path / "kg")
    own = Settings(cache=tmp_path / "c.sqlite", device="cpu")
    with pytest.raises(MaghubError, match="the filter keeps no triplet"):
        build_benchmark(kg, tmp_path / "out", llm=f"local:{model}", limit=2, settings=own)
