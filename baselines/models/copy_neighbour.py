"""Copies the text or the picture of the nearest neighbour: what any generator must beat.

Of the neighbours that a target comes with, the one whose vector of the other modality is closest to
the target's (cosine) is copied; a target without such a neighbour gets that of a training node,
drawn by the seed. Nothing is learnt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict

from maghub import layout
from maghub.baselines.losses import cosine
from maghub.baselines.tasks._generation import Generator
from maghub.baselines.tasks._generation_view import GraphView, Ints
from maghub.errors import MaghubError
from maghub.seeding import child_rng

if TYPE_CHECKING:
    from PIL.Image import Image


class CopyNeighbourConfig(BaseModel):
    """It has no settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CopyNeighbour(Generator):
    """See the module."""

    Config = CopyNeighbourConfig

    def fit(self, view: GraphView, train: Ints, validation: Ints) -> None:
        """Remember which nodes may be copied where there is no neighbour."""
        self.train = train
        self.strangers = self.asked = 0

    def source(self, view: GraphView, nodes: Ints) -> Ints:
        """int64 [n]: whom each node copies."""
        table = view.neighbours[view.made][nodes]
        seen = layout.IMAGE if view.made == layout.TEXT else layout.TEXT
        scores = torch.zeros(table.shape)
        if seen in view.features.dims and table.size:
            near = view.vectors(seen, table.clip(min=0).ravel())
            own = view.vectors(seen, nodes)
            scores = cosine(own[:, None], near.reshape(*table.shape, -1)).cpu()
        scores[torch.from_numpy(table < 0)] = -torch.inf
        chosen = np.full(len(nodes), -1)
        if table.shape[1]:
            chosen = np.take_along_axis(table, scores.argmax(dim=1).numpy()[:, None], axis=1)[:, 0]
        # One draw per node id, so that no other target changes it.
        lonely = np.flatnonzero(chosen < 0)
        for row in lonely.tolist():
            chosen[row] = child_rng(self.seed, "stranger", int(nodes[row])).choice(self.train)
        self.strangers, self.asked = self.strangers + len(lonely), self.asked + len(nodes)
        self.notes = [f"{self.strangers:,} of {self.asked:,} had no neighbour: a training node's"]
        return chosen

    def texts(self, view: GraphView, nodes: Ints) -> list[str]:
        """The text of the nearest neighbour of each node."""
        return view.texts(self.source(view, nodes))

    def images(self, view: GraphView, nodes: Ints) -> list[Image]:
        """The picture of the nearest neighbour of each node."""
        source = self.source(view, nodes)
        found = view.images(source)
        if any(picture is None for picture in found):
            missing = int(source[[picture is None for picture in found]][0])
            raise MaghubError(f"node {missing} has a vector of its picture but no picture")
        return [picture for picture in found if picture is not None]
