"""End-to-end fine-tuning of a text and an image encoder under a node classifier.

OpenMAG, section 4.2: an MLP reads the vectors of both encoders, and either, both or none of the
encoders are trained with it. The graph is not used. Texts and images are read from the published
folder batch by batch; validation chooses the epoch, test is read once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

import datasets
import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from sklearn.metrics import accuracy_score, f1_score
from torch import Tensor, nn
from torch_geometric import seed_everything

from maghub import layout
from maghub.baselines._model import Model
from maghub.baselines._towers import LoRA, Tower
from maghub.baselines.settings import registered, resolve
from maghub.baselines.training.loop import check_weights
from maghub.encoding.torch_encoder import TorchEncoder
from maghub.errors import MaghubError, nearest
from maghub.mag import MAG
from maghub.seeding import child_rng

Mode = Literal["frozen", "text", "image", "both"]
TUNED: dict[str, tuple[str, ...]] = {
    "frozen": (),
    "text": (layout.TEXT,),
    "image": (layout.IMAGE,),
    "both": layout.MODALITIES,
}


class FineTuneConfig(BaseModel):
    """Typed, printable settings of a run.

    Attributes:
        mode: Which encoders are trained with the classifier.
        lora: Adapters instead of all weights of a trained encoder.
        epochs: Most passes over the training nodes.
        patience: Passes without a better validation accuracy before it ends.
        batch_size: Nodes per step.
        lr: Learning rate of the classifier.
        encoder_lr: Learning rate of the encoders' weights.
        weight_decay: AdamW's.
        clip: Largest norm of the gradient.
        half: Compute encoders in bfloat16 where the device can (weights stay float32).
        node_rule: Named node split; None takes the default one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: Mode = "both"
    lora: LoRA | None = None
    epochs: int = Field(default=20, ge=1)
    patience: int = Field(default=5, ge=1)
    batch_size: int = Field(default=32, ge=1)
    lr: float = Field(default=1e-3, gt=0, lt=1e38)
    encoder_lr: float = Field(default=2e-5, gt=0, lt=1e38)
    weight_decay: float = Field(default=0.01, ge=0, lt=1e38)
    clip: float = Field(default=1.0, gt=0)
    half: bool = False
    node_rule: str | None = None


