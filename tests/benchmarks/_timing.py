"""Timing for the benchmark scripts: runs taken in turn, fresh processes, one plain table."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any


def in_turn(candidates: Mapping[str, Callable[[], float]], repeat: int = 5) -> dict[str, float]:
    """The least of ``repeat`` values of each candidate, all taken in turn.

    Taking turns spreads a busy moment of the machine over all candidates; the least value is the
    one that was disturbed least.
    """
    best = dict.fromkeys(candidates, float("inf"))
    for _ in range(repeat):
        for name, candidate in candidates.items():
            best[name] = min(best[name], candidate())
    return best


def seconds(function: Callable[[], object]) -> float:
    """Wall time of one call."""
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def best_of(candidates: Mapping[str, Callable[[], object]], repeat: int = 5) -> dict[str, float]:
    """Seconds of the fastest of ``repeat`` calls of each function, called in turn."""
    return in_turn({name: lambda f=f: seconds(f) for name, f in candidates.items()}, repeat)


def fresh(code: str, *arguments: object) -> dict[str, Any]:
    """Run Python code in a new process; its last line of output is a JSON object, given back."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def peak_bytes() -> int:
    """Largest resident memory of this process (Linux).

    Not ``ru_maxrss``, which in a process started by ``fresh`` begins at what its parent had.
    """
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def show(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table with aligned columns."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    print(title)
    for row in cells:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
    print()
