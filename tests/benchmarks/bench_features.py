"""Opening features and passing over them once: our view, datasets' torch format, bare np.load.

Target: ours takes at most 1.5 times as long as ``np.load(mmap_mode="c")`` of the same matrix.
Run: python -m tests.benchmarks.bench_features [rows]
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.benchmarks._timing import fresh, in_turn, show

ROWS, WIDTH, REPEAT, TARGET = 200_000, 768, 5, 1.5

MEASURE = """
import json, sys, time
import numpy as np, psutil
{imports}
folder, array_file = sys.argv[1:]
before = psutil.Process().memory_info().rss
begin = time.perf_counter()
{open}
opened = time.perf_counter()
biggest = int(matrix.view(np.uint64).max())  # touches every byte once
end = time.perf_counter()
grown = psutil.Process().memory_info().rss - before
print(json.dumps({{"open": opened - begin, "total": end - begin, "rss": grown}}))
"""
CANDIDATES = {
    "maghub view": (
        "import maghub.loading, torch",
        "matrix = maghub.loading.load(folder).features('bench', 'text').torch().numpy()",
    ),
    "np.load(mmap_mode='c')": ("", "matrix = np.load(array_file, mmap_mode='c')"),
    "with_format('torch')[:]": (
        "import datasets, torch; datasets.disable_progress_bars()",
        "data = datasets.load_dataset(folder, 'embeddings-bench', split='full')\n"
        "matrix = data.with_format('torch')[:]['text'].numpy()",
    ),
}


def prepare(folder: Path, rows: int) -> Path:
    """Write the published folder and the same matrix as a bare .npy file."""
    from maghub.spec import BuilderInfo
    from maghub.tables import Facts
    from maghub.writing import write_folder
    from tests.helpers.graphs import toy_card, vectors_table

    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((rows, WIDTH), dtype=np.float32).astype(np.float16)
    table = vectors_table({"text": matrix}, "bench")
    builder = BuilderInfo(name="bench", version="1", seed=0)
    write_folder(folder / "bench", [table], Facts(), builder, toy_card())
    np.save(folder / "matrix.npy", matrix)
    return folder / "bench"


def main(rows: int = ROWS) -> None:
    """Measure in fresh processes, caches built beforehand, and print."""
    with tempfile.TemporaryDirectory(prefix="maghub-bench-") as name:
        os.environ["MAGHUB_CACHE"] = f"{name}/maghub"
        os.environ["HF_HOME"] = os.environ["HF_DATASETS_CACHE"] = f"{name}/hf"
        arguments = (prepare(Path(name), rows), f"{name}/matrix.npy")
        codes = {
            label: MEASURE.format(imports=imports, open=opening)
            for label, (imports, opening) in CANDIDATES.items()
        }
        details = {label: fresh(code, *arguments) for label, code in codes.items()}

        def run(label: str) -> float:
            found = fresh(codes[label], *arguments)
            details[label] = min(details[label], found, key=lambda result: result["total"])
            return float(found["total"])

        best = in_turn({label: lambda label=label: run(label) for label in codes}, REPEAT)
    base = best["np.load(mmap_mode='c')"]
    table = [
        [
            label,
            f"{details[label]['open'] * 1e3:.1f}",
            f"{best[label] * 1e3:.0f}",
            f"{details[label]['rss'] / 1e6:.0f}",
            f"{best[label] / base:.2f}",
        ]
        for label in codes
    ]
    header = ["way", "open ms", "open + pass ms", "RSS MB", "ratio to np.load"]
    show(f"{rows:,} x {WIDTH} float16, best of {REPEAT} fresh processes", header, table)
    ratio = best["maghub view"] / base
    print(f"maghub view / np.load = {ratio:.2f}, target at most {TARGET}")
    speedup = best["with_format('torch')[:]"] / best["maghub view"]
    print(f"maghub view is {speedup:.1f} times as fast as with_format('torch')[:]")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
