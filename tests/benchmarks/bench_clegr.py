"""Speed of CLeGR through the real builder: questions per second, large graphs, memory, audit.

Run: python tests/benchmarks/bench_clegr.py [workers]

Every figure is of ``maghub.build``: graphs, sentences, contexts, questions, answers and Parquet. It
exits with 1 where a figure misses what issue 3 asks for.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import maghub
from maghub.clegr.audit import audit_path

QUESTIONS_PER_SECOND = 15_000
LARGE_SECONDS = 60.0
FLAT = 1.25
PEAK = """
import resource, sys
import maghub
maghub.build("clegr", sys.argv[1], graphs=int(sys.argv[2]), domain="subway",
             question_set="reasoning", size="small")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def timed(folder: Path, name: str = "clegr", **options: object) -> tuple[int, float, float]:
    """Questions built, seconds taken, and CPU seconds of all processes (to see a busy machine)."""
    start, before = time.perf_counter(), sum(os.times()[:4])
    spec = maghub.build(name, folder, overwrite=True, **options)  # type: ignore[arg-type]
    questions = sum(config.rows for config in spec.configs if config.target)
    return questions, time.perf_counter() - start, sum(os.times()[:4]) - before


def default_builds(folder: Path, workers: int) -> bool:
    """Both published datasets, whole."""
    good = True
    for name in ("clegr", "clegr-compat"):
        questions, seconds, cpu = timed(folder / name, name, workers=workers)
        good &= questions / seconds >= QUESTIONS_PER_SECOND
        rate = f"{questions / seconds:,.0f} questions/s"
        print(
            f"{name:13} {questions:,} questions in {seconds:.1f} s ({cpu:.1f} s of CPU), "
            f"{workers} workers: {rate}"
        )
    return good


def large_graphs(folder: Path, workers: int) -> bool:
    """A hundred graphs of the large size, every template."""
    good = True
    for domain in ("subway", "computer-networks"):
        options = {"domain": domain, "size": "large", "graphs": 100}
        questions, seconds, _ = timed(folder / "large", workers=workers, **options)
        good &= seconds < LARGE_SECONDS
        print(f"{domain:18} large, 2 x 100 graphs: {questions:,} questions in {seconds:.1f} s")
    return good


def memory(folder: Path) -> bool:
    """Peak memory of building ever more graphs, each in a process of its own."""
    peaks = []
    for graphs in (500, 2000, 4000, 8000):
        command = [sys.executable, "-c", PEAK, str(folder / f"memory-{graphs}"), str(graphs)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout))
        print(f"peak memory of {graphs:,} graphs: {peaks[-1]:,} MiB")
    return peaks[-1] < FLAT * peaks[-2]


def audit(folder: Path) -> bool:
    """Every answer of the default build, derived again."""
    start = time.perf_counter()
    found = audit_path(folder)
    rate = found.questions / (time.perf_counter() - start)
    print(f"audit: {found.agree:,} of {found.questions:,} agree, {rate:,.0f} questions/s")
    return found.agree == found.questions


def main() -> None:
    """Print the figures; exit 1 where one misses its target."""
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results = {
            "speed": default_builds(folder, workers),
            "large": large_graphs(folder, workers),
            "audit": audit(folder / "clegr"),
            "memory": memory(folder),
        }
    if missed := [name for name, good in results.items() if not good]:
        sys.exit(f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
