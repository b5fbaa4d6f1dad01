"""Modality matching: do this text and this image belong to the same node?

OpenMAG, appendix D.2: true pairs against randomly sampled pairs that are none, by accuracy and MRR.
The pairs that are none are drawn once, whatever the seed of the run, among nodes of the same split;
a node whose text or image is bit for bit that of the query makes no false pair with it. Accuracy
counts every true pair and one false pair of each; its threshold on the cosine is the one that is
best on validation. MRR ranks the true image of a text among those of ``ranked`` false pairs. The
released code reports the mean cosine of true pairs instead, which says nothing of false ones:
``score="mean-cosine"`` chooses the epoch by it (preset ``openmag-code``); it is always measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from maghub import layout
from maghub.baselines._task import Step
from maghub.baselines.tasks._modality_pairs import (
    PairConfig,
    PairTask,
    Sides,
    directions,
    rounded,
)
from maghub.baselines.tasks._ranking import chance
from maghub.mag import MAG
from maghub.metrics import accuracy, mrr, ranks
from maghub.seeding import child_rng

_GATHERED_AT_ONCE = 1 << 24
_RARE = 0.05
"""Rows whose possible partners are fewer than this share of all are not drawn by guessing."""


class ModalityMatchingConfig(PairConfig):
    """Settings of modality matching.

    Attributes:
        score: What chooses the epoch: ``pairs`` (MRR), or ``mean-cosine`` of the true pairs.
        ranked: False pairs per text.
    """

    score: Literal["pairs", "mean-cosine"] = "pairs"
    ranked: int = Field(default=150, ge=1)


class ModalityMatching(PairTask):
    """See the module; the folder needs vectors of text and image."""

    name = "modality-matching"
    Config = ModalityMatchingConfig
    config: ModalityMatchingConfig

    def __init__(self, mag: MAG, encoders: Mapping[str, str], *args: Any, **options: Any) -> None:
        super().__init__(mag, encoders, *args, **options)
        self.monitor = "mrr" if self.config.score == "pairs" else "mean_cosine"
        self._negatives: dict[str, tuple[Tensor, Tensor]] = {}

    def negatives(self, split: str) -> tuple[Tensor, Tensor]:
        """Texts int64 [M] of a split and the nodes int64 [M, ranked] of their false images.

        A text for which every image of the split is a true one is left out.
        """
        if split not in self._negatives:
            ids = self.ids[split].numpy()
            twins = [self._twins(m, ids) for m in layout.MODALITIES]
            rng = child_rng(0, "false-pairs", split)
            kept, drawn = draw_false(twins, self.config.ranked, rng)
            found = torch.from_numpy(ids[kept]), torch.from_numpy(ids[drawn])
            self._negatives[split] = found
        return self._negatives[split]

    def _twins(self, modality: str, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """A number per node that those with the same published vector share."""
        rows = np.ascontiguousarray(self.mag.features(self.encoders[modality], modality)[ids])
        bytes_ = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
        return np.unique(bytes_, return_inverse=True)[1].reshape(-1)

    def _scores(self, sides: Sides, split: str) -> Tensor:
        """float64 [M, 1 + ranked] cosines in whole steps, the true image first."""
        query, others = (part.to(self.device) for part in self.negatives(split))
        text, image = directions(sides[0]), directions(sides[1])
        scores = torch.empty((len(query), 1 + others.shape[1]), dtype=torch.float64)
        rows = max(1, _GATHERED_AT_ONCE // (scores.shape[1] * image.shape[1]))
        for start in range(0, len(query), rows):
            own = query[start : start + rows]
            shown = torch.cat([own[:, None], others[start : start + rows]], dim=1)
            cosines = torch.einsum("qd,qkd->qk", text[own], image[shown])
            scores[start : start + rows] = rounded(cosines).cpu()
        return scores

    @torch.no_grad()
    def evaluate(self, step: Step, split: str) -> dict[str, float]:
        """Accuracy, MRR and the mean cosine of the true pairs."""
        if not len(self.negatives(split)[0]):
            return {}
        sides = self.represent(step)
        scores = self._scores(sides, split).numpy()
        chosen = layout.VALIDATION if len(self.negatives(layout.VALIDATION)[0]) else layout.TRAIN
        known = scores if chosen == split else self._scores(sides, chosen).numpy()
        threshold = best_threshold(known[:, 0], known[:, 1])
        truth = np.repeat([1, 0], len(scores))
        said = (scores[:, :2].T.ravel() >= threshold).astype(np.int64)
        ids = self.ids[split].to(self.device)
        cosine = (directions(sides[0][ids]) * directions(sides[1][ids])).sum(dim=1).mean()
        found = ranks(scores, ties=self.config.ties)
        metrics = {
            "accuracy": accuracy(truth, said),
            "mrr": mrr(found),
            "mean_cosine": float(cosine),
        }
        first = "mean_cosine" if self.config.score == "mean-cosine" else "accuracy"
        return {first: metrics.pop(first), **metrics}

    def controls(self) -> dict[str, float]:
        """What guessing gives in expectation on test."""
        if not len(self.negatives(layout.TEST)[0]):
            return {}
        return {"random_accuracy": 0.5, **chance(1 + self.config.ranked)}


def draw_false(
    twins: list[NDArray[np.int64]], count: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Uniform partners of each row that share none of its groups, with repetition.

    Args:
        twins: Group of each row in each of the two modalities, int64 [M].
        count: Partners per row.
        rng: Source of the draws.

    Returns:
        Rows int64 [K] that have a partner, and their partners int64 [K, count].
    """
    both = np.unique(np.stack(twins), axis=1, return_inverse=True)[1].reshape(-1)
    sizes = [np.bincount(group, minlength=1)[group] for group in (*twins, both)]
    others = len(both) - sizes[0] - sizes[1] + sizes[2]
    rows = np.flatnonzero(others > 0)
    partners = rng.integers(0, max(1, len(both)), (len(rows), count))
    rare = others[rows] < _RARE * len(both)  # guessing would take them too long
    _choose(twins, sizes, rows, np.flatnonzero(rare), partners, rng)
    row, place = np.indices(partners.shape).reshape(2, -1)[:, np.repeat(~rare, count)]
    while len(row):
        drawn = partners[row, place]
        bad = np.logical_or(*(group[drawn] == group[rows[row]] for group in twins))
        row, place = row[bad], place[bad]
        partners[row, place] = rng.integers(0, len(both), len(row))
    return rows, partners


