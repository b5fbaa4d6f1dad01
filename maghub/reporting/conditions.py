"""What may differ between runs so that they cannot be compared, and the footnotes that say so."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from maghub.reporting.model import NoteKind
from maghub.reporting.runs import Runs
from maghub.reporting.statistic import is_number
from maghub.results import RunRecord

PROTOCOL = (
    "ties",
    "ranked",
    "negatives_rule",
    "score",
    "symmetric",
    "inputs",
    "candidates",
    "pairs",
    "limit",
    "references",
    # of the tasks on retrieval benchmarks
    "split",
    "generator",
    "evidence",
    "pictures",
    "max_tokens",
    "parameters",
    "k",
    "batch",
    "online",
    "repeats",
)
"""Task settings that decide how a result is measured, whatever the model."""
RETRIEVAL = "kg-"
"""Beginning of the tasks whose models choose their modalities: only encoders may not differ."""
_OTHER_SETTINGS = "other settings than other runs of this model"
_SHOWN = 6
Values = Mapping[str, Any]
Said = tuple[NoteKind, str]


def _data(record: RunRecord) -> Values:
    return record.dataset.checksums


def _version(record: RunRecord) -> Values:
    return {"version": record.dataset.version, "revision": record.dataset.revision or "none"}


def _split(record: RunRecord) -> Values:
    return {"split": record.dataset.split or "none"}


def _inputs(record: RunRecord) -> Values:
    pairs = sorted(record.encoders.items())
    if record.task.startswith(RETRIEVAL):
        return dict(pairs)
    return {"inputs": ", ".join(f"{modality} {name}" for modality, name in pairs) or "none"}


def _protocol(record: RunRecord) -> Values:
    return {name: record.task_settings[name] for name in PROTOCOL if name in record.task_settings}


def _settings(record: RunRecord) -> Values:
    model = {f"model.{name}": value for name, value in record.model_settings.items()}
    task = {
        f"task.{name}": value
        for name, value in record.task_settings.items()
        if name not in PROTOCOL
    }
    return {**model, **task}


def _versions(record: RunRecord) -> Values:
    return record.versions


Reader = Callable[[RunRecord], Values]
_OF_TABLE: dict[NoteKind, tuple[str, Reader]] = {
    "data": ("other data", _data),
    "version": ("other dataset version", _version),
    "split": ("other split", _split),
    "inputs": ("other inputs", _inputs),
    "protocol": ("measured in another way", _protocol),
    "versions": ("other software", _versions),
}


def differing_settings(rows: Sequence[Runs]) -> list[dict[str, str]]:
    """Per row, the settings in which runs of its model and preset differ, as they are in it."""
    found: list[dict[str, str]] = [{} for _ in rows]
    for places in _siblings(rows):
        settings = [_settings(rows[i].first) for i in places]
        for name in dict.fromkeys(name for own in settings for name in own):
            values = [_text(own[name]) for own in settings if name in own]
            if len(set(values)) > 1:
                for i, own in zip(places, settings, strict=True):
                    if name in own:
                        found[i][_short(name, own)] = _shown(own[name])
    return found


def notes(rows: Sequence[Runs]) -> list[list[Said]]:
    """Per row of a table, what must be said of it: kind and text."""
    found: list[list[Said]] = [[] for _ in rows]
    for kind, (title, read) in _OF_TABLE.items():
        usual = _usual(rows, read)
        for said, runs in zip(found, rows, strict=True):
            said.extend(_difference(kind, title, read(runs.first), usual))
    for places in _siblings(rows):
        usual = _usual([rows[i] for i in places], _settings)
        for i in places:
            own = _settings(rows[i].first)
            found[i].extend(_difference("settings", _OTHER_SETTINGS, own, usual))
    for said, runs in zip(found, rows, strict=True):
        said.extend(_of_row(runs))
    return found


def _siblings(rows: Sequence[Runs]) -> list[list[int]]:
    """Positions of the rows of each model, inputs and preset, whatever their noise."""
    found: dict[str, list[int]] = {}
    for i, runs in enumerate(rows):
        first = runs.first
        found.setdefault(_text([first.model, first.encoders, first.preset]), []).append(i)
    return list(found.values())


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _usual(rows: Sequence[Runs], read: Reader) -> dict[str, Any]:
    """The most frequent value of each field over all runs; of equals, the first."""
    counts: dict[str, Counter[str]] = {}
    values: dict[str, Any] = {}
    for runs in rows:
        for name, value in read(runs.first).items():
            text = _text(value)
            values[text] = value
            counts.setdefault(name, Counter())[text] += len(runs.records)
    return {name: values[count.most_common(1)[0][0]] for name, count in counts.items()}


def _difference(kind: NoteKind, title: str, own: Values, usual: Values) -> list[Said]:
    names = [name for name, value in own.items() if value != usual[name]]
    if not names:
        return []
    parts = [
        f"{'' if title.endswith(n) else _short(n, own) + ' '}{_shown(own[n])} "
        f"(elsewhere {_shown(usual[n])})"
        for n in names[:_SHOWN]
    ]
    more = [f"and {len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
    return [(kind, f"{title}: {', '.join([*parts, *more])}")]


def _short(name: str, among: Values) -> str:
    """The name of a setting without ``model.`` or ``task.`` where that is clear."""
    side, _, rest = name.partition(".")
    other = {"model": "task", "task": "model"}.get(side)
    return rest if other and f"{other}.{rest}" not in among else name


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else _text(value)
    if len(text) == 64 and all(c in "0123456789abcdef" for c in text):
        return text[:12]
    return text if len(text) <= 80 else text[:79] + "…"


def _of_row(runs: Runs) -> list[Said]:
    """What the runs of one row say by themselves."""
    said: list[Said] = []
    for seed, differs in sorted(runs.repeated.items()):
        if differs:
            text = (
                f"seed {seed} was recorded more than once with different results; the last counts"
            )
            said.append(("repeats", text))
        else:
            said.append(("values", f"seed {seed} was recorded more than once; it counts once"))
    total = len(runs.records)
    for name in runs.metrics:
        values = [record.metrics[name] for record in runs.records if name in record.metrics]
        infinite = sum(not is_number(value) for value in values)
        if infinite:
            said.append(("values", f"{name} is not a number in {infinite} of {total} runs"))
        if len(values) < total:
            said.append(("values", f"{name} is missing in {total - len(values)} of {total} runs"))
    devices = sorted({record.device for record in runs.records})
    if len(devices) > 1:
        text = f"runs on {' and '.join(devices)}: their times and memory are not comparable"
        said.append(("device", text))
    remarks = dict.fromkeys(note for record in runs.records for note in record.notes)
    said.extend(("said", " ".join(remark.split())) for remark in remarks)
    return said
