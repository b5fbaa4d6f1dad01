"""Maps of one graph as SVG and PNG: lines in their colours and strokes, names that do not overlap.

The SVG's bytes depend only on the graph and the matplotlib version.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from maghub.clegr.graph import Graph, check_graph
from maghub.clegr.index import Index
from maghub.clegr.labels import LabelPlaces, along
from maghub.clegr.schema import SUBWAY
from maghub.errors import MaghubError, MissingExtra
from maghub.files import check_outside

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS: Final = ("svg", "png")
_STROKES: Final = {"solid": "-", "dashed": "--", "dashdot": "-.", "dotted": ":"}
_COLORS: Final = {
    "blue": "#1f5fa8", "orange": "#e8871e", "green": "#2e8b57", "red": "#cc2936",
    "purple": "#7b4fa3", "brown": "#8a5a3b", "pink": "#e377b2", "olive": "#9a9a2a",
    "cyan": "#22b2c4",
    "Encrypted": "#2e8b57", "Unencrypted": "#cc2936", "Partial": "#e8871e",
}  # fmt: skip
_STATUS: Final = {
    "Operational": "#ffffff", "Degraded": "#f2d16b", "Offline": "#555555",
    "Maintenance": "#b79bd1", "Overloaded": "#e07a7a",
}  # fmt: skip
_OTHER: Final = "#777777"
_FONT: Final = 7.0
_WIDTH: Final = 2.2
_DPI: Final = 150
_DOT: Final = 3.5


def draw_graph(graph: Graph, path: Path) -> list[Path]:
    """Write the map of one graph.

    Args:
        graph: A subway map or computer network.
        path: Where to; with the ending .svg or .png that file, without one both.

    Returns:
        The files written.

    Raises:
        MaghubError: For an unknown ending or a place that cannot be written.
        MissingExtra: Without matplotlib.
    """
    path = Path(path)
    ending = path.suffix.lower().removeprefix(".")
    if ending and ending not in FORMATS:
        raise MaghubError(f"'{ending}' maps are not drawn", where=path, fix="use .svg or .png")
    check_outside(path)
    check_graph(graph)
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as problem:
        raise MissingExtra("matplotlib", "plot") from problem
    targets = [path] if ending else [path.with_suffix(f".{kind}") for kind in FORMATS]
    style: Any = {
        "svg.hashsalt": graph.graph_id,
        "svg.fonttype": "none",
        "font.family": "DejaVu Sans",
    }
    with matplotlib.rc_context(style):
        side = min(max(8.0, 1.9 * len(graph) ** 0.5), 40.0)
        figure = Figure(figsize=(side + 1.5, side), dpi=_DPI)
        FigureCanvasAgg(figure)
        _paint(figure, graph, side / (side + 1.5))
        for target in targets:
            _save(figure, target)
    return targets


def _save(figure: Figure, target: Path) -> None:
    kind = target.suffix.lower().removeprefix(".")
    metadata = {"Date": None, "Creator": None} if kind == "svg" else None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target, format=kind, metadata=metadata)  # type: ignore[arg-type]
    except OSError as problem:
        raise MaghubError(f"cannot be written ({problem.strerror})", where=target) from problem


def _paint(figure: Figure, graph: Graph, share: float) -> None:
    """Nodes, edges, names on the left ``share`` of the page, the legend on the right."""
    axes = figure.add_axes((0.02, 0.02, share - 0.02, 0.94))
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_axis_off()
    axes.set_title(graph.graph_id, fontsize=10)
    fill: Sequence[str] | str = "#ffffff"
    if graph.domain != SUBWAY:
        fill = [_STATUS.get(str(value), _OTHER) for value in graph.nodes["status"]]
    axes.scatter(graph.x, graph.y, s=26, c=fill, edgecolors="#222222", linewidths=1.0, zorder=3)
    axes.margins(0.08)
    axes.get_xlim()  # settles the limits, which the transform below depends on
    axes.apply_aspect()
    axes.set_autoscale_on(False)
    _edges(axes, graph)
    figure.legend(
        handles=_legend(graph), loc="upper right", fontsize=_FONT, handlelength=3.5, frameon=False
    )
    _names(figure, axes, graph, share)


def _edges(axes: Axes, graph: Graph) -> None:
    """One stroke per edge; several lines on a pair run side by side."""
    points = axes.transData.transform(np.column_stack([graph.x, graph.y]))
    back = axes.transData.inverted()
    lane_width = 1.3 * _WIDTH * _DPI / 72
    for edges in Index(graph).on_pair.values():
        for lane, edge in enumerate(edges):
            ends = points[sorted((graph.source[edge], graph.target[edge]))]
            along_x, along_y = ends[1] - ends[0]
            aside = np.array([-along_y, along_x]) / (np.hypot(along_x, along_y) or 1.0)
            shift = aside * lane_width * (lane - (len(edges) - 1) / 2)
            x, y = back.transform(ends + shift).T
            axes.plot(x, y, zorder=1, linewidth=_WIDTH, **_pen(graph, edge))


def _pen(graph: Graph, edge: int) -> dict[str, Any]:
    """Colour and stroke of an edge."""
    if graph.domain == SUBWAY:
        color, stroke = graph.edges["line_color"][edge], graph.edges["line_stroke"][edge]
        style = _line_style(stroke)
    else:
        color, style = graph.edges["encryption_status"][edge], "-"
    return {"color": _COLORS.get(str(color), _OTHER), "linestyle": style}


def _line_style(stroke: object) -> Any:
    return _STROKES.get(str(stroke), "-")


def _legend(graph: Graph) -> list[Any]:
    """One sample per line; for networks, of encryption and status."""
    from matplotlib.lines import Line2D

    if graph.domain == SUBWAY:
        rows = zip(graph.lines["name"], graph.lines["color"], graph.lines["stroke"], strict=True)
        return [
            Line2D([], [], color=_COLORS.get(str(color), _OTHER), linewidth=_WIDTH,
                   linestyle=_line_style(stroke), label=str(name))
            for name, color, stroke in rows
        ]  # fmt: skip
    links = [
        Line2D([], [], color=_COLORS[name], linewidth=_WIDTH, label=name)
        for name in ("Encrypted", "Unencrypted", "Partial")
    ]
    return links + [
        Line2D([], [], marker="o", linestyle="", label=name,
               markerfacecolor=color, markeredgecolor="#222222")
        for name, color in _STATUS.items()
    ]  # fmt: skip


def _names(figure: Figure, axes: Axes, graph: Graph, share: float) -> None:
    """Every name beside its node; where it stands farther off, a thin leader joins them."""
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    pixel = figure.dpi / 72
    points = axes.transData.transform(np.column_stack([graph.x, graph.y]))
    page = (figure.bbox.width * share, figure.bbox.height * 0.96)
    strokes = along(points[graph.source], points[graph.target])
    places = LabelPlaces(points, _DOT * pixel, strokes, page)
    back = axes.transData.inverted()
    backing = {"facecolor": "#ffffff", "edgecolor": "none", "alpha": 0.75, "pad": 0.4}
    for node in np.lexsort((points[:, 0], points[:, 1])).tolist():
        label = axes.text(
            0, 0, graph.names[node], fontsize=_FONT, ha="center", va="center", zorder=4,
            bbox=backing, parse_math=False,
        )  # fmt: skip
        extent = label.get_window_extent(renderer)
        half = np.array([extent.width / 2 + pixel, extent.height / 2 + 0.5 * pixel])
        center, ring = places.place(points[node], half)
        x, y = back.transform(center)
        label.set_position((x, y))
        if ring > 1:
            axes.plot([graph.x[node], x], [graph.y[node], y], color="#999999", lw=0.5, zorder=2)
