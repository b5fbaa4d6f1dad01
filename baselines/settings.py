"""Where the settings of a run come from: defaults (the paper's), a preset, then single overrides.

Settings have flat names over model and task (``hidden=256``, ``lr=0.001``). A name that both have
is written ``model.NAME`` or ``task.NAME``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from maghub import registry
from maghub.errors import MaghubError, nearest

Settings = Mapping[str, Any]
M = TypeVar("M", bound=BaseModel)
T = TypeVar("T", bound=BaseModel)
K = TypeVar("K")
_SIDES = ("model", "task")
_LARGEST = {int: 2.0**31, float: 1e38}
"""Nothing counts that far, and torch's sizes overflow soon after; so do its numbers."""


def registered(model: str, base: type[K], lack: str, instead: str) -> type[K]:
    """The registered model of that name, if it is a ``base``.

    Raises:
        MaghubError: Unknown name, or it is another kind of model: it ``lack`` what is asked for.
    """
    kind = registry.get("models", model)
    if not (isinstance(kind, type) and issubclass(kind, base)):
        raise MaghubError(f"{model} {lack}", fix=f"choose another model, e.g. {instead}")
    return kind


def _side(name: str, kinds: Mapping[str, type[BaseModel]]) -> tuple[str, str]:
    """Which of model and task a setting belongs to, and its own name there."""
    prefix, dot, rest = name.partition(".")
    if dot and prefix in _SIDES:
        if rest in kinds[prefix].model_fields:
            return prefix, rest
        raise nearest(rest, kinds[prefix].model_fields, kind=f"setting of the {prefix}")
    owners = [side for side in _SIDES if name in kinds[side].model_fields]
    if len(owners) == 1:
        return owners[0], name
    if owners:
        raise MaghubError(
            f"setting '{name}' is one of the model and of the task",
            fix=f"write model.{name} or task.{name}",
        )
    known = [field for side in _SIDES for field in kinds[side].model_fields]
    raise nearest(name, known, kind="setting")


def resolve(model: type[M], task: type[T], *layers: Settings, asked: str = "MODEL") -> tuple[M, T]:
    """Validated configurations of model and task; later layers win.

    ``asked`` is what ``maghub settings`` is given to show them.

    Raises:
        MaghubError: Unknown or ambiguous name, a value that does not fit, or no configurations.
    """
    kinds = {"model": model, "task": task}
    for side, kind in kinds.items():
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
            raise MaghubError(f"the Config of the {side} is {kind!r}, no pydantic model")
    values: dict[str, dict[str, Any]] = {side: {} for side in _SIDES}
    for layer in layers:
        for name, value in layer.items():
            side, own = _side(name, kinds)
            values[side][own] = value
    return _validated(model, values["model"], asked), _validated(task, values["task"], asked)


def _validated(kind: type[M], values: dict[str, Any], asked: str) -> M:
    try:
        config = kind.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        given = f"setting {name}={_short(first['input'])}" if name else "settings"
        raise MaghubError(
            f"{given}: {first['msg'].removeprefix('Value error, ')}",
            fix=f"see what fits with: maghub settings {asked}",
        ) from None
    for name, value in config:
        if abs(value if type(value) in _LARGEST else 0) >= _LARGEST.get(type(value), 1):
            what = f"setting {name}={_short(values[name])} is too large"
            raise MaghubError(what, fix="give a smaller one")
    return config


def _short(value: object) -> str:
    """A value as it would be typed, its beginning if it is long."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
