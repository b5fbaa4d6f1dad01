"""What matching, retrieval and alignment share: pairs of a node's text and image, and training.

A pair is the text and the image of one node that has both. Training (OpenMAG, appendix G.1) is
symmetric InfoNCE between the representations of the two, temperature 0.07.

What each side may see decides what the numbers mean. OpenMAG's paper (appendix D.2) encodes a query
of one modality: ``inputs="own"``, the default, encodes the text side from texts alone and the image
side from images alone, the other modality being zeros in the whole graph. Its released code gives
the encoder both modalities at once (``inputs="all"``, preset ``openmag-code``): models that fuse
their input then read text and image of a pair from one and the same vector, and find pairs that
have nothing in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from maghub import layout
from maghub.baselines._model import Model, Output
from maghub.baselines._task import Batch, Step, Task, TaskConfig, evaluating, shard_ids
from maghub.baselines.losses import ZERO, info_nce
from maghub.baselines.sampling import Shard, epoch_places, node_batches
from maghub.errors import MaghubError
from maghub.mag import MAG
from maghub.metrics import Ties, ranks
from maghub.seeding import child_rng
from maghub.splits import random_split

SEEDED_SPLIT = "seeded-60-20-20"
SPLITS = (layout.TRAIN, layout.VALIDATION, layout.TEST)
JOINT = "clip-vit-large-patch14"
STEP = 1e-9
"""Cosines closer than this are equal, as in ``maghub.search``."""
_SCORED_AT_ONCE = 1 << 22

Sides = tuple[Tensor, Tensor]
"""Representations of texts and of images, row by row."""


class PairConfig(TaskConfig):
    """Settings of contrastive training.

    Attributes:
        temperature: Of InfoNCE.
        inputs: ``own`` encodes each side from its own modality alone, ``all`` from all of them.
        whole_graph: Encode the whole graph in every step, as OpenMAG does; otherwise ``fanout``
            neighbours per hop around the pairs of the step.
        ties: ``mean`` of optimistic and pessimistic rank, or one of them.
    """

    epochs: int = Field(default=500, ge=1)
    lr: float = Field(default=1e-3, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    batch_size: int | None = Field(default=256, ge=2)
    patience: int | None = Field(default=25, ge=1)
    temperature: float = Field(default=0.07, gt=0)
    inputs: Literal["own", "all"] = "own"
    whole_graph: bool = True
    ties: Ties = "mean"


class PairStep(Step):
    """An encoder whose two sides are compared."""

    def __init__(self, encoder: Model, config: PairConfig) -> None:
        super().__init__(encoder)
        self.config = config

    def sides(self, x: dict[str, Tensor], edges: Tensor) -> tuple[Sides, dict[str, Tensor]]:
        """Representations [n, out] of texts and images, and the encoder's own losses."""
        if self.config.inputs == "all":
            output = self.encoder(x, edges)
            text, image = (self._own(output, side) for side in layout.MODALITIES)
            return (text, image), output.losses
        sides: dict[str, Tensor] = {}
        losses: dict[str, Tensor] = {}
        for side in layout.MODALITIES:
            seen = {m: v if m == side else torch.zeros_like(v) for m, v in x.items()}
            output = self.encoder(seen, edges)
            sides[side] = self._own(output, side)
            losses |= {f"{name}_{side}": loss / 2 for name, loss in output.losses.items()}
        return (sides[layout.TEXT], sides[layout.IMAGE]), losses

    def _own(self, output: Output, side: str) -> Tensor:
        if side not in output.modalities:
            raise MaghubError(
                f"{type(self.encoder).__name__} gives no representation of {side} alone",
                fix="choose another model, e.g. gcn",
            )
        return output.modalities[side]

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """InfoNCE of the batch's pairs and the encoder's own losses."""
        (text, image), losses = self.sides(batch.x, batch.edge_index)
        rows, temperature = batch.rows, self.config.temperature
        return {"info_nce": info_nce(text[rows], image[rows], temperature), **losses}


