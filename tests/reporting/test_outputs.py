"""Terminal, Markdown, LaTeX, page and JSON say the same numbers, the same every time."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maghub.reporting import Report, latex, summarise, text, to_html, to_latex, to_markdown
from maghub.reporting.sheets import plain, sheet
from maghub.reporting.text import terminal
from maghub.results import append_records
from tests.reporting.records import record, seeds, showcase

Grid = list[list[str]]
NASTY = "a|b_c<i>&amp; `x` *y* $z$ 100% #1 {q} \\w ~ ^ [d](e) 猫"


class Tables(HTMLParser):
    """Texts of the cells of all tables of a page, without footnote marks."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[Grid] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag not in ("meta", "link"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"{tag} closes nothing"

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self._open) and "sup" not in self._open:
            self.tables[-1][-1][-1] += data


def html_tables(page: str) -> list[Grid]:
    """Result tables of a page: every other one, costs stand between them."""
    parser = Tables()
    parser.feed(page)
    parser.close()
    assert parser._open == []
    return [[[c.strip() for c in row] for row in grid] for grid in parser.tables[::2]]


def markdown_tables(page: str) -> list[Grid]:
    tables: list[Grid] = []
    previous = ""
    for line in page.splitlines():
        if line.startswith("|"):
            if not previous.startswith("|"):
                tables.append([])
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            cells = [re.sub(r" <sup>[a-z ]+</sup>$", "", cell) for cell in cells]
            cells = [re.sub(r"^\*\*(.*)\*\*$", r"\1", cell) for cell in cells]
            tables[-1].append([re.sub(r"\\(.)", r"\1", cell) for cell in cells])
        previous = line
    return [[rows[0], *rows[2:]] for rows in tables]


def latex_tables(page: str) -> list[Grid]:
    tables = []
    for body in re.findall(r"\\toprule\n(.*?)\\bottomrule", page, re.DOTALL):
        rows = [line[: -len(r" \\")] for line in body.splitlines() if line.endswith(r" \\")]
        tables.append([[_unlatex(cell) for cell in re.split(r" & ", row)] for row in rows])
    return tables


def _unlatex(cell: str) -> str:
    cell = re.sub(r"\\textsuperscript\{[a-z ]+\}$", "", cell.strip())
    cell = re.sub(r"^\$(?:\\mathbf\{)?([-0-9. \\pm]*)\}?\$$", r"\1", cell).replace(r"\pm", "±")
    cell = cell.replace("{[}", "[").replace("{*}", "*").replace("\\textbar{}", "|")
    for command, sign in (("textbackslash", "\\"), ("textasciitilde", "~"), ("dots", "…")):
        cell = cell.replace(f"\\{command}{{}}", sign)
    for command, sign in (("textasciicircum", "^"), ("textless", "<"), ("textgreater", ">")):
        cell = cell.replace(f"\\{command}{{}}", sign)
    return re.sub(r"\\([&%$#_{}])", r"\1", cell)


def json_numbers(report: Report) -> list[list[list[str]]]:
    """Per table and row, the numbers of the JSON as a table would show them."""
    data = json.loads(json.dumps(report.model_dump(mode="json")))
    found = []
    for block in data["blocks"]:
        rows = []
        for row in block["rows"]:
            cells = []
            for m in block["measures"]:
                cell = row["cells"].get(m["name"])
                texts = [] if cell is None else [cell["mean"]]
                texts += [] if cell is None or cell["std"] is None else [cell["std"]]
                cells.append(" ± ".join(f"{v * m['factor']:.{m['digits']}f}" for v in texts))
            rows.append(cells)
        found.append(rows)
    return found


