"""Ordered, bounded work over row ranges: the result never depends on how many workers there are."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any

_job: dict[str, Callable[..., Any]] = {}


def _set_job(function: Callable[..., Any]) -> None:
    _job["function"] = function


def _run_job(arguments: tuple[Any, ...]) -> Any:
    return _job["function"](*arguments)


def ordered_map(
    function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], workers: int = 1
) -> Generator[Any]:
    """Yield ``function(*args)`` for each args, in order.

    With several workers the function is sent to each process once, and at most two results per
    worker wait to be consumed, so memory stays flat. Processes are loky's: they never run the
    caller's main script again, so no ``if __name__ == "__main__"`` is needed.
    """
    if workers <= 1 or len(arguments) <= 1:
        for args in arguments:
            yield function(*args)
        return
    import loky.backend

    workers = min(workers, len(arguments))
    pool = loky.ProcessPoolExecutor(
        workers,
        context=loky.backend.get_context("loky"),
        initializer=_set_job,
        initargs=(function,),
    )
    waiting: deque[Any] = deque()
    try:
        for args in arguments:
            waiting.append(pool.submit(_run_job, args))
            if len(waiting) >= 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, kill_workers=bool(waiting))
