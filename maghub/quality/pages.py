"""Reports as tables for a terminal and as a page that stands alone."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

from maghub.files import os_errors, write_text
from maghub.quality.plots import drawn
from maghub.quality.report import EncoderQuality

Table = tuple[str, list[str], list[list[object]]]
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{border:1px solid #ccc;padding:.3rem .6rem}"
    "td:not(:first-child){text-align:right}img{max-width:100%}"
)


def _share(value: float) -> str:
    return f"{value:.3f}"


def _counts(report: EncoderQuality) -> list[list[object]]:
    return [
        [
            report.encoder,
            column.modality,
            column.rows,
            column.without,
            column.zeros,
            f"{column.measured:,}" + (" (sample)" if column.sampled else ""),
            column.duplicates,
        ]
        for column in report.columns
    ]


def _shape(report: EncoderQuality) -> list[list[object]]:
    return [
        [
            report.encoder,
            column.modality,
            column.width,
            f"{column.effective_rank:.1f}",
            *(f"{column.norms[key]:.3g}" for key in ("p5", "p50", "p95")),
        ]
        for column in report.columns
        if column.norms
    ]


def _labels(report: EncoderQuality) -> list[list[object]]:
    return [
        [
            report.encoder,
            column.modality,
            found.k,
            found.rows,
            _share(found.agreement),
            _share(found.chance),
            _share(found.accuracy),
            _share(found.majority),
        ]
        for column in report.columns
        if (found := column.neighbours) is not None
    ]


def _pairs(report: EncoderQuality) -> list[list[object]]:
    found = report.alignment
    if found is None:
        return []
    ways = (found.text_to_image, found.image_to_text)
    scores = [_share(value) for way in ways for value in (way.recall_at_1, way.mrr)]
    cosines = [_share(found.paired), _share(found.shuffled)]
    return [[report.encoder, found.pairs, *cosines, *scores]]


_ROWS = ("encoder", "modality", "rows", "without", "zeros", "measured", "duplicates")
_SHAPE = ("encoder", "modality", "width", "effective rank", "norm 5%", "50%", "95%")
_LABELS = ("encoder", "modality", "k", "rows", "agreement", "chance", "accuracy", "majority")
_PAIRS = ("encoder", "pairs", "paired", "shuffled", "text R@1", "MRR", "image R@1", "MRR")
_MEASURED = (
    ("rows", _ROWS, _counts),
    ("vectors", _SHAPE, _shape),
    ("labels of the nearest rows", _LABELS, _labels),
    ("text against image", _PAIRS, _pairs),
)


def tables(reports: Sequence[EncoderQuality]) -> list[Table]:
    """(title, header, rows) of everything that was measured; empty tables are left out."""
    found = [
        (title, list(header), [row for report in reports for row in make(report)])
        for title, header, make in _MEASURED
    ]
    return [table for table in found if table[2]]


def _html_table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<h2>{escape(title)}</h2><table><tr>{head}</tr>{body}</table>"


def write_html(reports: Sequence[EncoderQuality], path: Path) -> None:
    """Write a page with all tables and the picture in it.

    Raises:
        MissingExtra: matplotlib is not installed.
        MaghubError: The disk refuses.
    """
    name = escape(reports[0].dataset)
    picture = base64.b64encode(drawn(reports, "png")).decode()
    parts = "".join(_html_table(*table) for table in tables(reports))
    seed, rows = reports[0].seed, reports[0].sample_rows
    text = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{name}: vectors</title>'
        f"<style>{_STYLE}</style><h1>{name}: quality of the vectors</h1>"
        f"<p>Exact up to {rows:,} rows with a vector, a sample with seed {seed} above.</p>"
        f'{parts}<p><img alt="norms, spectrum, labels, alignment" '
        f'src="data:image/png;base64,{picture}"></p></html>\n'
    )
    with os_errors(path):
        write_text(path, text)
