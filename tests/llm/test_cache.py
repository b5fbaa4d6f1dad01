"""The file of answers: what comes back, several processes at once, files that are none."""

from __future__ import annotations

import multiprocessing
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maghub.errors import MaghubError
from maghub.llm.cache import AnswerCache
from maghub.llm.messages import Answer

ANSWERS = st.builds(
    Answer,
    text=st.text(st.characters(exclude_categories=["Cs"])),
    finish=st.sampled_from(["stop", "length"]),
    prompt_tokens=st.integers(0, 10**9),
    completion_tokens=st.integers(0, 10**9),
    model=st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), ANSWERS, max_size=5))
@settings(max_examples=50, deadline=None)
def test_what_was_put_comes_back(answers: dict[str, Answer]) -> None:
    cache = AnswerCache()
    for key, answer in answers.items():
        cache.put(key, answer)
    assert {key: cache.get(key) for key in answers} == answers
    assert len(cache) == len(answers)
    assert cache.get("no such key") is None
    cache.close()


def test_it_outlives_its_process(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "answers.sqlite"
    first = AnswerCache(path)
    first.put("k", Answer("v"))  # not closed: a reader sees it at once
    second = AnswerCache(path)
    assert second.get("k") == Answer("v")
    first.close()
    second.close()


def _fill(path: Path, who: int) -> None:
    cache = AnswerCache(path)
    for number in range(50):
        cache.put(f"{who}-{number}", Answer(f"{who} said {number}"))
    cache.close()


@pytest.mark.integration
def test_several_processes_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_fill, args=(path, who)) for who in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    cache = AnswerCache(path)
    assert len(cache) == 150
    assert cache.get("2-49") == Answer("2 said 49")
    cache.close()


def test_a_file_that_is_no_cache(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, leave them alone\n" * 100)
    with pytest.raises(MaghubError) as error:
        AnswerCache(path)
    assert "is no cache of answers" in error.value.line()
    assert str(path) in error.value.line()
    assert path.read_text().startswith("these are my notes")


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "7", "null", '{"unknown": 1}', '{"text": null}', '{"text": 5}'),
        *('{"text": "a", "finish": 3}', '{"text": "a", "model": ["m"]}'),
        *('{"text": "a", "prompt_tokens": "x"}', '{"text": "a", "completion_tokens": 1e400}'),
        "[" * 100_000,
    ],
    ids=lambda text: text[:40],
)
def test_an_answer_that_cannot_be_read_is_asked_for_again(tmp_path: Path, text: str) -> None:
    path = tmp_path / "answers.sqlite"
    cache = AnswerCache(path)
    cache.put("key", Answer("yes", "stop", 1, 1, "m"))
    with sqlite3.connect(path) as other:
        other.execute("UPDATE answers SET answer = ?", (text,))
    assert cache.get("key") is None
    cache.put("key", Answer("yes", "stop", 1, 1, "m"))
    assert cache.get("key") == Answer("yes", "stop", 1, 1, "m")
    cache.close()


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MaghubError, match="--cache"):
        AnswerCache(tmp_path / "file" / "answers.sqlite")
