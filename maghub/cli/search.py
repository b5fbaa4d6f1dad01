"""The command search: nodes nearest to a text or a picture; ``search build`` keeps an index.

``maghub search FOLDER "text"`` and ``maghub search build FOLDER`` share a name: what does not start
with a verb of the group is a query. (A folder called ``build`` is ``./build``.)
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from maghub.cli.datasets import Json
from maghub.cli.output import console, print_json, print_table

QUERY = "query"
SHOWN_CHARS = 80
Source = Annotated[
    str, typer.Argument(metavar="FOLDER|REPO", help="Folder, sample, or repo on the Hub.")
]
Metric = Annotated[str, typer.Option(help="cosine or ip (inner product).")]


class _QueryByDefault(TyperGroup):
    """A group whose first argument may be left out: then it is ``query``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args = [QUERY, *args]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    """Add the group ``search``."""
    commands = typer.Typer(
        cls=_QueryByDefault,
        help='Nearest nodes: maghub search FOLDER "text", or maghub search FOLDER --image FILE.',
        no_args_is_help=True,
    )
    commands.command(QUERY)(query_command)
    commands.command("build")(build_command)
    app.add_typer(commands, name="search")


def query_command(
    folder: Source,
    text: Annotated[str | None, typer.Argument(help="What to look for.")] = None,
    image: Annotated[Path | None, typer.Option(help="A picture to look for instead.")] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Whose vectors (default: the first that fit).")
    ] = None,
    modality: Annotated[
        str | None, typer.Option(help="Search text or image vectors (default: the query's kind).")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many.")] = 10,
    kind: Annotated[
        str | None, typer.Option(help="Kept index: flat, ivf or hnsw (default: any, else none).")
    ] = None,
    metric: Metric = "cosine",
    index: Annotated[Path | None, typer.Option(help="Folder of an index kept elsewhere.")] = None,
    sheet: Annotated[
        Path | None, typer.Option(help="Write the pictures found to one .png or .jpg.")
    ] = None,
    device: Annotated[str, typer.Option(help="torch device of the encoder, or auto.")] = "auto",
    model_path: Annotated[
        Path | None, typer.Option(help="Local folder with the encoder's files.")
    ] = None,
    json: Json = False,
) -> None:
    """Nodes nearest to a text or a picture (the default: `query` may be left out)."""
    from maghub.files import check_outside
    from maghub.search import find
    from maghub.search.sheet import picture_format, write_sheet

    if (text is None) == (image is None):
        raise typer.BadParameter("give either a text or --image FILE", param_hint="query")
    if sheet is not None:
        picture_format(sheet)
        check_outside(sheet)
    options: dict[str, Any] = {"kind": kind, "metric": metric}
    hits = find(
        folder,
        text,
        image=image,
        encoder=encoder,
        modality=modality,
        k=k,
        index=index,
        device=device,
        model_path=model_path,
        **options,
    )
    if sheet is not None:
        write_sheet(folder, hits, sheet, encoder)
    if json:
        print_json([hit.to_dict() for hit in hits])
        return
    rows = [[hit.rank, f"{hit.score:.4f}", str(hit.id), _shown(hit.text)] for hit in hits]
    print_table(["rank", "score", "node", "text"], rows)
    if sheet is not None:
        console.print(f"written: {sheet}", markup=False)


def _shown(text: str) -> str:
    """The beginning of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARS else line[: SHOWN_CHARS - 3] + "..."


def build_command(
    folder: Source,
    encoder: Annotated[str | None, typer.Option(help="Whose vectors (default: the first).")] = None,
    modality: Annotated[str | None, typer.Option(help="text or image.")] = None,
    kind: Annotated[
        str, typer.Option(help="flat (exact), ivf or hnsw (faster, approximate).")
    ] = "flat",
    metric: Metric = "cosine",
    nlist: Annotated[int | None, typer.Option(min=1, help="IVF: number of lists.")] = None,
    nprobe: Annotated[int | None, typer.Option(min=1, help="IVF: lists searched.")] = None,
    m: Annotated[int, typer.Option(min=2, help="HNSW: links per vector.")] = 32,
    ef_construction: Annotated[int, typer.Option(min=1, help="HNSW: breadth of building.")] = 80,
    ef_search: Annotated[int, typer.Option(min=1, help="HNSW: breadth of searching.")] = 64,
    threads: Annotated[
        int, typer.Option(min=1, help="HNSW: above 1 it builds faster, another graph each time.")
    ] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of IVF.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the index (default: in FOLDER/.search).")
    ] = None,
    json: Json = False,
) -> None:
    """Build an index of a folder's vectors and keep it for later searches."""
    from maghub.search import Options, build_index
    from maghub.search.storage import read_record

    options = Options(
        nlist=nlist,
        nprobe=nprobe,
        m=m,
        ef_construction=ef_construction,
        ef_search=ef_search,
        threads=threads,
    )
    chosen: dict[str, Any] = {"kind": kind, "metric": metric}
    place = build_index(folder, encoder, modality, options=options, seed=seed, out=out, **chosen)
    record = read_record(place)
    if json:
        print_json({"folder": str(place), **record.model_dump(mode="json")})
        return
    size = sum((place / name).stat().st_size for name in record.files)
    console.print(
        f"built {place}: {record.kind}, {record.metric}, {record.vectors:,} of {record.rows:,} "
        f"vectors of {record.dim} {record.dtype}, {size:,} bytes",
        markup=False,
        soft_wrap=True,
    )
