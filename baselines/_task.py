"""The task contract: what a task reads from a published folder, trains on and measures.

A new task is one file in ``tasks/`` and one entry point in ``maghub.tasks``. It says which batches
an epoch has, which losses a batch gives and how a split is measured; the loop in ``training/`` does
the rest. Validation chooses the epoch; ``evaluate("test")`` is called once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, to_undirected

from maghub import layout
from maghub.baselines._model import Model, ModelConfig, Output
from maghub.baselines.features import Features, Scale
from maghub.baselines.noise import Noise
from maghub.baselines.presets import presets_for, run_configs
from maghub.baselines.sampling import Sampler, Shard, neighbor_sampler
from maghub.baselines.settings import registered
from maghub.errors import MaghubError
from maghub.mag import MAG
from maghub.results import RunRecord, RunRequest


class TaskConfig(BaseModel):
    """Settings every task has; defaults are OpenMAG's (appendix G.1).

    Attributes:
        epochs: Most passes over the training examples.
        lr: Learning rate of Adam.
        weight_decay: Adam's L2 penalty.
        batch_size: Examples per step; None takes all of them and the whole graph at once.
        fanout: Neighbours sampled per hop in a batch; -1 takes all.
        eval_every: Epochs between two looks at validation.
        patience: Looks at validation without a better value before training ends; None: never.
        clip: Largest norm of the gradient, None for no limit.
        amp: Compute in bfloat16 on a GPU.
        scale: Scaling of the input, see ``Features``.
        symmetric: Messages flow both ways, also where the dataset's edges are directed.
        node_rule: Named node split of the folder; None takes the default one.
        edge_rule: Named edge split; None takes the first.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    epochs: int = Field(default=100, ge=1)
    lr: float = Field(default=5e-3, gt=0)
    weight_decay: float = Field(default=1e-5, ge=0)
    batch_size: int | None = Field(default=512, ge=1)
    fanout: int = Field(default=25, ge=-1)
    eval_every: int = Field(default=1, ge=1)
    patience: int | None = Field(default=None, ge=1)
    clip: float | None = Field(default=None, gt=0)
    amp: bool = False
    scale: Scale = "none"
    symmetric: bool = True
    node_rule: str | None = None
    edge_rule: str | None = None


@dataclass
class Batch:
    """What one step sees: a whole graph or a sampled part of it.

    Attributes:
        x: modality -> float32 [n, width] of the nodes in the batch.
        edge_index: int64 [2, m], ids within the batch.
        rows: int64 [b], the training examples among the nodes (or the nodes of ``pairs``).
        y: Targets of the examples.
        pairs: int64 [2, p] scored node pairs, ids within the batch.
        n_id: int64 [n], node ids in the dataset; None for the whole graph.
        hops: How many nodes of a sampled graph lie within 0, 1, ... hops, see ``Model.trims``.
            Rows and pairs are of the first ``hops[0]``.
    """

    x: dict[str, Tensor]
    edge_index: Tensor
    rows: Tensor
    y: Tensor | None = None
    pairs: Tensor | None = None
    n_id: Tensor | None = None
    hops: list[int] | None = None
    extra: dict[str, Tensor] = field(default_factory=dict)


class Step(nn.Module):
    """Encoder and heads; ``forward(batch)`` gives the named losses of a step, already weighted."""

    def __init__(self, encoder: Model) -> None:
        super().__init__()
        self.encoder = encoder

    def encode(self, batch: Batch) -> Output:
        """Representations of the nodes of a batch, of a sampled one of its examples at least."""
        if batch.hops is None or not self.encoder.trims:
            return self.encoder(batch.x, batch.edge_index)
        return self.encoder(batch.x, batch.edge_index, hops=batch.hops)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """name -> scalar loss."""
        raise NotImplementedError


class Stage(ABC):
    """What the training loop trains: settings, batches, and a measure that chooses the epoch.

    A task is one; a task that trains in several stages gives them in ``Task.stages``.
    """

    name: ClassVar[str]
    monitor: str | None = None
    """The validation metric that chooses the epoch (larger is better); None takes the last."""
    config: TaskConfig
    seed: int
    device: torch.device

    @abstractmethod
    def batches(self, step: Step, epoch: int, shard: Shard) -> Iterator[Batch]:
        """The batches of an epoch; they depend on the seed, the epoch and the shard alone."""

    @abstractmethod
    def evaluate(self, step: Step, split: str) -> dict[str, float]:
        """Metrics of a split, by a step in eval mode."""


