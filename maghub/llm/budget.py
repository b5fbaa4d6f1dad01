"""How much may be spent in one run, and the line that says it is spent."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from maghub.errors import MaghubError
from maghub.llm.messages import Answer

MILLION = 1_000_000


class BudgetReached(MaghubError):
    """The run stops here; every answer so far is kept, and running it again goes on from them."""


@dataclass(frozen=True)
class Limits:
    """Most that one run may spend; None sets no limit.

    Attributes:
        requests: Requests sent, retries included.
        tokens: Tokens read and written.
        cost: Money, in the unit of the prices.
        input_price: Price of a million tokens read.
        output_price: Price of a million tokens written.
    """

    requests: int | None = None
    tokens: int | None = None
    cost: float | None = None
    input_price: float = 0.0
    output_price: float = 0.0

    def __post_init__(self) -> None:
        if self.cost is not None and not (self.input_price or self.output_price):
            fix = "give --input-price and --output-price (of a million tokens)"
            raise MaghubError("a limit of the cost needs prices", fix=fix)


class Budget:
    """Counts what is spent. ``requests`` is a hard limit; tokens and cost are known only once an
    answer is there, so requests that were already on their way may still overshoot those."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.requests = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self._lock = threading.Lock()

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def cost(self) -> float:
        """Money spent."""
        limits = self.limits
        read, written = self.prompt_tokens, self.completion_tokens
        return (read * limits.input_price + written * limits.output_price) / MILLION

    def reserve(self, requests: int) -> None:
        """Take requests out of the budget before they are sent.

        Raises:
            BudgetReached: They are not in it any more.
        """
        limits = self.limits
        with self._lock:
            for name, limit, spent in (
                ("requests", limits.requests, self.requests + requests - 1),
                ("tokens", limits.tokens, self.tokens),
                ("cost", limits.cost, self.cost),
            ):
                if limit is not None and spent >= limit:
                    raise BudgetReached(
                        f"the budget of {limit:,} {name} is spent ({self._spent()})",
                        fix=f"run it again with a larger --max-{name} to go on from the answers "
                        "that are kept",
                    )
            self.requests += requests

    def spend(self, answer: Answer) -> None:
        """Count the tokens of an answer."""
        with self._lock:
            self.prompt_tokens += answer.prompt_tokens
            self.completion_tokens += answer.completion_tokens

    def _spent(self) -> str:
        text = f"{self.requests:,} requests, {self.tokens:,} tokens"
        return f"{text}, cost {self.cost:.4f}" if self.cost else text
