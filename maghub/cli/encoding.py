"""Commands about vectors: encode, quality."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from maghub.cli.datasets import Json
from maghub.cli.output import HTML, console, print_json, print_table

Folder = Annotated[Path, typer.Argument(help="A published folder.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("encode")(encode_command)
    app.command("quality")(quality_command)


def _batch_size(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"'{text}' is neither auto nor a number from 1")
    return int(text)


def encode_command(
    folder: Folder,
    encoder: Annotated[str, typer.Option(help="Encoder name, or one like timm:resnet18.")],
    modality: Annotated[
        str | None, typer.Option(help="text, image or text,image (default: all it can).")
    ] = None,
    batch_size: Annotated[
        str, typer.Option(help="Inputs per batch: a number, or auto.", metavar="auto|N")
    ] = "auto",
    device: Annotated[str, typer.Option(help="torch device, or auto.")] = "auto",
    dtype: Annotated[
        str | None, typer.Option(help="Precision to compute in: float32, bfloat16 or float16.")
    ] = None,
    model_path: Annotated[
        Path | None, typer.Option(help="Local folder with the model's files.")
    ] = None,
    project: Annotated[
        int | None, typer.Option(min=1, help="Width of a seeded random projection.")
    ] = None,
    resume: Annotated[
        bool, typer.Option(help="Go on from what an interrupted run has finished.")
    ] = True,
    engine: Annotated[str, typer.Option(help="local or ray; both give the same bytes.")] = "local",
    address: Annotated[
        str | None, typer.Option(help="A Ray cluster (default: this machine).")
    ] = None,
    json: Json = False,
) -> None:
    """Add the vectors of an encoder to a published folder."""
    from maghub.encoding import encode

    spec = encode(
        folder,
        encoder,
        modality.split(",") if modality else None,
        device=device,
        dtype=dtype,
        model_path=model_path,
        batch_size=_batch_size(batch_size),
        projection=project,
        resume=resume,
        engine=engine,
        address=address,
    )
    newest = spec.encoders[-1].encoder
    made = [item for item in spec.encoders if item.encoder == newest]
    if json:
        shown = [item.model_dump(mode="json") for item in made]
        print_json(shown[0] if len(shown) == 1 else shown)
        return
    rows = [
        [one.config, m, one.dim[m], one.missing[m], one.truncated_texts if m == "text" else "-"]
        for one in made
        for m in one.modalities
    ]
    print_table(["config", "modality", "width", "missing", "cut texts"], rows)


def quality_command(
    folder: Folder,
    encoder: Annotated[
        str | None, typer.Option(help="One encoder (default: all of the folder).")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a picture (.png, .svg, .pdf).")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with tables and plots.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sample of large datasets.")] = 0,
    json: Json = False,
) -> None:
    """How good the vectors of a folder are: norms, rank, neighbours, text against image."""
    from maghub.files import check_output, check_outside
    from maghub.quality import quality, tables, write_html, write_plot

    if html is not None:
        check_output(html, HTML)
    if plot is not None:
        check_outside(plot)
    reports = quality(folder, encoder, seed=seed)
    if plot is not None:
        write_plot(reports, plot)
    if html is not None:
        write_html(reports, html)
    if json:
        print_json([report.model_dump(mode="json") for report in reports])
        return
    for title, header, rows in tables(reports):
        print_table(header, rows, title=title)
    for path in (plot, html):
        if path is not None:
            console.print(f"written: {path}", markup=False)
