"""One picture per report: lengths, spectrum, label agreement, text against image."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maghub.errors import MaghubError, MissingExtra
from maghub.files import os_errors, write_bytes
from maghub.quality.report import Alignment, ColumnQuality, EncoderQuality, Histogram, Neighbours

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREY = "#4477aa", "#ee7733", "#bbbbbb"
PANELS = 4
FORMATS = (".png", ".svg", ".pdf")


def figure(reports: Sequence[EncoderQuality]) -> Figure:
    """A row of panels per encoder and modality.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plot") from None
    rows = [(report, column) for report in reports for column in report.columns]
    made = Figure(figsize=(3.4 * PANELS, 2.7 * len(rows)), layout="constrained")
    axes = made.subplots(len(rows), PANELS, squeeze=False)
    for row, (report, column) in zip(axes, rows, strict=True):
        _bars(row[0], column.norm_histogram, BLUE)
        row[0].set(title=f"{report.encoder}\n{column.modality}", xlabel="norm", ylabel="rows")
        _spectrum(row[1], column)
        _neighbours(row[2], column.neighbours)
        _alignment(row[3], report.alignment)
    return made


def _bars(axis: Any, histogram: Histogram, colour: str, label: str | None = None) -> None:
    edges = histogram.edges
    axis.bar(
        edges[:-1],
        histogram.counts,
        width=[high - low for low, high in pairwise(edges)],
        align="edge",
        color=colour,
        alpha=0.7,
        label=label,
    )


def _spectrum(axis: Any, column: ColumnQuality) -> None:
    axis.plot(range(1, len(column.spectrum) + 1), column.spectrum, color=BLUE)
    axis.set(
        title=f"effective rank {column.effective_rank:.0f} of {column.width}",
        xlabel="singular value",
        ylabel="share of the sum",
        yscale="log" if any(column.spectrum) else "linear",
    )


def _neighbours(axis: Any, found: Neighbours | None) -> None:
    if found is None:
        axis.set_axis_off()
        return
    names = ["agreement", "chance", "accuracy", "majority"]
    values = [found.agreement, found.chance, found.accuracy, found.majority]
    axis.bar(names, values, color=[BLUE, GREY, BLUE, GREY])
    axis.set(title=f"labels of {found.k} nearest", ylim=(0, 1))
    axis.tick_params(axis="x", labelrotation=30)


def _alignment(axis: Any, found: Alignment | None) -> None:
    if found is None:
        axis.set_axis_off()
        return
    _bars(axis, found.shuffled_histogram, GREY, f"shuffled {found.shuffled:.2f}")
    _bars(axis, found.paired_histogram, ORANGE, f"paired {found.paired:.2f}")
    axis.set(title="text against image", xlabel="cosine", ylabel="pairs")
    axis.legend(fontsize="small")


def drawn(reports: Sequence[EncoderQuality], form: str) -> bytes:
    """The picture as a file of a format (png, svg or pdf); equal reports give equal bytes."""
    made = figure(reports)
    from matplotlib import rc_context

    out = io.BytesIO()
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)
    with rc_context({"svg.hashsalt": "maghub"}):
        made.savefig(out, format=form, dpi=110, metadata=metadata)
    return out.getvalue()


def write_plot(reports: Sequence[EncoderQuality], path: Path) -> None:
    """Write the picture; the file's ending says the format.

    Raises:
        MissingExtra: matplotlib is not installed.
        MaghubError: Another ending, or the disk refuses.
    """
    if path.suffix.lower() not in FORMATS:
        raise MaghubError(
            "is not a picture's name", where=path, fix=f"end it with one of {', '.join(FORMATS)}"
        )
    data = drawn(reports, path.suffix.lower()[1:])
    with os_errors(path):
        write_bytes(path, data)
