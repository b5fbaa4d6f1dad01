"""Speed of CLeGR generation: questions per second, large graphs, memory, audit.

Run: python tests/benchmarks/bench_clegr.py [workers]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from maghub.clegr.audit import audit_rows
from maghub.clegr.generate import SetConfig, generate, generate_part


def run(config: SetConfig, workers: int, folder: Path | None = None) -> tuple[int, float]:
    """Questions made and seconds taken; with a folder, Parquet (zstd) is written as well."""
    start = time.perf_counter()
    questions = 0
    writers: dict[str, pq.ParquetWriter] = {}
    for part in generate(config, workers):
        questions += part.questions.num_rows
        if folder:
            for name, table in (("graphs", part.graphs), ("questions", part.questions)):
                if name not in writers:
                    file = folder / f"{name}.parquet"
                    writers[name] = pq.ParquetWriter(file, table.schema, compression="zstd")
                writers[name].write_table(table)
    for writer in writers.values():
        writer.close()
    return questions, time.perf_counter() - start


def main() -> None:
    """Print the figures."""
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    with tempfile.TemporaryDirectory() as name:
        for domain in ("subway", "computer-networks"):
            for question_set in ("facts", "reasoning"):
                for variant in ("compat", "well_posed"):
                    config = SetConfig(domain, question_set, variant=variant)
                    count, plain = run(config, workers)
                    _, written = run(config, workers, Path(name))
                    print(
                        f"{domain:18} {question_set:10} {variant:11} {count:6} questions  "
                        f"{count / plain:7.0f}/s, with Parquet {count / written:7.0f}/s"
                    )
    for domain in ("subway", "computer-networks"):
        for size in ("medium", "large"):
            for question_set in ("facts", "reasoning"):
                config = SetConfig(domain, question_set, size, graphs=100)
                count, seconds = run(config, workers)
                name = f"{domain:18} {question_set:10} {size:7}"
                print(f"{name} 100 graphs {seconds:5.1f} s, {count} questions")
    for graphs in (500, 2000):
        run(SetConfig(question_set="reasoning", graphs=graphs), 1)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"peak memory after {graphs} graphs: {peak:.0f} MiB")
    part = generate_part(SetConfig(question_set="reasoning"), 0)
    graphs_rows, rows = part.graphs.to_pylist(), part.questions.to_pylist()
    start = time.perf_counter()
    audit_rows(graphs_rows, rows)
    print(f"audit: {len(rows) / (time.perf_counter() - start):.0f} questions/s")


if __name__ == "__main__":
    main()
