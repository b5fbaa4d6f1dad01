"""``maghub report``: result records as tables, a page and LaTeX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maghub.cli.datasets import Json
from maghub.cli.output import HTML, MARKDOWN, console, print_json, print_table


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("report")(report_command)


def report_command(
    results: Annotated[
        list[Path], typer.Argument(metavar="RESULTS...", help="Files that maghub run has written.")
    ],
    markdown: Annotated[Path | None, typer.Option(help="Write Markdown tables.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with tables and plots.")] = None,
    latex: Annotated[Path | None, typer.Option(help="Write LaTeX tables (booktabs).")] = None,
    json: Json = False,
) -> None:
    """Mean and deviation over seeds, the papers' numbers beside them; says what not to compare."""
    from maghub.files import check_output, os_errors, write_text
    from maghub.reporting import summarise, to_html, to_latex, to_markdown
    from maghub.reporting.sheets import sheet
    from maghub.reporting.text import terminal
    from maghub.results import read_records

    for path, endings in ((markdown, MARKDOWN), (html, HTML), (latex, (".tex",))):
        if path is not None:
            check_output(path, endings, results)
    report = summarise(read_records(results), where=", ".join(map(str, results)))
    written = []
    for path, make in ((markdown, to_markdown), (html, to_html), (latex, to_latex)):
        if path is not None:
            with os_errors(path):
                write_text(path, make(report))
            written.append(path)
    if json:
        print_json(report.model_dump(mode="json"))
        return
    for block in report.blocks:
        found = sheet(block)
        header, rows, below = terminal(found)
        print_table(header, rows, title=found.title)
        for line in below:
            console.print(line, markup=False, soft_wrap=True)
    for path in written:
        console.print(f"written: {path}", markup=False, soft_wrap=True)
