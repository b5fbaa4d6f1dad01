"""Places for names on a map: clear of each other and of nodes, on the page, off the edges."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_DIRECTIONS: Final = np.array(
    [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)], dtype=float
)
_RINGS: Final = 120
_TRIED_FOR_CLEARNESS: Final = 3


class LabelPlaces:
    """Finds places for labels one after another; all lengths in pixels.

    Args:
        nodes: Centres of the nodes.
        dot: Half the width of a node.
        strokes: Points along the edges, close together.
        page: Width and height of the page.
    """

    def __init__(
        self, nodes: Floats, dot: float, strokes: Floats, page: tuple[float, float]
    ) -> None:
        self._taken = np.hstack([nodes - dot, nodes + dot])
        self._strokes = strokes
        self._page = page
        self._gap = dot + 2.0

    def place(self, node: Floats, half: Floats) -> tuple[Floats, int]:
        """A centre for a label of half size ``half`` beside ``node``, and its ring.

        Rings around the node are tried outwards. On the first rings with a free place the one
        that covers the least of the edges wins.
        """
        best: tuple[int, Floats, int] | None = None
        found_on = _RINGS
        for ring in range(_RINGS):
            if ring >= found_on + _TRIED_FOR_CLEARNESS:
                break
            reach = half + self._gap * (1 + ring)
            for center in node + _DIRECTIONS * reach:
                if not self._free(center, half):
                    continue
                found_on = min(found_on, ring)
                covered = self._covered(center, half)
                if best is None or covered < best[0]:
                    best = (covered, center, ring)
            if best is not None and best[0] == 0:
                break
        if best is None:  # a page so full that nothing is free
            best = (0, node + np.array([half[0] + self._gap, 0.0]), 0)
        _, center, ring = best
        self._taken = np.vstack([self._taken, np.hstack([center - half, center + half])])
        return center, ring

    def _free(self, center: Floats, half: Floats) -> bool:
        low, high = center - half, center + half
        if min(low) < 0 or high[0] > self._page[0] or high[1] > self._page[1]:
            return False
        taken = self._taken
        apart = (
            (taken[:, 2] <= low[0])
            | (taken[:, 0] >= high[0])
            | (taken[:, 3] <= low[1])
            | (taken[:, 1] >= high[1])
        )
        return bool(apart.all())

    def _covered(self, center: Floats, half: Floats) -> int:
        inside = np.abs(self._strokes - center) < half
        return int(inside.all(axis=1).sum())


def along(starts: Floats, ends: Floats, spacing: float = 4.0) -> Floats:
    """Points along straight strokes, at most ``spacing`` apart."""
    points = [
        np.linspace(start, end, 2 + int(np.hypot(*(end - start)) / spacing))
        for start, end in zip(starts, ends, strict=True)
    ]
    return np.vstack(points) if points else np.empty((0, 2))
