"""Writing an embedding table: our Parquet writer against ``Dataset.to_parquet``.

Target: ours is at least twice as fast, checksums and fsync included.
Run: python -m tests.benchmarks.bench_parquet [rows]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import datasets
import numpy as np

from maghub.writing import write_config
from tests.benchmarks._timing import best_of, show
from tests.helpers.graphs import vectors_table

ROWS, WIDTH, REPEAT, TARGET = 100_000, 768, 3, 2.0


def compare(matrix: np.ndarray, folder: Path) -> list[list[str]]:
    """Write one matrix both ways; a table row for each."""
    table = vectors_table({"text": matrix}, "bench")
    dataset = datasets.Dataset(table.read_typed(0, len(matrix)))
    theirs = folder / "theirs.parquet"
    best = best_of(
        {
            "maghub": lambda: write_config(folder, table),
            "Dataset.to_parquet": lambda: dataset.to_parquet(theirs),
        },
        REPEAT,
    )
    ours = sum(path.stat().st_size for path in (folder / table.config).iterdir())
    sizes = {"maghub": ours, "Dataset.to_parquet": theirs.stat().st_size}
    return [
        [
            str(matrix.dtype),
            label,
            f"{took:.2f}",
            f"{matrix.nbytes / 1e6 / took:.0f}",
            f"{sizes[label] / 1e6:.0f}",
            f"{best['Dataset.to_parquet'] / took:.2f}",
        ]
        for label, took in best.items()
    ]


def main(rows: int = ROWS) -> None:
    """Write float16 (what encoders store by default) and float32 tables both ways and print."""
    datasets.disable_progress_bars()
    values = np.random.default_rng(0).standard_normal((rows, WIDTH), dtype=np.float32)
    results = []
    for dtype in ("float16", "float32"):
        with tempfile.TemporaryDirectory(prefix="maghub-bench-") as name:
            results += compare(values.astype(dtype), Path(name))
    header = ["dtype", "way", "seconds", "MB/s", "file MB", "speed-up"]
    show(f"writing {rows:,} x {WIDTH} vectors, best of {REPEAT}", header, results)
    print(f"target: maghub at least {TARGET:g} times as fast as Dataset.to_parquet (float16)")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
