"""A small drawing board: axes with round ticks, bars, marks and error bars as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

WIDTH = 420
COLOURS = ("#4477aa", "#ee6677", "#228833", "#aa7700", "#aa3377", "#0088aa")
GREY = "#888888"
SHAPES = ("circle", "square", "triangle", "diamond", "star")
LETTER = 6.1
"""Width of a letter of the pictures' text, on average."""


@dataclass(frozen=True)
class Axis:
    """Maps numbers to places on the board."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]
    log: bool = False

    def at(self, value: float) -> float:
        """Where a number lies; numbers beyond the axis lie at its end."""
        low, high, value = (
            (math.log10(max(v, 1e-300)) if self.log else v) for v in (self.low, self.high, value)
        )
        share = min(1.0, max(0.0, (value - low) / (high - low)))
        return self.start + share * (self.end - self.start)

    def label(self, tick: float) -> str:
        """A tick as text."""
        return f"{tick:,.10g}"


def linear(values: Iterable[float], start: float, end: float, *, zero: bool = False) -> Axis:
    """An axis with three to seven round ticks around the values, and 0 if asked for."""
    found = [*values, *([0.0] if zero else [])] or [0.0]
    low, high = min(found), max(found)
    if high - low < 1e-9 * max(1.0, abs(high)):
        pad = 0.05 * abs(high) or 0.5
        low, high = (low, high + pad) if zero else (low - pad, high + pad)
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(round(i * step, 12) for i in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], start, end, ticks)


def scale(values: Iterable[float], start: float, end: float) -> Axis:
    """Linear from 0, or logarithmic where positive values span more than a factor of 20."""
    found = list(values)
    if not found or min(found) <= 0 or max(found) / min(found) <= 20:
        return linear(found, start, end, zero=True)
    first, last = math.floor(math.log10(min(found))), math.ceil(math.log10(max(found)))
    ticks = tuple(10.0**i for i in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], start, end, ticks, log=True)


def colour(number: int) -> str:
    """The colour of a series; with ``shape`` unique for thirty of them."""
    return COLOURS[number % len(COLOURS)]


def shape(number: int) -> str:
    """The mark of a series."""
    return SHAPES[number % len(SHAPES)]


def fit(text: str, width: float) -> str:
    """Text cut to a width on the board."""
    most = max(4, int(width / LETTER))
    return text if len(text) <= most else text[: most - 1] + "…"


class Board:
    """Collects what is drawn."""

    def __init__(self, height: float, width: float = WIDTH) -> None:
        self.width, self.height = width, height
        self._parts: list[str] = []

    def line(self, x1: float, y1: float, x2: float, y2: float, css: str, stroke: str = "") -> None:
        """A line; ``stroke`` is a colour, else the style sheet's."""
        look = f' stroke="{stroke}"' if stroke else ""
        self._parts.append(
            f'<line class="{css}" x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}"{look}/>'
        )

    def bar(self, x1: float, x2: float, y: float, height: float, fill: str, title: str) -> None:
        """A horizontal bar."""
        left, right = sorted((x1, x2))
        self._parts.append(
            f'<rect x="{_n(left)}" y="{_n(y)}" width="{_n(max(right - left, 0.5))}" '
            f'height="{_n(height)}" fill="{fill}"><title>{escape(title)}</title></rect>'
        )

    def text(
        self, x: float, y: float, text: str, anchor: str = "start", turn: bool = False
    ) -> None:
        """Text; ``turn`` writes it upwards."""
        turned = f' transform="rotate(-90 {_n(x)} {_n(y)})"' if turn else ""
        self._parts.append(
            f'<text x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}"{turned}>{escape(text)}</text>'
        )

    def path(self, points: Iterable[tuple[float, float]], stroke: str) -> None:
        """A line through points."""
        text = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
        self._parts.append(f'<polyline class="series" points="{text}" stroke="{stroke}"/>')

    def error(self, x1: float, y1: float, x2: float, y2: float, stroke: str = "") -> None:
        """An error bar between two points, with caps."""
        self.line(x1, y1, x2, y2, "error", stroke)
        across, down = (0.0, 3.0) if y1 == y2 else (3.0, 0.0)
        for x, y in ((x1, y1), (x2, y2)):
            self.line(x - across, y - down, x + across, y + down, "error", stroke)

    def mark(
        self, kind: str, x: float, y: float, tone: str, title: str = "", *, hollow: bool = False
    ) -> None:
        """A mark of a shape and a colour, with what a pointer resting on it shows."""
        look = f'fill="{"none" if hollow else tone}" stroke="{tone}" stroke-width="1.5"'
        inner = f"<title>{escape(title)}</title>" if title else ""
        if kind == "circle":
            self._parts.append(f'<circle cx="{_n(x)}" cy="{_n(y)}" r="4" {look}>{inner}</circle>')
            return
        points = " ".join(f"{_n(x + dx)},{_n(y + dy)}" for dx, dy in _OUTLINES[kind])
        self._parts.append(f'<polygon points="{points}" {look}>{inner}</polygon>')

    def svg(self, ident: str, title: str, description: str) -> str:
        """The picture, with a name and a description for those who cannot see it."""
        return (
            f'<svg role="img" viewBox="0 0 {_n(self.width)} {_n(self.height)}" '
            f'aria-labelledby="{ident}-t {ident}-d"><title id="{ident}-t">{escape(title)}</title>'
            f'<desc id="{ident}-d">{escape(description)}</desc>{"".join(self._parts)}</svg>'
        )


def _star() -> list[tuple[float, float]]:
    radii, turn = (5.5, 2.4), math.pi / 5
    return [
        (radii[i % 2] * math.sin(i * turn), -radii[i % 2] * math.cos(i * turn)) for i in range(10)
    ]


_OUTLINES: dict[str, list[tuple[float, float]]] = {
    "square": [(-3.7, -3.7), (3.7, -3.7), (3.7, 3.7), (-3.7, 3.7)],
    "triangle": [(0, -5), (4.6, 3.6), (-4.6, 3.6)],
    "diamond": [(0, -5.4), (5.4, 0), (0, 5.4), (-5.4, 0)],
    "star": _star(),
}


def _n(value: float) -> str:
    """A coordinate, short and the same everywhere."""
    return f"{round(value, 1) + 0.0:g}"
