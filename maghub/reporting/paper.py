"""What the papers report, from ``paper.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import yaml
from pydantic import model_validator

from maghub.reporting.measures import measure
from maghub.reporting.model import PaperNumber
from maghub.spec import Model


class Column(Model):
    """A column of a table: our names, and how the paper writes them."""

    dataset: str
    printed: str
    metric: str
    heading: str


class PaperRow(Model):
    """A row: model and, per column, the mean and, where it is printed, the deviation."""

    model: str
    printed: str
    values: tuple[tuple[float, float] | tuple[float], ...]


class PaperTable(Model):
    """A table of a paper, or the part of it about one task; values in percent as printed."""

    paper: str
    table: int
    task: str
    conditions: str
    columns: tuple[Column, ...]
    rows: tuple[PaperRow, ...]

    @model_validator(mode="after")
    def _full(self) -> PaperTable:
        for row in self.rows:
            if len(row.values) != len(self.columns):
                raise ValueError(f"row {row.printed} has not one value per column")
        return self


@cache
def paper_tables() -> tuple[PaperTable, ...]:
    """All tables of the data file, with the papers' names in place of their keys."""
    text = files("maghub.reporting").joinpath("paper.yaml").read_text("utf-8")
    data = yaml.safe_load(text)
    names = data["papers"]
    return tuple(
        PaperTable(**{**table, "paper": names[table["paper"]]}) for table in data["tables"]
    )


@cache
def _numbers() -> Mapping[tuple[str, str, str], dict[str, PaperNumber]]:
    found: dict[tuple[str, str, str], dict[str, PaperNumber]] = {}
    for table in paper_tables():
        for row in table.rows:
            for column, value in zip(table.columns, row.values, strict=True):
                factor = measure(column.metric, ()).factor
                number = PaperNumber(
                    mean=round(value[0] / factor, 8),
                    std=round(value[1] / factor, 8) if len(value) == 2 else None,
                    paper=table.paper,
                    table=table.table,
                    dataset=column.printed,
                    model=row.printed,
                    conditions=table.conditions,
                )
                key = (column.dataset, table.task, row.model)
                if column.metric in found.setdefault(key, {}):
                    raise ValueError(f"two numbers for {key}, {column.metric}")
                found[key][column.metric] = number
    return found


def paper_numbers(dataset: str, task: str, model: str) -> dict[str, PaperNumber]:
    """metric -> what a paper prints for exactly this dataset, task and model; empty for none."""
    return dict(_numbers().get((dataset, task, model), {}))