def _choose(
    twins: list[NDArray[np.int64]],
    sizes: list[NDArray[np.int64]],
    rows: NDArray[np.int64],
    places: NDArray[np.int64],
    partners: NDArray[np.int64],
    rng: np.random.Generator,
) -> None:
    """Draw partners of some of the rows among those that they can have, in place."""
    known: dict[tuple[bool, int], NDArray[np.int64]] = {}
    for place in places.tolist():
        row = rows[place]
        wide = bool(sizes[1][row] > sizes[0][row])  # the modality whose group leaves out the most
        key = wide, int(twins[wide][row])
        if key not in known:
            known[key] = np.flatnonzero(twins[wide] != key[1])
        foreign = twins[not wide][known[key]] != twins[not wide][row]
        partners[place] = rng.choice(known[key][foreign], partners.shape[1])


def best_threshold(true: NDArray[np.float64], false: NDArray[np.float64]) -> float:
    """The value from which on a pair counts as true, with the most right answers.

    It lies halfway between two neighbouring scores; of several equally good ones it is the middle.

    Args:
        true: [M] scores of true pairs.
        false: [M] scores of false pairs.
    """
    values = np.unique(np.concatenate([true, false]))
    between = np.concatenate([[values[0] - 1], (values[:-1] + values[1:]) / 2, [values[-1] + 1]])
    right = np.searchsorted(np.sort(false), between) - np.searchsorted(np.sort(true), between)
    best = np.flatnonzero(right == right.max())
    return float(between[best[len(best) // 2]])
