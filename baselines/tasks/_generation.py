"""What graph-to-text and graph-to-image share: the contract of a generator, and how one is run.

A generator is registered among the models, sees a ``GraphView`` and nothing else, and is measured
by ``maghub.metrics``. Generators that learn come with the advanced models.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from maghub import layout, registry
from maghub.baselines._task import both_ways
from maghub.baselines.features import Features
from maghub.baselines.noise import Noise
from maghub.baselines.presets import presets_for, run_configs
from maghub.baselines.run import identify, versions
from maghub.baselines.settings import registered
from maghub.baselines.tasks._generation_view import GraphView, column_by_node
from maghub.baselines.training.distributed import local_device
from maghub.baselines.training.measure import PeakMemory
from maghub.errors import MaghubError
from maghub.loading import load
from maghub.mag import MAG
from maghub.results import RunRecord, RunRequest
from maghub.seeding import child_rng

if TYPE_CHECKING:
    from PIL.Image import Image

    from maghub.encoding.base import Encoder

Ints = NDArray[np.int64]


class GenerationConfig(BaseModel):
    """Settings of both tasks.

    Attributes:
        neighbours: Most neighbours of each modality.
        symmetric: Neighbours over edges in either direction.
        node_rule: Named node split; None takes the default one.
        limit: Most test nodes that are generated for, drawn once; None for all.
        clip: Encoder of CLIP-score; None leaves it out.
        clip_path: Local folder with its files; None takes the Hub or its cache.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    neighbours: int = Field(default=4, ge=0)
    symmetric: bool = True
    node_rule: str | None = None
    limit: int | None = Field(default=None, ge=1)
    clip: str | None = None
    clip_path: str | None = None


class Generator(ABC):
    """Makes texts or pictures of nodes; registered among ``maghub.models``.

    Args:
        config: An instance of ``Config``.
        seed: Seed of everything random in it.
        device: torch device.
    """

    Config: type[BaseModel]

    def __init__(self, config: BaseModel, seed: int, device: torch.device) -> None:
        self.config, self.seed, self.device = config, seed, device
        self.notes: list[str] = []

    @abstractmethod
    def fit(self, view: GraphView, train: Ints, validation: Ints) -> None:
        """Learn from training nodes; validation may choose when to end."""

    def texts(self, view: GraphView, nodes: Ints) -> list[str]:
        """A text for each node."""
        raise MaghubError(f"{type(self).__name__} writes no texts", fix="choose another model")

    def images(self, view: GraphView, nodes: Ints) -> list[Image]:
        """An RGB picture for each node."""
        raise MaghubError(f"{type(self).__name__} makes no pictures", fix="choose another model")


