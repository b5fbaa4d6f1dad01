"""Robustness hooks: seeded damage to the inputs of a task, recorded with every result.

OpenMAG, section 4.4: modality noise shuffles the rows of one modality among nodes, label noise
flips training labels, structural noise adds spurious edges; missing modalities are zero rows.
Validation and test labels, and the edges that are scored, are never touched.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maghub import layout
from maghub.errors import MaghubError, nearest
from maghub.seeding import child_rng

_MOST = 2**31
"""More edges than any sampler takes."""
LABELS, EDGES, MISSING = "labels", "edges", "missing-"


class Noise:
    """Shares of what is damaged, and the draws.

    Args:
        shares: ``labels`` or ``edges`` or a modality (shuffled) or ``missing-MODALITY`` -> share in
            [0, 1] (edges: spurious edges per real one, any share from 0).
        modalities: Names of the modalities there are.
        seed: Seed of the draws; each kind has its own stream.
        labels: Whether there are labels to flip.

    Raises:
        MaghubError: Unknown kind or a share out of range.
    """

    def __init__(
        self,
        shares: dict[str, float],
        modalities: list[str],
        seed: int,
        *,
        labels: bool = True,
    ) -> None:
        known = [LABELS, EDGES, *modalities, *(MISSING + name for name in modalities)]
        for kind, share in shares.items():
            if kind not in known:
                modality = kind.removeprefix(MISSING)
                if modality in layout.MODALITIES:
                    what = f"noise {kind} damages {modality}, which is no input of this run"
                    raise MaghubError(what, fix=f"add {modality} to --modalities, or leave it out")
                raise nearest(kind, known, kind="noise")
            if kind == LABELS and not labels:
                raise MaghubError("this task learns from no labels", fix="leave noise labels out")
            if not (0 <= share <= 1 or (kind == EDGES and 1 < share < np.inf)):
                fix = "give 0 or more" if kind == EDGES else "give 0 to 1"
                raise MaghubError(f"noise {kind}={share} is no share", fix=fix)
        self.shares, self.seed = dict(shares), seed

    def _chosen(self, kind: str, count: int) -> NDArray[np.int64]:
        """Positions that are damaged, in random order."""
        share = self.shares.get(kind, 0.0)
        rng = child_rng(self.seed, "noise", kind)
        return rng.permutation(count)[: round(share * count)]

    def rows(self, modality: str, count: int) -> NDArray[np.int64] | None:
        """int64 [count]: whose row each node gets, or None where nothing is shuffled."""
        chosen = self._chosen(modality, count)
        if len(chosen) < 2:
            return None
        rows = np.arange(count)
        rows[chosen] = np.roll(chosen, 1)  # a cycle: every chosen node gets a foreign row
        return rows

    def missing(self, modality: str, count: int) -> NDArray[np.int64]:
        """Ids of the nodes that lose a modality."""
        return np.sort(self._chosen(MISSING + modality, count))

    def flip(self, labels: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
        """A copy of the training labels, a share of them changed to another class."""
        chosen = self._chosen(LABELS, len(labels))
        flipped = labels.copy()
        if classes > 1 and len(chosen):
            rng = child_rng(self.seed, "noise", LABELS, "shift")
            flipped[chosen] = (labels[chosen] + rng.integers(1, classes, len(chosen))) % classes
        return flipped

    def spurious(self, edges: int, num_nodes: int) -> NDArray[np.int64]:
        """int64 [2, round(share * edges)] uniform pairs of different nodes."""
        share = self.shares.get(EDGES, 0.0)
        if share * edges >= _MOST:
            raise MaghubError(
                f"noise edges={share:g} is too many edges", fix="give a smaller share"
            )
        count = round(share * edges) if num_nodes > 1 else 0
        rng = child_rng(self.seed, "noise", EDGES)
        src = rng.integers(0, num_nodes, count)
        dst = (src + rng.integers(1, num_nodes, count)) % num_nodes if count else src
        return np.stack([src, dst])