class FineTuneResult(BaseModel):
    """One run: what was run and what came out (accuracy and macro F1 are fractions)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dataset: str
    task: str = "fine-tuning"
    encoders: dict[str, str]
    seed: int
    settings: dict[str, object]
    head_settings: dict[str, object]
    trainable_parameters: int
    validation_accuracy: float
    test_accuracy: float
    test_f1: float
    epoch: int
    seconds: float
    seconds_per_epoch: float
    gpu_bytes: int | None = None


class Network(nn.Module):
    """Towers and the classifier on top of them.

    Every modality is scaled to mean 0 and variance 1 within a vector, so that the classifier sees
    encoders of any scale alike, before and after they are tuned.
    """

    def __init__(self, towers: Mapping[str, Tower], head: Model) -> None:
        super().__init__()
        self.towers, self.head = nn.ModuleDict(dict(towers)), head

    def forward(self, values: Mapping[str, Any]) -> Tensor:
        """Class scores; a modality is stored values, or vectors that its tower gave before."""
        x = {}
        for name, tower in self.towers.items():
            vectors = values[name] if torch.is_tensor(values[name]) else tower(values[name])
            x[name] = nn.functional.layer_norm(vectors, vectors.shape[-1:])
        no_edges = torch.empty((2, 0), dtype=torch.int64, device=vectors.device)
        scores: Tensor = self.head(x, no_edges).h
        return scores


class FineTuning:
    """Trains encoders and a classifier on a published folder.

    Args:
        mag: A loaded dataset with labels and node splits.
        encoders: modality -> loaded encoder, such as ``registry.get("encoders",
            "bert-base-nli-mean-tokens")()``, or untrained one (``ViGEncoder.untrained``). They are
            copied; a run leaves them as they are.
        config: Settings of the runs.
        model: Registered model that is the classifier.
        head: Its settings.

    Raises:
        MaghubError: No labels or splits, no such model or settings of it, or the mode trains an
            encoder that is not given.
    """

    def __init__(
        self,
        mag: MAG,
        encoders: Mapping[str, TorchEncoder],
        config: FineTuneConfig | None = None,
        *,
        model: str = "mlp",
        head: Mapping[str, object] | None = None,
    ) -> None:
        self.mag, self.encoders, self.config = mag, dict(encoders), config or FineTuneConfig()
        self.kind = registered(
            model, Model, "is no encoder of graphs, which fine-tuning needs", "gcn"
        )
        own = {f"model.{name}": value for name, value in (head or {}).items()}
        self.head, _ = resolve(self.kind.Config, FineTuneConfig, own)
        for modality in (*self.encoders, *TUNED[self.config.mode]):
            if modality not in layout.MODALITIES:
                raise nearest(modality, layout.MODALITIES, kind="modality")
            if modality not in self.encoders:
                raise MaghubError(
                    f"mode {self.config.mode} trains an encoder of {modality}, none is given",
                    fix=f"give one, or choose mode {next(iter(self.encoders), 'frozen')}",
                )
        if not self.encoders:
            raise MaghubError("no encoder is given", fix="give one of text, of image, or both")
        splits = mag.splits(self.config.node_rule)
        self.labels: NDArray[np.int64] = mag.labels
        self.ids = {}
        for name in (layout.TRAIN, layout.VALIDATION, layout.TEST):
            ids = splits.get(name, np.zeros(0, np.int64))
            self.ids[name] = ids[self.labels[ids] >= 0]
            if not len(self.ids[name]):
                raise MaghubError(
                    f"the split has no labelled {name} node, which fine-tuning needs",
                    where=mag.spec.name,
                    fix="choose another: node_rule=NAME",
                )
        self.rows = mag.nodes.select_columns(list(self.encoders))
        if layout.IMAGE in self.encoders:
            self.rows = self.rows.cast_column(layout.IMAGE, datasets.Image(decode=False))
        self.device = next(iter(self.encoders.values())).device

    def network(self, seed: int) -> Network:
        """The towers and an untrained classifier."""
        seed_everything(seed)
        tuned, lora = TUNED[self.config.mode], self.config.lora
        towers = {
            modality: Tower(encoder, modality, tuned=modality in tuned, lora=lora)
            for modality, encoder in self.encoders.items()
        }
        widths = {modality: tower.width for modality, tower in towers.items()}
        head = self.kind(widths, len(self.mag.label_names), self.head)
        return Network(towers, head).to(self.device)

    def run(self, seed: int = 0) -> FineTuneResult:
        """Train with one seed; test accuracy at the best validation epoch."""
        return self.fit(seed)[1]

    def fit(self, seed: int = 0) -> tuple[Network, FineTuneResult]:
        """Train with one seed; the network of the best validation epoch and its result."""
        begin = time.monotonic()
        gpu = self.device.type == "cuda"
        if gpu:
            torch.cuda.reset_peak_memory_stats(self.device)
        net = self.network(seed)
        frozen = self._frozen_vectors(net)
        validation, epoch, epochs = self._train(net, frozen, seed)
        predicted = self._predict(net, frozen, layout.TEST)
        truth, seconds = self.labels[self.ids[layout.TEST]], time.monotonic() - begin
        return net, FineTuneResult(
            dataset=self.mag.spec.name,
            encoders={modality: e.spec.name for modality, e in self.encoders.items()},
            seed=seed,
            settings=self.config.model_dump(),
            head_settings=self.head.model_dump(),
            trainable_parameters=sum(p.numel() for p in net.parameters() if p.requires_grad),
            validation_accuracy=validation,
            test_accuracy=float(accuracy_score(truth, predicted)),
            test_f1=float(f1_score(truth, predicted, average="macro", zero_division=0)),
            epoch=epoch,
            seconds=round(seconds, 3),
            seconds_per_epoch=round(seconds / epochs, 3),
            gpu_bytes=torch.cuda.max_memory_allocated(self.device) if gpu else None,
        )

    def _frozen_vectors(self, net: Network) -> dict[str, Tensor]:
        """float32 [N, D] vectors of the encoders that are not trained, each node encoded once."""
        net.eval()
        used = np.sort(np.concatenate(list(self.ids.values())))
        found = {}
        for modality in self.encoders:
            tower = cast(Tower, net.towers[modality])
            if tower.tuned:
                continue
            found[modality] = torch.zeros(self.mag.num_nodes, tower.width)
            with torch.no_grad(), self._precision():
                for ids in _batches(used, self.config.batch_size):
                    found[modality][ids] = tower(self.rows[ids][modality]).cpu()
        return found

    def _values(self, frozen: Mapping[str, Tensor], ids: NDArray[np.int64]) -> dict[str, Any]:
        """What the network reads of some nodes."""
        read = [modality for modality in self.encoders if modality not in frozen]
        stored = self.rows.select_columns(read)[ids] if read else {}
        return {**stored, **{m: x[ids].to(self.device) for m, x in frozen.items()}}

    def _precision(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.half)

    def _optimizer(self, net: Network) -> torch.optim.Optimizer:
        config = self.config
        towers = [p for p in net.towers.parameters() if p.requires_grad]
        groups: list[dict[str, Any]] = [{"params": list(net.head.parameters()), "lr": config.lr}]
        groups += [{"params": towers, "lr": config.encoder_lr}] if towers else []
        return torch.optim.AdamW(groups, weight_decay=config.weight_decay)

    def _train(
        self, net: Network, frozen: Mapping[str, Tensor], seed: int
    ) -> tuple[float, int, int]:
        """Train and go back to the best epoch; its validation accuracy and number, epochs run."""
        optimizer = self._optimizer(net)
        truth = self.labels[self.ids[layout.VALIDATION]]
        best, best_epoch, state, epoch = -1.0, 0, _state(net), 0
        for epoch in range(self.config.epochs):
            self._epoch(net, frozen, optimizer, child_rng(seed, "fine-tuning", epoch))
            check_weights(net, epoch)
            predicted = self._predict(net, frozen, layout.VALIDATION)
            accuracy = float(accuracy_score(truth, predicted))
            if accuracy > best:
                best, best_epoch, state = accuracy, epoch, _state(net)
            elif epoch - best_epoch >= self.config.patience:
                break
        net.load_state_dict(state, strict=False)
        return best, best_epoch, epoch + 1

    def _epoch(
        self,
        net: Network,
        frozen: Mapping[str, Tensor],
        optimizer: torch.optim.Optimizer,
        rng: np.random.Generator,
    ) -> None:
        """One pass over the training nodes in a seeded order."""
        net.train()
        for ids in _batches(rng.permutation(self.ids[layout.TRAIN]), self.config.batch_size):
            optimizer.zero_grad()
            with self._precision():
                scores = net(self._values(frozen, ids))
            target = torch.from_numpy(self.labels[ids]).to(self.device)
            loss = nn.functional.cross_entropy(scores.float(), target)
            if not torch.isfinite(loss):
                raise MaghubError("loss is not finite", fix="lower the learning rates")
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), self.config.clip)
            optimizer.step()

    @torch.no_grad()
    def _predict(self, net: Network, frozen: Mapping[str, Tensor], split: str) -> NDArray[np.int64]:
        """Predicted classes of the nodes of a split."""
        net.eval()
        parts = []
        for ids in _batches(self.ids[split], self.config.batch_size):
            with self._precision():
                parts.append(net(self._values(frozen, ids)).argmax(dim=1).cpu().numpy())
        return np.concatenate(parts)


def _batches(ids: NDArray[np.int64], size: int) -> Iterator[NDArray[np.int64]]:
    return (ids[start : start + size] for start in range(0, len(ids), size))


def _state(net: Network) -> dict[str, Tensor]:
    """Copies of all that training changes: trained weights, and running statistics."""
    trained = {name for name, p in net.named_parameters() if p.requires_grad}
    fixed = {name for name, p in net.named_parameters() if name not in trained}
    return {n: v.detach().cpu().clone() for n, v in net.state_dict().items() if n not in fixed}


__all__ = ["FineTuneConfig", "FineTuneResult", "FineTuning", "LoRA", "Mode", "Network"]
