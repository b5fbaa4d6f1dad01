"""Progress bars on standard error, shown by the CLI for anything that takes over a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

DELAY_SECONDS = 1.0
_state = {"enabled": False}


def show_progress(enabled: bool) -> None:
    """Switch progress bars on (the CLI does) or off (the default for library use)."""
    _state["enabled"] = enabled and sys.stderr.isatty()


def track(items: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """Iterate over ``items`` with a bar that appears after a second."""
    if not _state["enabled"]:
        yield from items
        return
    from rich.console import Console
    from rich.progress import Progress

    if total is None and hasattr(items, "__len__"):
        total = len(items)  # type: ignore[arg-type]
    begin = time.monotonic()
    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(description, total=total)
    started = False
    try:
        for item in items:
            yield item
            bar.advance(task)
            if not started and time.monotonic() - begin > DELAY_SECONDS:
                bar.start()
                started = True
    finally:
        if started:
            bar.stop()
