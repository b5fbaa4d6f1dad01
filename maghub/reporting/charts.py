"""The pictures of a block: bars per metric, lines over shares of noise, time against memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from maghub.reporting import svg
from maghub.reporting.model import Block, Measure, PaperNumber, Row, Statistic
from maghub.reporting.sheets import labels, plain, shown
from maghub.reporting.statistic import is_number

MOST_BARS = 40
_LEFT, _RIGHT = 52.0, svg.WIDTH - 14.0
_GIB = 2.0**30


@dataclass(frozen=True)
class Chart:
    """A picture and the line below it."""

    picture: str
    caption: str


def _span(value: Statistic | PaperNumber, measure: Measure) -> tuple[float, float, float]:
    """Shown mean, and the ends of its error bar."""
    mean, std = value.mean * measure.factor, (value.std or 0.0) * measure.factor
    return mean, mean - std, mean + std


def _amount(measure: Measure) -> str:
    return f"{measure.title} ({measure.unit})" if measure.unit else measure.title


# -- bars ------------------------------------------------------------------------------------------


def bars(block: Block, measure: Measure, ident: str) -> Chart | None:
    """A bar per row with its error bar, the paper's number as a diamond; None without values."""
    names = labels(block.rows)
    found = [
        (row, name, row.cells[measure.name])
        for row, name in zip(block.rows, names, strict=True)
        if measure.name in row.cells
    ]
    if not found:
        return None
    found = [item for item in found if not item[0].noise] or found  # sweeps show the damaged ones
    total = len(found)
    if total > MOST_BARS:
        sign = -1 if measure.higher_is_better else 1
        found = sorted(found, key=lambda item: sign * item[2].mean)[:MOST_BARS]
    step, top = 36.0, 8.0
    bottom = top + step * len(found)
    board = svg.Board(bottom + 40)
    ends = [end for row, _, value in found for end in _ends(row, value, measure)]
    axis = svg.linear(ends, 8.0, _RIGHT, zero=True)
    _ruler(board, axis, top, bottom, _amount(measure))
    for i, (row, name, value) in enumerate(found):
        _bar(board, axis, top + step * i, row, name, value, measure)
    board.line(axis.at(0), top, axis.at(0), bottom, "axis")
    caption = f"{_amount(measure)}, {_better(measure)}; bars are one standard deviation each way."
    if total > MOST_BARS:
        caption += f" The {MOST_BARS} best of {total} rows."
    if any(measure.name in row.paper for row, _, _ in found):
        caption += " Diamond: the paper's number."
    if not all(row.comparable for row, _, _ in found):
        caption += " Grey: a note forbids to compare."
    best = "; ".join(f"{name}: {shown(value, measure)}" for _, name, value in found[:12])
    title = f"{measure.title} on {block.title}"
    return Chart(board.svg(ident, title, f"Bar chart. {best}"), caption)


def _ends(row: Row, value: Statistic, measure: Measure) -> list[float]:
    ends = [*_span(value, measure)]
    if measure.name in row.paper:
        ends += _span(row.paper[measure.name], measure)
    return ends


def _bar(
    board: svg.Board,
    axis: svg.Axis,
    y: float,
    row: Row,
    name: str,
    value: Statistic,
    measure: Measure,
) -> None:
    mean, low, high = _span(value, measure)
    text = shown(value, measure)
    board.text(_RIGHT, y + 11, text, "end")
    board.text(8, y + 11, svg.fit(name, _RIGHT - 18 - svg.LETTER * len(text)))
    middle, tone = y + 22, svg.colour(0) if row.comparable else svg.GREY
    board.bar(axis.at(0), axis.at(mean), middle - 6, 12, tone, f"{name}: {text}")
    if value.std is not None:
        board.error(axis.at(low), middle, axis.at(high), middle)
    paper = row.paper.get(measure.name)
    if paper is not None:
        where, low, high = _span(paper, measure)
        if paper.std is not None:
            board.error(axis.at(low), middle, axis.at(high), middle, svg.colour(1))
        title = f"{paper.paper}, {paper.dataset}: {shown(paper, measure)}"
        board.mark("diamond", axis.at(where), middle, svg.colour(1), title)


