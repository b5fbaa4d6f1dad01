"""Node classification: labels of some nodes are given, the others are predicted.

Loss (OpenMAG's adapter): cross entropy + w * sum over modalities of InfoNCE(Linear_m(h), x_m), plus
the encoder's own losses. Validation accuracy chooses the epoch; test is read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from pydantic import Field
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor, nn

from maghub import layout
from maghub.baselines._model import Model
from maghub.baselines._task import Batch, Head, Step, Task, shard_ids
from maghub.baselines.sampling import Shard, node_batches
from maghub.baselines.tasks._contrast import ContrastConfig, ModalityContrast
from maghub.errors import MaghubError
from maghub.mag import MAG
from maghub.metrics import get_metric

METRICS = ("accuracy", "macro_f1")
_SCORED_AT_ONCE = 1 << 24


class NodeClassificationConfig(ContrastConfig):
    """Settings of node classification; see also ``ContrastConfig``.

    Attributes:
        head: ``linear`` puts a linear layer on ``h``; ``none`` lets the last layer of the encoder
            give the logits, as the first papers do.
    """

    eval_every: int = Field(default=10, ge=1)
    head: Head = "linear"


class Classifier(Step):
    """Encoder, classification head and a projection per modality."""

    def __init__(self, encoder: Model, classes: int, config: NodeClassificationConfig) -> None:
        super().__init__(encoder)
        linear = config.head == "linear"
        self.head = nn.Linear(encoder.out, classes) if linear else nn.Identity()
        self.contrast = ModalityContrast(encoder, config)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Cross entropy, InfoNCE per modality and the encoder's own losses."""
        output = self.encode(batch)
        h = output.h[batch.rows]
        assert batch.y is not None
        losses = {"cross_entropy": nn.functional.cross_entropy(self.head(h), batch.y)}
        return {**losses, **self.contrast(output.h, batch), **output.losses}


class NodeClassification(Task):
    """See the module; the folder needs labels and node splits."""

    name = "node-classification"
    Config = NodeClassificationConfig
    monitor = "accuracy"
    config: NodeClassificationConfig

    def __init__(self, mag: MAG, encoders: Mapping[str, str], *args: Any, **options: Any) -> None:
        super().__init__(mag, encoders, *args, **options)
        labels, splits = mag.labels, mag.splits(self.config.node_rule)
        self.classes = len(mag.label_names)
        self.ids = {}
        for split in (layout.TRAIN, layout.VALIDATION, layout.TEST):
            ids = splits.get(split, np.zeros(0, np.int64))
            self.ids[split] = torch.from_numpy(ids[labels[ids] >= 0])
        if not len(self.ids[layout.TRAIN]):
            raise MaghubError(
                f"split rule '{self.split}' has no labelled training node",
                where=mag.spec.name,
                fix="choose another: --set node_rule=NAME",
            )
        shown = labels.copy()
        train = self.ids[layout.TRAIN].numpy()
        shown[train] = self.noise.flip(labels[train], self.classes)
        self.y = torch.from_numpy(labels).to(self.device)
        self.shown = torch.from_numpy(shown).to(self.device)

    @property
    def split(self) -> str | None:
        """The node split rule."""
        return self.config.node_rule or self.mag.spec.default_split

    @property
    def reads(self) -> list[str]:
        """See ``Task.reads``; and the node splits."""
        return sorted([*super().reads, layout.NODE_SPLITS])

    def width(self, hidden: int) -> int:
        """The encoder's own width, or one value per class without a head."""
        return hidden if self.config.head == "linear" else self.classes

    def step(self, encoder: Model) -> Classifier:
        """The module that is trained."""
        return Classifier(encoder, self.classes, self.config)

    def batches(self, step: Step, epoch: int, shard: Shard) -> Iterator[Batch]:
        """All training nodes on the whole graph, or sampled parts of it."""
        ids = self.ids[layout.TRAIN]
        if self.config.batch_size is None:
            rows = shard_ids(ids, shard).to(self.device)
            yield self.whole(rows, y=self.shown[rows])
            return
        sampler, size = self.sampler(step), self.config.batch_size
        for part in node_batches(sampler, ids, size, epoch, shard=shard):
            rows = torch.arange(part.batch_size, device=self.device)
            y = self.shown[part.n_id[: part.batch_size].to(self.device)]
            yield self.sampled(part, rows, y=y)

    @torch.no_grad()
    def evaluate(self, step: Step, split: str) -> dict[str, float]:
        """Accuracy and macro-F1 of a split, every node seeing its whole neighbourhood."""
        rows = self.ids[split].to(self.device)
        if not len(rows):
            return {}
        assert isinstance(step, Classifier)
        h, size = self.encode(step).h, max(1, _SCORED_AT_ONCE // self.classes)
        parts = [step.head(h[part]).argmax(dim=1) for part in rows.split(size)]
        predicted = torch.cat(parts).cpu().numpy()
        truth = self.y[rows].cpu().numpy()
        return {name: get_metric(name)(truth, predicted) for name in METRICS}

    def controls(self) -> dict[str, float]:
        """Test accuracy of chance (uniform) and of the largest training class."""
        test = self.y[self.ids[layout.TEST].to(self.device)]
        train = self.y[self.ids[layout.TRAIN].to(self.device)]
        if not len(test):
            return {}
        largest = int(torch.bincount(train, minlength=self.classes).argmax())
        majority = float((test == largest).float().mean())
        return {"chance": 1 / self.classes, "majority": majority}

    def nearest_neighbours(self, k: int = 5) -> float:
        """Test accuracy of k-NN (cosine) from training nodes on the modalities side by side."""
        x = torch.cat(list(self.features().values()), dim=1).cpu().numpy()
        train, test = self.ids[layout.TRAIN].numpy(), self.ids[layout.TEST].numpy()
        labels = self.y.cpu().numpy()
        model = KNeighborsClassifier(k, metric="cosine").fit(x[train], labels[train])
        return float(np.mean(model.predict(x[test]) == labels[test]))
