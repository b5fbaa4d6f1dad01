"""Cheap scalar draws from a numpy Generator: uniforms are taken in blocks, not one call each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")
_BLOCK = 512


class Draws:
    """A stream of uniform draws that depends only on the Generator's state.

    Args:
        rng: The Generator; it is advanced by whole blocks.
    """

    __slots__ = ("_at", "_block", "rng")

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self._block: list[float] = []
        self._at = 0

    def unit(self) -> float:
        """A number in [0, 1)."""
        at = self._at
        if at == len(self._block):
            self._block = self.rng.random(_BLOCK).tolist()
            at = 0
        self._at = at + 1
        return self._block[at]

    def below(self, count: int) -> int:
        """An integer in [0, count)."""
        return int(self.unit() * count)

    def pick(self, values: Sequence[T]) -> T:
        """One of the values."""
        return values[int(self.unit() * len(values))]

    def two(self, count: int) -> tuple[int, int]:
        """Two different integers in [0, count), in random order."""
        first = self.below(count)
        second = self.below(count - 1)
        return first, second + (second >= first)