class PairTask(Task):
    """Base of the tasks on pairs; the folder needs vectors of text and image.

    Which nodes count is what the folder says: noise damages inputs, never what is measured.
    """

    Config = PairConfig
    learns_labels = False
    monitor = "mrr"
    config: PairConfig

    def __init__(self, mag: MAG, encoders: Mapping[str, str], *args: Any, **options: Any) -> None:
        self._check(mag, encoders)
        own = {m: encoders[m] for m in layout.MODALITIES}
        super().__init__(mag, own, *args, **options)
        self.both = np.logical_and(*(mag.has(own[m], m) for m in layout.MODALITIES))
        self.ids = {name: torch.from_numpy(ids) for name, ids in self._splits().items()}
        if len(self.ids[layout.TRAIN]) < 2:
            raise MaghubError(
                f"{self.name} needs two training nodes with text and image, "
                f"split rule '{self.split}' has {len(self.ids[layout.TRAIN])} among the "
                f"{int(self.both.sum()):,} nodes with both",
                where=mag.spec.name,
                fix=f"encode both modalities: maghub encode {mag.folder} --encoder {JOINT}",
            )

    def _check(self, mag: MAG, encoders: Mapping[str, str]) -> None:
        """Refuse a folder, or a choice of encoders, without text or without images."""
        stored = mag.spec.config(layout.NODES).features
        vectors = {name for c in mag.spec.of_kind("embeddings") for name in c.features}
        for modality in layout.MODALITIES:
            if modality in encoders:
                continue
            if modality not in stored and modality not in vectors:
                raise MaghubError(
                    f"{self.name} needs text and image, the nodes have no {modality}",
                    where=mag.spec.name,
                    fix="choose a dataset with both, see: maghub list",
                )
            raise MaghubError(
                f"{self.name} needs vectors of text and image, those of {modality} are missing",
                where=mag.spec.name,
                fix=f"make both with: maghub encode {mag.folder} --encoder {JOINT}, or name an "
                "encoder for each: --encoder text=NAME,image=NAME",
            )

    def _splits(self) -> dict[str, NDArray[np.int64]]:
        """Nodes with both modalities of each split."""
        if self.config.node_rule is None and not self.mag.spec.has(layout.NODE_SPLITS):
            ids = np.flatnonzero(self.both)
            codes = random_split(len(ids), (0.6, 0.2, 0.2), child_rng(0, "pairs", SEEDED_SPLIT))
            return {name: ids[codes == code] for code, name in enumerate(SPLITS)}
        found = self.mag.splits(self.config.node_rule)
        parts = {name: found.get(name, np.zeros(0, np.int64)) for name in SPLITS}
        return {name: ids[self.both[ids]] for name, ids in parts.items()}

    @property
    def split(self) -> str | None:
        """The node split rule; a seeded one where the folder has none."""
        if self.config.node_rule is None and not self.mag.spec.has(layout.NODE_SPLITS):
            return SEEDED_SPLIT
        return self.config.node_rule or self.mag.spec.default_split

    @property
    def reads(self) -> list[str]:
        """See ``Task.reads``; and the node splits."""
        own = [layout.NODE_SPLITS] if self.mag.spec.has(layout.NODE_SPLITS) else []
        return sorted([*super().reads, *own])

    @property
    def notes(self) -> list[str]:
        """How many pairs each split has, and what each side saw."""
        counts = ", ".join(f"{len(ids):,} {name}" for name, ids in self.ids.items())
        seen = "its own modality" if self.config.inputs == "own" else "all modalities of its node"
        return [f"pairs: {counts}; each side is encoded from {seen}"]

    def step(self, encoder: Model) -> PairStep:
        """The module that is trained."""
        return PairStep(encoder, self.config)

    def batches(self, step: Step, epoch: int, shard: Shard) -> Iterator[Batch]:
        """Training pairs, on the whole graph or on sampled parts of it."""
        ids, size = self.ids[layout.TRAIN], self.config.batch_size
        if size is None:
            yield self.whole(shard_ids(ids, shard).to(self.device))
        elif self.config.whole_graph and step.encoder.hops:
            for places in epoch_places(len(ids), size, self.seed, epoch, shard=shard):
                yield self.whole(ids[places].to(self.device))
        else:
            for part in node_batches(self.sampler(step), ids, size, epoch, shard=shard):
                rows = torch.arange(part.batch_size, device=self.device)
                yield self.sampled(part, rows)

    @torch.no_grad()
    def represent(self, step: Step) -> Sides:
        """Representations of all nodes' texts and images, full graph."""
        assert isinstance(step, PairStep)
        with evaluating(step):
            return step.sides(self.features(), self.edge_index)[0]


def directions(x: Tensor) -> Tensor:
    """float64 rows of length 1; a row of zeros stays so and has cosine 0 with everything."""
    return functional.normalize(x.double(), dim=-1, eps=ZERO)


def rounded(cosines: Tensor) -> Tensor:
    """Cosines in whole steps, so that equal vectors tie whatever the order of their sums."""
    return (cosines / STEP).round()


def pair_ranks(
    queries: Tensor, candidates: Tensor, places: Tensor, ties: Ties
) -> NDArray[np.float64]:
    """Rank of each query's own candidate among all candidates by cosine, block by block.

    Args:
        queries: float [Q, D].
        candidates: float [C, D].
        places: int64 [Q], row of each query's own candidate.
        ties: See ``maghub.metrics.ranks``.
    """
    left, right = directions(queries), directions(candidates).T
    rows = max(1, _SCORED_AT_ONCE // right.shape[1])
    found = [np.zeros(0)]
    for start in range(0, len(left), rows):
        scores = rounded(left[start : start + rows] @ right).cpu().numpy()
        found.append(ranks(scores, places[start : start + rows].cpu().numpy(), ties=ties))
    return np.concatenate(found)
