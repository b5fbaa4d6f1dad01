"""One embedding config to make: its inputs, its rows, and the steps from the one to the other."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from datasets import Features

from maghub import layout
from maghub.encoding.engine import Engine, default_threads
from maghub.encoding.inputs import Inputs
from maghub.encoding.plan import Plan, shard_rows
from maghub.encoding.shards import ShardStore
from maghub.encoding.working import shard_store, stored_plan
from maghub.errors import MaghubError
from maghub.features import verify_file
from maghub.progress import track
from maghub.reader import iter_groups
from maghub.schema import features_from_dict
from maghub.spec import ConfigSpec, EncoderProvenance, TokenLengths
from maghub.tables import Table
from maghub.validating.keys import KEY_CHECKS
from maghub.validating.opened import Opened, open_table
from maghub.validating.report import Findings
from maghub.validating.values import check_values
from maghub.validating.vectors import check_vectors
from maghub.writing import write_config

BatchSize = int | Literal["auto"]
PART_BYTES = 32 << 20
STAGING = "staging"


@dataclass(frozen=True)
class Job:
    """One embedding config.

    Attributes:
        config: Its name.
        kind: ``embeddings``, ``element_embeddings`` or ``picture_embeddings``.
        target: The config whose rows (or whose rows' elements, pictures) the vectors belong to.
        features: Its columns.
        modalities: What is encoded.
        inputs: What is encoded, row by row.
        num_inputs: How many rows that are.
        num_rows: Rows of the config.
        index: Writes an int64 .npy file: which input each row of the config is the vector of.
        keys: Columns that name rows ``start..stop``.
    """

    config: str
    kind: Literal["embeddings", "element_embeddings", "picture_embeddings"]
    target: ConfigSpec
    features: Features
    modalities: tuple[str, ...]
    inputs: Inputs
    num_inputs: int
    num_rows: int
    index: Callable[[Path], None]
    keys: Callable[[int, int], Mapping[str, object]]


@dataclass(frozen=True)
class _ReadRows:
    """Rows of the config out of the finished shards."""

    store: ShardStore
    index: Path
    keys: Callable[[int, int], Mapping[str, object]]

    def __call__(self, start: int, stop: int) -> pa.Table:
        wanted = np.asarray(np.load(self.index, mmap_mode="r")[start:stop])
        return pa.table({**self.keys(start, stop), **self.store.rows(wanted)})


def node_index(folder: Path, nodes: ConfigSpec, path: Path) -> None:
    """Write which stored row each node is, in node order.

    Raises:
        MaghubError: The node ids are not 0..N-1.
    """
    order = np.lib.format.open_memmap(path, "w+", np.dtype(np.int64), (nodes.rows,))
    order[:] = -1
    start = 0
    for file, _, table in iter_groups(folder, nodes, [layout.NODE_ID]):
        ids = np.asarray(table[layout.NODE_ID].combine_chunks())
        if len(ids) and not 0 <= ids.min() <= ids.max() < nodes.rows:
            raise MaghubError(f"node ids are not 0..{nodes.rows - 1}", where=file)
        order[ids] = np.arange(start, start + len(ids))
        start += len(ids)
    if start != nodes.rows or (order < 0).any():
        raise MaghubError(
            f"node ids are not 0..{nodes.rows - 1}, each once",
            where=nodes.name,
            fix="run: maghub validate",
        )
    order.flush()


def make(
    folder: Path, job: Job, engine: Engine, work: Path, batch_size: BatchSize
) -> tuple[ConfigSpec, EncoderProvenance]:
    """Encode what is not finished yet, then write and check the config below the working folder.

    Raises:
        MaghubError: The folder's files are not those of its ``maghub.json``, a vector is not
            finite, or what was written is not what it should be.
    """
    for entry in job.target.files:
        verify_file(folder, entry)
    plan = _plan(job, engine, work, batch_size)
    store = shard_store(work, plan)
    label = f"encoding {job.config}"
    pending = list(store.pending())
    for shard, data in track(engine.run(plan, job.inputs, pending), label, len(pending)):
        store.add(shard, data)
    index = store.folder / "index.npy"
    job.index(index)
    staging = work / STAGING
    shutil.rmtree(staging / job.config, ignore_errors=True)  # of a run that was killed
    config = write_config(staging, _table(job, store, index))
    if config is None:
        raise MaghubError("holds no rows to encode", where=job.target.name)
    missing = _check(folder, job, staging, config)
    return config, _provenance(plan, job, missing, store.tokens(layout.TEXT))


def _plan(job: Job, engine: Engine, work: Path, batch_size: BatchSize) -> Plan:
    """The plan; batch size and threads are those of an interrupted run of the same plan, if any."""
    facts = engine.facts

    def of(size: int, threads: int) -> Plan:
        return Plan(
            config=job.config,
            inputs=tuple(entry.sha256 for entry in job.target.files),
            rows=job.num_inputs,
            shard_rows=shard_rows(size),
            batch_size=size,
            auto=batch_size == "auto",
            modalities=job.modalities,
            encoder=facts.spec,
            versions=facts.versions,
            device=facts.device,
            threads=threads,
            projection=facts.projection,
        )

    stored = stored_plan(work / job.config)
    if stored is not None:
        size = stored.batch_size if batch_size == "auto" else batch_size
        if stored == of(size, stored.threads):
            return stored
    size = engine.batch_size(job.modalities) if batch_size == "auto" else batch_size
    return of(size, default_threads())


def _table(job: Job, store: ShardStore, index: Path) -> Table:
    spec = store.plan.encoder
    width = sum(spec.dim[m] for m in job.modalities) * np.dtype(spec.dtype).itemsize
    return Table(
        config=job.config,
        kind=job.kind,
        features=job.features,
        num_rows=job.num_rows,
        read=_ReadRows(store, index, job.keys),
        part_size=max(1, PART_BYTES // width),
        target=job.target.name,
    )


def _check(folder: Path, job: Job, staging: Path, config: ConfigSpec) -> dict[str, int]:
    """Read back what was written: whole, finite, a row for each row of the target, in its order.

    Returns:
        How many rows of each modality have no vector.

    Raises:
        MaghubError: Something is not as it should be; the folder has not been touched.
    """
    findings = Findings()
    table = open_table(staging, config, findings)
    features = features_from_dict(job.target.features)
    files = [(entry, entry.rows) for entry in job.target.files]
    target = Opened(folder, job.target, features, findings, files)
    check_values(table)
    KEY_CHECKS[job.kind](table, target)
    missing = check_vectors(table)
    for problem in findings.problems():
        raise MaghubError(problem.message, where=problem.file, fix="encode it again")
    return missing


def token_lengths(tokens: Mapping[int, int]) -> TokenLengths | None:
    """Statistics of how many texts have which length; None where there are no texts."""
    if not tokens:
        return None
    lengths, counts = np.asarray(sorted(tokens.items()), dtype=np.int64).T
    p50, p95 = np.percentile(lengths, (50, 95), weights=counts, method="inverted_cdf").tolist()
    texts, total = int(counts.sum()), int(lengths @ counts)
    mean = round(total / texts, 2)
    return TokenLengths(texts=texts, mean=mean, p50=p50, p95=p95, max=int(lengths[-1]))


def _truncated(tokens: Mapping[int, int], most: int | None) -> int:
    """Texts of which the model saw only the beginning."""
    return 0 if most is None else sum(n for length, n in tokens.items() if length > most)


def _provenance(
    plan: Plan, job: Job, missing: dict[str, int], tokens: Mapping[int, int]
) -> EncoderProvenance:
    """What ``maghub.json`` says about the vectors; ``tokens`` counts texts by their length."""
    own, chosen = plan.encoder, job.modalities
    return EncoderProvenance(
        encoder=own.name,
        config=job.config,
        modalities=chosen,
        model_id=own.model_id,
        revision=own.revision,
        library=own.library,
        licence=own.licence,
        dim={modality: own.dim[modality] for modality in chosen},
        pooling=own.pooling,
        normalized=own.normalized,
        dtype=own.dtype,
        max_length=own.max_length if layout.TEXT in chosen else None,
        image_size=own.image_size if layout.IMAGE in chosen else None,
        projection=plan.projection,
        batch_size=plan.batch_size,
        batch_plan=plan.describe(),
        compute=own.compute,
        device=f"{plan.device}, {plan.threads} threads" if plan.device == "cpu" else plan.device,
        versions=plan.versions,
        missing=missing,
        truncated_texts=_truncated(tokens, own.max_length) if layout.TEXT in chosen else None,
        text_tokens=token_lengths(tokens),
        note=own.note or None,
    )