def test_all_forms_say_the_same() -> None:
    other = [record(seed, metrics={"perplexity": 9.0 + seed}, model="lm") for seed in range(2)]
    records = [*showcase(), *seeds(0.3, 0.4, model=NASTY, preset=NASTY), *other]
    report = summarise(records)
    grids = html_tables(to_html(report))
    assert len(grids) == 2
    assert markdown_tables(to_markdown(report)) == grids
    assert latex_tables(to_latex(report)) == grids
    for block, grid, numbers in zip(report.blocks, grids, json_numbers(report), strict=True):
        header, rows, _ = text.terminal(sheet(block))
        bare = [[re.sub(r"\*?( \[[a-z ]+\])?$", "", cell) for cell in row] for row in rows]
        assert [header, *bare] == grid
        places = [grid[0].index(f"{m.title} {m.unit}".strip()) for m in block.measures]
        assert [[row[i] for i in places] for row in grid[1:]] == numbers


def test_the_numbers_are_those_of_the_records() -> None:
    values = [0.51234, 0.52345, 0.50111]
    (grid,) = html_tables(to_html(summarise(seeds(*values))))
    shown = dict(zip(grid[0], grid[1], strict=True))
    mean, std = 100 * statistics.fmean(values), 100 * statistics.stdev(values)
    assert shown["Accuracy %"] == f"{mean:.2f} ± {std:.2f}"
    assert shown["seeds"] == "3"
    (single,) = html_tables(to_html(summarise(seeds(0.51234))))
    assert dict(zip(single[0], single[1], strict=True))["Accuracy %"] == "51.23"


def test_footnotes_are_explained_in_every_form() -> None:
    report = summarise([*seeds(0.1, 0.2), *seeds(0.9, dataset={"split": "random-0"})])
    words = "Other split: random-0 (elsewhere openmag)"
    assert f"<sup>a</sup> {words}" in to_markdown(report)
    assert rf"\textsuperscript{{a}} {words}" in to_latex(report)
    assert f'<li id="b0-a"><sup>a</sup> {words}</li>' in to_html(report)
    assert '<a href="#b0-a">a</a>' in to_html(report)
    assert text.terminal(sheet(report.blocks[0]))[2][0] == f"[a] {words}"


def test_the_best_is_bold_or_has_a_star_that_is_explained() -> None:
    report = summarise([*seeds(0.5, 0.5), *seeds(0.6, 0.6, model="mlp")])
    assert "**60.00 ± 0.00**" in to_markdown(report)
    assert "**50.00" not in to_markdown(report)
    assert r"$\mathbf{60.00 \pm 0.00}$" in to_latex(report)
    assert "<strong>60.00 ± 0.00</strong>" in to_html(report)
    _, rows, below = text.terminal(sheet(report.blocks[0]))
    assert [row[2] for row in rows] == ["50.00 ± 0.00", "60.00 ± 0.00*"]
    assert below[0].startswith("* the best")


def test_what_all_rows_share_stands_below_the_table() -> None:
    made = sheet(summarise(seeds(0.1, 0.2, preset="planetoid")).blocks[0])
    assert made.header[:2] == ("model", "seeds")
    assert "All rows: setup preset planetoid" in made.lines
    assert "All rows: inputs text+image: clip-vit-large-patch14" in made.lines


def test_controls_stand_below_as_a_range_where_they_differ() -> None:
    records = [
        record(0, controls={"majority": 0.21, "chance": 0.05}),
        record(1, controls={"majority": 0.25, "chance": 0.05}),
    ]
    lines = sheet(summarise(records).blocks[0]).lines
    assert "Without training: majority 21.00 to 25.00 %, chance 5.00 %" in lines


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [(-0.001, 2, "0.00"), (12.345, 1, "12.3"), (-1.5, 2, "-1.50"), (99.999, 2, "100.00")],
)
def test_numbers_are_rounded_and_never_minus_zero(value: float, digits: int, shown: str) -> None:
    assert plain(value, digits) == shown


