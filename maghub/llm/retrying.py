"""When a request is sent again, and how long to wait before that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tenacity

from maghub.errors import MaghubError
from maghub.llm.backend import Transient
from maghub.seeding import child_rng


@dataclass(frozen=True)
class RetryPolicy:
    """Tries in all, and seconds: the first wait (doubling after that) and the longest one."""

    attempts: int = 6
    first_wait: float = 1.0
    longest_wait: float = 120.0


def call(
    work: Callable[[], object],
    policy: RetryPolicy,
    where: object,
    key: str,
    note: Callable[[], None],
) -> None:
    """Do ``work`` until it is done or no more tries are left.

    The server's own ``Retry-After`` wins over the doubling wait, up to the longest one. A little is
    added, drawn from ``key``, so that requests refused together do not come back together.

    Raises:
        MaghubError: It went wrong every time; the line names the last reason.
    """
    spread = float(child_rng(0, "retry", key).random())

    def wait(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.wait if isinstance(error, Transient) else None
        doubled = policy.first_wait * 2 ** (state.attempt_number - 1)
        seconds = doubled * (1 + spread / 2) if asked is None else asked
        return min(seconds, policy.longest_wait)

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(Transient),
        stop=tenacity.stop_after_attempt(policy.attempts),
        wait=wait,
        before_sleep=lambda state: note(),
        reraise=True,
    )
    try:
        retrying(work)
    except Transient as error:
        raise MaghubError(
            f"no answer after {policy.attempts} tries (last: {error})",
            where=where,
            fix="check the server, then run it again: the answers so far are kept",
        ) from None
