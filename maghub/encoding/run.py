"""``maghub.encode``: streams a published folder through an encoder into embedding configs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from maghub import layout, registry, schema
from maghub.cards import read_card
from maghub.encoding.base import EncoderSpec
from maghub.encoding.elements import element_jobs, graph_tables
from maghub.encoding.engine import Recipe, absolute, open_engine
from maghub.encoding.inputs import node_inputs
from maghub.encoding.job import STAGING, BatchSize, Job, make, node_index
from maghub.encoding.retrieval import is_retrieval, retrieval_jobs
from maghub.encoding.vectors import choose_modalities
from maghub.encoding.working import locked, working_folder
from maghub.errors import MaghubError
from maghub.features import no_vectors
from maghub.files import fsync_folder, os_errors
from maghub.spec import ConfigSpec, EncoderProvenance, FolderSpec, read_spec
from maghub.writing import write_metadata


def encode(
    folder: str | Path,
    encoder: str,
    modalities: Sequence[str] | None = None,
    *,
    device: str = "auto",
    dtype: str | None = None,
    model_path: str | Path | None = None,
    batch_size: BatchSize = "auto",
    projection: int | None = None,
    resume: bool = True,
    engine: str = "local",
    address: str | None = None,
) -> FolderSpec:
    """Write an encoder's vectors into a published folder, as embedding configs.

    Of a graph: ``embeddings-<encoder>``, one row per node. Of question sets with a graph per row
    (CLeGR): ``embeddings-<encoder>-<set>``, one row per node and edge of each graph. Of a retrieval
    benchmark: ``embeddings-<encoder>-corpus`` and ``-queries``, one row per row of these, and
    ``-entities``, one row per picture of each entity.
    The configs appear complete or not at all, after they were read back and checked; card and
    ``maghub.json`` come last. An existing config of the same name is replaced.

    What is finished is kept in the hidden folder ``.encode-<encoder>`` of the dataset, shard by
    shard. A run that was interrupted goes on from there and ends with the bytes that it would have
    given without the interruption. Memory does not grow with the number of nodes.

    Args:
        folder: A published folder with a ``nodes`` config, or with tables of graphs.
        encoder: A registered encoder name, or one like ``timm:resnet18``.
        modalities: ``text`` and/or ``image``; None takes all that both sides have.
        device: torch device; ``auto`` takes a GPU where there is one.
        dtype: Precision to compute in; None takes the encoder's own. (Vectors are stored as its
            spec says.)
        model_path: Local folder with the model's files; None takes the Hub or its cache.
        batch_size: Inputs per batch; ``auto`` is the encoder's own on a CPU, what fits on a GPU.
        projection: Width of a seeded random projection, recorded; None keeps the native width. The
            config is then ``embeddings-<encoder>-proj<width>``.
        resume: Whether to go on from what an interrupted run has finished.
        engine: ``local``, or ``ray`` for a pool of actors; both give the same bytes.
        address: A Ray cluster; it must see ``folder`` (and ``model_path``) under the same path.

    Raises:
        MaghubError: Unknown encoder, missing extra, nothing to encode, or the disk refuses.
    """
    path = Path(folder)
    if batch_size != "auto" and batch_size < 1:
        raise MaghubError(f"a batch cannot hold {batch_size} inputs", fix="give 1 or more, or auto")
    spec = read_spec(path)
    factory = registry.get("encoders", encoder)
    recipe = Recipe(factory, device, dtype, absolute(model_path), projection)
    with os_errors(path), open_engine(engine, recipe, address) as runner:
        own = runner.facts.spec
        planned = list(_jobs(spec)(path, spec, own, modalities))
        with working_folder(path, own.name, resume=resume) as work:
            made = [make(path, job, runner, work, batch_size) for job in planned]
            return _publish(path, work, made)


def _jobs(spec: FolderSpec) -> Callable[..., Iterator[Job]]:
    """What plans the configs of a folder of this kind."""
    if is_retrieval(spec):
        return retrieval_jobs
    return element_jobs if graph_tables(spec) else _node_job


def _node_keys(start: int, stop: int) -> Mapping[str, object]:
    return {layout.NODE_ID: np.arange(start, stop)}


def _node_job(
    folder: Path, spec: FolderSpec, encoder: EncoderSpec, wanted: Sequence[str] | None
) -> Iterator[Job]:
    """The one config of a graph's nodes."""
    if not spec.has(layout.NODES) and spec.has(layout.TRIPLETS):
        raise no_vectors(spec, folder)
    nodes = spec.config(layout.NODES)
    chosen = choose_modalities(nodes.features, encoder, wanted)
    dims = {modality: encoder.dim[modality] for modality in chosen}
    yield Job(
        config=layout.embeddings_config(encoder.name),
        kind="embeddings",
        target=nodes,
        features=schema.embeddings_features(dims, encoder.dtype),
        modalities=chosen,
        inputs=node_inputs(folder, nodes),
        num_inputs=nodes.rows,
        num_rows=nodes.rows,
        index=partial(node_index, folder, nodes),
        keys=_node_keys,
    )


def _publish(
    folder: Path, work: Path, made: Sequence[tuple[ConfigSpec, EncoderProvenance]]
) -> FolderSpec:
    """Put finished configs in place, then bring ``maghub.json`` and the card up to date."""
    with locked(folder, wait=True):  # another encoder's run may end at the same time
        spec = read_spec(folder)
        for config, facts in made:
            _put_in_place(folder, work, config)
            spec = _with_config(spec, config, facts)
        write_metadata(folder, read_card(folder / layout.CARD_SOURCE_FILE), spec)
    return spec


def _put_in_place(folder: Path, work: Path, config: ConfigSpec) -> None:
    """Move the finished config beside the others; the old one goes only when the new one stands."""
    target, finished = folder / config.name, work / STAGING / config.name
    fsync_folder(finished)
    if target.exists():
        old = work / f"old-{config.name}"
        shutil.rmtree(old, ignore_errors=True)
        os.replace(target, old)
    os.replace(finished, target)
    fsync_folder(folder)


def _with_config(spec: FolderSpec, config: ConfigSpec, facts: EncoderProvenance) -> FolderSpec:
    """The folder spec with one embedding config added or replaced."""
    configs = [c for c in spec.configs if c.name != config.name]
    encoders = [e for e in spec.encoders if e.config != config.name]
    return spec.model_copy(update={"configs": (*configs, config), "encoders": (*encoders, facts)})
