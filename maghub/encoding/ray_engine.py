"""The Ray Data engine: actors hold the encoder, the plan's shards are the blocks.

A block is one row: the number of a shard on the way in, the bytes of its file on the way out, so
Ray can neither split nor merge what must be encoded together. Each actor reads its shards' inputs
itself, which is why a cluster must see the dataset's folder under the same path everywhere.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from maghub.encoding.batch_size import automatic
from maghub.encoding.engine import Engine, Facts, Recipe, chosen_device, facts_of, use_threads
from maghub.encoding.inputs import Inputs
from maghub.encoding.plan import Plan, Shard
from maghub.encoding.shards import encode_shard
from maghub.errors import MaghubError, MissingExtra

_CONNECT_SECONDS = 10.0
_NUMBER, _DATA, _ERROR = "shard", "data", "error"
_BLOCK = pa.schema([(_NUMBER, pa.int64()), (_DATA, pa.large_binary()), (_ERROR, pa.string())])


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Errors that survive the way to another process."""
    try:
        yield
    except MaghubError as error:
        raise MaghubError(error.what, where=error.where, fix=error.fix) from None


def _describe(recipe: Recipe) -> Facts:
    with _plain_errors():
        return facts_of(recipe.load(), recipe.device)


def _batch_size(recipe: Recipe, modalities: Sequence[str]) -> int:
    with _plain_errors():
        return automatic(recipe.load(), modalities)


class _EncodeShards:
    """An actor: loads the encoder once, then encodes the shards it is given."""

    def __init__(self, recipe: Recipe, plan: Plan, inputs: Inputs) -> None:
        with _plain_errors():
            self.model = recipe.load()
            use_threads(plan.threads)
        self.plan, self.inputs = plan, inputs

    def __call__(self, batch: dict[str, NDArray[np.int64]]) -> pa.Table:
        rows = [self._encode(int(number)) for number in batch[_NUMBER]]
        return pa.Table.from_pylist(rows, _BLOCK)

    def _encode(self, number: int) -> dict[str, Any]:
        """The block of a shard; what is wrong with its inputs travels as data, not as a raise."""
        try:
            data = encode_shard(self.model, self.inputs, self.plan, self.plan.shard(number))
        except MaghubError as error:
            wrong = {"what": error.what, "where": error.where, "fix": error.fix}
            return {_NUMBER: number, _ERROR: json.dumps(wrong)}
        return {_NUMBER: number, _DATA: data.to_pybytes()}


def _finished(row: dict[str, Any], plan: Plan) -> tuple[Shard, pa.Buffer]:
    """What an actor made of a shard.

    Raises:
        MaghubError: What went wrong there.
    """
    if row[_ERROR] is not None:
        raise MaghubError(**json.loads(row[_ERROR]))
    return plan.shard(row[_NUMBER]), pa.py_buffer(row[_DATA])


