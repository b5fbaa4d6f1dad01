"""Commands about CLeGR: generate, evaluate, draw, check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from maghub.cli.output import console, print_json, print_table
from maghub.errors import MaghubError

VARIANT_BUILDERS = {"well_posed": "clegr", "compat": "clegr-compat"}
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Domain = Annotated[str, typer.Option(help="subway or computer-networks.")]
Size = Annotated[str, typer.Option(help="small, medium (CLeGR-Large), large or mixed.")]
Seed = Annotated[int, typer.Option(help="The one seed.")]
IntNames = Annotated[
    bool, typer.Option("--int-names", help="Call stations, lines and nodes by integers.")
]
Variant = Annotated[
    str, typer.Option(help="well_posed: one right answer each; compat: as released.")
]
Config = Annotated[
    str | None, typer.Option(help="Question set of the folder (default: its first).")
]


def register(app: typer.Typer) -> None:
    """Add the sub-application ``clegr``."""
    commands = typer.Typer(help="CLeGR: graph questions, scores, maps.", no_args_is_help=True)
    commands.command("generate")(generate_command)
    commands.command("evaluate")(evaluate_command)
    commands.command("draw")(draw_command)
    commands.command("check")(check_command)
    app.add_typer(commands, name="clegr")


def generate_command(
    out: Annotated[Path, typer.Option(help="Folder to make.")] = Path("clegr-set"),
    domain: Domain = "subway",
    question_set: Annotated[
        str | None, typer.Option("--set", help="facts or reasoning (default: both).")
    ] = None,
    size: Size = "small",
    graphs: Annotated[int, typer.Option(help="Graphs in each set.")] = 500,
    seed: Seed = 0,
    int_names: IntNames = False,
    variant: Variant = "well_posed",
    workers: Annotated[int, typer.Option(min=1, help="Generating processes.")] = 1,
    overwrite: Annotated[bool, typer.Option(help="Replace an existing folder.")] = False,
    json: Json = False,
) -> None:
    """Generate question sets into a published folder."""
    from maghub.building import build
    from maghub.errors import nearest

    if variant not in VARIANT_BUILDERS:
        raise nearest(variant, VARIANT_BUILDERS, kind="variant")
    spec = build(
        VARIANT_BUILDERS[variant],
        out,
        seed=seed,
        workers=workers,
        overwrite=overwrite,
        graphs=graphs,
        domain=domain,
        question_set=question_set,
        size=size,
        int_names=int_names,
    )
    draws = spec.notes.get("draws_by_template", {})
    lost = {name: sum(row["lost"] for row in rows.values()) for name, rows in draws.items()}
    if json:
        configs = {config.name: config.splits for config in spec.configs}
        print_json({"folder": str(out), "configs": configs, "lost": lost})
        return
    table = []
    for config in spec.configs:
        splits = ", ".join(f"{split} {count:,}" for split, count in config.splits.items())
        table.append([config.name, config.rows, splits, lost.get(config.name, "-")])
    print_table(["config", "rows", "per split", "questions lost"], table, title=f"made {out}")


def evaluate_command(
    predictions: Annotated[
        Path, typer.Argument(help='JSON lines {"question_id": ..., "prediction": ...}.')
    ],
    folder: Annotated[
        Path | None, typer.Option(help="A published folder (default: the default set, made anew).")
    ] = None,
    config: Config = None,
    split: Annotated[
        str | None, typer.Option(help="train, validation or test (default: all of them).")
    ] = None,
    variant: Annotated[
        str, typer.Option(help="Without a folder: well_posed or compat.")
    ] = "well_posed",
    json: Json = False,
) -> None:
    """Score predictions: overall, by type, group, subgroup and scope."""
    from maghub.clegr.loading import default_questions, question_rows
    from maghub.clegr.scorer import read_predictions, score

    if folder is not None:
        questions = question_rows(folder, config, split)
    else:
        questions = default_questions(config, variant, split)
    report = score(questions, read_predictions(predictions)).to_dict()
    if report["missing"] == report["questions"]:
        what = "answers none of the questions"
        fix = 'write a line {"question_id": ..., "prediction": ...} for each'
        raise MaghubError(what, where=predictions, fix=fix)
    if json:
        print_json(report)
        return
    for problem in report["problems"]:
        console.print(problem, markup=False, soft_wrap=True)
    rows = [_score_row("overall", "", report)]
    for slices in ("group", "subgroup", "scope", "type"):
        rows += [_score_row(slices, key, part) for key, part in report[f"by_{slices}"].items()]
    print_table(["by", "", "questions", "accuracy", "metrics", "unparsable", "missing"], rows)
    counted = {name: report[name] for name in ("duplicate", "unknown", "unusable")}
    counted["number_fallback"] = report["number_fallback"]
    line = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counted.items())
    console.print(f"predictions: {line}", markup=False)


def _score_row(by: str, name: str, part: dict[str, Any]) -> list[object]:
    """One slice: accuracy and the metrics of its output types."""
    metrics = [
        f"{f'{kind} f1' if metric == 'f1' else metric} {part[kind][metric]:.3f}"
        for kind, names in (
            ("boolean", ("f1", "mcc")),
            ("numeric", ("mae", "rmse")),
            ("list", ("f1",)),
        )
        for metric in names
        if part.get(kind, {}).get(metric) is not None
    ]
    accuracy = f"{part['accuracy']:.4f}"
    counts = [part["unparsable"], part["missing"]]
    return [by, name, part["questions"], accuracy, ", ".join(metrics), *counts]


def draw_command(
    folder: Annotated[
        Path | None, typer.Argument(help="A published folder (default: a generated graph).")
    ] = None,
    graph: Annotated[str, typer.Option(help="Number or id of the graph.")] = "0",
    out: Annotated[
        Path | None, typer.Option(help="File to make; without .svg or .png, both are.")
    ] = None,
    config: Config = None,
    domain: Domain = "subway",
    question_set: Annotated[str, typer.Option("--set", help="facts or reasoning.")] = "facts",
    size: Size = "small",
    seed: Seed = 0,
    int_names: IntNames = False,
    json: Json = False,
) -> None:
    """Draw the map of one graph as SVG and PNG."""
    from maghub.clegr.draw import draw_graph
    from maghub.clegr.generate import SetConfig, make_graph
    from maghub.clegr.loading import find_graph

    if folder is not None:
        chosen = find_graph(folder, config, graph)
    else:
        if config is not None:
            raise typer.BadParameter("needs a folder", param_hint="--config")
        if not graph.isdecimal():
            raise MaghubError(f"'{graph}' is no number of a graph", fix="give a number, 0 or more")
        number = int(graph)
        options = SetConfig(domain, question_set, size, number + 1, seed, int_names)
        chosen, _ = make_graph(options, number)
    files = draw_graph(chosen, out or Path(chosen.graph_id))
    if json:
        print_json({"graph": chosen.graph_id, "files": [str(file) for file in files]})
        return
    for file in files:
        console.print(str(file), markup=False, soft_wrap=True)


def check_command(
    path: Annotated[Path, typer.Argument(help="A published folder or a JSON-lines file.")],
    semantics: Annotated[
        str | None,
        typer.Option(help="compat or well_posed (default: the folder's own; compat for a file)."),
    ] = None,
    json: Json = False,
) -> None:
    """Re-derive every answer from graph and question text; exit 1 unless all agree."""
    from maghub.clegr.audit import audit_path

    audit = audit_path(path, semantics)
    report = audit.to_dict()
    if json:
        print_json(report)
    else:
        for problem in audit.problems:
            console.print(problem, markup=False, soft_wrap=True)
        names = ["questions", "agree", "ambiguous", "disagree", "unrecognised"]
        rows = [["all", *(report[name] for name in names)]]
        rows += [[kind, *(row[n] for n in names)] for kind, row in report["by_type"].items()]
        title = f"{path}: {audit.graphs:,} graphs, {audit.semantics} semantics"
        print_table(["type", *names], rows, title=title)
        problems = audit.disagree + audit.unrecognised + audit.graph_problems
        if (more := problems - len(audit.problems)) > 0:
            console.print(f"{more:,} more problems are counted, not listed")
    if audit.agree != audit.questions or audit.graph_problems:
        raise typer.Exit(1)
