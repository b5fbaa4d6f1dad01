"""Records sorted into runs that differ in their seed alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from maghub.results import RunRecord


@dataclass
class Runs:
    """Runs of one kind.

    Attributes:
        key: Everything that decides the result but the seed, as text.
        bare: The same without noise.
        records: One per seed, by seed.
        repeated: Seeds that were recorded more than once -> whether the results differed.
    """

    key: str
    bare: str
    records: list[RunRecord] = field(default_factory=list)
    repeated: dict[int, bool] = field(default_factory=dict)

    @property
    def first(self) -> RunRecord:
        """A record that stands for all: they agree in everything but seed and results."""
        return self.records[0]

    @property
    def order(self) -> tuple[Any, ...]:
        """Where the row stands in its table."""
        first = self.first
        inputs = sorted(first.encoders.items())
        return first.model, inputs, first.preset or "", sorted(noise(first).items()), self.key

    @property
    def metrics(self) -> list[str]:
        """Names of all metrics, in the order of the records."""
        return list(dict.fromkeys(name for record in self.records for name in record.metrics))


def noise(record: RunRecord) -> dict[str, float]:
    """kind -> share of the damage that was done; a share of 0 is none."""
    return {kind: share for kind, share in sorted(record.noise.items()) if share}


def setting(record: RunRecord) -> str | None:
    """The setting of a retrieval benchmark (S1 to S5): each is a task of its own."""
    found = record.task_settings.get("setting")
    return None if found is None else str(found)


def _text(parts: Any) -> str:
    return json.dumps(parts, sort_keys=True, ensure_ascii=False)


def _bare(record: RunRecord) -> str:
    return _text(
        [
            record.dataset.model_dump(mode="json"),
            record.task,
            record.model,
            record.encoders,
            record.preset,
            record.model_settings,
            record.task_settings,
            record.versions,
        ]
    )


def group(records: Iterable[RunRecord]) -> list[Runs]:
    """Records by everything that decides a result; the later one of a repeated seed counts."""
    found: dict[str, Runs] = {}
    seen: dict[str, dict[int, RunRecord]] = {}
    for record in records:
        bare = _bare(record)
        key = _text([bare, noise(record)])
        runs = found.setdefault(key, Runs(key, bare))
        known = seen.setdefault(key, {})
        if record.seed in known:
            # as text: two results that are not a number are the same result
            differs = _text(known[record.seed].metrics) != _text(record.metrics)
            runs.repeated[record.seed] = runs.repeated.get(record.seed, False) or differs
        known[record.seed] = record
    for key, runs in found.items():
        runs.records = [seen[key][seed] for seed in sorted(seen[key])]
    return sorted(found.values(), key=lambda runs: runs.order)


def tables(groups: Sequence[Runs]) -> dict[tuple[str, str, str], list[Runs]]:
    """(dataset, task, setting) -> its kinds of runs, in order."""
    found: dict[tuple[str, str, str], list[Runs]] = {}
    for runs in groups:
        first = runs.first
        key = (first.dataset.name, first.task, setting(first) or "")
        found.setdefault(key, []).append(runs)
    return dict(sorted(found.items()))
