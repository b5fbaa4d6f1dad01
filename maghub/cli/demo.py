"""``maghub demo``: the whole chain on the bundled graph, and a small CLeGR set, up to scores."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from maghub import layout
from maghub.cli.output import console, print_json, print_table
from maghub.errors import MaghubError

ENCODERS = {layout.TEXT: "all-minilm-l6-v2", layout.IMAGE: "efficientnet-lite0"}
MODELS = ("mlp", "gcn")
SEEDS = (0, 1, 2)
TASK, PRESET = "node-classification", "full-batch"
CLEGR_GRAPHS = 50


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("demo")(demo_command)


@contextmanager
def _step(title: str) -> Iterator[None]:
    console.print(f"- {title} ...", markup=False)
    begin = time.monotonic()
    yield
    console.print(f"  done in {time.monotonic() - begin:.1f} s", markup=False)


def demo_command(
    out: Annotated[Path, typer.Option(help="Where the demo's folders go.")] = Path("demo-out"),
    raw_dir: Annotated[
        Path | None, typer.Option(help="Folder with the two npm packages (default: bundled).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON at the end.")] = False,
) -> None:
    """Build, encode, validate, load and train on the bundled emoji graph; then a CLeGR set."""
    begin = time.monotonic()
    folder = out / "emoji"
    _make(folder, raw_dir)
    counts = _read_back(folder)
    rows, levels = _train(folder)
    questions = _clegr(out / "clegr")
    if json:
        results = {"folder": str(folder), "counts": counts, "levels": levels, "results": rows}
        print_json({**results, "clegr": questions})
        return
    header = ["model", "input", f"test accuracy over {len(SEEDS)} seeds"]
    table = [[row["model"], row["input"], row["accuracy"]] for row in rows]
    title = (
        f"emoji: {counts['nodes']:,} nodes, {counts['edges']:,} edges; "
        f"chance {levels['chance']:.3f}, majority {levels['majority']:.3f}"
    )
    print_table(header, table, title=title)
    console.print(_verdict(rows), markup=False)
    console.print(f"dataset: {folder.resolve()} (card: {folder / 'README.md'})", markup=False)
    console.print(
        f"CLeGR: {questions['questions']:,} test questions, per-template majority "
        f"{questions['accuracy']:.3f}; map: {questions['map']}",
        markup=False,
    )
    console.print(f"total {time.monotonic() - begin:.0f} s", markup=False)


def _make(folder: Path, raw_dir: Path | None) -> None:
    """Build, encode with both encoders, validate."""
    from maghub.building import build
    from maghub.encoding import encode
    from maghub.validation import validate

    with _step("build emoji"):
        build("emoji", folder, raw_dir, workers=2, overwrite=True)
    for modality, encoder in ENCODERS.items():
        with _step(f"encode {modality} with {encoder}"):
            encode(folder, encoder)
    with _step("validate"):
        report = validate(folder)
        if not report.ok:
            raise MaghubError(
                f"{len(report.problems)} problems", where=folder, fix=f"maghub validate {folder}"
            )


def _read_back(folder: Path) -> dict[str, int]:
    """Load with plain ``datasets``, as any user would."""
    from datasets import load_dataset

    with _step("read it back with datasets.load_dataset"):
        nodes = load_dataset(str(folder))
        edges = load_dataset(str(folder), "edges", split="full")
        size = nodes["train"][0]["image"].size
        console.print(f"  first training node: {nodes['train'][0]['text']!r}, {size}", markup=False)
    return {"nodes": sum(len(split) for split in nodes.values()), "edges": len(edges)}


def _clegr(folder: Path) -> dict[str, Any]:
    """Generate a small question set, load it, draw one map and score the majority answers."""
    from datasets import load_dataset

    from maghub.building import build
    from maghub.clegr.draw import draw_graph
    from maghub.clegr.loading import find_graph
    from maghub.clegr.majority import majority_predictions
    from maghub.clegr.scorer import score

    with _step(f"generate CLeGR reasoning questions over {CLEGR_GRAPHS} subway maps"):
        build(
            "clegr",
            folder,
            overwrite=True,
            graphs=CLEGR_GRAPHS,
            domain="subway",
            question_set="reasoning",
            size="small",
        )
    with _step("load them with datasets.load_dataset, draw one map, score the majority"):
        asked = load_dataset(str(folder))
        _, map_file = draw_graph(find_graph(folder, None, "0"), folder.parent / "clegr-map")
        predictions = majority_predictions(asked["train"], asked["test"])
        report = score(asked["test"], predictions).to_dict()
        first = asked["train"][0]
        line = f"  {first['question'].splitlines()[0]!r}: {first['answer']!r}"
        console.print(line, markup=False)
    accuracy = {name: part["accuracy"] for name, part in report["by_subgroup"].items()}
    return {
        "folder": str(folder),
        "map": str(map_file),
        "questions": report["questions"],
        "accuracy": report["accuracy"],
        "by_subgroup": accuracy,
    }


def _train(folder: Path) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """MLP and GCN over three seeds, and 5-NN, on text, image and both."""
    from maghub import registry
    from maghub.loading import load
    from maghub.running import run

    kind = registry.get("tasks", TASK)
    rows: list[dict[str, Any]] = []
    levels: dict[str, float] = {}
    with _step(f"train {', '.join(MODELS)} on {len(SEEDS)} seeds"):
        for chosen in ((layout.TEXT,), (layout.IMAGE,), layout.MODALITIES):
            encoders = {modality: ENCODERS[modality] for modality in chosen}
            task = kind(load(folder), encoders, kind.Config(scale="standard"))
            levels, label = task.controls(), " + ".join(chosen)
            rows.append(_row("5-nn", label, [task.nearest_neighbours()]))
            for model in MODELS:
                records = run(model, folder, TASK, encoder=encoders, seeds=SEEDS, preset=PRESET)
                rows.append(_row(model, label, [r.metrics["accuracy"] for r in records]))
    return rows, levels


def _row(model: str, label: str, scores: list[float]) -> dict[str, Any]:
    mean = statistics.fmean(scores)
    spread = f" ± {statistics.stdev(scores):.3f}" if len(scores) > 1 else ""
    text = f"{mean:.3f}{spread}"
    return {"model": model, "input": label, "accuracy": text, "mean": mean, "scores": scores}


def _verdict(rows: list[dict[str, Any]]) -> str:
    """Whether edges and fusion helped, as measured."""
    mean = {(row["model"], row["input"]): row["mean"] for row in rows}
    both = " + ".join(layout.MODALITIES)
    graph = mean["gcn", both] - mean["mlp", both]
    fusion = mean["mlp", both] - max(mean["mlp", m] for m in layout.MODALITIES)
    return (
        f"measured: GCN minus MLP on both modalities {graph:+.3f}; "
        f"both modalities minus the better one (MLP) {fusion:+.3f}"
    )
