"""``maghub run``: train and measure a model, one result record per seed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from maghub.cli.datasets import Json
from maghub.cli.output import console, print_json, print_table
from maghub.errors import MaghubError

if TYPE_CHECKING:
    from maghub.results import RunRecord
    from maghub.run_settings import Setting


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("run")(run_command)
    app.command("settings")(settings_command)


def parse_encoders(text: str | None) -> str | dict[str, str] | None:
    """``NAME`` for all modalities, or ``text=NAME,image=NAME``.

    Raises:
        MaghubError: A part is not MODALITY=NAME.
    """
    if text is None or "=" not in text:
        return text
    chosen = {}
    for part in text.split(","):
        modality, equals, name = part.partition("=")
        if not (modality.strip() and equals and name.strip()):
            raise MaghubError(
                f"encoder '{part}' is not MODALITY=NAME",
                fix="e.g. --encoder text=all-minilm-l6-v2,image=efficientnet-lite0",
            )
        chosen[modality.strip()] = name.strip()
    return chosen


def parse_modalities(text: str) -> list[str]:
    """``text,image`` as a list.

    Raises:
        MaghubError: It names none.
    """
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise MaghubError(f"modalities '{text}' name none", fix="e.g. --modalities text,image")
    return names


def parse_seeds(text: str) -> int | list[int]:
    """``3`` for seeds 0, 1 and 2; ``5,`` or ``5,7`` for those very seeds.

    Raises:
        MaghubError: It is neither.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() for part in parts):
        what = f"seeds '{text}' are not whole numbers from 0"
        raise MaghubError(what, fix="write --seeds 3, or --seeds 5,7")
    if len(set(map(int, parts))) < len(parts):
        raise MaghubError(f"seeds '{text}' name one twice", fix="name each once")
    return int(parts[0]) if "," not in text else [int(part) for part in parts]


def parse_settings(items: list[str]) -> dict[str, Any]:
    """``["hidden=256", "norm=layer", "batch_size=null"]`` as a mapping; values are YAML scalars.

    Raises:
        MaghubError: An item is not NAME=VALUE.
    """
    settings = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise MaghubError(f"setting '{item}' is not NAME=VALUE", fix="e.g. --set hidden=256")
        try:
            settings[name.strip()] = yaml.safe_load(value) if value.strip() else value
        except yaml.YAMLError:
            settings[name.strip()] = value
    return settings


def parse_noise(items: list[str]) -> dict[str, float]:
    """``["text=0.3", "edges=1"]`` as a mapping.

    Raises:
        MaghubError: An item is not KIND=SHARE.
    """
    shares = {}
    for item in items:
        kind, _, share = item.partition("=")
        try:
            shares[kind.strip()] = float(share)
        except ValueError:
            raise MaghubError(
                f"noise '{item}' is not KIND=SHARE", fix="write for example: --noise text=0.3"
            ) from None
    return shares


MOST_COLUMNS = 6


def _shown(records: list[RunRecord]) -> tuple[list[str], list[list[object]]]:
    """Header and rows: a row per seed, or per metric where there are many of these."""
    names = list(dict.fromkeys(name for r in records for name in r.metrics))
    columns: list[list[object]] = []
    for r in records:
        epoch = "" if r.epoch is None else r.epoch
        cells = [f"{r.metrics[n]:.4f}" if n in r.metrics else "" for n in names]
        columns.append([r.seed, *cells, epoch, f"{r.seconds:.1f}"])
    header = ["seed", *names, "epoch", "seconds"]
    if len(names) <= MOST_COLUMNS:
        return header, columns
    turned = [
        list(row)
        for row in zip(header, *columns, strict=True)
        if any(cell != "" for cell in row[1:])
    ]
    return [str(cell) for cell in turned[0]], turned[1:]


def run_command(
    model: Annotated[str, typer.Argument(help="A registered model or retriever.")],
    dataset: Annotated[str, typer.Option(help="Folder, bundled sample or ORG/NAME.")],
    task: Annotated[
        str | None,
        typer.Option(help="A registered task (default: node-classification, or kg-retrieval)."),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="Encoder name, or text=NAME,image=NAME (default: the folder's first)."),
    ] = None,
    modalities: Annotated[
        str | None, typer.Option(help="text, image or text,image (default: all).")
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(help="How many seeds, or seeds with commas: 5,7 (default: 3, or 1)."),
    ] = None,
    setting: Annotated[
        str | None, typer.Option(help="S1 to S5 of a retrieval benchmark; short for --set setting=")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Named settings, e.g. planetoid.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="One setting, e.g. hidden=256 (repeat for more)."),
    ] = None,
    noise: Annotated[
        list[str] | None,
        typer.Option(help="Damage, e.g. text=0.3, labels=0.2, edges=1, missing-image=0.5."),
    ] = None,
    device: Annotated[str, typer.Option(help="torch device, or auto.")] = "auto",
    out: Annotated[
        Path, typer.Option(help="JSON-lines file that gets one record per seed.")
    ] = Path("results.jsonl"),
    work: Annotated[
        Path | None, typer.Option(help="Folder for checkpoints and logs of epochs.")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Go on from a checkpoint in --work.")] = True,
    json: Json = False,
) -> None:
    """Train and measure a model on a dataset, once per seed."""
    from maghub.results import is_writer
    from maghub.running import iter_runs

    records: list[RunRecord] = []
    settings = parse_settings(set_ or [])
    if setting is not None:
        settings["setting"] = setting
    for record in iter_runs(
        model,
        dataset,
        task,
        encoder=parse_encoders(encoder),
        modalities=None if modalities is None else parse_modalities(modalities),
        seeds=None if seeds is None else parse_seeds(seeds),
        preset=preset,
        settings=settings,
        noise=parse_noise(noise or []),
        device=device,
        out=out,
        work=work,
        resume=resume,
    ):
        records.append(record)
    if not is_writer():
        return
    if json:
        print_json([record.model_dump(mode="json") for record in records])
        return
    first = records[0]
    title = f"{model} on {first.dataset.name}, {first.task}"
    print_table(*_shown(records), title=title)
    console.print(f"records: {out} (maghub report {out})", markup=False)


def settings_command(
    model: Annotated[str, typer.Argument(help="A registered model or retriever.")],
    task: Annotated[
        str | None,
        typer.Option(help="A registered task (default: node-classification, or kg-retrieval)."),
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Show what it sets.")] = None,
    json: Json = False,
) -> None:
    """What --set and --preset of maghub run can change, with defaults and meanings."""
    from maghub.run_settings import run_settings

    found = run_settings(model, task, preset=preset)
    if json:
        print_json(found.model_dump(mode="json"))
        return
    rows = [
        [one.name, _value(one.value), _changed(one), one.fits, _meaning(one)]
        for one in found.settings
    ]
    if preset is None:
        rows = [[name, value, fits, about] for name, value, _, fits, about in rows]
    header = ["setting", "value", *(["default"] if preset else []), "takes", "what"]
    print_table(header, rows, title=f"{model} on {found.task}")
    if found.presets:
        rows = [[name, about] for name, about in found.presets.items()]
        print_table(["preset", "what"], rows, title="presets")


def _value(value: object) -> str:
    """As ``--set`` reads it."""
    return yaml.safe_dump(value, default_flow_style=True).removesuffix("\n...\n").strip()


def _meaning(setting: Setting) -> str:
    """Its docstring in the words of the command line."""
    return re.sub(r"\bNone\b", "null", setting.about.replace("``", ""))


def _changed(setting: Setting) -> str:
    return "" if setting.value == setting.default else _value(setting.default)
