"""Ordered, bounded work over row ranges: the result never depends on how many workers there are."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any

_job: dict[str, Callable[..., Any]] = {}


def _set_job(function: Callable[..., Any]) -> None:
    _job["function"] = function


def _run_job(arguments: tuple[Any, ...]) -> Any:
    return _job["function"](*arguments)


def ordered_map(
    function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], workers: int = 1
) -> Iterator[Any]:
    """Yield ``function(*args)`` for each args, in order.

    With several workers the function is sent to each process once, and at most two results per
    worker wait to be consumed, so memory stays flat.
    """
    if workers <= 1 or len(arguments) <= 1:
        for args in arguments:
            yield function(*args)
        return
    context = multiprocessing.get_context("spawn")
    workers = min(workers, len(arguments))
    pool = ProcessPoolExecutor(workers, context, initializer=_set_job, initargs=(function,))
    waiting: deque[Future[Any]] = deque()
    remaining = iter(arguments)
    try:
        for args in remaining:
            waiting.append(pool.submit(_run_job, args))
            if len(waiting) >= 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
        pool.shutdown(cancel_futures=True)
