"""A loopback server, the key in the environment, and clients of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from maghub.llm import Client, Limits, RetryPolicy, Settings, open_client
from tests.helpers.llm_server import KEY, LLMServer

FAST = RetryPolicy(attempts=4, first_wait=0.01, longest_wait=0.5)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LLMServer]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with LLMServer() as running:
        yield running


MakeClient = Callable[..., Client]


@pytest.fixture
def make_client(server: LLMServer, tmp_path: Path) -> Iterator[MakeClient]:
    made: list[Client] = []

    def make(limits: Limits | None = None, **settings: Any) -> Client:
        settings = {"base_url": server.url, "retry": FAST, **settings}
        settings.setdefault("cache", tmp_path / "answers.sqlite")
        client = open_client("openai:m", Settings(limits=limits or Limits(), **settings))
        made.append(client)
        return client

    yield make
    for client in made:
        client.close()
