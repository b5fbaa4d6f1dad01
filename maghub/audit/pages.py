"""The report as one HTML page that needs nothing else, with the pictures it speaks of."""

from __future__ import annotations

import base64
import io
from html import escape
from pathlib import Path

from PIL import Image

from maghub import layout
from maghub.audit.report import Check, Example, Report
from maghub.audit.subject import Subject
from maghub.files import os_errors, write_text
from maghub.images import decode
from maghub.loading import load

THUMBNAIL = 96
_STYLE = (
    ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;"
    "margin:2rem auto;padding:0 1rem}table{border-collapse:collapse;margin:1rem 0;width:100%}"
    "td,th{border:1px solid #8888;padding:.3rem .6rem;text-align:left;vertical-align:top}"
    "b{border-radius:.3rem;padding:.1rem .5rem;color:#fff;background:#777}"
    "b.ok{background:#187a3c}b.warn{background:#a15c00}b.fail{background:#b3261e}"
    "figure{display:inline-block;margin:.5rem 1rem .5rem 0;max-width:22rem;vertical-align:top}"
    "figure img{height:96px;margin-right:.4rem;background:#fff;border:1px solid #8888}"
    "figcaption{font-size:13px;overflow-wrap:anywhere}small{opacity:.75}"
)


def write_html(report: Report, name: str | Path, path: Path) -> None:
    """Write the page.

    Args:
        report: What ``run`` found.
        name: The dataset it was run on, for the pictures.
        path: The file to write.
    """
    with os_errors(path):
        write_text(path, page(report, _thumbnails(report, name)))


def page(report: Report, pictures: dict[int, str]) -> str:
    """The text of the page; ``pictures`` maps node ids to data URLs."""
    rows = "".join(
        f'<tr><td>{_badge(check)}</td><td><a href="#c{i}">{escape(check.name)}</a></td>'
        f"<td>{escape(check.summary)}</td></tr>"
        for i, check in enumerate(report.checks)
    )
    split = f"node split {report.node_split}, " if report.node_split else ""
    details = "".join(_section(i, c, pictures) for i, c in enumerate(report.checks) if c.rule)
    title = escape(f"{report.dataset}: audit")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>"
        f"<p>{escape(split)}seed {report.seed}</p>"
        f"<table><tr><th>verdict</th><th>check</th><th>found</th></tr>{rows}</table>"
        f"{details}</body></html>\n"
    )


def _badge(check: Check) -> str:
    return f'<b class="{check.verdict}">{check.verdict}</b>'


def _section(number: int, check: Check, pictures: dict[int, str]) -> str:
    examples = "".join(_figure(example, pictures) for example in check.examples)
    return (
        f'<h2 id="c{number}">{escape(check.name)} {_badge(check)}</h2>'
        f"<p>{escape(check.summary)}<br><small>{escape(check.rule)}</small></p>{examples}"
    )


def _figure(example: Example, pictures: dict[int, str]) -> str:
    ids = example.ids if example.of == "nodes" else ()
    images = "".join(
        f'<img src="{pictures[node]}" alt="picture of node {node}">'
        for node in ids
        if node in pictures
    )
    return f"<figure>{images}<figcaption>{escape(example.text)}</figcaption></figure>"


def _thumbnails(report: Report, name: str | Path) -> dict[int, str]:
    """Small pictures of the nodes that examples name."""
    wanted = {
        node
        for check in report.checks
        for example in check.examples
        if example.of == "nodes"
        for node in example.ids
    }
    mag = load(name)
    nodes = mag.spec.of_kind("nodes")
    if not wanted or not nodes or layout.IMAGE not in nodes[0].features:
        return {}
    subject = Subject(mag, report.seed, 0)
    found: dict[int, str] = {}
    for node, data in subject.images():
        if node in wanted and (image := decode(data)) is not None:
            found[node] = _data_url(image)
    return found


def _data_url(image: Image.Image) -> str:
    image.thumbnail((THUMBNAIL, THUMBNAIL))
    out = io.BytesIO()
    image.save(out, "PNG")
    return f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}"
