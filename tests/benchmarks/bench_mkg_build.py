"""Construction of a benchmark from the real MarKG, and the LLM client against a plain loop.

Run: python tests/benchmarks/bench_mkg_build.py

Seconds, CPU seconds and peak memory of ``maghub mkg build --llm rule`` on all 33,301 triplets
(where ../shared is there); requests per second of ``maghub.llm`` on a loopback server that takes
50 ms an answer, beside a sequential loop of the ``openai`` library.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import openai

import maghub
from maghub.llm import Message, Request, Settings, open_client
from tests.helpers.llm_server import KEY, LLMServer
from tests.helpers.real import UPSTREAM

BUILD = """
import os, sys, time
from maghub.mkg.pipeline import build_benchmark
from tests.benchmarks._timing import peak_bytes
start = time.perf_counter()
spec = build_benchmark(sys.argv[1], sys.argv[2]).spec
rows = {config.name: config.rows for config in spec.configs}
peak = peak_bytes() >> 20
print(f"{rows['queries']:,} queries, {rows['qrels']:,} qrels, {rows['corpus']:,} triplets in "
      f"{time.perf_counter() - start:.1f} s ({sum(os.times()[:2]):.1f} s of CPU with imports), "
      f"peak {peak} MiB")
"""
LATENCY, LOOP, REQUESTS = 0.05, 60, 600


def construction(folder: Path) -> None:
    raw = UPSTREAM / "markg_mars"
    if not raw.exists():
        print("construction: skipped, ../shared/data/upstream/markg_mars is not there")
        return
    maghub.build("markg", folder / "kg", raw)
    command = [sys.executable, "-c", BUILD, str(folder / "kg"), str(folder / "out")]
    subprocess.run(command, check=True)


def client(folder: Path) -> None:
    os.environ["OPENAI_API_KEY"] = KEY
    with LLMServer(delay=LATENCY) as server:
        plain = openai.OpenAI(base_url=server.url)
        start = time.perf_counter()
        for number in range(LOOP):
            messages = [{"role": "user", "content": f"say {number}"}]
            plain.chat.completions.create(model="m", messages=messages)  # type: ignore[arg-type]
        loop = LOOP / (time.perf_counter() - start)
        print(f"plain loop: {loop:.0f} requests/s")
        for concurrency in (1, 8, 32):
            cache = folder / f"{concurrency}.sqlite"
            ours = open_client("openai:m", Settings(server.url, None, cache, concurrency))
            count = LOOP if concurrency == 1 else REQUESTS
            requests = [Request((Message("user", f"say {n} of {count}"),)) for n in range(count)]
            rates = []
            for _ in ("paid", "cached"):
                start = time.perf_counter()
                assert sum(1 for _ in ours.map(requests)) == count
                rates.append(count / (time.perf_counter() - start))
            print(
                f"{concurrency:2} at a time: {rates[0]:.0f} requests/s, {rates[0] / loop:.1f}x the "
                f"loop; from the cache {rates[1]:,.0f}/s"
            )
            ours.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        construction(Path(name))
        client(Path(name))
