"""The small picture of a folder's statistics that its README shows: ``statistics.svg``.

SVG because we write every byte of it (a PNG depends on the versions of Pillow and zlib) and because
the Hub shows it: a relative link of a README leads to the repo's ``resolve`` address, and from such
the Hub's own course embeds SVG files of a dataset repo. Looks are attributes, no style sheet, which
a content security policy may forbid; colours are fixed, to read on light and dark pages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape

from maghub.spec import FolderSpec

MOST_ROWS, _NAME, _LINE, _PANEL = 24, 24, 18, 380
_LEFT, _BAR, _TOP = 150, 150, 34
_NOT_XML = re.compile(r"[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FONT = 'font-family="sans-serif" font-size="12" fill="#222"'

Panel = tuple[str, Mapping[str, int]]


def panels(spec: FolderSpec) -> list[Panel]:
    """What is shown: degrees and classes of a graph, else the rows of each config."""
    found: list[Panel] = []
    if spec.statistics is not None:
        found.append(("nodes by degree", spec.statistics.degrees))
        found.append(("nodes by class", spec.statistics.classes))
    else:
        found.append(("rows by config", {config.name: config.rows for config in spec.configs}))
    return [(title, counts) for title, counts in found if counts]


def alternative(spec: FolderSpec) -> str:
    """What the picture shows, in words."""
    return " and ".join(title for title, _ in panels(spec))


def render_picture(spec: FolderSpec) -> str:
    """The text of the picture; same spec, same bytes."""
    shown = [(title, _greatest(counts)) for title, counts in panels(spec)]
    width = max(len(shown), 1) * _PANEL
    height = _TOP + _LINE * max((len(counts) for _, counts in shown), default=0) + 8
    drawn = "".join(_panel(i * _PANEL, title, counts) for i, (title, counts) in enumerate(shown))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img"><title>{_text(alternative(spec))}</title>'
        f'<rect width="100%" height="100%" fill="#fff"/>\n<g {_FONT}>\n{drawn}</g></svg>\n'
    )


def _greatest(counts: Mapping[str, int]) -> dict[str, int]:
    """All counts in their order, or the greatest and the sum of the rest."""
    if len(counts) <= MOST_ROWS:
        return dict(counts)
    ranked = sorted(counts, key=lambda name: -counts[name])
    chosen, rest = ranked[: MOST_ROWS - 1], ranked[MOST_ROWS - 1 :]
    others = {f"{len(rest):,} more together": sum(counts[name] for name in rest)}
    return {name: counts[name] for name in chosen} | others


def _panel(left: int, title: str, counts: Mapping[str, int]) -> str:
    longest = max(counts.values(), default=0)
    lines = [f'<text font-weight="bold" x="{left + _LEFT}" y="18">{_text(title)}</text>\n']
    for row, (name, count) in enumerate(counts.items()):
        y = _TOP + row * _LINE
        length = max(round(_BAR * count / longest, 1), 1.0) if count else 0.0  # what is there shows
        end = f'text-anchor="end" x="{left + _LEFT - 6}" y="{y + 11}"'
        lines.append(
            f"<text {end}>{_text(_short(name))}</text>"
            f'<rect fill="#3b6fb6" x="{left + _LEFT}" y="{y}" width="{length:g}" height="14"/>'
            f'<text x="{left + _LEFT + length + 6:g}" y="{y + 11}">{count:,}</text>\n'
        )
    return "".join(lines)


def _short(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}\u2026"


def _text(text: str) -> str:
    """Text as XML can hold it."""
    return escape(_NOT_XML.sub("\ufffd", text), quote=False)
