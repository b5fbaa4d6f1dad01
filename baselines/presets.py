"""Named settings: of the papers where they are not the defaults, and of released code.

The defaults of every model and task are OpenMAG's (appendix G). A preset lists what differs: for
all models, for one task, and for one model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from maghub.baselines.settings import M, Settings, T, resolve
from maghub.errors import MaghubError, nearest


class Preset(BaseModel):
    """What a preset changes; ``models`` wins over ``tasks`` and that over ``settings``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: str
    settings: dict[str, Any] = {}
    tasks: dict[str, dict[str, Any]] = {}
    models: dict[str, dict[str, Any]] = {}
    only_tasks: tuple[str, ...] = ()


_NODES = "node-classification"
_FULL = {"batch_size": None, "modality_loss": 0.0, "head": "none", "eval_every": 1}


def _clegr(norm: str, rows: Mapping[str, tuple[bool, float, int, int, float, int]]) -> Preset:
    """One dataset of CLeGR's Table 2: residual, dropout, layers, hidden, lr, epochs per model."""
    names = ("residual", "dropout", "layers", "hidden", "lr", "epochs")
    models = {
        model: {**dict(zip(names, row, strict=True)), "norm": norm} for model, row in rows.items()
    }
    models["gat"]["heads"] = 1  # the table gives a width and no number of heads
    return Preset(
        description="CLeGR, Table 2",
        settings={**_FULL, "weight_decay": 5e-4},
        models=models,
        only_tasks=(_NODES,),
    )


PRESETS: dict[str, Preset] = {
    "openmag": Preset(description="the paper's values (appendix G); the same as no preset"),
    "openmag-code": Preset(
        description="values of OpenMAG's released configurations where they differ from the paper",
        tasks={
            _NODES: {"batch_size": 1024, "epochs": 30},
            "link-prediction": {"fanout": 5, "epochs": 50, "ties": "pessimistic"},
            "modality-matching": {"inputs": "all", "score": "mean-cosine"},
            "modality-retrieval": {"inputs": "all", "stage2_batch_size": 64},
            "modality-alignment": {"inputs": "all"},
        },
    ),
    "full-batch": Preset(
        description="quick and strong on small graphs: whole graph, standardised input, no extras",
        settings={"scale": "standard", "lr": 0.01, "weight_decay": 5e-4, "layers": 2},
        tasks={
            _NODES: {**_FULL, "epochs": 200, "patience": 30, "dropout": 0.5},
            "link-prediction": {"batch_size": None},
        },
        only_tasks=(_NODES, "link-prediction", "node-clustering"),
    ),
    "planetoid": Preset(
        description="Kipf and Welling (2017) and Velickovic et al. (2018) on the public split",
        settings={**_FULL, "scale": "row", "weight_decay": 5e-4, "epochs": 200, "lr": 0.01},
        models={
            "mlp": {"layers": 2, "hidden": 16, "dropout": 0.5, "input_dropout": 0.5},
            "gcn": {"layers": 2, "hidden": 16, "dropout": 0.5, "input_dropout": 0.5},
            "gat": {
                "layers": 2,
                "hidden": 8,
                "heads": 8,
                "activation": "elu",
                "dropout": 0.6,
                "input_dropout": 0.6,
                "attention_dropout": 0.6,
                "lr": 0.005,
                "epochs": 1000,
                "patience": 100,
            },
        },
        only_tasks=(_NODES,),
    ),
    "clegr-cora": _clegr(
        "none",
        {
            "gcn": (False, 0.7, 3, 512, 1e-3, 500),
            "gat": (True, 0.2, 3, 512, 1e-3, 500),
            "graphsage": (False, 0.7, 3, 256, 1e-3, 500),
        },
    ),
    "clegr-citeseer": _clegr(
        "none",
        {
            "gcn": (False, 0.5, 2, 512, 1e-3, 500),
            "gat": (True, 0.5, 3, 256, 1e-3, 500),
            "graphsage": (False, 0.2, 3, 512, 1e-3, 500),
        },
    ),
    "clegr-computers": _clegr(
        "layer",
        {
            "gcn": (False, 0.5, 3, 512, 1e-3, 1000),
            "gat": (False, 0.5, 2, 64, 1e-3, 1000),
            "graphsage": (False, 0.3, 4, 64, 1e-3, 1000),
        },
    ),
    "clegr-photo": _clegr(
        "layer",
        {
            "gcn": (True, 0.5, 6, 256, 1e-3, 1000),
            "gat": (True, 0.5, 3, 64, 1e-3, 1000),
            "graphsage": (True, 0.2, 6, 64, 1e-3, 1000),
        },
    ),
    "clegr-history": _clegr(
        "layer",
        {
            "gcn": (True, 0.5, 6, 256, 1e-3, 1000),
            "gat": (True, 0.5, 3, 64, 1e-3, 1000),
            "graphsage": (True, 0.2, 6, 64, 1e-3, 1000),
        },
    ),
    "clegr-arxiv": _clegr(
        "batch",
        {
            "gcn": (True, 0.5, 5, 512, 5e-4, 2000),
            "gat": (True, 0.5, 5, 256, 5e-4, 2000),
            "graphsage": (True, 0.5, 4, 256, 5e-4, 2000),
        },
    ),
}


def run_configs(
    own: type[M], shared: type[T], model: str, task: str, preset: str | None, settings: Settings
) -> tuple[M, T]:
    """Configurations of a model and of a task: defaults, then a preset, then single settings.

    Raises:
        MaghubError: See ``preset_settings`` and ``resolve``.
    """
    layers = preset_settings(preset, model, task), settings
    return resolve(own, shared, *layers, asked=f"{model} --task {task}")


def presets_for(model: str, task: str) -> dict[str, str]:
    """name -> description of the presets that say something of a model on a task."""
    return {
        name: preset.description
        for name, preset in PRESETS.items()
        if (not preset.only_tasks or task in preset.only_tasks)
        and (not preset.models or model in preset.models)
    }


def preset_settings(name: str | None, model: str, task: str) -> dict[str, Any]:
    """The flat settings of a preset for one model and task; empty for None.

    Raises:
        MaghubError: Unknown preset, or it says nothing of that task or model.
    """
    if name is None:
        return {}
    if name not in PRESETS:
        raise nearest(name, PRESETS, kind="preset")
    preset = PRESETS[name]
    if preset.only_tasks and task not in preset.only_tasks:
        raise MaghubError(
            f"preset '{name}' is for {', '.join(preset.only_tasks)}, not for {task}",
            fix="leave --preset out",
        )
    if preset.models and model not in preset.models:
        raise MaghubError(
            f"preset '{name}' says nothing of {model}",
            fix=f"it has: {', '.join(preset.models)}",
        )
    return {**preset.settings, **preset.tasks.get(task, {}), **preset.models.get(model, {})}
