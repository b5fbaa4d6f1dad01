"""``maghub mkg``: build, report and agreement, with right and wrong input."""

from __future__ import annotations

from pathlib import Path

import pytest

import maghub
from maghub.cli.mkg import parameter_values
from maghub.errors import MaghubError
from tests.helpers.built import check_valid
from tests.helpers.cli import Run, runner
from tests.helpers.kg_folders import write_graph
from tests.helpers.llm_replies import construct
from tests.helpers.llm_server import KEY, LLMServer
from tests.mkg.test_pipeline import towns


@pytest.fixture(scope="module")
def kg(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_graph(towns(), tmp_path_factory.mktemp("kg") / "towns")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs ``maghub mkg ...`` in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    return runner("mkg", monkeypatch, capsys)


def test_build_and_report(run: Run, kg: Path) -> None:
    done = run("build", "--kg", kg, "--out", "bench", "--json")
    assert done.code == 0
    made = done.json()
    check_valid(Path("bench"))
    judged = made["utility_filter"]["judged triplets"]
    assert sum(row["number"] for row in judged.values()) == len(towns().triplets)
    report = run("report", "bench", "--json").json()
    assert report["question_synthesis"] == made["question_synthesis"]
    assert "one name contains the other" in report["examples_of_dropped_triplets"]
    shown = run("report", "bench").out
    for words in ("utility filter", "one name contains the other", "Land4 City | country | Land4"):
        assert words in shown
    assert "masked forms" in run("build", "--kg", kg, "--out", "again").out
    again = run("build", "--kg", kg, "--out", "again")
    assert again.code == 1
    assert "already exists" in again.line()
    assert "--overwrite" in again.line()


def test_build_with_a_model(run: Run, kg: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LLMServer(reply=construct) as server:
        monkeypatch.setenv("MY_KEY", KEY)
        build = ["build", "--kg", kg, "--out", "bench", "--llm", "openai:m", "--cache", "c.sqlite"]
        build += ["--base-url", server.url, "--key-variable", "MY_KEY", "--limit", 12]
        stopped = run(*build, "--max-requests", 5)
        assert stopped.code == 1
        assert "the budget of 5 requests is spent" in stopped.line()
        assert not Path("bench").exists()
        done = run(*build, "--param", "top_p=0.5", "--param", "max_tokens=none", "--json")
        assert done.code == 0
        assert "top_p" in server.log[-1].body
        assert "max_tokens" not in server.log[-1].body
        assert done.json()["run"]["sent"] == len(server.log) - 5
    check_valid(Path("bench"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--llm", "gpt-5"], ["unknown writer 'gpt-5'", "openai:MODEL"]),
        (["--llm", "rul"], ["unknown writer 'rul'", "Did you mean rule"]),
        (["--llm", "openai:gpt-5"], ["OPENAI_API_KEY is not set"]),
        (["--llm", "openai:m", "--max-cost", "1"], ["needs prices", "--input-price"]),
        (["--llm", "local:nowhere/at/all"], ["cannot be loaded"]),
        (["--kg", "."], ["holds no maghub.json"]),
    ],
)
def test_wrong_input(run: Run, kg: Path, arguments: list[str], words: list[str]) -> None:
    given = [] if "--kg" in arguments else ["--kg", kg]
    done = run("build", *given, "--out", "bench", *arguments)
    assert done.code == 1
    for word in words:
        assert word in done.line()
    assert not Path("bench").exists()


def test_an_address_that_is_none(run: Run, kg: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    build = ["build", "--kg", kg, "--out", "bench", "--llm", "openai:m", "--cache", "c.sqlite"]
    done = run(*build, "--base-url", "localhost:8000")
    assert "localhost:8000: is no address of a server" in done.line()
    done = run(*build, "--base-url", "http://127.0.0.1:9/v1", "--attempts", 1)
    assert "127.0.0.1:9: no answer after 1 tries" in done.line()
    assert run(*build, "--param", "oops").code == 2
    assert run("build", "--kg", kg, "--out", "bench", "--limit", 0).code == 2


def test_parameters_are_json_where_they_can_be() -> None:
    given = ["a=1", "b=none", "c=word", "d=[1, 2]", 'e={"x": true}', "f=a=b", "g=true"]
    assert parameter_values(given) == {
        "a": 1, "b": None, "c": "word", "d": [1, 2], "e": {"x": True}, "f": "a=b", "g": True,
    }  # fmt: skip


def test_report_of_another_folder(run: Run, kg: Path) -> None:
    done = run("report", kg)
    assert done.code == 1
    assert "has no report of a construction" in done.line()


def test_agreement(run: Run, kg: Path) -> None:
    for seed in (0, 1):
        assert run("build", "--kg", kg, "--out", f"b{seed}", "--seed", seed).code == 0
    done = run("agreement", "b0", "b1", "--json")
    assert done.json()["filter"]["agreement"] == 1.0
    assert 0 < done.json()["questions"]["equal"] < 1
    shown = run("agreement", "b0", "b1", "--sample", 5).out
    assert "kappa" in shown
    assert "similarity" in shown


def test_a_knowledge_graph_is_told_apart_from_a_graph_without_vectors(kg: Path) -> None:
    for call in (
        lambda: maghub.find(kg, "x"),
        lambda: maghub.run("mlp", kg),
        lambda: maghub.encode(kg, "all-minilm-l6-v2"),
    ):
        with pytest.raises(MaghubError, match=r"is a knowledge graph.* maghub mkg build --kg"):
            call()
