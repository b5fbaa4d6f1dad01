"""``maghub mkg efficiency``: queries per second of each retriever (paper, Table 5)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from maghub.cli.datasets import Json
from maghub.cli.output import console, print_json, print_table

RETRIEVERS = "rag-random,rag-text,rag-bm25,rag-hybrid,rag-graph"
TASK = "kg-efficiency"


def efficiency_command(
    folder: Annotated[str, typer.Argument(help="Retrieval benchmark: folder or ORG/NAME.")],
    retrievers: Annotated[str, typer.Option(help="Names with commas.")] = RETRIEVERS,
    setting: Annotated[str, typer.Option(help="S1 to S5.")] = "S1",
    encoder: Annotated[
        str | None, typer.Option(help="Encoder name, or text=NAME,image=NAME.")
    ] = None,
    k: Annotated[int, typer.Option(min=1, help="Triplets asked for.")] = 10,
    batch: Annotated[int, typer.Option(min=1, help="Questions searched for together.")] = 256,
    device: Annotated[str, typer.Option(help="torch device, or auto.")] = "auto",
    out: Annotated[Path | None, typer.Option(help="JSON-lines file for the records.")] = None,
    json: Json = False,
) -> None:
    """Time retrievers with cached vectors and a warm start, in batches and one by one."""
    from maghub import registry
    from maghub.cli.run import parse_encoders
    from maghub.errors import nearest
    from maghub.running import run

    names, known = [name.strip() for name in retrievers.split(",")], registry.names("retrievers")
    for name in names:  # all of them before the first one is timed
        if name not in known:
            raise nearest(name, known, kind="retriever")
    settings: dict[str, Any] = {"setting": setting, "k": k, "batch": batch}
    records = []
    for name in names:
        records += run(
            name,
            folder,
            TASK,
            encoder=parse_encoders(encoder),
            seeds=1,
            settings=settings,
            device=device,
            out=out,
        )
    if json:
        print_json([record.model_dump(mode="json") for record in records])
        return
    base = max(record.metrics["batched_qps"] for record in records)
    rows = [
        [
            record.model,
            f"{record.metrics['batched_qps']:,.0f}",
            f"{record.metrics['batched_qps'] / base:.2f}",
            f"{record.metrics['online_qps']:,.0f}",
        ]
        for record in records
    ]
    header = ["retriever", f"queries/s, batches of {batch}", "share of the fastest", "one by one"]
    print_table(header, rows, title=f"{records[0].dataset.name}, {setting}, k {k}")
    if out is not None:
        console.print(f"records: {out} (maghub report {out})", markup=False, soft_wrap=True)
