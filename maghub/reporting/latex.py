"""Reports as LaTeX tables for the package booktabs."""

from __future__ import annotations

from maghub.reporting.model import Report
from maghub.reporting.sheets import ABOUT, PLUS_MINUS, Entry, Sheet, note_text, sheet

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "…": r"\dots{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{c: "\\" + c for c in "&%$#_{}"},
    # Behind the end of a row these would be its options, wherever the next row begins.
    **{c: f"{{{c}}}" for c in "[*"},
}


def to_latex(report: Report) -> str:
    """One ``table`` environment per dataset and task, the best in bold; needs booktabs."""
    head = ["% \\usepackage{booktabs}", f"% {ABOUT.replace('Best:', 'Bold:')}"]
    return "\n".join([*head, *(line for block in report.blocks for line in _table(sheet(block)))])


def _table(found: Sheet) -> list[str]:
    columns = "".join("r" if right else "l" for right in found.numeric)
    lines = [
        "",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape(found.title)}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _line([escape(name) for name in found.header]),
        r"\midrule",
        *(_line([_cell(entry) for entry in row]) for row in found.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    below = [rf"\textsuperscript{{{n.letter}}} {escape(note_text(n))}" for n in found.notes]
    below += [escape(line) for line in found.lines]
    if below:
        lines += ["", r"\smallskip", r"\begin{minipage}{\linewidth}\footnotesize"]
        lines += [rf"{text}\par" for text in below]
        lines.append(r"\end{minipage}")
    return [*lines, r"\end{table}", ""]


def _line(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _cell(entry: Entry) -> str:
    if entry.number:
        text = entry.text.replace(PLUS_MINUS, r" \pm ")
        if text:
            text = rf"$\mathbf{{{text}}}$" if entry.best else f"${text}$"
    else:
        text = escape(entry.text)
    letters = rf"\textsuperscript{{{' '.join(entry.letters)}}}" if entry.letters else ""
    return text + letters


def escape(text: str) -> str:
    """Text that LaTeX sets as it is, on one line."""
    return "".join(_SPECIAL.get(c, c) for c in " ".join(text.split()))