def _better(measure: Measure) -> str:
    return "higher is better" if measure.higher_is_better else "lower is better"


def _ruler(board: svg.Board, axis: svg.Axis, top: float, bottom: float, name: str) -> None:
    """A horizontal axis below, with its lines."""
    for tick in axis.ticks:
        x = axis.at(tick)
        board.line(x, top, x, bottom, "grid")
        anchor = "start" if x < 12 else "end" if x > _RIGHT - 6 else "middle"
        board.text(x, bottom + 14, axis.label(tick), anchor)
    board.text((axis.start + axis.end) / 2, bottom + 31, name, "middle")


def _side(board: svg.Board, axis: svg.Axis, name: str) -> None:
    """A vertical axis at the left, with its lines."""
    for tick in axis.ticks:
        y = axis.at(tick)
        board.line(_LEFT, y, _RIGHT, y, "grid")
        board.text(_LEFT - 5, y + 4, axis.label(tick), "end")
    board.text(11, (axis.start + axis.end) / 2, name, "middle", turn=True)


# -- lines -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sweep:
    """Rows that differ in the share of one kind of noise alone: (share in percent, row)."""

    name: str
    points: list[tuple[float, Row]]


def sweeps(block: Block) -> dict[str, list[Sweep]]:
    """kind of noise -> series over at least two shares; a row without noise is the share 0.

    Several kinds with one share between them (text and image, both 30 %) are a kind of their own.
    """
    found: dict[str, dict[int, dict[float, Row]]] = {}
    for row in block.rows:
        if len(set(row.noise.values())) == 1 and all(map(is_number, row.noise.values())):
            kind = " + ".join(row.noise)
            share = 100 * next(iter(row.noise.values()))
            found.setdefault(kind, {}).setdefault(row.series, {})[share] = row
    clean = {row.series: row for row in block.rows if not row.noise}
    bare = [row.model_copy(update={"noise": {}, "notes": ()}) for row in block.rows]
    names = dict(zip((row.series for row in block.rows), labels(bare), strict=True))
    made: dict[str, list[Sweep]] = {}
    for kind, by_series in sorted(found.items()):
        for series, points in by_series.items():
            if series in clean:
                points[0.0] = clean[series]
            if len(points) > 1:
                made.setdefault(kind, []).append(Sweep(names[series], sorted(points.items())))
    return made


def lines(
    block: Block, kind: str, series: Sequence[Sweep], measure: Measure, ident: str
) -> Chart | None:
    """A line per series: the metric over the share of noise, with error bars."""
    drawn = [
        Sweep(s.name, [(share, row) for share, row in s.points if measure.name in row.cells])
        for s in series
    ]
    drawn = [s for s in drawn if len(s.points) > 1]
    if not drawn:
        return None
    top, bottom = 10.0, 230.0
    board = svg.Board(bottom + 44 + 17 * len(drawn))
    cells = [row.cells[measure.name] for s in drawn for _, row in s.points]
    y_axis = svg.linear([end for c in cells for end in _span(c, measure)], bottom, top)
    shares = sorted({share for s in drawn for share, _ in s.points})
    x_axis = svg.linear(shares, _LEFT, _RIGHT - 6)
    _side(board, y_axis, _amount(measure))
    _ruler(board, x_axis, top, bottom, f"noise: {kind} (%)")
    for i, s in enumerate(drawn):
        _series(board, x_axis, y_axis, i, s, measure)
        _legend(board, bottom + 50 + 17 * i, i, s.name)
    title = f"{measure.title} on {block.title} over noise in {kind}"
    text = "; ".join(
        f"{s.name}: "
        + ", ".join(
            f"{share:g}% {shown(row.cells[measure.name], measure)}" for share, row in s.points
        )
        for s in drawn[:8]
    )
    caption = f"{_amount(measure)} over the share of noise ({kind}), {_better(measure)}."
    return Chart(board.svg(ident, title, f"Line chart. {text}"), caption)


