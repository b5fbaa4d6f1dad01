"""Link prediction: true edges are ranked among fixed negatives of the same query node.

Messages flow over training edges only, and nothing of training depends on validation or test edges:
training negatives avoid training edges alone. The negatives that are measured are published with
the folder (upstream's own where they exist), and are edges of no split. A rank is the mean of the
optimistic and the pessimistic one; the released code's pessimistic rank is the option ``ties``.
Loss (OpenMAG's adapter): binary cross entropy with one negative per edge, and w * InfoNCE per
modality.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.nn import MLP

from maghub import layout
from maghub.baselines._model import Model
from maghub.baselines._task import Batch, Step, Task
from maghub.baselines.losses import link_bce
from maghub.baselines.sampling import PairSet, Shard, draw_negatives, link_batches
from maghub.baselines.tasks._contrast import ContrastConfig, ModalityContrast
from maghub.baselines.tasks._ranking import chance
from maghub.errors import MaghubError
from maghub.mag import MAG
from maghub.metrics import Ties, hits_at_k, mrr, ranks
from maghub.seeding import child_rng
from maghub.splits import fixed_negatives
from maghub.statistics import unique_pairs

KS = (1, 3, 10)
_SCORED_AT_ONCE = 1 << 17


class LinkPredictionConfig(ContrastConfig):
    """Settings of link prediction; see also ``ContrastConfig``.

    Attributes:
        negatives_rule: Published negatives to rank among; None takes those of the edge split.
        ranked: Negatives per edge that are drawn where the folder publishes none.
        negatives: Drawn per training edge.
        head_hidden: Width of the scoring network on h_i * h_j.
        head_layers: Its layers.
        head_dropout: Its dropout.
        ties: ``mean`` of optimistic and pessimistic rank, or one of them.
    """

    lr: float = Field(default=1e-3, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    batch_size: int | None = Field(default=2048, ge=1)
    fanout: int = Field(default=15, ge=-1)
    eval_every: int = Field(default=10, ge=1)
    negatives_rule: str | None = None
    ranked: int = Field(default=150, ge=1)
    negatives: int = Field(default=1, ge=1)
    head_hidden: int = Field(default=256, ge=1)
    head_layers: int = Field(default=3, ge=1)
    head_dropout: float = Field(default=0.02, ge=0, lt=1)
    ties: Ties = "mean"


class Scorer(Step):
    """Encoder, a network that scores h_i * h_j, and a projection per modality."""

    def __init__(self, encoder: Model, config: LinkPredictionConfig) -> None:
        super().__init__(encoder)
        widths = [encoder.out, *[config.head_hidden] * (config.head_layers - 1), 1]
        self.head = MLP(widths, dropout=config.head_dropout, norm=None)
        self.contrast = ModalityContrast(encoder, config)

    def score(self, h: Tensor, pairs: Tensor) -> Tensor:
        """float32 [p] logits of the node pairs int64 [2, p]."""
        return self.head(h[pairs[0]] * h[pairs[1]]).squeeze(-1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Binary cross entropy, InfoNCE per modality and the encoder's own losses."""
        output = self.encode(batch)
        assert batch.pairs is not None
        assert batch.y is not None
        logits = self.score(output.h, batch.pairs)
        losses = {"edges": link_bce(logits[batch.y > 0], logits[batch.y == 0])}
        return {**losses, **self.contrast(output.h, batch), **output.losses}