class RayEngine:
    """Encodes in a pool of actors, one per GPU or per machine's worth of CPUs.

    Args:
        recipe: The encoder; it is loaded once by a task that describes it, then by each actor.
    """

    def __init__(self, recipe: Recipe) -> None:
        import ray

        self._ray, self.recipe = ray, recipe
        with _one_line():
            self._gpus = self._has_gpu()
            self.facts: Facts = ray.get(self._task(_describe).remote(recipe))

    def _has_gpu(self) -> bool:
        """Whether actors need a GPU each; ``auto`` takes GPUs where the cluster has any."""
        if self.recipe.device == "auto":
            return self._ray.cluster_resources().get("GPU", 0) >= 1
        return chosen_device(self.recipe.device).startswith("cuda")

    def _resources(self, threads: int = 1) -> dict[str, Any]:
        """What an actor or a task takes; no more CPUs than a machine of the cluster has."""
        if self._gpus:
            return {"num_gpus": 1}
        machines = [node["Resources"].get("CPU", 0) for node in self._ray.nodes() if node["Alive"]]
        return {"num_cpus": max(1, min(threads, int(max(machines, default=1))))}

    def _task(self, function: Any) -> Any:
        return self._ray.remote(function).options(max_retries=0, **self._resources())

    def batch_size(self, modalities: Sequence[str]) -> int:
        """What ``auto`` stands for where the actors run."""
        with _one_line():
            size: int = self._ray.get(self._task(_batch_size).remote(self.recipe, modalities))
        return size

    def _actors(self, needs: dict[str, Any], shards: int) -> int:
        """How many actors the cluster can hold, and no more than there are shards."""
        resources = self._ray.cluster_resources()
        kind = "GPU" if self._gpus else "CPU"
        (need,) = needs.values()
        return max(1, min(int(resources.get(kind, 1) // need), shards))

    def run(
        self, plan: Plan, inputs: Inputs, shards: Sequence[Shard]
    ) -> Iterator[tuple[Shard, pa.Buffer]]:
        """Finished shards, in the order they are finished in."""
        if not shards:
            return
        import ray.data

        needs = self._resources(plan.threads)
        actors = self._actors(needs, len(shards))
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        # Made here and not by tasks, which would wait for the CPUs that the actors hold.
        rows = [{_NUMBER: shard.number} for shard in shards]
        blocks = ray.data.from_items(rows, override_num_blocks=len(rows))
        encoded = blocks.map_batches(
            _EncodeShards,
            fn_constructor_args=(self.recipe, plan, inputs),
            batch_size=1,
            batch_format="numpy",
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=actors),
            **needs,
        )
        with _one_line():
            tables: Any = encoded.iter_batches(batch_size=None, batch_format="pyarrow")
            for table in tables:
                for row in table.to_pylist():
                    yield _finished(row, plan)


@contextmanager
def _one_line() -> Iterator[None]:
    """Our own errors as they were raised in a worker, Ray's as one line."""
    import ray

    try:
        yield
    except ray.exceptions.RayError as error:
        seen: list[BaseException] = [error]
        while isinstance(seen[-1], Exception):
            cause = getattr(seen[-1], "cause", None) or seen[-1].__cause__
            if not isinstance(cause, BaseException) or cause in seen:
                break
            seen.append(cause)
        for cause in seen:
            if isinstance(cause, MaghubError):
                raise MaghubError(cause.what, where=cause.where, fix=cause.fix) from error
        reason = str(seen[-1]).strip().splitlines()
        raise MaghubError(
            f"Ray could not encode ({reason[-1] if reason else type(error).__name__})",
            fix="run it again: finished shards are kept",
        ) from error


def _join(ray: Any, address: str | None) -> None:
    """Start a local Ray, or connect to a cluster.

    Raises:
        MaghubError: Nothing listens at the address, or the cluster does not let us in.
    """
    if address is not None:
        _require_listener(address)
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    logging.getLogger("ray").setLevel(logging.ERROR)
    options = {"include_dashboard": False} if address is None else {}
    try:
        ray.init(
            address=address or "local",
            log_to_driver=False,
            logging_level=logging.ERROR,
            **options,
        )
    except Exception as error:  # Ray raises its own types and plain ones alike
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise MaghubError(
            f"cannot join the Ray cluster at {address or 'this machine'} ({reason[:200]})",
            fix="check the address, Ray's version there, and its authentication set-up here",
        ) from error


def _require_listener(address: str) -> None:
    """Ray itself waits minutes for an address at which nothing listens."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not port.isdecimal():
        return  # "auto" and the like
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise MaghubError(
            f"no Ray cluster answers at {address}",
            fix="check the address, or leave it out to encode on this machine",
        ) from error


@contextmanager
def ray_engine(recipe: Recipe, address: str | None) -> Iterator[Engine]:
    """The engine on a cluster, on the Ray that this process is connected to, or on a local one.

    Raises:
        MissingExtra: Ray is not installed.
        MaghubError: There is no cluster at the address.
    """
    try:
        import ray
        import ray.data
    except ImportError:
        raise MissingExtra("ray", "ray") from None
    started = not ray.is_initialized()
    if started:
        _join(ray, address)
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    try:
        yield RayEngine(recipe)
    finally:
        if started:
            ray.shutdown()