def _series(
    board: svg.Board, x_axis: svg.Axis, y_axis: svg.Axis, i: int, s: Sweep, measure: Measure
) -> None:
    places = []
    for share, row in s.points:
        mean, low, high = _span(row.cells[measure.name], measure)
        x = x_axis.at(share)
        places.append((x, y_axis.at(mean)))
        if row.cells[measure.name].std is not None:
            board.error(x, y_axis.at(low), x, y_axis.at(high), svg.colour(i))
    board.path(places, svg.colour(i))
    for (x, y), (share, row) in zip(places, s.points, strict=True):
        title = f"{s.name}, {share:g}%: {shown(row.cells[measure.name], measure)}"
        board.mark(svg.shape(i), x, y, svg.colour(i), title, hollow=not row.comparable)


def _legend(board: svg.Board, y: float, i: int, name: str) -> None:
    board.mark(svg.shape(i), _LEFT + 4, y - 4, svg.colour(i))
    board.text(_LEFT + 16, y, svg.fit(name, _RIGHT - _LEFT - 18))


# -- time against memory ---------------------------------------------------------------------------


def scatter(block: Block, ident: str) -> Chart | None:
    """Training time against peak memory, a mark per row; None where nothing was measured."""
    found = [
        (row, name, row.cost.train_seconds, memory)
        for row, name in zip(block.rows, labels(block.rows), strict=True)
        if (memory := row.cost.peak_gpu_bytes or row.cost.peak_cpu_bytes) is not None
        and row.cost.train_seconds.n
    ]
    if not found:
        return None
    models = list(dict.fromkeys(row.model for row, *_ in found))
    top, bottom = 10.0, 230.0
    board = svg.Board(bottom + 44 + 17 * len(models))
    x_axis = svg.scale([seconds.mean for _, _, seconds, _ in found], _LEFT, _RIGHT - 6)
    y_axis = svg.scale([memory.mean / _GIB for *_, memory in found], bottom, top)
    _side(board, y_axis, "peak memory (GiB)")
    _ruler(board, x_axis, top, bottom, "training (s)")
    for row, name, seconds, memory in found:
        i, x, y = models.index(row.model), x_axis.at(seconds.mean), y_axis.at(memory.mean / _GIB)
        if seconds.std:
            low, high = (x_axis.at(seconds.mean + sign * seconds.std) for sign in (-1, 1))
            board.error(low, y, high, y, svg.colour(i))
        if memory.std:
            low, high = (y_axis.at((memory.mean + sign * memory.std) / _GIB) for sign in (-1, 1))
            board.error(x, low, x, high, svg.colour(i))
        title = f"{name}: {plain(seconds.mean, 1)} s, {plain(memory.mean / _GIB, 2)} GiB"
        board.mark(svg.shape(i), x, y, svg.colour(i), title, hollow=not row.cost.peak_gpu_bytes)
    for i, model in enumerate(models):
        _legend(board, bottom + 50 + 17 * i, i, model)
    text = "; ".join(
        f"{name}: {plain(seconds.mean, 1)} s, {plain(memory.mean / _GIB, 2)} GiB"
        for _, name, seconds, memory in found[:12]
    )
    kinds = {bool(row.cost.peak_gpu_bytes) for row, *_ in found}
    memory_kind = "GPU memory" if kinds == {True} else "memory of the process"
    if len(kinds) == 2:
        memory_kind = "filled: GPU memory, hollow: memory of the process"
    caption = f"Training time against peak memory ({memory_kind}); lower left is cheaper."
    return Chart(board.svg(ident, f"Time and memory on {block.title}", text), caption)
