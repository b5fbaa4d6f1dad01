"""Commands about datasets: list, info, init, build, validate."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from maghub.cli.output import console, print_json, print_table
from maghub.errors import MaghubError

FIELDS = "id, text, label, image, split, src, dst, relation, edge-split"
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("list")(list_command)
    app.command("info")(info_command)
    app.command("init")(init_command)
    app.command("build")(build_command)
    app.command("validate")(validate_command)


class Listed(StrEnum):
    """What can be listed: the groups of the registry that users name in commands."""

    DATASETS = "datasets"
    ENCODERS = "encoders"
    MODELS = "models"
    RETRIEVERS = "retrievers"
    TASKS = "tasks"


def list_command(
    what: Annotated[Listed, typer.Argument(help="What to list.")] = Listed.DATASETS,
    json: Json = False,
) -> None:
    """Datasets that maghub can build; or the encoders, models, retrievers or tasks it knows."""
    from maghub import registry
    from maghub.catalog import list_datasets

    if what is not Listed.DATASETS:
        names = registry.names(cast("registry.Group", what.value))
        if json:
            print_json(names)
        else:
            console.print("\n".join(names), markup=False)
        return
    cards = [registry.card(name).spec for name in list_datasets()]
    if json:
        print_json([{"name": c.name, "status": c.status, "summary": c.summary} for c in cards])
        return
    print_table(["name", "status", "what"], [[c.name, c.status, c.summary] for c in cards])


def info_command(
    name: Annotated[str, typer.Argument(help="Dataset name, folder or ORG/NAME.")],
    json: Json = False,
) -> None:
    """Facts of a dataset; the papers' statistics stand beside the measured ones."""
    from maghub.catalog import info

    facts = info(name)
    if json:
        print_json(facts)
        return
    card = facts["card"]
    console.print(f"{card['pretty_name']} {card['version']}: {card['summary']}", markup=False)
    if "configs" in facts:
        rows = [
            [config, ", ".join(f"{split} {count:,}" for split, count in splits.items())]
            for config, splits in facts["configs"].items()
        ]
        print_table(["config", "rows"], rows)
    _print_statistics(facts)
    licences = card["licences"]
    rows = [[part, licences[part], card["policy"][part]] for part in licences]
    print_table(["part", "licence", "redistribution"], rows)


def _print_statistics(facts: dict[str, Any]) -> None:
    """Measured and published counts side by side, then why they differ."""
    columns = ["source", "nodes", "edges", "classes", "note"]
    rows = []
    if facts.get("graph"):
        graph, statistics = facts["graph"], facts["statistics"]
        note = (
            f"{graph['unique_pairs']:,} distinct pairs, {statistics['isolated_nodes']:,} isolated"
        )
        classes = len(statistics["classes"]) or "-"
        rows.append(["measured", graph["num_nodes"], graph["num_edges"], classes, note])
    for paper in facts["card"]["paper"]:
        values = [paper[key] if paper[key] is not None else "-" for key in columns[1:4]]
        rows.append([paper["source"], *values, paper["note"] or ""])
    if rows:
        print_table(columns, rows)
    for difference in facts["card"]["differences"]:
        console.print(f"- {difference}", markup=False)


def _options(values: list[str]) -> dict[str, str | int | float | bool | None]:
    """``key=value`` pairs with the values read as YAML scalars."""
    import yaml

    return {key.replace("-", "_"): yaml.safe_load(value) for key, value in pairs(values, "--set")}


def pairs(values: list[str], option: str) -> list[tuple[str, str]]:
    """``key=value`` pairs as they are written."""
    found = []
    for item in values:
        key, equals, value = item.partition("=")
        if not equals:
            raise typer.BadParameter(f"'{item}' is not key=value", param_hint=option)
        found.append((key, value))
    return found


