"""Node clustering: representations learnt without labels, grouped by k-means.

Loss (OpenMAG's adapter): InfoNCE over edges + cosine reconstruction of the input of every modality,
plus the encoder's own losses. Nothing is chosen by labels: the last epoch is measured. The released
code selects by validation accuracy, which reads labels; maghub does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from pydantic import Field
from sklearn.cluster import KMeans
from torch import Tensor, nn

from maghub import layout
from maghub.baselines._model import Model
from maghub.baselines._task import Batch, Step, Task, TaskConfig, shard_ids
from maghub.baselines.losses import cosine_reconstruction, edge_info_nce
from maghub.baselines.sampling import Shard
from maghub.errors import MaghubError
from maghub.mag import MAG
from maghub.metrics import get_metric
from maghub.seeding import child_rng

METRICS = ("nmi", "ari", "clustering_accuracy")


class NodeClusteringConfig(TaskConfig):
    """Settings of node clustering.

    Attributes:
        temperature: Of InfoNCE over edges.
        negatives: Random nodes compared with each edge.
        contrasted: Most edges compared in one step.
        reconstruction: Weight of the cosine reconstruction of the input.
        restarts: Runs of k-means; the one with the least inertia counts.
    """

    epochs: int = Field(default=500, ge=1)
    batch_size: int | None = Field(default=None, ge=1)
    clip: float | None = Field(default=1.0, gt=0)
    temperature: float = Field(default=0.5, gt=0)
    negatives: int = Field(default=5, ge=1)
    contrasted: int = Field(default=2048, ge=1)
    reconstruction: float = Field(default=1.0, ge=0)
    restarts: int = Field(default=10, ge=1)


class Clusterer(Step):
    """Encoder and a decoder per modality."""

    def __init__(self, encoder: Model, config: NodeClusteringConfig) -> None:
        super().__init__(encoder)
        self.config = config
        self.decode = nn.ModuleDict({m: nn.Linear(encoder.out, d) for m, d in encoder.dims.items()})

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Edge InfoNCE, reconstruction per modality and the encoder's own losses."""
        output, config = self.encoder(batch.x, batch.edge_index), self.config
        losses = {}
        assert batch.pairs is not None
        if batch.pairs.numel():
            losses["edge_nce"] = edge_info_nce(
                output.h, batch.pairs, batch.extra["negatives"], temperature=config.temperature
            )
        others = batch.extra["others"]
        for modality, decode in self.decode.items():
            x = batch.x[modality]
            there = x.abs().sum(dim=1) > 0
            loss = cosine_reconstruction(decode(output.h)[there], x[there], x[others][there])
            losses[f"reconstruction_{modality}"] = config.reconstruction * loss
        return {**losses, **output.losses}


class NodeClustering(Task):
    """See the module; the folder needs labels, for measuring only."""

    name = "node-clustering"
    Config = NodeClusteringConfig
    learns_labels = False
    monitor = None
    config: NodeClusteringConfig

    def __init__(self, mag: MAG, encoders: Mapping[str, str], *args: Any, **options: Any) -> None:
        super().__init__(mag, encoders, *args, **options)
        if self.config.batch_size is not None:
            raise MaghubError("clustering trains on the whole graph", fix="leave batch_size out")
        self.labels = mag.labels
        self.classes = len(mag.label_names)

    def step(self, encoder: Model) -> Clusterer:
        """The module that is trained."""
        return Clusterer(encoder, self.config)

    def batches(self, step: Step, epoch: int, shard: Shard) -> Iterator[Batch]:
        """One batch: the whole graph, some of its edges and random nodes beside them."""
        rng, n = child_rng(self.seed, "clustering", epoch), self.mag.num_nodes
        edges = self.edge_index.shape[1]
        chosen = torch.from_numpy(rng.permutation(edges)[: self.config.contrasted])
        chosen = shard_ids(chosen, shard).to(self.device)
        shape = (len(chosen), self.config.negatives)
        negatives = torch.from_numpy(rng.integers(0, n, shape)).to(self.device)
        others = torch.from_numpy(rng.permutation(n)).to(self.device)
        rows = torch.arange(n, device=self.device)
        extra = {"negatives": negatives, "others": others}
        yield self.whole(rows, pairs=self.edge_index[:, chosen], extra=extra)

    @torch.no_grad()
    def evaluate(self, step: Step, split: str) -> dict[str, float]:
        """NMI, ARI and Hungarian accuracy of k-means on all labelled nodes.

        There is no validation in an unsupervised task: only ``test`` is measured. Empty where all
        labels are equal.
        """
        if split != layout.TEST:
            return {}
        truth = self.labels >= 0
        if len(np.unique(self.labels[truth])) < 2:  # nothing to tell apart
            return {}
        h = nn.functional.normalize(self.encode(step).h.float(), dim=1).cpu().numpy()
        found = self.clusters(h)
        return {name: get_metric(name)(self.labels[truth], found[truth]) for name in METRICS}

    def clusters(self, h: np.ndarray) -> np.ndarray:
        """int [N]: the cluster of each row of h [N, D], as many clusters as there are classes.

        Rows are first put in the order of a random projection, so that the numbers of nodes do not
        decide where k-means starts.
        """
        rng = child_rng(self.seed, "k-means")
        order = np.argsort(h.astype(np.float64) @ rng.standard_normal(h.shape[1]), kind="stable")
        k_means = KMeans(
            min(self.classes, len(h)),
            n_init=self.config.restarts,
            random_state=int(rng.integers(2**31)),
        )
        found = np.empty(len(h), np.int64)
        found[order] = k_means.fit_predict(h[order])
        return found
