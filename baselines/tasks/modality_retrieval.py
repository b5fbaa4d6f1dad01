"""Modality retrieval: the image of a text among all images, and the text of an image.

Two stages, as OpenMAG's adapter: the encoder is trained to bring text and image of a node together
(see ``_modality_pairs``), then its representations stay as they are and two networks, one per
modality, are trained on them with the same loss. Validation MRR, the mean of both directions,
chooses the epoch of either stage.

Candidates are the nodes of the measured split that have both modalities, or all nodes that do
(``candidates="all"``). Ranks are exact, over full rows of scores computed block by block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.nn import MLP

from maghub import layout
from maghub.baselines._model import Model
from maghub.baselines._task import Batch, Stage, Step, TaskConfig
from maghub.baselines.losses import info_nce
from maghub.baselines.sampling import Shard, epoch_places
from maghub.baselines.tasks._modality_pairs import (
    PairConfig,
    PairStep,
    PairTask,
    Sides,
    pair_ranks,
)
from maghub.baselines.tasks._ranking import chance
from maghub.baselines.training.loop import seed_torch
from maghub.metrics import hits_at_k, mrr

KS = (1, 3, 5, 10, 20)
TEXT_TO_IMAGE, IMAGE_TO_TEXT = "t2i", "i2t"


class ModalityRetrievalConfig(PairConfig):
    """Settings of modality retrieval.

    Attributes:
        epochs: Most epochs of the first stage; see also ``stage2_epochs``.
        candidates: ``split``: nodes of the measured split; ``all``: nodes of every split.
        tower_layers: Layers of each of the two networks.
        tower_hidden: Width of their hidden layers.
        tower_out: Width of their last layer.
        tower_dropout: Their dropout.
        stage2_epochs: Most epochs of the second stage.
        stage2_lr: Its learning rate.
        stage2_batch_size: Its batch size.
        stage2_patience: Its patience.
    """

    candidates: Literal["split", "all"] = "split"
    tower_layers: int = Field(default=3, ge=1)
    tower_hidden: int = Field(default=128, ge=1)
    tower_out: int = Field(default=64, ge=1)
    tower_dropout: float = Field(default=0.3, ge=0, lt=1)
    stage2_epochs: int = Field(default=500, ge=1)
    stage2_lr: float = Field(default=1e-3, gt=0)
    stage2_batch_size: int | None = Field(default=256, ge=2)
    stage2_patience: int | None = Field(default=10, ge=1)


class Towers(Step):
    """A network per modality on representations that stay as they are."""

    def __init__(self, encoder: Model, config: ModalityRetrievalConfig) -> None:
        torch.nn.Module.__init__(self)  # the encoder is not trained here, so it is no part of it
        self.temperature = config.temperature
        hidden = [config.tower_hidden] * (config.tower_layers - 1)
        widths = [encoder.out, *hidden, config.tower_out]
        drop = config.tower_dropout
        self.text, self.image = (MLP(widths, dropout=drop, norm=None) for _ in range(2))

    def sides(self, text: Tensor, image: Tensor) -> Sides:
        """Vectors [n, tower_out] that are compared."""
        return self.text(text), self.image(image)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """InfoNCE of the batch's pairs."""
        pair = self.sides(batch.x[layout.TEXT], batch.x[layout.IMAGE])
        return {"info_nce": info_nce(*pair, self.temperature)}


class Retriever(PairStep):
    """An encoder and, once it is trained, the towers on it."""

    def __init__(self, encoder: Model, config: ModalityRetrievalConfig) -> None:
        super().__init__(encoder, config)
        self.towers: Towers | None = None


