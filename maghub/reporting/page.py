"""The report as one HTML page that needs nothing else: tables, footnotes and pictures."""

from __future__ import annotations

from html import escape

from maghub.reporting.charts import Chart, bars, lines, scatter, sweeps
from maghub.reporting.model import Block, Report
from maghub.reporting.sheets import ABOUT, Entry, Sheet, costs, note_text, sheet

OPEN_PICTURES = 2
_STYLE = (
    ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:76rem;"
    "margin:1.5rem auto;padding:0 1rem;overflow-wrap:anywhere}h1,h2{line-height:1.2}"
    ".wide{overflow-x:auto;margin:1rem 0}table{border-collapse:collapse;overflow-wrap:normal}"
    "caption{text-align:left;font-weight:600;padding:.3rem 0}"
    "th,td{border:1px solid #8888;padding:.25rem .6rem;text-align:left;vertical-align:top}"
    "thead th{background:#8882}tbody th{font-weight:400}"
    ".n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}"
    ".notes{list-style:none;padding:0;font-size:14px}nav ul{columns:18rem;padding-left:1.2rem}"
    ".pictures{display:flex;flex-wrap:wrap;gap:1rem}"
    "figure{margin:0;flex:0 1 380px;min-width:min(100%,280px)}figcaption{font-size:13px}"
    "svg{width:100%;height:auto;display:block}svg text{font-size:11px;fill:currentColor}"
    ".grid{stroke:currentColor;opacity:.15}.axis{stroke:currentColor}"
    ".error{stroke-width:1.3}line.error:not([stroke]){stroke:currentColor}"
    ".series{fill:none;stroke-width:2}summary{cursor:pointer;margin:.6rem 0}"
)


def to_html(report: Report) -> str:
    """The text of the page."""
    links = "".join(
        f'<li><a href="#b{i}">{escape(block.title)}</a></li>'
        for i, block in enumerate(report.blocks)
    )
    contents = f'<nav aria-label="Tables"><ul>{links}</ul></nav>' if len(report.blocks) > 1 else ""
    sections = "".join(_section(i, block) for i, block in enumerate(report.blocks))
    runs = "1 run" if report.records == 1 else f"{report.records:,} runs"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<link rel="icon" href="data:,"><title>maghub: results</title>'
        f"<style>{_STYLE}</style></head><body><main><h1>Results of {runs}</h1>"
        f"<p>{escape(ABOUT.replace('Best:', 'Bold:'))}</p>{contents}{sections}"
        "</main></body></html>\n"
    )


def _section(number: int, block: Block) -> str:
    ident, results = f"b{number}", sheet(block)
    return (
        f'<section aria-labelledby="{ident}"><h2 id="{ident}">{escape(block.title)}</h2>'
        f"{_table(results, ident)}{_below(results, ident)}{_pictures(block, ident)}"
        f"<details><summary>Time, memory, size</summary>{_table(costs(block), ident)}</details>"
        "</section>\n"
    )


def _table(found: Sheet, ident: str) -> str:
    numeric = found.numeric
    head = "".join(
        f'<th scope="col"{_css(right)}>{escape(name)}</th>'
        for name, right in zip(found.header, numeric, strict=True)
    )
    body = "".join(_row(row, numeric, ident) for row in found.rows)
    name = escape(found.title)
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{name}"><table>'
        f"<caption>{name}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(row: tuple[Entry, ...], numeric: list[bool], ident: str) -> str:
    first, *others = row
    cells = [f'<th scope="row">{_cell(first, ident)}</th>']
    cells += [
        f"<td{_css(right)}>{_cell(entry, ident)}</td>"
        for entry, right in zip(others, numeric[1:], strict=True)
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _css(right: bool) -> str:
    return ' class="n"' if right else ""


def _cell(entry: Entry, ident: str) -> str:
    text = escape(entry.text)
    if entry.best:
        text = f"<strong>{text}</strong>"
    marks = " ".join(f'<a href="#{ident}-{letter}">{letter}</a>' for letter in entry.letters)
    return text + (f" <sup>{marks}</sup>" if marks else "")


def _below(found: Sheet, ident: str) -> str:
    notes = "".join(
        f'<li id="{ident}-{n.letter}"><sup>{n.letter}</sup> {escape(note_text(n))}</li>'
        for n in found.notes
    )
    lines = "".join(f"<li>{escape(line)}</li>" for line in found.lines)
    return f'<ul class="notes">{notes}{lines}</ul>' if notes or lines else ""


def _pictures(block: Block, ident: str) -> str:
    """Bars of the first metrics, sweeps, cost; the bars of further metrics folded away."""
    drawn = [bars(block, m, f"{ident}-m{i}") for i, m in enumerate(block.measures)]
    first, further = drawn[:OPEN_PICTURES], drawn[OPEN_PICTURES:]
    for j, (kind, series) in enumerate(sweeps(block).items()):
        for i, measure in enumerate(block.measures):
            made = lines(block, kind, series, measure, f"{ident}-n{j}-{i}")
            (first if i < OPEN_PICTURES else further).append(made)
    first.append(scatter(block, f"{ident}-cost"))
    text = _figures(first)
    if any(further):
        text += f"<details><summary>Further metrics</summary>{_figures(further)}</details>"
    return text


def _figures(charts: list[Chart | None]) -> str:
    figures = "".join(
        f"<figure>{chart.picture}<figcaption>{escape(chart.caption)}</figcaption></figure>"
        for chart in charts
        if chart is not None
    )
    return f'<div class="pictures">{figures}</div>' if figures else ""
