"""The command audit: leakage, misalignment and data that tells nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maghub.cli.output import console, print_json, print_table


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("audit")(audit_command)


def audit_command(
    name: Annotated[
        str, typer.Argument(metavar="FOLDER|REPO", help="Folder, sample, or repo on the Hub.")
    ],
    html: Annotated[Path | None, typer.Option(help="Write a page with the pictures.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of samples and hash functions.")] = 0,
    examples: Annotated[int, typer.Option(min=0, help="Most examples per check.")] = 10,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """What validate cannot see: leakage between splits, vectors of other rows, dead columns.

    Exit 1 where a check fails; a warning is for people to judge.
    """
    from maghub.audit import run, write_html

    report = run(name, seed=seed, examples=examples)
    if html is not None:
        write_html(report, name, html)
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