def init_command(
    name: Annotated[str, typer.Argument(help="Name of your dataset.")],
    out: Annotated[Path | None, typer.Option(help="Folder to make (default: the name).")] = None,
) -> None:
    """Start a dataset of your own: a folder with a card and a builder to fill in."""
    from maghub.scaffold import init

    folder = init(name, out)
    card = folder / "card.md"
    tables = "--from NODES --edges EDGES --map id=COLUMN"
    command = f"maghub build {name} {tables} --card {card} --out FOLDER"
    console.print(f"fill in {card}, then: {command}", markup=False, soft_wrap=True)


def build_command(
    name: Annotated[str, typer.Argument(help="Dataset name, see: maghub list.")],
    own: Annotated[
        Path | None, typer.Option("--from", help="Your own nodes (table) or graph, with --card.")
    ] = None,
    edges: Annotated[Path | None, typer.Option(help="Your own edges (table or graph).")] = None,
    images: Annotated[Path | None, typer.Option(help="Folder of your own pictures.")] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--map", help=f"FIELD=COLUMN; fields: {FIELDS}."),
    ] = None,
    card: Annotated[Path | None, typer.Option(help="Your own card, see: maghub init.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to make (default: the name).")] = None,
    raw_dir: Annotated[Path | None, typer.Option(help="Folder with the upstream files.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of our splits and negatives.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Reading processes.")] = 1,
    overwrite: Annotated[bool, typer.Option(help="Replace an existing folder.")] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Option of the builder, key=value.")
    ] = None,
    json: Json = False,
) -> None:
    """Build a dataset from its upstream files, or from your own, into a published folder."""
    from maghub.building import build, build_own

    target = out or Path(name)
    options: dict[str, Any] = {"seed": seed, "workers": workers, "overwrite": overwrite}
    options |= _options(settings or [])
    if own is None:
        if any((edges, images, columns, card)):
            raise typer.BadParameter("goes with --from only", param_hint="--edges/images/map/card")
        spec = build(name, target, raw_dir, **options)
    elif card is None or raw_dir is not None:
        what = "needs --card (maghub init writes one) and takes no --raw-dir"
        raise typer.BadParameter(what, param_hint="--from")
    else:
        mapping = dict(pairs(columns or [], "--map"))
        spec = build_own(
            name, target, own, card=card, edges=edges, images=images, columns=mapping, **options
        )
    if json:
        print_json({"folder": str(target), "configs": {c.name: c.splits for c in spec.configs}})
        return
    rows = [[c.name, c.rows, len(c.files)] for c in spec.configs]
    print_table(["config", "rows", "files"], rows, title=f"built {name} in {target}")
    if own is not None and (left_out := spec.notes.get("columns left out")):
        more = f" and {len(left_out) - 20} more" if len(left_out) > 20 else ""
        console.print(f"left out: {', '.join(left_out[:20])}{more}", markup=False)
    counts = {} if own is None else {k: v for k, v in spec.notes.items() if isinstance(v, int)}
    counts |= {
        f"pictures {what}": n for what, n in spec.images.items() if what.startswith("refused")
    }
    if any(counts.values()):
        said = ", ".join(f"{what} {count:,}" for what, count in counts.items() if count)
        console.print(f"counted: {said}", markup=False, soft_wrap=True)


def validate_command(
    folder: Annotated[Path, typer.Argument(help="A published folder.")], json: Json = False
) -> None:
    """Check a published folder; every problem is listed, exit 1 if there is one."""
    from maghub.validation import validate

    report = validate(folder)
    if json:
        print_json(report.to_dict())
    elif report.ok:
        counts = ", ".join(f"{count:,} {what}" for what, count in report.checked.items())
        console.print(f"{folder}: valid ({counts})", markup=False)
    else:
        for problem in report.problems:
            line = MaghubError(problem.message, where=_place(problem), fix=problem.fix).line()
            console.print(line, markup=False, soft_wrap=True)
    if not report.ok:
        raise typer.Exit(1)


def _place(problem: Any) -> str:
    from maghub.errors import place

    return place(problem.file, problem.column, problem.row)
