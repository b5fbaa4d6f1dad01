"""Modality alignment: do representations of a phrase and of the region it names point the same way?

OpenMAG's adapter: an encoder is trained as for matching, nothing more; then the vectors of a phrase
and of its region take the place of the node's own text and image, and the representations that the
encoder gives of that node are compared: CLIP-score, the mean of max(100 cos, 0) (equation 7). In
one pass every node of the split shows one of its pairs, so a neighbour in the same split shows one
of its own.

High cosines alone say little: an encoder that maps everything to one vector has 100. So the score
of the same phrases with regions of other pictures stands beside it (``shuffled_clip_score``), and
the score of the input itself. The epoch is chosen by MRR of the nodes' own pairs on validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from maghub import layout
from maghub.baselines._model import Model
from maghub.baselines._task import Step
from maghub.baselines.tasks._modality_pairs import (
    JOINT,
    PairConfig,
    PairStep,
    PairTask,
    Sides,
    directions,
    pair_ranks,
)
from maghub.baselines.tasks._modality_regions import (
    ENTITIES,
    Grounding,
    RegionVectors,
    has_regions,
    read_grounding,
)
from maghub.errors import MaghubError
from maghub.mag import MAG
from maghub.metrics import mrr
from maghub.seeding import child_rng


class ModalityAlignmentConfig(PairConfig):
    """Settings of modality alignment.

    Attributes:
        pairs: Most pairs of a phrase and a region that are measured, drawn once; None for all.
        model_path: Local folder with the encoder's files; None takes the Hub or its cache.
    """

    pairs: int | None = Field(default=None, ge=1)
    model_path: str | None = None


class ModalityAlignment(PairTask):
    """See the module; the folder needs phrases and boxes, and vectors of one joint encoder."""

    name = "modality-alignment"
    Config = ModalityAlignmentConfig
    config: ModalityAlignmentConfig

    def __init__(self, mag: MAG, encoders: Mapping[str, str], *args: Any, **options: Any) -> None:
        if not has_regions(mag):
            raise MaghubError(
                "modality-alignment needs phrases and boxes (config entities)",
                where=mag.spec.name,
                fix="make a dataset that has them: maghub build flickr30k --raw-dir RAW",
            )
        super().__init__(mag, encoders, *args, **options)
        names = [self.encoders[m] for m in layout.MODALITIES]
        if names[0] != names[1]:
            raise MaghubError(
                f"modality-alignment needs one joint encoder, not {names[0]} and {names[1]}",
                where=mag.spec.name,
                fix=f"make one with: maghub encode {mag.folder} --encoder {JOINT}, name it alone",
            )
        if self.config.scale != "none":
            raise MaghubError("modality-alignment takes the input as it is", fix="leave scale out")
        self._shown: tuple[Grounding, Sides] | None = None

    @property
    def reads(self) -> list[str]:
        """See ``PairTask.reads``; and phrases and boxes."""
        return sorted([*super().reads, ENTITIES])

    @property
    def notes(self) -> list[str]:
        """See ``PairTask.notes``; and what was measured."""
        found = self.shown()[0]
        pictures, lost = len(np.unique(found.node)), len(self.grounding()) - len(found)
        said = [f"{len(found):,} pairs of phrase and box on {pictures:,} pictures"]
        said += [f"{lost:,} pairs left out: the box is outside of the picture"] if lost else []
        return [*super().notes, *said]

    def step(self, encoder: Model) -> PairStep:
        """The module that is trained; what is missing for measuring it is said before."""
        self.shown()
        return super().step(encoder)

    def grounding(self) -> Grounding:
        """The measured pairs of phrase and box: those of test nodes."""
        found = read_grounding(self.mag, self.ids[layout.TEST].numpy())
        if self.config.pairs is None or len(found) <= self.config.pairs:
            return found
        rng = child_rng(0, "phrases-and-boxes")
        return found.take(np.sort(rng.choice(len(found), self.config.pairs, replace=False)))

    def shown(self) -> tuple[Grounding, Sides]:
        """The measured pairs and the vectors of their phrases and boxes."""
        if self._shown is None:
            pairs = self.grounding()
            encoder, path = self.encoders[layout.TEXT], self.config.model_path
            make = RegionVectors(self.mag, encoder, path, str(self.device))
            vectors = make(pairs) if len(pairs) else (np.zeros((0, 1)), np.zeros((0, 1)))
            inside = np.flatnonzero(~np.isnan(vectors[1]).any(axis=1))
            if not len(inside):
                raise MaghubError(
                    f"no test node of split rule '{self.split}' has a phrase with a box",
                    where=self.mag.spec.name,
                    fix="choose another: --set node_rule=NAME",
                )
            text, image = (torch.from_numpy(part[inside]).to(self.device) for part in vectors)
            self._shown = pairs.take(inside), (text, image)
        return self._shown

    @torch.no_grad()
    def aligned(self, step: Step) -> Sides:
        """Representations [P, out] of the phrase and of the box of each measured pair."""
        assert isinstance(step, PairStep)
        pairs, (text, image) = self.shown()
        size = np.bincount(pairs.node)
        turn = torch.from_numpy(np.arange(len(pairs)) - (np.cumsum(size) - size)[pairs.node])
        node = torch.from_numpy(pairs.node)
        found = tuple(torch.empty((len(pairs), step.encoder.out)) for _ in range(2))
        was, _ = step.training, step.eval()
        for number in range(int(turn.max()) + 1):
            own = (turn == number).nonzero().reshape(-1).to(self.device)
            rows = node.to(self.device)[own]
            x = {m: value.clone() for m, value in self.features().items()}
            x[layout.TEXT][rows], x[layout.IMAGE][rows] = text[own], image[own]
            sides = step.sides(x, self.edge_index)[0]
            for result, side in zip(found, sides, strict=True):
                result[own.cpu()] = side[rows].float().cpu()
        step.train(was)
        return found[0], found[1]

    @torch.no_grad()
    def evaluate(self, step: Step, split: str) -> dict[str, float]:
        """On test CLIP-score of phrases and boxes; on every split MRR of the nodes' own pairs."""
        ids = self.ids[split]
        if not len(ids):
            return {}
        text, image = (side[ids] for side in self.represent(step))
        own = {"mrr": mrr(pair_ranks(text, image, torch.arange(len(ids)), self.config.ties))}
        return {**self.scores(self.aligned(step)), **own} if split == layout.TEST else own

    def scores(self, sides: Sides) -> dict[str, float]:
        """CLIP-score of vectors [P, D] of phrases and boxes, and of the same ones mixed up."""
        text, image = (directions(side) for side in sides)
        found = {"clip_score": _score(text, image)}
        foreign = self.foreign()
        if len(foreign):
            found["shuffled_clip_score"] = _score(text, image[foreign])
        return {**found, "mean_cosine": float((text * image).sum(dim=1).mean())}

    def foreign(self) -> Tensor:
        """int64 [P] for each pair another pair, of another picture; empty if there is one only."""
        node = self.shown()[0].node
        if node[0] == node[-1]:
            return torch.empty(0, dtype=torch.long)
        # Pairs of a picture stand together: draw among all that are not of one's own.
        first, size = np.searchsorted(node, node), np.bincount(node)[node]
        rng = child_rng(0, "foreign-regions")
        drawn = rng.integers(0, len(node) - size)
        return torch.from_numpy(drawn + np.where(drawn >= first, size, 0))

    def controls(self) -> dict[str, float]:
        """The same scores of the input itself: what the encoder alone gives."""
        return {f"input_{name}": value for name, value in self.scores(self.shown()[1]).items()}


def _score(text: Tensor, image: Tensor) -> float:
    return 100 * float((text * image).sum(dim=1).clamp(min=0).mean())
