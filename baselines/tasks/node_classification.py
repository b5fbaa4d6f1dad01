"""Node classification, full batch: validation chooses the epoch, test is read once."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor
from torch_geometric import seed_everything

from maghub import layout, registry
from maghub.baselines._model import Model
from maghub.errors import MaghubError
from maghub.mag import MAG


class TrainConfig(BaseModel):
    """Typed, printable settings of a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    epochs: int = 200
    patience: int = 30
    lr: float = 0.01
    weight_decay: float = 5e-4
    node_rule: str | None = None


class Result(BaseModel):
    """One run: what was run and what came out (accuracies are fractions)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dataset: str
    task: str = "node-classification"
    model: str
    encoders: dict[str, str]
    seed: int
    model_settings: dict[str, object]
    train_settings: dict[str, object]
    validation_accuracy: float
    test_accuracy: float
    epoch: int
    seconds: float


def _inputs(mag: MAG, encoders: Mapping[str, str]) -> dict[str, Tensor]:
    """float32 features per modality, each column standardised over all nodes."""
    inputs = {}
    for modality, encoder in encoders.items():
        x = mag.features(encoder, modality).torch().float()
        inputs[modality] = (x - x.mean(0)) / x.std(0).clamp(min=1e-6)
    return inputs


class NodeClassification:
    """Trains a registered model on a published folder.

    Args:
        mag: A loaded dataset with labels and node splits.
        encoders: modality -> encoder whose published vectors are the input.
        train: Settings of the run.

    Raises:
        MaghubError: No labels, no splits or no such embedding config (with the command to make it).
    """

    def __init__(
        self, mag: MAG, encoders: Mapping[str, str], train: TrainConfig | None = None
    ) -> None:
        if not encoders:
            raise MaghubError("no input", fix='name one, e.g. {"text": "all-minilm-l6-v2"}')
        self.mag, self.encoders = mag, dict(encoders)
        self.train = train or TrainConfig()
        splits = mag.splits(self.train.node_rule)
        labelled = mag.labels >= 0
        self.ids = {
            name: torch.from_numpy(splits[name][labelled[splits[name]]])
            for name in (layout.TRAIN, layout.VALIDATION, layout.TEST)
        }
        self.y = torch.from_numpy(mag.labels)
        self.x = _inputs(mag, encoders)
        self.edge_index = torch.from_numpy(mag.message_edges("node_classification"))

    def baselines(self) -> dict[str, float]:
        """Test accuracy of chance (uniform) and of always answering the largest training class."""
        train, test = self.y[self.ids[layout.TRAIN]], self.y[self.ids[layout.TEST]]
        classes = len(self.mag.label_names)
        largest = int(torch.bincount(train, minlength=classes).argmax())
        return {"chance": 1 / classes, "majority": float((test == largest).float().mean())}

    def nearest_neighbours(self, k: int = 5) -> float:
        """Test accuracy of k-NN (cosine) from training nodes on the modalities side by side."""
        x = torch.cat(list(self.x.values()), dim=1).numpy()
        train, test = self.ids[layout.TRAIN].numpy(), self.ids[layout.TEST].numpy()
        labels = self.y.numpy()
        model = KNeighborsClassifier(k, metric="cosine").fit(x[train], labels[train])
        return float(np.mean(model.predict(x[test]) == labels[test]))

    def run(self, model: str, seed: int = 0, **settings: object) -> Result:
        """Train one model with one seed; test accuracy at the best validation epoch."""
        begin = time.monotonic()
        seed_everything(seed)
        kind: type[Model] = registry.get("models", model)
        config = kind.Config.model_validate(settings)
        dims = {modality: x.shape[1] for modality, x in self.x.items()}
        net = kind(dims, len(self.mag.label_names), config)
        state, validation, epoch = self._fit(net)
        net.load_state_dict(state)
        return Result(
            dataset=self.mag.spec.name,
            model=model,
            encoders=self.encoders,
            seed=seed,
            model_settings=config.model_dump(),
            train_settings=self.train.model_dump(),
            validation_accuracy=validation,
            test_accuracy=self._accuracy(net, layout.TEST),
            epoch=epoch,
            seconds=round(time.monotonic() - begin, 3),
        )

    def _fit(self, net: Model) -> tuple[dict[str, Tensor], float, int]:
        """State, validation accuracy and number of the best epoch."""
        train = self.train
        optimizer = torch.optim.Adam(net.parameters(), train.lr, weight_decay=train.weight_decay)
        rows = self.ids[layout.TRAIN]
        best, best_epoch, state = -1.0, 0, copy.deepcopy(net.state_dict())
        for epoch in range(train.epochs):
            net.train()
            optimizer.zero_grad()
            output = net(self.x, self.edge_index)
            loss = torch.nn.functional.cross_entropy(output.h[rows], self.y[rows])
            loss = loss + sum(output.losses.values())
            if not torch.isfinite(loss):
                raise MaghubError(f"loss is not finite at epoch {epoch}", fix="lower the lr")
            loss.backward()
            optimizer.step()
            accuracy = self._accuracy(net, layout.VALIDATION)
            if accuracy > best:
                best, best_epoch, state = accuracy, epoch, copy.deepcopy(net.state_dict())
            elif epoch - best_epoch >= train.patience:
                break
        return state, best, best_epoch

    @torch.no_grad()
    def _accuracy(self, net: Model, split: str) -> float:
        net.eval()
        rows = self.ids[split]
        predicted = net(self.x, self.edge_index).h[rows].argmax(dim=1)
        return float((predicted == self.y[rows]).float().mean())
