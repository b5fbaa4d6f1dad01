"""What a report says: a block per dataset and task, a row per kind of run, a cell per metric."""

from __future__ import annotations

from typing import Literal, get_args

from maghub.results import DatasetIdentity
from maghub.spec import Model

Flag = Literal[
    "data", "version", "split", "inputs", "protocol", "settings", "versions", "repeats"
]  # fmt: skip
"""The kinds of notes that forbid a comparison; the others only explain a cell."""
NoteKind = Literal[Flag, "device", "values", "said"]
FLAGS: tuple[NoteKind, ...] = get_args(Flag)


class Statistic(Model):
    """Mean and sample standard deviation (n - 1) of ``n`` seeds; ``std`` is None for one seed."""

    mean: float
    std: float | None = None
    n: int = 1


class Measure(Model):
    """How a metric is shown.

    Attributes:
        name: Its name in records.
        title: Its name in tables.
        factor: What a recorded value is multiplied with to be shown.
        unit: ``%`` or nothing.
        digits: Digits after the point.
        higher_is_better: Direction.
    """

    name: str
    title: str
    factor: float = 100.0
    unit: str = "%"
    digits: int = 2
    higher_is_better: bool = True


class PaperNumber(Model):
    """A number that a paper prints, on the scale of the records, with where it stands.

    ``dataset`` and ``model`` are written as the paper writes them.
    """

    mean: float
    std: float | None
    paper: str
    table: int
    dataset: str
    model: str
    conditions: str

    @property
    def source(self) -> str:
        """For a line below the table."""
        return f"{self.paper}, Table {self.table}, {self.dataset} ({self.conditions})"


class Note(Model):
    """A footnote; rows refer to its letter."""

    letter: str
    kind: NoteKind
    text: str


class Cost(Model):
    """What the runs of a row took: seconds, bytes, epochs, trained parameters."""

    seconds: Statistic
    train_seconds: Statistic
    epochs: Statistic | None = None
    parameters: int | None = None
    peak_cpu_bytes: Statistic | None = None
    peak_gpu_bytes: Statistic | None = None
    devices: tuple[str, ...] = ()


class Row(Model):
    """Runs that differ in their seed alone.

    Attributes:
        inputs: modality -> encoder.
        noise: kind -> share above 0.
        settings: Settings in which the runs of this model and preset differ, as they are here.
        cells: metric -> statistic over seeds, on the scale of the records.
        paper: metric -> what a paper prints for this dataset, task and model.
        best: Metrics in which no comparable row of the block is better.
        notes: Letters of the block's notes.
        data: Which data was read, with checksums and split.
        versions: Package -> version.
        comparable: No note forbids a comparison with the other rows.
        series: Equal for rows that differ in nothing but noise.
    """

    model: str
    inputs: dict[str, str]
    preset: str | None
    noise: dict[str, float]
    settings: dict[str, str]
    seeds: tuple[int, ...]
    cells: dict[str, Statistic]
    paper: dict[str, PaperNumber]
    best: tuple[str, ...] = ()
    notes: tuple[str, ...]
    comparable: bool
    cost: Cost
    data: DatasetIdentity
    versions: dict[str, str]
    series: int

    @property
    def inputs_text(self) -> str:
        """``text+image: ENCODER``, or each modality with its own."""
        names = set(self.inputs.values())
        if len(names) == 1:
            return f"{'+'.join(self.inputs)}: {names.pop()}"
        return ", ".join(f"{modality}: {name}" for modality, name in self.inputs.items())

    @property
    def noise_text(self) -> str:
        """``noise text 30%``, or nothing."""
        shares = [f"{kind} {100 * share:g}%" for kind, share in self.noise.items()]
        return "noise " + ", ".join(shares) if shares else ""

    @property
    def setup_text(self) -> str:
        """Preset and settings that tell this row from others of its model."""
        parts = [f"preset {self.preset}"] if self.preset else []
        return ", ".join([*parts, *(f"{name} {value}" for name, value in self.settings.items())])


class Block(Model):
    """One table: a dataset and a task (and the setting of a retrieval benchmark).

    ``controls`` are what needs no training, e.g. chance: name -> smallest and largest recorded.
    """

    dataset: str
    task: str
    setting: str | None
    measures: tuple[Measure, ...]
    rows: tuple[Row, ...]
    notes: tuple[Note, ...]
    controls: dict[str, tuple[float, float]]

    @property
    def title(self) -> str:
        """The heading of the table."""
        return ", ".join(part for part in (self.dataset, self.task, self.setting) if part)

    @property
    def sources(self) -> list[str]:
        """Where the papers' numbers stand, each once."""
        found = [n.source for row in self.rows for n in row.paper.values()]
        return list(dict.fromkeys(found))


class Report(Model):
    """All blocks, and how many records they were made of."""

    records: int
    blocks: tuple[Block, ...]
