"""What the tasks on retrieval benchmarks share: from a request to a result record."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from maghub import layout
from maghub.baselines.identity import identify, versions
from maghub.baselines.rag._data import Opened
from maghub.baselines.rag._opening import SETTINGS, benchmark, open_setting
from maghub.baselines.rag._retriever import Retriever, RetrieverConfig, get_retriever
from maghub.baselines.settings import resolve
from maghub.encoding.engine import chosen_device
from maghub.errors import MaghubError
from maghub.loading import load
from maghub.mkg.benchmark import KGRag
from maghub.results import DatasetIdentity, RunRecord, RunRequest

PACKAGES = (
    "maghub",
    "numpy",
    "faiss-cpu",
    "bm25s",
    "ir-measures",
    "torch",
    "transformers",
    "sentence-transformers",
)


class KGTaskConfig(BaseModel):
    """Settings of every task on a retrieval benchmark.

    Attributes:
        setting: ``S1`` all questions and all triplets; ``S2`` text-only questions and triplets;
            ``S3`` text-only questions, all triplets; ``S4`` multimodal questions and triplets;
            ``S5`` multimodal questions, all triplets (paper, 4.1).
        split: ``train``, ``validation`` or ``test``.
        rule: ``released``, or ``group_split``, in which no group of questions is on two sides.
        limit: Ask the first so many questions only.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    setting: str = "S1"
    split: str = layout.TEST
    rule: str = layout.RELEASED_RULE
    limit: int | None = Field(default=None, ge=1)


@dataclass
class Measured:
    """What a task found: metrics, and what a reader must know of them."""

    metrics: dict[str, float]
    controls: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    train_seconds: float = 0.0
    parameters: int | None = None


class KGTask(ABC):
    """A task on a retrieval benchmark; a subclass measures, this writes the record.

    Attributes:
        name: Its name in ``maghub.tasks``.
        benchmark: Says to ``maghub run`` that it reads retrieval benchmarks, not graphs.
        no_result: Settings that decide no result and stay out of the record.
    """

    name: ClassVar[str]
    Config: ClassVar[type[KGTaskConfig]] = KGTaskConfig
    benchmark: ClassVar[bool] = True
    no_result: ClassVar[frozenset[str]] = frozenset()

    def __init__(
        self, rag: KGRag, retriever: type[Retriever], request: RunRequest, config: KGTaskConfig
    ) -> None:
        self.rag, self.kind, self.request, self.config = rag, retriever, request, config
        self.encoders = {
            modality: name
            for modality, name in request.encoders.items()
            if modality in self.modalities()
        }

    def modalities(self) -> tuple[str, ...]:
        """Modalities whose vectors the result depends on."""
        asked, _ = SETTINGS.get(self.config.setting, (None, None))
        more = () if asked is False else self.kind.may_use  # text-only questions have no picture
        return (*self.kind.uses, *more)

    @classmethod
    def configs(
        cls, model: str, preset: str | None, settings: Mapping[str, Any]
    ) -> tuple[type[Retriever], RetrieverConfig, KGTaskConfig]:
        """A registered retriever, its settings and those of this task: defaults, then overrides.

        Raises:
            MaghubError: No such retriever or setting, a value that does not fit, or a preset.
        """
        kind = get_retriever(model)
        _refused("preset", preset, cls.name)
        asked = f"{model} --task {cls.name}"
        return kind, *resolve(kind.Config, cls.Config, settings, asked=asked)

    @classmethod
    def presets(cls, model: str) -> dict[str, str]:
        """None: the papers' retrievers have one way to be set."""
        return {}

    @classmethod
    def run(cls, request: RunRequest) -> RunRecord:
        """Measure one retriever with one seed, as ``maghub run`` asks.

        Raises:
            MaghubError: Unknown names, a folder that is no such benchmark or lacks vectors, or
                settings that fit nothing.
        """
        from maghub.baselines.training.measure import PeakMemory  # it brings torch along

        begin = time.monotonic()
        memory = PeakMemory(_cpu())
        kind, own, config = cls.configs(request.model, request.preset, request.settings)
        _refused("noise", request.noise, cls.name)
        rag = benchmark(load(request.dataset), request.dataset)
        task = cls(rag, kind, request, config)
        opened = open_setting(
            rag, config.setting, config.split, config.rule, task.encoders, config.limit
        )
        task.check()
        found = task.measure(opened, own)
        return request.record(
            dataset=task.identity(),
            task=cls.name,
            encoders=task.encoders,
            model_settings=own.model_dump(mode="json"),
            task_settings=task.recorded(),
            metrics=found.metrics,
            controls=found.controls,
            notes=found.notes,
            train_seconds=found.train_seconds,
            parameters=found.parameters,
            seconds=round(time.monotonic() - begin, 3),
            peak_cpu_bytes=memory.cpu(),
            device=chosen_device(request.device),
            versions=versions(PACKAGES),
        )

    def check(self) -> None:  # noqa: B027 - everything fits by default
        """Raise one line where settings do not fit the folder; before anything is computed."""

    @abstractmethod
    def measure(self, opened: Opened, config: RetrieverConfig) -> Measured:
        """The result of a retriever with these settings."""

    def retriever(self, opened: Opened, config: RetrieverConfig) -> Retriever:
        """The retriever, ready to search."""
        request = self.request
        return self.kind(opened.corpus, config, seed=request.seed, device=request.device)

    def own_path(self, path: Path) -> Path:
        """A path from the settings for this seed: ``-seed1`` in its name for seed 1 and so on."""
        seed = self.request.seed
        return path.with_name(f"{path.stem}-seed{seed}{path.suffix}") if seed else path

    def recorded(self) -> dict[str, Any]:
        """The settings as they stand in the record."""
        return self.config.model_dump(mode="json", exclude=set(self.no_result))

    def identity(self) -> DatasetIdentity:
        """Which bytes of the benchmark the run reads."""
        configs = {layout.CORPUS, layout.QUERIES, layout.QRELS, *self.reads()}
        for encoder in self.encoders.values():
            for target in (layout.CORPUS, layout.QUERIES, layout.ENTITIES):
                configs.add(layout.set_embeddings_config(encoder, target))
        known = sorted(name for name in configs if self.rag.spec.has(name))
        return identify(self.rag, known, self.config.rule)

    def reads(self) -> tuple[str, ...]:
        """Further configs that decide the result."""
        return ()


def _cpu() -> Any:
    import torch

    return torch.device("cpu")


def _refused(what: str, given: object, task: str) -> None:
    """Refuse what only models of graphs have."""
    if given:
        raise MaghubError(f"{task} knows no {what}", fix=f"leave --{what} out")
