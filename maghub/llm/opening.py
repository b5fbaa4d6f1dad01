"""A client from a name like ``openai:gpt-5`` or ``local:FOLDER`` and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from maghub.errors import MaghubError, nearest
from maghub.llm.backend import Backend
from maghub.llm.budget import Budget, Limits
from maghub.llm.cache import AnswerCache
from maghub.llm.client import Client
from maghub.llm.retrying import RetryPolicy

OPENAI, LOCAL = "openai", "local"
KINDS = (OPENAI, LOCAL)


@dataclass(frozen=True)
class Settings:
    """How a model is reached; the key itself is read from the environment and is no setting.

    Attributes:
        base_url: Of the server (``OPENAI_BASE_URL``, else OpenAI's own, if None).
        key_variable: Environment variable with the key (``OPENAI_API_KEY`` if None).
        cache: File of the answers; a common one in maghub's cache folder if None.
        concurrency: Requests at the same time.
        batch_size: Requests at once, for a local model.
        timeout: Seconds until an answer counts as lost.
        retry: How often and when a request is sent again.
        limits: What one run may spend.
        parameters: Sent in place of our own with every request; None leaves one out.
        device: torch device of a local model.
    """

    base_url: str | None = None
    key_variable: str | None = None
    cache: Path | None = None
    concurrency: int = 8
    batch_size: int = 8
    timeout: float = 120.0
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    limits: Limits = field(default_factory=Limits)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    device: str = "auto"


def short_name(name: str) -> str:
    """A name without the path of this machine that a local model lies at."""
    kind, _, path = name.partition(":")
    return f"{kind}:{Path(path).name}" if kind == LOCAL and Path(path).is_dir() else name


def default_cache() -> Path:
    """Where answers are kept unless a file is named."""
    from maghub.features import cache_folder  # it brings datasets along

    return cache_folder() / "llm" / "answers.sqlite"


def open_client(name: str, settings: Settings | None = None) -> Client:
    """The client for ``openai:MODEL`` (any compatible server) or ``local:FOLDER_OR_ID``.

    Raises:
        MaghubError: Another kind of name, no key in the environment, or a model that cannot load.
    """
    settings = settings or Settings()
    kind, _, model = name.partition(":")
    if kind not in KINDS:
        raise nearest(kind, KINDS, kind="language model")
    if not model:
        raise MaghubError(f"'{name}' names no model", fix=f"write {kind}:MODEL")
    backend: Backend
    if kind == OPENAI:
        from maghub.llm.openai_backend import OpenAIBackend

        backend = OpenAIBackend(
            model,
            base_url=settings.base_url,
            key_variable=settings.key_variable,
            timeout=settings.timeout,
            concurrency=settings.concurrency,
            parameters=settings.parameters,
        )
    else:
        from maghub.llm.local import LocalBackend

        backend = LocalBackend(model, device=settings.device, batch_size=settings.batch_size)
    cache = AnswerCache(settings.cache or default_cache())
    return Client(backend, cache, Budget(settings.limits), settings.retry)
