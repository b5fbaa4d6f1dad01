"""The settings of a run: what ``maghub run`` can be told with a preset and with ``--set``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel

from maghub.errors import MaghubError
from maghub.running import default_task, runner_of
from maghub.spec import Model


class Setting(Model):
    """One setting of a model or of a task.

    Attributes:
        name: As ``--set NAME=VALUE`` writes it; with ``model.`` or ``task.`` where both have it.
        side: ``model`` or ``task``.
        value: What a run would use.
        default: What it uses without a preset.
        fits: Which values it takes, in words.
        about: What it means.
    """

    name: str
    side: str
    value: Any
    default: Any
    fits: str
    about: str


class RunSettings(Model):
    """What one model on one task can be told.

    Attributes:
        model, task, preset: What was asked for.
        settings: Those of the model, then those of the task.
        presets: name -> description of all presets that fit.
    """

    model: str
    task: str
    preset: str | None
    settings: list[Setting]
    presets: dict[str, str]


def run_settings(
    model: str,
    task: str | None = None,
    *,
    preset: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> RunSettings:
    """The settings of a model on a task, each with its value, what it takes and what it means.

    Args:
        model: A registered model or retriever.
        task: A registered task; None as in ``maghub.run``.
        preset: Named settings.
        settings: Single settings, which win.

    Raises:
        MaghubError: Unknown names, or values that do not fit.
    """
    task = task or default_task(model)
    runner = runner_of(model, task)
    if not (hasattr(runner, "configs") and hasattr(runner, "presets")):
        raise MaghubError(f"task '{task}' does not say what it can be told", fix="see its source")
    _, *plain = runner.configs(model, None, {})
    _, *chosen = runner.configs(model, preset, settings or {})
    sides = [_Side(*parts) for parts in zip(("model", "task"), plain, chosen, strict=True)]
    shared = set(type(plain[0]).model_fields) & set(type(plain[1]).model_fields)
    found = [setting for side in sides for setting in _settings(side, shared)]
    return RunSettings(
        model=model, task=task, preset=preset, settings=found, presets=runner.presets(model)
    )


class _Side(NamedTuple):
    """One of the two: its settings by default, and as chosen."""

    name: str
    plain: BaseModel
    chosen: BaseModel


def _settings(side: _Side, shared: set[str]) -> Iterator[Setting]:
    kind = type(side.plain)
    schema = kind.model_json_schema(mode="validation")
    values, defaults = (config.model_dump(mode="json") for config in (side.chosen, side.plain))
    about = attribute_docs(kind)
    for name in kind.model_fields:
        yield Setting(
            name=f"{side.name}.{name}" if name in shared else name,
            side=side.name,
            value=values[name],
            default=defaults[name],
            fits=_fits(schema["properties"][name], schema.get("$defs", {})),
            about=about.get(name, ""),
        )


_LIMITS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
_TYPES = {"integer": "int", "number": "float", "boolean": "true or false", "string": "text"}


def _fits(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> str:
    """A property of a JSON schema in words: ``int >= 1, or null``."""
    if "$ref" in schema:
        return _fits(defs[schema["$ref"].rpartition("/")[2]], defs)
    if "anyOf" in schema:
        return ", or ".join(_fits(one, defs) for one in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return " | ".join(map(str, schema.get("enum", [schema.get("const")])))
    if schema.get("type") == "array":
        return f"list of {_fits(schema.get('items', {}), defs) or 'values'}"
    kind = str(schema.get("type", "any"))
    limits = [f"{sign} {schema[key]:g}" for key, sign in _LIMITS.items() if key in schema]
    return " ".join([_TYPES.get(kind, kind), ", ".join(limits)]).strip()


_ATTRIBUTE = re.compile(r"^    ([\w, ]+): (.*(?:\n {8,}.*)*)", re.MULTILINE)


def attribute_docs(kind: type) -> dict[str, str]:
    """attribute -> what the docstrings of a class and its bases say of it (``Attributes:``)."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        text = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")[2]
        for names, about in _ATTRIBUTE.findall(text):
            found.update(dict.fromkeys(re.split(r",\s*", names), " ".join(about.split())))
    return found
