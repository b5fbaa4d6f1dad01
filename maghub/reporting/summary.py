"""``summarise``: result records in, a report out."""

from __future__ import annotations

from collections.abc import Sequence

from maghub.errors import MaghubError
from maghub.reporting.conditions import Said, differing_settings, notes
from maghub.reporting.measures import measure
from maghub.reporting.model import FLAGS, Block, Cost, Measure, Note, Report, Row, Statistic
from maghub.reporting.paper import paper_numbers
from maghub.reporting.runs import Runs, group, noise, tables
from maghub.reporting.statistic import is_number, statistic
from maghub.results import RunRecord


def summarise(records: Sequence[RunRecord], where: object = None) -> Report:
    """Mean and deviation over seeds per dataset, task and kind of run.

    Runs are averaged only where they differ in nothing but the seed. Rows that read other data,
    another split or encoder, were measured in another way or with other settings or software are
    kept apart and say so in a note. The report does not depend on the order of the records, except
    that of records of one seed the last counts.

    Args:
        records: What was run; ``where`` says in errors where it was read.
        where: Files.

    Raises:
        MaghubError: There is no record.
    """
    if not records:
        fix = "make some with: maghub run MODEL --dataset NAME"
        raise MaghubError("there is no result record", where=where, fix=fix)
    blocks = [_block(key, rows) for key, rows in tables(group(records)).items()]
    return Report(records=len(records), blocks=tuple(blocks))


def _block(key: tuple[str, str, str], rows: list[Runs]) -> Block:
    dataset, task, setting = key
    said = notes(rows)
    letters = _letters(said)
    measures = _measures(rows)
    settings = differing_settings(rows)
    series = {bare: i for i, bare in enumerate(dict.fromkeys(runs.bare for runs in rows))}
    made = [
        _row(runs, own, {letter: letters[letter] for letter in spoken}, series[runs.bare])
        for runs, own, spoken in zip(rows, settings, said, strict=True)
    ]
    return Block(
        dataset=dataset,
        task=task,
        setting=setting or None,
        measures=measures,
        rows=tuple(_with_best(made, measures)),
        notes=tuple(Note(letter=v, kind=kind, text=text) for (kind, text), v in letters.items()),
        controls=_controls(rows),
    )


def _letters(said: Sequence[Sequence[Said]]) -> dict[Said, str]:
    """A letter per note: a, ..., z, aa, ab, ..."""
    found = dict.fromkeys(note for row in said for note in row)
    return {note: _letter(i) for i, note in enumerate(found)}


def _letter(number: int) -> str:
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("a") + rest) + text
    return text


def _measures(rows: Sequence[Runs]) -> tuple[Measure, ...]:
    values: dict[str, list[float]] = {}
    for runs in rows:
        for record in runs.records:
            for name, value in record.metrics.items():
                values.setdefault(name, []).append(value)
    return tuple(measure(name, filter(is_number, found)) for name, found in values.items())


def _row(runs: Runs, settings: dict[str, str], said: dict[Said, str], series: int) -> Row:
    first = runs.first
    cells = {
        name: found
        for name in runs.metrics
        if (found := statistic(record.metrics.get(name) for record in runs.records)) is not None
    }
    damage = noise(first)
    paper = {} if damage else paper_numbers(first.dataset.name, first.task, first.model)
    return Row(
        model=first.model,
        inputs=dict(sorted(first.encoders.items(), key=lambda pair: (pair[0] != "text", pair))),
        preset=first.preset,
        noise=damage,
        settings=settings,
        seeds=tuple(record.seed for record in runs.records),
        cells=cells,
        paper={name: number for name, number in paper.items() if name in cells},
        notes=tuple(said.values()),
        comparable=not any(kind in FLAGS for kind, _ in said),
        cost=_cost(runs.records),
        data=first.dataset,
        versions=first.versions,
        series=series,
    )


def _cost(records: Sequence[RunRecord]) -> Cost:
    sizes = {record.parameters for record in records}
    return Cost(
        seconds=_finite([record.seconds for record in records]),
        train_seconds=_finite([record.train_seconds for record in records]),
        epochs=statistic(record.epochs for record in records),
        parameters=sizes.pop() if len(sizes) == 1 else None,
        peak_cpu_bytes=statistic(record.peak_cpu_bytes for record in records),
        peak_gpu_bytes=statistic(record.peak_gpu_bytes for record in records),
        devices=tuple(sorted({record.device for record in records})),
    )


def _finite(values: Sequence[float]) -> Statistic:
    return statistic(values) or Statistic(mean=0.0, n=0)


def _with_best(rows: Sequence[Row], measures: Sequence[Measure]) -> list[Row]:
    """Rows that say in which metrics they are the best of those that can be compared."""
    best: dict[int, list[str]] = {}
    judged = [i for i, row in enumerate(rows) if row.comparable and not row.noise]
    for own in measures:
        sign = 1 if own.higher_is_better else -1
        shown = {
            i: sign * round(rows[i].cells[own.name].mean * own.factor, own.digits)
            for i in judged
            if own.name in rows[i].cells
        }
        if len(shown) > 1:
            for i, value in shown.items():
                if value == max(shown.values()):
                    best.setdefault(i, []).append(own.name)
    return [row.model_copy(update={"best": tuple(best.get(i, ()))}) for i, row in enumerate(rows)]


def _controls(rows: Sequence[Runs]) -> dict[str, tuple[float, float]]:
    values: dict[str, list[float]] = {}
    for runs in rows:
        for record in runs.records:
            for name, value in record.controls.items():
                if is_number(value):
                    values.setdefault(name, []).append(value)
    return {name: (min(found), max(found)) for name, found in values.items()}
