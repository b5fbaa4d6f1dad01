"""What a place that answers requests must offer, and how it fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from maghub.llm.messages import Answer, Request


class Transient(Exception):
    """It may go better next time (busy, broken, too slow); ``wait`` seconds if the server said."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class Refused(Exception):
    """This one request is not answered, others may be."""


class Backend(Protocol):
    """A server or a model in this process.

    Attributes:
        model: Its name, part of the key of every answer.
        batch_size: Requests that ``answer`` takes at once.
        concurrency: Calls of ``answer`` at the same time.
    """

    model: str
    batch_size: int
    concurrency: int

    def parameters(self, request: Request) -> dict[str, Any]:
        """The parameters as this backend uses them, part of the key of the answer."""

    def answer(self, requests: Sequence[Request]) -> list[Answer]:
        """One answer for each request.

        Raises:
            Transient: Worth another try.
            Refused: The request (the only one of its batch) is not answered.
            MaghubError: Nothing will be answered: wrong key, unknown model, no such server.
        """

    def close(self) -> None:
        """Let go of connections."""