class GenerationTask(ABC):
    """Base of both tasks: from what is asked to a result record."""

    name: ClassVar[str]
    made: ClassVar[str]
    Config: ClassVar[type[GenerationConfig]] = GenerationConfig

    def __init__(
        self,
        mag: MAG,
        encoders: dict[str, str],
        config: GenerationConfig,
        noise: dict[str, float] | None = None,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        if self.made not in mag.spec.config(layout.NODES).features:
            raise MaghubError(
                f"{self.name} needs nodes with {self.made}",
                where=mag.spec.name,
                fix="choose a dataset that has it, see: maghub list",
            )
        self.mag, self.config, self.device = mag, config, torch.device(device)
        self.encoders, self.seed = encoders, seed
        damage = Noise(dict(noise or {}), list(encoders), seed, labels=False)
        features = Features(mag, encoders, damage, device=device)
        edges = torch.from_numpy(mag.message_edges("node_classification"))
        linked = both_ways(mag, edges, damage, config.symmetric).numpy()
        splits = mag.splits(config.node_rule)
        none = np.zeros(0, np.int64)
        self.ids = {
            name: self._answerable(splits.get(name, none))
            for name in (layout.TRAIN, layout.VALIDATION, layout.TEST)
        }
        for name in (layout.TRAIN, layout.TEST):
            if not len(self.ids[name]):
                raise MaghubError(
                    f"{self.name}: no {name} node of split rule '{self.split}' has {self.made}",
                    where=mag.spec.name,
                    fix="choose another: --set node_rule=NAME",
                )
        test, most = self.ids[layout.TEST], config.neighbours
        self.view = GraphView(mag, features, linked, self.made, test, damage, most, seed)

    def _answerable(self, ids: Ints) -> Ints:
        """Those of the nodes whose answer is known."""
        if self.made == layout.TEXT:
            return ids[
                np.array([bool(t) for t in column_by_node(self.mag, layout.TEXT)[ids]], bool)
            ]
        if layout.IMAGE not in self.encoders:
            raise MaghubError(
                f"{self.name} needs vectors of the pictures",
                where=self.mag.spec.name,
                fix=f"make them with: maghub encode {self.mag.folder} --encoder efficientnet-lite0",
            )
        return ids[self.mag.has(self.encoders[layout.IMAGE], layout.IMAGE)[ids]]

    @property
    def split(self) -> str | None:
        """The node split rule."""
        return self.config.node_rule or self.mag.spec.default_split

    @property
    def reads(self) -> list[str]:
        """Configs of the folder that decide the result."""
        vectors = {layout.embeddings_config(encoder) for encoder in self.encoders.values()}
        wanted = {layout.NODES, layout.EDGES, layout.NODE_SPLITS, *vectors}
        return sorted(wanted & {c.name for c in self.mag.spec.configs})

    def targets(self) -> Ints:
        """The test nodes that are generated for."""
        ids, limit = self.ids[layout.TEST], self.config.limit
        if limit is None or limit >= len(ids):
            return ids
        return np.sort(child_rng(0, self.name, "targets").choice(ids, limit, replace=False))

    @abstractmethod
    def measure(self, generator: Generator) -> dict[str, float]:
        """Metrics of what a generator makes of the targets."""

    @classmethod
    def configs(
        cls, model: str, preset: str | None, settings: Mapping[str, Any]
    ) -> tuple[type[Generator], BaseModel, GenerationConfig]:
        """See ``Task.configs``."""
        lack = f"generates nothing, which {cls.name} needs"
        kind = registered(model, Generator, lack, "copy-neighbour")  # type: ignore[type-abstract]
        return kind, *run_configs(kind.Config, cls.Config, model, cls.name, preset, settings)

    @classmethod
    def presets(cls, model: str) -> dict[str, str]:
        """See ``Task.presets``."""
        return presets_for(model, cls.name)

    @classmethod
    def run(cls, request: RunRequest) -> RunRecord:
        """Fit and measure one generator with one seed, as ``maghub run`` asks."""
        begin, device = time.monotonic(), local_device(request.device)
        memory = PeakMemory(device)
        kind, model_config, config = cls.configs(request.model, request.preset, request.settings)
        mag = load(request.dataset)
        task = cls(mag, request.encoders, config, request.noise, request.seed, device)
        generator = kind(model_config, request.seed, device)
        started = time.monotonic()
        generator.fit(task.view, task.ids[layout.TRAIN], task.ids[layout.VALIDATION])
        fitted = time.monotonic() - started
        metrics = task.measure(generator)
        return request.record(
            dataset=identify(mag, task.reads, task.split),
            task=cls.name,
            model_settings=model_config.model_dump(mode="json"),
            task_settings=config.model_dump(mode="json"),
            metrics=metrics,
            seconds=round(time.monotonic() - begin, 3),
            train_seconds=round(fitted, 3),
            peak_cpu_bytes=memory.cpu(),
            peak_gpu_bytes=memory.gpu(),
            device=str(device),
            versions=versions(),
            notes=[f"{len(task.targets()):,} test nodes", *generator.notes],
        )


def loaded(name: str, path: str | None, device: torch.device) -> Encoder:
    """An encoder of the registry that measures what was generated."""
    options = {} if path is None else {"model_path": path}
    model: Encoder = registry.get("encoders", name)(device=str(device), **options)
    return model


def blocks(ids: Ints, size: int = 256) -> Iterator[Ints]:
    """Consecutive parts of at most ``size`` ids."""
    for start in range(0, len(ids), size):
        yield ids[start : start + size]


def text_vectors(model: Encoder, texts: Sequence[str]) -> list[NDArray[np.float32]]:
    """Vectors of texts, batch by batch."""
    size = model.spec.batch_size
    return [model.encode_texts(texts[i : i + size]) for i in range(0, len(texts), size)]


def image_vectors(model: Encoder, images: Sequence[Image]) -> list[NDArray[np.float32]]:
    """Vectors of pictures, batch by batch."""
    size = model.spec.batch_size
    return [model.encode_images(images[i : i + size]) for i in range(0, len(images), size)]
