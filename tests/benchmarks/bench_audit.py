"""``maghub audit`` of a large graph with texts, pictures and two embedding configs.

Target: 100,000 nodes under 2 minutes and 4 GB on two cores.
Run: python -m tests.benchmarks.bench_audit [nodes]
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import PIL.Image

from tests.benchmarks._timing import fresh, show

NODES, SECONDS, GIGABYTES, PLANTED = 100_000, 120, 4, 500
WIDTHS = {"text": 384, "image": 768}
MEASURE = """
import json, sys, time
from maghub.audit import run
from tests.benchmarks._timing import peak_bytes
begin, started = time.perf_counter(), time.process_time()
report = run(sys.argv[1])
seconds = time.perf_counter() - begin
cpu = time.process_time() - started
peak = peak_bytes()
checks = [[c.verdict, c.name, c.count, c.total] for c in report.checks]
print(json.dumps({"seconds": seconds, "cpu": cpu, "bytes": peak, "checks": checks}))
"""


def _picture(rng: np.random.Generator) -> bytes:
    """A 96 x 96 picture with structure."""
    coarse = rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)
    out = io.BytesIO()
    PIL.Image.fromarray(coarse).resize((96, 96), PIL.Image.Resampling.BICUBIC).save(out, "JPEG")
    return out.getvalue()


def prepare(folder: Path, n: int) -> Path:
    """Write a graph of ``n`` nodes in which texts and pictures of some are those of others."""
    from maghub.spec import BuilderInfo
    from maghub.writing import write_folder
    from tests.helpers.graphs import Toy, toy_card, toy_tables, vectors_table

    rng = np.random.default_rng(0)
    words = np.array(["".join(map(chr, row)) for row in rng.integers(97, 123, (5_000, 6))])
    texts = [" ".join(row) for row in words[rng.integers(0, len(words), (n, 40))]]
    images = [_picture(rng) for _ in range(n)]
    order = rng.permutation(n)
    source, target = order[:PLANTED], order[PLANTED : 2 * PLANTED]
    codes = rng.choice(3, n, p=(0.6, 0.2, 0.2))
    codes[source], codes[target] = 0, 2
    for a, b in zip(source.tolist(), target.tolist(), strict=True):
        texts[b], images[b] = texts[a][:100] + "z" + texts[a][101:], images[a]
    pairs = np.unique(np.sort(rng.integers(0, n, (10 * n, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    toy = Toy(
        texts=texts,
        labels=rng.integers(0, 3, n).tolist(),
        images=images,
        edges=np.c_[pairs, np.zeros(len(pairs), np.int64)].tolist(),
        codes=codes.tolist(),
        negatives=None,
    )
    tables, facts = toy_tables(toy)
    for modality, width in WIDTHS.items():
        matrix = rng.standard_normal((n, width), dtype=np.float32).astype(np.float16)
        tables.append(vectors_table({modality: matrix}, f"bench-{modality}"))
    builder = BuilderInfo(name="bench", version="1", seed=0)
    write_folder(folder / "bench", tables, facts, builder, toy_card())
    return folder / "bench"


def main(nodes: int = NODES) -> None:
    """Measure in a fresh process with an empty cache, and print."""
    with tempfile.TemporaryDirectory(prefix="maghub-bench-") as name:
        os.environ["MAGHUB_CACHE"] = f"{name}/maghub"
        os.environ["HF_HOME"] = os.environ["HF_DATASETS_CACHE"] = f"{name}/hf"
        found = fresh(MEASURE, prepare(Path(name), nodes))
    title = f"audit of {nodes:,} nodes, {PLANTED} near-equal texts and equal pictures planted"
    show(title, ["verdict", "check", "count", "total"], found["checks"])
    seconds, size = found["seconds"], found["bytes"] / 1e9
    print(f"{seconds:.1f} s (target {SECONDS}), of which {found['cpu']:.1f} s on a processor")
    print(f"peak {size:.2f} GB (target {GIGABYTES}); vectors are random, so they match no row")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