class Task(Stage):
    """One task on one dataset.

    Args:
        mag: The dataset.
        encoders: modality -> encoder whose vectors are the input.
        config: An instance of ``Config``.
        noise: kind -> share of damage, see ``Noise``.
        seed: Seed of batches, negatives and damage.
        device: Where to compute.

    Raises:
        MaghubError: The dataset lacks what the task needs; says which command makes it.
    """

    Config: ClassVar[type[TaskConfig]] = TaskConfig
    learns_labels: ClassVar[bool] = True
    """Whether it learns from labels, which noise may flip."""

    def __init__(
        self,
        mag: MAG,
        encoders: Mapping[str, str],
        config: TaskConfig | None = None,
        *,
        noise: Mapping[str, float] | None = None,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        self.mag, self.encoders, self.seed = mag, dict(encoders), seed
        self.config = config or self.Config()
        self.device = torch.device(device)
        self.noise = Noise(dict(noise or {}), list(encoders), seed, labels=self.learns_labels)
        self.features = Features(mag, encoders, self.noise, self.config.scale, device)
        self._sampler: Sampler | None = None

    @classmethod
    def configs(
        cls, model: str, preset: str | None, settings: Mapping[str, Any]
    ) -> tuple[type[Model], ModelConfig, TaskConfig]:
        """A registered model, its settings and those of this task: defaults, preset, overrides.

        Raises:
            MaghubError: No such model of graphs, preset or setting, or a value that does not fit.
        """
        kind = registered(model, Model, f"is no encoder of graphs, which {cls.name} needs", "gcn")
        return kind, *run_configs(kind.Config, cls.Config, model, cls.name, preset, settings)

    @classmethod
    def presets(cls, model: str) -> dict[str, str]:
        """name -> description of the presets for a model on this task."""
        return presets_for(model, cls.name)

    @classmethod
    def run(cls, request: RunRequest) -> RunRecord:
        """Train and measure one model with one seed, as ``maghub run`` asks."""
        from maghub.baselines.run import run_task

        return run_task(cls, request)

    # -- what a task says ----------------------------------------------------------------------

    def width(self, hidden: int) -> int:
        """Width of ``h`` that the encoder shall give, ``hidden`` being its own."""
        return hidden

    @abstractmethod
    def step(self, encoder: Model) -> Step:
        """The module that is trained."""

    def stages(self, step: Step) -> Iterator[tuple[Stage, Step]]:
        """What is trained, one after the other; a stage is asked for when the last one is done."""
        yield self, step

    def controls(self) -> dict[str, float]:
        """What needs no training: chance, majority and the like on the test split."""
        return {}

    @property
    def notes(self) -> list[str]:
        """What a reader of the result must know."""
        return []

    @property
    def split(self) -> str | None:
        """Name of the split rule that the task reads."""
        return None

    @property
    def reads(self) -> list[str]:
        """Configs of the folder that decide the result."""
        configs = {layout.embeddings_config(encoder) for encoder in self.encoders.values()}
        return sorted(
            {layout.NODES, layout.EDGES, *configs} & {c.name for c in self.mag.spec.configs}
        )

    # -- what tasks share ----------------------------------------------------------------------

    def _message_edges(self) -> Tensor:
        """int64 [2, M] of the dataset that may carry messages in this task."""
        return torch.from_numpy(self.mag.message_edges("node_classification"))

    @cached_property
    def edge_index(self) -> Tensor:
        """int64 [2, M] message-passing edges on the device: both ways, spurious ones included."""
        edges = both_ways(self.mag, self._message_edges(), self.noise, self.config.symmetric)
        return edges.to(self.device)

    def sampler(self, step: Step) -> Sampler:
        """Draws the neighbourhoods of mini-batches; made when it is first asked for."""
        if self._sampler is None:
            fanout, edges = [self.config.fanout] * step.encoder.hops, self.edge_index.cpu()
            self._sampler = neighbor_sampler(edges, self.mag.num_nodes, fanout, self.seed)
        return self._sampler

    def whole(self, rows: Tensor, **parts: Any) -> Batch:
        """The whole graph as one batch."""
        return Batch(self.features(), self.edge_index, rows, **parts)

    def sampled(self, part: Data, rows: Tensor, **parts: Any) -> Batch:
        """A sampled neighbourhood of the rows as one batch."""
        return Batch(
            self.features(part.n_id),
            part.edge_index.to(self.device),
            rows,
            n_id=part.n_id,
            hops=list(accumulate(part.num_sampled_nodes)),
            **parts,
        )

    @torch.no_grad()
    def encode(self, step: Step) -> Output:
        """Representations of all nodes, full graph.

        Raises:
            MaghubError: One of them is not finite.
        """
        with evaluating(step):
            output = step.encoder(self.features(), self.edge_index)
        if not bool(torch.isfinite(output.h).all()):
            what = "the representations of the trained model are not finite"
            raise MaghubError(what, fix="lower lr, or scale the input: --set scale=standard")
        return output


Head = Literal["linear", "none"]


@contextmanager
def evaluating(step: Step) -> Iterator[None]:
    """The step in eval mode, and afterwards as it was."""
    was, _ = step.training, step.eval()
    try:
        yield
    finally:
        step.train(was)


def both_ways(mag: MAG, edges: Tensor, noise: Noise, symmetric: bool) -> Tensor:
    """int64 [2, M] edges with the spurious ones of ``noise``, and both ways if ``symmetric``.

    The share of spurious edges is one of ``edges``, so that held-out edges do not count.
    """
    n = mag.num_nodes
    real = edges.shape[1] if mag.graph.directed else int((edges[0] <= edges[1]).sum())
    extra = torch.from_numpy(noise.spurious(real, n))
    if extra.numel():
        edges = coalesce(torch.cat([edges, extra, extra.flip(0)], dim=1), num_nodes=n)
    if symmetric and mag.graph.directed:
        edges = to_undirected(edges, num_nodes=n)
    return edges


def shard_ids(ids: Tensor, shard: Shard) -> Tensor:
    """Every ``world_size``-th id from ``rank`` on, cut so that all shards are equally long."""
    even = len(ids) // shard.world_size * shard.world_size
    if shard.world_size == 1 or even == 0:
        return ids
    return ids[:even][shard.rank :: shard.world_size]