class LinkPrediction(Task):
    """See the module; the folder needs an edge split."""

    name = "link-prediction"
    Config = LinkPredictionConfig
    learns_labels = False
    monitor = "mrr"
    config: LinkPredictionConfig

    def __init__(self, mag: MAG, encoders: Mapping[str, str], *args: Any, **options: Any) -> None:
        super().__init__(mag, encoders, *args, **options)
        if not mag.spec.has(layout.EDGE_SPLITS):
            raise MaghubError(
                f"dataset {mag.spec.name} has no {layout.EDGE_SPLITS}, which link prediction needs",
                fix="build it again with a maghub that writes them, or add them with maghub build",
            )
        self.splits = mag.edge_splits(self.config.edge_rule)
        train = mag.edge_index[:, self.splits.get(layout.TRAIN, np.zeros(0, np.int64))]
        proper = train[:, train[0] != train[1]]
        if not proper.shape[1]:
            raise MaghubError(f"edge split '{self.split}' of {mag.spec.name} has no training edge")
        self.train_pairs = torch.from_numpy(unique_pairs(proper, mag.num_nodes))
        self._positives = PairSet(self.train_pairs, mag.num_nodes)
        self._ranked: dict[str, tuple[Tensor, Tensor]] = {}

    @property
    def split(self) -> str | None:
        """The edge split rule."""
        rules = self.mag.spec.edge_splits
        return self.config.edge_rule or (rules[0].name if rules else None)

    @property
    def reads(self) -> list[str]:
        """See ``Task.reads``; and the edge splits and negatives."""
        extra = [layout.EDGE_SPLITS]
        if (rule := self._negatives_rule()) is not None:
            extra.append(layout.negatives_config(rule))
        return sorted([*super().reads, *extra])

    def step(self, encoder: Model) -> Scorer:
        """The module that is trained; what cannot be ranked is said before."""
        for split in (layout.VALIDATION, layout.TEST):
            self.ranked(split)
        return Scorer(encoder, self.config)

    @property
    def notes(self) -> list[str]:
        """How many test edges a training edge gives away; maghub's own splits have none."""
        query, candidates = self.ranked(layout.TEST)
        if not len(query):
            return super().notes
        known = int(self._positives.contains(query.numpy(), candidates[:, 0].numpy()).sum())
        text = f"{known:,} of {len(query):,} test edges join nodes that a training edge joins"
        return [*super().notes, *([text] if known else [])]

    def _message_edges(self) -> Tensor:
        edges = self.mag.message_edges("link_prediction", self.config.edge_rule)
        return torch.from_numpy(edges)

    def batches(self, step: Step, epoch: int, shard: Shard) -> Iterator[Batch]:
        """Training edges with their negatives, on the whole graph or on sampled parts of it."""
        config = self.config
        if config.batch_size is None:
            yield self._whole_batch(epoch, shard)
            return
        for part in link_batches(
            self.sampler(step),
            self.train_pairs,
            config.batch_size,
            epoch,
            negatives=config.negatives,
            forbidden=self._positives,
            shard=shard,
        ):
            positives = part.edge_label_index[0, : len(part.input_id)]
            yield self.sampled(
                part,
                positives[: config.contrasted].unique().to(self.device),
                y=part.edge_label.float().to(self.device),
                pairs=part.edge_label_index.to(self.device),
            )

    def _whole_batch(self, epoch: int, shard: Shard) -> Batch:
        rng = child_rng(self.seed, "link-negatives", epoch, shard.rank)
        positives = self.train_pairs[:, shard.rank :: shard.world_size]
        count = positives.shape[1]
        drawn = draw_negatives(count * self.config.negatives, self._positives, rng)
        pairs = torch.cat([positives, torch.from_numpy(drawn)], dim=1).to(self.device)
        y = torch.zeros(pairs.shape[1], device=self.device)
        y[:count] = 1
        some = torch.from_numpy(rng.permutation(count)[: self.config.contrasted])
        return self.whole(positives[0, some].unique().to(self.device), y=y, pairs=pairs)

    # -- measuring -----------------------------------------------------------------------------

    def _negatives_rule(self) -> str | None:
        """The published negatives that belong to the edge split, None where there are none."""
        if self.config.negatives_rule is not None:
            return self.config.negatives_rule
        for rule in self.mag.spec.negatives:
            if rule.edge_split == self.split:
                return rule.name
        return None

    def ranked(self, split: str) -> tuple[Tensor, Tensor]:
        """What a split ranks: int64 [M] query nodes and int64 [M, 1 + K], the true node first.

        Where the folder publishes no negatives, ``config.ranked`` per edge are drawn with seed 0,
        the same for every run.
        """
        if split not in self._ranked:
            self._ranked[split] = self._published(split) or self._drawn(split)
        return self._ranked[split]

    def _published(self, split: str) -> tuple[Tensor, Tensor] | None:
        rule = self._negatives_rule()
        if rule is None:
            return None
        found = self.mag.negatives(rule).get(split)
        if found is None:
            return torch.zeros(0, dtype=torch.int64), torch.zeros(0, 1, dtype=torch.int64)
        candidates = np.concatenate([found[layout.POSITIVE][:, None], found[layout.NEG]], axis=1)
        return torch.tensor(found[layout.QUERY]), torch.from_numpy(candidates)

    def _drawn(self, split: str) -> tuple[Tensor, Tensor]:
        pairs = self.mag.edge_index[:, self.splits.get(split, np.zeros(0, np.int64))]
        pairs = pairs[:, pairs[0] != pairs[1]]
        src, dst = self.mag.edge_index
        rng = child_rng(0, "ranked", split)
        n = self.mag.num_nodes
        try:
            drawn = fixed_negatives(src, dst, n, pairs[0], self.config.ranked, rng)
        except ValueError as error:
            raise MaghubError(str(error), fix="lower it: --set ranked=10") from None
        candidates = np.concatenate([pairs[1][:, None], drawn], axis=1)
        return torch.from_numpy(pairs[0]), torch.from_numpy(candidates)

    @torch.no_grad()
    def evaluate(self, step: Step, split: str) -> dict[str, float]:
        """MRR and Hits@K of the true node among the negatives of the same query."""
        query, candidates = (part.to(self.device) for part in self.ranked(split))
        if not len(query):
            return {}
        assert isinstance(step, Scorer)
        h, width = self.encode(step).h, candidates.shape[1]
        rows = max(1, _SCORED_AT_ONCE // width)
        scores = torch.empty(candidates.shape)
        for start in range(0, len(query), rows):
            part = slice(start, start + rows)
            pairs = torch.stack([query[part].repeat_interleave(width), candidates[part].ravel()])
            scores[part] = step.score(h, pairs).reshape(-1, width).cpu()
        found = ranks(scores.numpy(), ties=self.config.ties)
        return {"mrr": mrr(found), **{f"hits@{k}": hits_at_k(found, k) for k in KS}}

    def controls(self) -> dict[str, float]:
        """MRR and Hits@K that random scores have on the test split, in expectation."""
        width = self.ranked(layout.TEST)[1].shape[1]
        if not len(self.ranked(layout.TEST)[0]):
            return {}
        return chance(width, KS)
