"""``maghub.run``: a registered model or retriever on a published folder, one record per seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from maghub import layout, registry
from maghub.errors import MaghubError, nearest
from maghub.features import no_vectors
from maghub.files import check_outside, check_writable
from maghub.loading import load
from maghub.mag import MAG
from maghub.results import RunRecord, RunRequest, append_records, check_results, is_writer
from maghub.schema import features_from_dict, vector_columns
from maghub.spec import FolderSpec

GRAPH_TASK, KG_TASK = "node-classification", "kg-retrieval"
"""Tasks of models and of retrievers where none is named."""


def choose_encoders(
    spec: FolderSpec,
    encoder: str | Mapping[str, str] | None,
    modalities: Sequence[str] | None,
    where: object,
) -> dict[str, str]:
    """modality -> encoder whose vectors are read.

    Args:
        spec: What the folder holds.
        encoder: One encoder for all its modalities, or modality -> encoder; None takes for every
            modality the first encoder of the folder that has it.
        modalities: Which modalities to read; None for all there are.
        where: Named in errors.

    Raises:
        MaghubError: The folder has no vectors, not those, or not of that modality; says which
            command makes them.
    """
    stored = _stored(spec)
    if isinstance(encoder, Mapping):
        chosen = dict(encoder)
    elif encoder is not None:
        chosen = dict.fromkeys(stored.get(encoder, modalities or [layout.TEXT]), encoder)
    else:
        chosen = {}
        for name, columns in stored.items():
            for column in columns:
                chosen.setdefault(column, name)
        if not chosen and not spec.of_kind("corpus"):  # words alone are enough for some retrievers
            raise no_vectors(spec, where)
    for modality in modalities or []:
        if modality not in chosen:
            raise nearest(modality, chosen, kind="modality of these encoders")
    return {m: name for m, name in chosen.items() if not modalities or m in modalities}


def _stored(spec: FolderSpec) -> dict[str, list[str]]:
    """encoder -> modalities of the published vectors: of nodes, or of questions and triplets."""
    stored: dict[str, list[str]] = {}
    for config in spec.of_kind("embeddings"):
        if config.target in (None, layout.NODES, layout.CORPUS, layout.QUERIES):
            name = config.name.removeprefix(layout.EMBEDDINGS_PREFIX)
            if spec.of_kind("corpus"):
                name = name.removesuffix(f"-{config.target}")
            found = vector_columns(features_from_dict(config.features))
            stored[name] = list(dict.fromkeys([*stored.get(name, []), *found]))
    return stored


def default_task(model: str) -> str:
    """The task of a model that is run without naming one: retrieval for retrievers."""
    return KG_TASK if model in registry.names("retrievers") else GRAPH_TASK


def runner_of(model: str, task: str) -> Any:
    """The registered task, which a registered model or retriever can serve.

    Raises:
        MaghubError: Unknown names, or one is about graphs and the other about retrieval.
    """
    runner = registry.get("tasks", task)
    if not callable(getattr(runner, "run", None)):
        raise MaghubError(f"task '{task}' is none: it has no run(request)", fix="name another one")
    models, retrievers = registry.names("models"), registry.names("retrievers")
    if model not in models and model not in retrievers:
        raise nearest(model, [*models, *retrievers], kind="model")
    if _is_retrieval(runner) and model not in retrievers:
        fix = "choose a retriever, e.g. rag-text, or a task on graphs"
        raise MaghubError(f"{model} is no retriever, which {task} needs", fix=fix)
    if not _is_retrieval(runner) and model not in models:
        fix = f"choose another model, e.g. gcn, or --task {KG_TASK}"
        raise MaghubError(f"{model} is a retriever, and {task} needs a model of graphs", fix=fix)
    return runner


def _is_retrieval(runner: Any) -> bool:
    """Third parties' tasks may not say which they are; they are taken as tasks on graphs."""
    return bool(getattr(runner, "benchmark", False))


def _check_folder(task: str, runner: Any, spec: FolderSpec, where: object) -> None:
    """Raise one line where a folder is a graph and the task about retrieval, or the reverse."""
    retrieval = _is_retrieval(runner)
    if bool(spec.of_kind("corpus")) == retrieval:
        return
    if retrieval:
        what = f"{spec.name} is no retrieval benchmark, which {task} needs"
        fix = "make one of a knowledge graph with: maghub mkg build --kg KG --out FOLDER"
    else:
        what = f"{spec.name} is a retrieval benchmark, and {task} needs a graph"
        fix = f"use --task {KG_TASK} with a retriever, e.g. rag-text"
    raise MaghubError(what, where=where, fix=fix)


