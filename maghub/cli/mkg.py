"""Commands about benchmarks made from knowledge graphs: build, report, agreement."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer

from maghub.cli.datasets import Json
from maghub.cli.mkg_efficiency import efficiency_command
from maghub.cli.output import console, print_json, print_table

MODEL_PANEL = "Language model (openai:... and local:...)"


def register(app: typer.Typer) -> None:
    """Add the sub-application ``mkg``."""
    commands = typer.Typer(
        help="Retrieval benchmarks made from knowledge graphs.", no_args_is_help=True
    )
    commands.command("build")(build_command)
    commands.command("report")(report_command)
    commands.command("agreement")(agreement_command)
    commands.command("efficiency")(efficiency_command)
    app.add_typer(commands, name="mkg")


def parameter_values(texts: list[str]) -> dict[str, Any]:
    """``NAME=VALUE`` settings: values are JSON where they can be, ``none`` leaves one out."""
    found: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not name or not sign:
            raise typer.BadParameter(f"'{text}' is not NAME=VALUE", param_hint="--param")
        try:
            found[name] = None if value == "none" else json_module.loads(value)
        except ValueError:
            found[name] = value
    return found


def _model_option(help_text: str, **more: Any) -> Any:
    return typer.Option(help=help_text, rich_help_panel=MODEL_PANEL, **more)


def build_command(
    kg: Annotated[str, typer.Option(help="Published knowledge graph: folder, name or repo.")],
    out: Annotated[Path, typer.Option(help="Folder to make.")],
    llm: Annotated[
        str, typer.Option(help="Who judges and writes: rule, openai:MODEL or local:PATH.")
    ] = "rule",
    name: Annotated[str | None, typer.Option(help="Name of the benchmark.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The one seed.")] = 0,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Judge and ask about so many triplets only.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that read pictures.")] = 1,
    overwrite: Annotated[bool, typer.Option(help="Replace an existing folder.")] = False,
    base_url: Annotated[
        str | None, _model_option("Address of the server, up to /v1 (default: OPENAI_BASE_URL).")
    ] = None,
    key_variable: Annotated[
        str | None, _model_option("Environment variable with the key (default: OPENAI_API_KEY).")
    ] = None,
    cache: Annotated[Path | None, _model_option("File in which answers are kept.")] = None,
    concurrency: Annotated[int, _model_option("Requests at the same time.", min=1)] = 8,
    batch_size: Annotated[int, _model_option("Requests at once, local model.", min=1)] = 8,
    timeout: Annotated[float, _model_option("Seconds to wait for an answer.", min=0.1)] = 120.0,
    attempts: Annotated[int, _model_option("Tries per request.", min=1)] = 6,
    max_requests: Annotated[int | None, _model_option("Stop after so many.", min=1)] = None,
    max_tokens: Annotated[int | None, _model_option("Stop after so many.", min=1)] = None,
    max_cost: Annotated[float | None, _model_option("Stop there; needs prices.", min=0)] = None,
    input_price: Annotated[float, _model_option("Of a million tokens read.", min=0)] = 0.0,
    output_price: Annotated[float, _model_option("Of a million tokens written.", min=0)] = 0.0,
    param: Annotated[
        list[str] | None,
        _model_option("NAME=VALUE sent with every request; none as the value leaves it out."),
    ] = None,
    device: Annotated[str, _model_option("torch device of a local model, or auto.")] = "auto",
    json: Json = False,
) -> None:
    """Build a benchmark: filter, mask, ask, judge relevance, augment question images.

    Answers of a language model are kept on disk: after a stop or a kill, run the same command
    again and it goes on from them.
    """
    from maghub.llm import Limits, RetryPolicy, Settings
    from maghub.mkg.pipeline import build_benchmark

    settings = Settings(
        base_url=base_url,
        key_variable=key_variable,
        cache=cache,
        concurrency=concurrency,
        batch_size=batch_size,
        timeout=timeout,
        retry=RetryPolicy(attempts=attempts),
        limits=Limits(max_requests, max_tokens, max_cost, input_price, output_price),
        parameters=parameter_values(param or []),
        device=device,
    )
    built = build_benchmark(
        kg,
        out,
        llm=llm,
        name=name,
        seed=seed,
        limit=limit,
        settings=settings,
        workers=workers,
        overwrite=overwrite,
    )
    if json:
        configs = {config.name: config.splits for config in built.spec.configs}
        notes = {key: built.spec.notes[key] for key in REPORTED}
        print_json({"folder": str(out), "configs": configs, "run": built.counts, **notes})
        return
    _print_notes(built.spec.notes)
    rows = [
        [config.name, config.rows, ", ".join(f"{k} {n:,}" for k, n in config.splits.items())]
        for config in built.spec.configs
    ]
    print_table(["config", "rows", "per split"], rows, title=f"made {out}")
    if built.counts:
        line = ", ".join(f"{what} {number:,}" for what, number in built.counts.items())
        console.print(f"this run: {line}", markup=False, soft_wrap=True)


REPORTED = ("utility_filter", "question_synthesis", "records", "leaks")
EXAMPLES = "examples_of_dropped_triplets"


def _print_notes(notes: dict[str, Any]) -> None:
    """The counts of a benchmark, a table each."""
    for note in REPORTED:
        for of, counts in notes.get(note, {}).items():
            columns = list(next(iter(counts.values()), {}))
            rows = [[what, *(row.get(name, 0) for name in columns)] for what, row in counts.items()]
            print_table(["", *columns], rows, title=f"{note.replace('_', ' ')}: {of}")


def report_command(
    folder: Annotated[Path, typer.Argument(help="A benchmark made by maghub mkg build.")],
    json: Json = False,
) -> None:
    """What the filter dropped and why, what was asked, and what leaks between splits."""
    from maghub.errors import MaghubError
    from maghub.spec import read_spec

    notes = read_spec(folder).notes
    found = {key: notes[key] for key in (*REPORTED, EXAMPLES) if key in notes}
    if "utility_filter" not in found:
        raise MaghubError(
            "has no report of a construction",
            where=folder,
            fix="it was not made by maghub mkg build",
        )
    if json:
        print_json(found)
        return
    _print_notes(found)
    rows = [[reason, one] for reason, shown in found.get(EXAMPLES, {}).items() for one in shown]
    if rows:
        print_table(["dropped because", "triplet"], rows, title="examples")


def agreement_command(
    a: Annotated[Path, typer.Argument(help="A benchmark.")],
    b: Annotated[Path, typer.Argument(help="Another writer's benchmark of the same graph.")],
    encoder: Annotated[
        str, typer.Option(help="Whose vectors say how similar questions are.")
    ] = "all-minilm-l6-v2",
    sample: Annotated[int, typer.Option(min=1, help="Most pairs to compare.")] = 2_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample.")] = 0,
    device: Annotated[str, typer.Option(help="torch device of the encoder, or auto.")] = "auto",
    json: Json = False,
) -> None:
    """Do two writers agree? Verdicts on triplets, and questions on masked forms."""
    from maghub.mkg.agreement import agreement

    found = agreement(a, b, encoder=encoder, sample=sample, seed=seed, device=device)
    if json:
        print_json(found.to_dict())
        return
    data = found.to_dict()
    for part in ("filter", "questions"):
        values = data[part]
        if not isinstance(values, dict):
            console.print(f"{part}: nothing in common", markup=False)
            continue
        rows = [
            [key.replace("_", " "), f"{value:.4f}" if isinstance(value, float) else value]
            for key, value in values.items()
        ]
        print_table([part, ""], rows, title=f"{part}: A {found.writers[0]}, B {found.writers[1]}")
