"""The command audit: leakage, misalignment and data that tells nothing."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from maghub.cli.datasets import Json, pairs
from maghub.cli.output import HTML, console, print_json, print_table

_PART, _PAIR = "CONFIG|FILE", "FIELD=COLUMN"


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("audit")(audit_command)


def audit_command(
    name: Annotated[
        str, typer.Argument(metavar="FOLDER|REPO", help="Folder, sample, or repo on the Hub.")
    ],
    nodes: Annotated[
        str | None,
        typer.Option(help="Tables of any dataset: config or file with the nodes.", metavar=_PART),
    ] = None,
    edges: Annotated[
        str | None, typer.Option(help="The config or file with the edges.", metavar=_PART)
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--map", help="What is called how there, e.g. text=title.", metavar=_PAIR),
    ] = None,
    vectors: Annotated[
        list[str] | None,
        typer.Option(help="Vectors of text or image, e.g. text=emb.", metavar="MODALITY=COLUMN"),
    ] = None,
    directed: Annotated[bool, typer.Option(help="Whether those edges have a direction.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page with the pictures.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of samples and hash functions.")] = 0,
    examples: Annotated[int, typer.Option(min=0, help="Most examples per check.")] = 10,
    json: Json = False,
) -> None:
    """What validate cannot see: leakage between splits, vectors of other rows, dead columns.

    Of a dataset that maghub did not publish, say what its columns are: --nodes, --edges, --map
    (id, text, label, image, split; src, dst, relation, edge-split) and --vectors. Exit 1 where a
    check fails; a warning is for people to judge.
    """
    from maghub.audit import Columns, imported, run, write_html
    from maghub.files import check_output

    if html is not None:
        check_output(html, HTML)
    foreign = nodes or edges or columns or vectors or directed
    with ExitStack() as stack:
        folder: str | Path = name
        if foreign:
            mapping = dict(pairs(columns or [], "--map"))
            named = tuple(pairs(vectors or [], "--vectors"))
            given = Columns(nodes, edges, mapping, named, directed)
            folder = stack.enter_context(imported(name, given))
        report = run(folder, seed=seed, examples=examples)
        if html is not None:
            write_html(report, folder, html)
    if json:
        print_json({"verdict": report.verdict, **report.model_dump(mode="json")})
    else:
        rows = [[check.verdict, check.name, check.summary] for check in report.checks]
        print_table(["verdict", "check", "found"], rows, title=f"audit of {report.dataset}")
        for check in report.checks:
            if check.examples and check.verdict in ("warn", "fail"):
                console.print(f"{check.name}:", markup=False)
                for example in check.examples[:3]:
                    console.print(f"  {example.text}", markup=False, soft_wrap=True)
        if html is not None:
            console.print(f"written: {html}", markup=False)
    if report.verdict == "fail":
        raise typer.Exit(1)
