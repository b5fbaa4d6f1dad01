"""What runs a plan: the recipe of a loaded encoder, and the engine that uses it in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from maghub.encoding.base import Encoder, EncoderSpec
from maghub.encoding.batch_size import automatic
from maghub.encoding.inputs import Inputs
from maghub.encoding.plan import Plan, Shard
from maghub.encoding.projection import Projected
from maghub.encoding.shards import encode_shard
from maghub.errors import nearest

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class Recipe:
    """How to load an encoder, in this process or in another (picklable).

    Args:
        factory: What the registry holds.
        device: torch device; ``auto`` takes a GPU where there is one.
        dtype: Precision to compute in; None takes the spec's.
        model_path: Local folder with the model's files; None takes the Hub or its cache.
        projection: Width to project the vectors to; None keeps the native width.
    """

    factory: Callable[..., Encoder]
    device: str = "auto"
    dtype: str | None = None
    model_path: str | None = None
    projection: int | None = None

    def load(self) -> Encoder:
        """The loaded encoder."""
        given = {"dtype": self.dtype, "model_path": self.model_path}
        options: dict[str, Any] = {name: value for name, value in given.items() if value}
        model = self.factory(device=chosen_device(self.device), **options)
        return model if self.projection is None else Projected(model, self.projection)


def chosen_device(name: str) -> str:
    """The device that ``auto`` stands for on this machine; any other name as it is."""
    if name != "auto":
        return name
    try:
        import torch
    except ImportError:
        return "cpu"
    return "cuda" if torch.cuda.is_available() else "cpu"


def default_threads() -> int:
    """CPU threads that torch would use here."""
    try:
        import torch
    except ImportError:
        return 1
    return torch.get_num_threads()


def use_threads(count: int) -> None:
    """Let torch compute with so many CPU threads."""
    try:
        import torch
    except ImportError:
        return
    if torch.get_num_threads() != count:
        torch.set_num_threads(count)


class Facts(NamedTuple):
    """What a plan must know of a loaded encoder."""

    spec: EncoderSpec
    versions: dict[str, str]
    device: str
    projection: str | None


def facts_of(model: Encoder, device: str) -> Facts:
    """The facts of a loaded encoder."""
    kind = chosen_device(device).partition(":")[0]
    return Facts(model.spec, model.versions(), kind, getattr(model, "projection", None))


class Engine(Protocol):
    """Something that can run a plan."""

    facts: Facts

    def batch_size(self, modalities: Sequence[str]) -> int:
        """What ``auto`` stands for where the encoder runs."""

    def run(
        self, plan: Plan, inputs: Inputs, shards: Sequence[Shard]
    ) -> Iterator[tuple[Shard, pa.Buffer]]:
        """Finished shards, in any order."""


class LocalEngine:
    """Encodes in this process, shard by shard."""

    def __init__(self, recipe: Recipe) -> None:
        self.model = recipe.load()
        self.facts = facts_of(self.model, recipe.device)

    def batch_size(self, modalities: Sequence[str]) -> int:
        """What ``auto`` stands for here."""
        return automatic(self.model, modalities)

    def run(
        self, plan: Plan, inputs: Inputs, shards: Sequence[Shard]
    ) -> Iterator[tuple[Shard, pa.Buffer]]:
        """Finished shards, in order."""
        before = default_threads()
        use_threads(plan.threads)
        try:
            for shard in shards:
                yield shard, encode_shard(self.model, inputs, plan, shard)
        finally:
            use_threads(before)


@contextmanager
def _local(recipe: Recipe) -> Iterator[Engine]:
    yield LocalEngine(recipe)


def open_engine(
    name: str, recipe: Recipe, address: str | None = None
) -> AbstractContextManager[Engine]:
    """The engine of that name, its encoder loaded; closed when the block ends.

    Raises:
        MaghubError: No such engine, its package is missing, or no cluster at the address.
    """
    if name == "local":
        return _local(recipe)
    if name == "ray":
        from maghub.encoding.ray_engine import ray_engine

        return ray_engine(recipe, address)
    raise nearest(name, ENGINES, kind="engine")


def absolute(path: str | Path | None) -> str | None:
    """A path that means the same in another process."""
    return None if path is None else str(Path(path).resolve())