class _TowerStage(Stage):
    """The second stage: pairs of representations instead of parts of a graph."""

    name: ClassVar[str] = "modality-retrieval, towers"
    monitor = "mrr"

    def __init__(self, task: ModalityRetrieval, sides: Sides) -> None:
        config = task.config
        second = {
            "epochs": config.stage2_epochs,
            "lr": config.stage2_lr,
            "batch_size": config.stage2_batch_size,
            "patience": config.stage2_patience,
        }
        self.config = TaskConfig.model_validate(
            {name: getattr(config, name) for name in TaskConfig.model_fields} | second
        )
        self.task, self.seed, self.device, self.both = task, task.seed, task.device, sides

    def batches(self, step: Step, epoch: int, shard: Shard) -> Iterator[Batch]:
        """Training pairs in a new order."""
        ids = self.task.ids[layout.TRAIN]
        size = self.config.batch_size or len(ids)
        for places in epoch_places(len(ids), size, self.seed, epoch, shard=shard):
            rows = ids[places].to(self.device)
            x = {layout.TEXT: self.both[0][rows], layout.IMAGE: self.both[1][rows]}
            none = torch.empty((2, 0), dtype=torch.long, device=self.device)
            yield Batch(x, none, torch.arange(len(rows), device=self.device))

    @torch.no_grad()
    def evaluate(self, step: Step, split: str) -> dict[str, float]:
        """The task's metrics of what the towers make of the representations."""
        assert isinstance(step, Towers)
        return self.task.measure(step.sides(*self.both), split)


class ModalityRetrieval(PairTask):
    """See the module; the folder needs vectors of text and image."""

    name = "modality-retrieval"
    Config = ModalityRetrievalConfig
    config: ModalityRetrievalConfig

    def step(self, encoder: Model) -> Retriever:
        """The module that is trained first."""
        return Retriever(encoder, self.config)

    def stages(self, step: Step) -> Iterator[tuple[Stage, Step]]:
        """The encoder, then the towers."""
        assert isinstance(step, Retriever)
        yield self, step
        seed_torch(self.seed, "weights", "towers")
        towers = Towers(step.encoder, self.config).to(self.device)
        yield _TowerStage(self, self.represent(step)), towers
        step.towers = towers

    @property
    def notes(self) -> list[str]:
        """See ``PairTask.notes``; and who the candidates are."""
        count, where = len(self.candidates(layout.TEST)), f"split {layout.TEST}"
        among = "all splits" if self.config.candidates == "all" else where
        return [*super().notes, f"candidates: the {count:,} nodes of {among} with both modalities"]

    def candidates(self, split: str) -> Tensor:
        """int64 [C] nodes whose texts and images are searched."""
        if self.config.candidates == "split":
            return self.ids[split]
        return torch.from_numpy(self.both).nonzero().reshape(-1)

    @torch.no_grad()
    def evaluate(self, step: Step, split: str) -> dict[str, float]:
        """MRR and Hits@K of both directions; before there are towers, of the encoder itself."""
        assert isinstance(step, Retriever)
        sides = self.represent(step)
        if step.towers is not None:
            step.towers.eval()
            sides = step.towers.sides(*sides)
        return self.measure(sides, split)

    def measure(self, sides: Sides, split: str) -> dict[str, float]:
        """The metrics of any vectors [N, D] of texts and images; nothing for an empty split."""
        ids, among = self.ids[split], self.candidates(split)
        if not len(ids):
            return {}
        places = torch.searchsorted(among, ids)
        metrics: dict[str, float] = {}
        for name, (asked, found) in {
            TEXT_TO_IMAGE: sides,
            IMAGE_TO_TEXT: (sides[1], sides[0]),
        }.items():
            rank = pair_ranks(asked[ids], found[among], places, self.config.ties)
            metrics[f"{name}_mrr"] = mrr(rank)
            metrics |= {f"{name}_hits@{k}": hits_at_k(rank, k) for k in KS}
        mean = (metrics[f"{TEXT_TO_IMAGE}_mrr"] + metrics[f"{IMAGE_TO_TEXT}_mrr"]) / 2
        return {**metrics, "mrr": mean}

    def controls(self) -> dict[str, float]:
        """Test MRR and Hits@K of guessing, and MRR of the input where one encoder made both."""
        count = len(self.candidates(layout.TEST))
        if not len(self.ids[layout.TEST]):
            return {}
        found = chance(count, KS)
        if len(set(self.encoders.values())) == 1 and len(set(self.features.dims.values())) == 1:
            x = self.features()
            found["input_mrr"] = self.measure((x[layout.TEXT], x[layout.IMAGE]), layout.TEST)["mrr"]
        return found
