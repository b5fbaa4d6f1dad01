"""A block as a table of texts: the one place where numbers become words.

Terminal, Markdown, LaTeX and the page all print these texts, so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from maghub.reporting.model import Block, Measure, Note, PaperNumber, Row, Statistic

PLUS_MINUS = " ± "
ABOUT = (
    "Mean ± sample standard deviation over seeds; no ± where there is one seed. Only runs that "
    "differ in nothing but the seed are averaged. Best: the best of the rows without noise that "
    "no note forbids to compare."
)


@dataclass(frozen=True)
class Entry:
    """A cell: its text, whether it is the best of its column, letters of notes, and if a number."""

    text: str
    best: bool = False
    letters: tuple[str, ...] = ()
    number: bool = False


@dataclass(frozen=True)
class Sheet:
    """A table with what stands below it.

    Attributes:
        title: Dataset and task.
        header: Names of the columns.
        rows: As wide as the header.
        notes: Footnotes by letter.
        lines: What else is said below: controls, sources of the papers' numbers.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    notes: tuple[Note, ...] = ()
    lines: tuple[str, ...] = ()

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold numbers alone."""
        return [all(row[i].number for row in self.rows) for i in range(len(self.header))]


def shown(value: Statistic | PaperNumber | None, measure: Measure) -> str:
    """``52.84 ± 0.40``, without the deviation where there is none; empty for nothing."""
    if value is None:
        return ""
    mean = plain(value.mean * measure.factor, measure.digits)
    if value.std is None:
        return mean
    return f"{mean}{PLUS_MINUS}{plain(value.std * measure.factor, measure.digits)}"


def plain(value: float, digits: int) -> str:
    """A number with so many digits after the point; never minus zero."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def sheet(block: Block) -> Sheet:
    """The results of a block; what is the same in all rows stands below instead of in a column."""
    leading = [c for c in _LEADING if c[0] == "model" or len({c[1](r) for r in block.rows}) > 1]
    header = [name for name, _ in leading] + ["seeds"]
    printed = {m.name: _printed(block, m) for m in block.measures}
    for measure in block.measures:
        header.append(f"{measure.title} {measure.unit}".strip())
        if printed[measure.name]:
            header.append(f"paper: {measure.title} ({', '.join(printed[measure.name])})")
    rows = []
    for row in block.rows:
        cells = [Entry(read(row)) for _, read in leading]
        cells[0] = Entry(row.model, letters=row.notes)
        cells.append(Entry(str(len(row.seeds)), number=True))
        for measure in block.measures:
            text = shown(row.cells.get(measure.name), measure)
            cells.append(Entry(text, best=measure.name in row.best, number=True))
            if printed[measure.name]:
                cells.append(Entry(shown(row.paper.get(measure.name), measure), number=True))
        rows.append(tuple(cells))
    common = [(n, read(block.rows[0])) for n, read in _LEADING if n not in header]
    lines = [f"All rows: {name} {text}" for name, text in common if text]
    lines += [*_controls(block), *(f"Paper: {source}" for source in block.sources)]
    return Sheet(block.title, tuple(header), tuple(rows), block.notes, tuple(lines))


_LEADING = (
    ("model", lambda row: row.model),
    ("inputs", lambda row: row.inputs_text),
    ("setup", lambda row: row.setup_text),
    ("noise", lambda row: row.noise_text.removeprefix("noise ")),
)


def _printed(block: Block, measure: Measure) -> list[str]:
    """Names of the datasets whose printed numbers stand beside a metric."""
    names = [row.paper[measure.name].dataset for row in block.rows if measure.name in row.paper]
    return list(dict.fromkeys(names))


def _controls(block: Block) -> list[str]:
    parts = []
    for name, (low, high) in block.controls.items():
        texts = dict.fromkeys(plain(100 * value, 2) for value in (low, high))
        parts.append(f"{name} {' to '.join(texts)} %")
    return [f"Without training: {', '.join(parts)}"] if parts else []


def costs(block: Block) -> Sheet:
    """Parameters, epochs, time and memory of a block."""
    header = ("model", "seeds", "parameters", "epochs", "training s", "whole run s")
    memory = ("peak memory MiB", "peak GPU memory MiB", "device")
    rows = [_cost(row) for row in block.rows]
    return Sheet(f"{block.title}: what it took", (*header, *memory), tuple(rows), block.notes)


def _cost(row: Row) -> tuple[Entry, ...]:
    cost = row.cost
    name = ", ".join(p for p in (row.model, row.setup_text, row.noise_text) if p)
    texts = [
        str(len(row.seeds)),
        "" if cost.parameters is None else f"{cost.parameters:,}",
        *(shown(v, _COUNT) for v in (cost.epochs, cost.train_seconds, cost.seconds)),
        *(shown(v, _MEBIBYTES) for v in (cost.peak_cpu_bytes, cost.peak_gpu_bytes)),
    ]
    numbers = [Entry(text, number=True) for text in texts]
    return Entry(name, letters=row.notes), *numbers, Entry(", ".join(cost.devices))


_COUNT = Measure(name="count", title="", factor=1.0, unit="", digits=1)
_MEBIBYTES = Measure(name="bytes", title="", factor=2.0**-20, unit="", digits=0)


def note_text(note: Note) -> str:
    """A footnote, with what follows of it."""
    return note.text[:1].upper() + note.text[1:]


def labels(rows: Sequence[Row]) -> list[str]:
    """A name for each row in pictures: what tells it from the others, its notes in brackets."""
    several = len({row.inputs_text for row in rows}) > 1
    found = []
    for row in rows:
        inputs = row.inputs_text if several else ""
        text = ", ".join(p for p in (row.model, inputs, row.setup_text, row.noise_text) if p)
        found.append(text + (f" [{' '.join(row.notes)}]" if row.notes else ""))
    return found