def _pinned(dataset: str | Path | MAG, opened: MAG) -> str:
    """The name of a dataset for all seeds: one of the Hub at the commit it has now."""
    again = isinstance(dataset, MAG) or opened.revision is not None
    return opened.source if again else str(dataset)


def default_seeds(model: str) -> int:
    """Three, or one for a retriever that draws nothing."""
    if model not in registry.names("retrievers"):
        return 3
    return 3 if getattr(registry.get("retrievers", model), "seeded", True) else 1


def _request(**asked: Any) -> RunRequest:
    """The request of one seed; one line where a value is of the wrong kind."""
    try:
        return RunRequest(**asked)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise MaghubError(f"{name} of the run: {first['msg']}") from None


def run(
    model: str,
    dataset: str | Path | MAG,
    task: str | None = None,
    *,
    encoder: str | Mapping[str, str] | None = None,
    modalities: Sequence[str] | None = None,
    seeds: int | Sequence[int] | None = None,
    preset: str | None = None,
    settings: Mapping[str, Any] | None = None,
    noise: Mapping[str, float] | None = None,
    device: str = "auto",
    out: str | Path | None = None,
    work: str | Path | None = None,
    resume: bool = True,
) -> list[RunRecord]:
    """Train and measure a model on a task, once per seed.

    Args:
        model: A registered model or retriever.
        dataset: Folder, bundled sample or Hub id, or what ``maghub.load`` gave for one.
        task: A registered task; None: ``kg-retrieval`` for a retriever, else
            ``node-classification``.
        encoder: See ``choose_encoders``.
        modalities: Modalities to read; None for all.
        seeds: How many seeds (0, 1, ...), or the seeds themselves; None: three, or one for a
            retriever that draws nothing.
        preset: Named settings, e.g. ``planetoid``.
        settings: Single settings of model and task, e.g. ``{"hidden": 64}``; they win.
        noise: kind -> share of damage to the input.
        device: ``auto``, ``cpu``, ``cuda`` ...
        out: JSON-lines file that gets one record per seed as soon as it is there.
        work: Folder for checkpoints and the logs of epochs.
        resume: Go on from checkpoints in ``work``.

    Raises:
        MaghubError: Unknown names (the nearest are given), or a dataset that cannot serve the task.
    """
    return list(
        iter_runs(
            model,
            dataset,
            task,
            encoder=encoder,
            modalities=modalities,
            seeds=seeds,
            preset=preset,
            settings=settings,
            noise=noise,
            device=device,
            out=out,
            work=work,
            resume=resume,
        )
    )


def iter_runs(
    model: str,
    dataset: str | Path | MAG,
    task: str | None,
    *,
    encoder: str | Mapping[str, str] | None,
    modalities: Sequence[str] | None,
    seeds: int | Sequence[int] | None,
    preset: str | None,
    settings: Mapping[str, Any] | None,
    noise: Mapping[str, float] | None,
    device: str,
    out: str | Path | None,
    work: str | Path | None,
    resume: bool,
) -> Iterator[RunRecord]:
    """``run``, giving every record as soon as it is there."""
    task = task or default_task(model)
    runner = runner_of(model, task)
    opened = dataset if isinstance(dataset, MAG) else load(dataset)
    spec, where = opened.spec, _pinned(dataset, opened)
    _check_folder(task, runner, spec, where)
    chosen = choose_encoders(spec, encoder, modalities, where)
    seeds = default_seeds(model) if seeds is None else seeds
    numbers = range(seeds) if isinstance(seeds, int) else list(seeds)
    if not numbers:
        raise MaghubError("no seed to run", fix="give 1 or more")
    if out is not None:  # better now than after hours of training
        check_results(Path(out))
    if work is not None:
        check_outside(Path(work))
        check_writable(Path(work) / "log.csv")
    for seed in numbers:
        request = _request(
            model=model,
            dataset=where,
            task=task,
            encoders=chosen,
            seed=seed,
            preset=preset,
            settings=dict(settings or {}),
            noise=dict(noise or {}),
            device=device,
            work=Path(work) if work is not None else None,
            resume=resume,
            out=Path(out) if out is not None else None,
        )
        record: RunRecord = runner.run(request)
        if out is not None and is_writer():
            append_records(Path(out), [record])
        yield record