@settings(max_examples=100, deadline=None)
@given(
    st.text(
        st.sampled_from("\\&%$#_{}~^<>|*`[]… ±")
        | st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"])
    )
)
def test_escaping_keeps_any_name(name: str) -> None:
    name = " ".join(name.split())
    assert re.sub(r"\\(.)", r"\1", text.escape(name)) == name
    assert "|" not in re.sub(r"\\\|", "", text.escape(name).replace("\\\\", ""))
    escaped = latex.escape(name).replace("$\\pm$", "±")
    assert _unlatex(escaped) == name
    assert not re.search(r"(?<!\\)[&%$#_]", re.sub(r"\\textbackslash\{\}", "", escaped))


@pytest.mark.parametrize("name", ["[a] b", "*best", "a | b"])
def test_a_name_is_no_option_of_the_end_of_the_row_above(name: str) -> None:
    """LaTeX looks for ``[`` and ``*`` behind ``\\\\`` and ``\\midrule``, in the next line too."""
    found = to_latex(summarise([*seeds(0.5, 0.6), *seeds(0.5, 0.6, model=name)]))
    assert not re.search(r"^[\[*]", found, re.MULTILINE)
    assert "|" not in found
    assert name in [row[0] for row in latex_tables(found)[0]]


def test_names_cannot_become_markup() -> None:
    name = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    records = seeds(0.5, 0.6, model=name, preset=name, dataset={"name": name}, notes=[name])
    page = to_html(summarise(records))
    assert "<script" not in page
    assert "<img" not in page
    assert name in unescape(page)


@pytest.mark.parametrize(
    "changed",
    [
        {"metrics": {"accuracy": 1.7e308}},
        {"metrics": {"accuracy": math.nan, "mrr": -math.inf}},
        {"metrics": {"accuracy": 5e-324}},
        {"controls": {"majority": 1e308}},
        {"noise": {"text": math.nan}},
        {"noise": {"text": math.inf}},
        {"train_seconds": 1.7e308},
        *({name: 10**400} for name in ("epochs", "peak_cpu_bytes", "peak_gpu_bytes")),
    ],
    ids=str,
)
def test_numbers_that_measure_nothing_are_no_reason_to_stop(changed: dict[str, Any]) -> None:
    found = [record(seed, **{"noise": {"text": 0.3}, **changed}) for seed in range(2)]
    report = summarise([*seeds(0.5, 0.6), *found, *seeds(0.4, 0.5, noise={"text": 0.1})])
    for shown in (to_html(report), to_markdown(report), to_latex(report)):
        assert "50" in shown  # the others' results are there
    assert all(terminal(sheet(block)) for block in report.blocks)


def test_two_processes_write_the_same_bytes(tmp_path: Path) -> None:
    results = tmp_path / "r.jsonl"
    append_records(results, showcase())
    made = []
    for seed in ("1", "2"):
        out = tmp_path / seed
        out.mkdir()
        command = [str(Path(sys.executable).parent / "maghub"), "report", str(results)]
        command += [
            "--html",
            str(out / "h.html"),
            "--latex",
            str(out / "l.tex"),
            "--markdown",
            str(out / "m.md"),
        ]
        env = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([*command, "--json"], env=env, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr
        made.append([done.stdout, *(path.read_bytes() for path in sorted(out.iterdir()))])
    assert made[0] == made[1]
    assert made[0][1] == to_html(summarise(showcase())).encode()


@pytest.mark.integration
def test_latex_compiles(tmp_path: Path) -> None:
    compiler = shutil.which("pdflatex") or shutil.which("tectonic")
    if compiler is None:
        pytest.skip("no LaTeX here: apt-get install texlive-latex-recommended")
    name = NASTY.removesuffix("猫")
    records = [*showcase(), *seeds(0.3, 0.4, model=name, preset=name, notes=[name])]
    tables = to_latex(summarise(records))
    document = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n"
    (tmp_path / "t.tex").write_text(f"{document}{tables}\\end{{document}}\n", "utf-8")
    command = [compiler, *(["-halt-on-error"] if "pdflatex" in compiler else []), "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:]
