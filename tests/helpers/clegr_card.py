"""The tables of measured numbers in the CLeGR cards, made from a built folder.

Run ``python -m tests.helpers.clegr_card FOLDER`` to print what the card of that folder must say.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from maghub.clegr.loading import question_sets
from maghub.reader import read_columns
from maghub.rendering import table
from maghub.spec import ConfigSpec, FolderSpec, read_spec


def set_sizes(folder: Path, spec: FolderSpec) -> str:
    """Rows per split, graph sizes and losses of each question set."""
    rows: list[list[object]] = []
    for config in question_sets(spec):
        graphs = spec.config(config.target or "")
        columns = [name for name in ("nodes", "edges", "lines") if name in graphs.features]
        stored = read_columns(folder, graphs, columns)
        sizes = [mean_and_spread(pc.list_value_length(stored[name])) for name in columns]
        draws = spec.notes["draws_by_template"][config.name].values()
        splits = " / ".join(f"{count:,}" for count in config.splits.values())
        rows.append(
            [
                f"`{config.name}`",
                f"{config.rows:,} ({splits})",
                *sizes,
                *["-"] * (3 - len(sizes)),
                *(f"{sum(draw[key] for draw in draws):,}" for key in ("discarded", "lost")),
            ]
        )
    header = ["set", "questions (train / validation / test)", "nodes", "edges", "lines"]
    return table([*header, "draws discarded", "questions lost"], rows)


def mean_and_spread(lengths: object) -> str:
    """Mean and standard deviation, as the paper's tables give them."""
    values = np.asarray(lengths)
    return f"{values.mean():.2f} ± {values.std():.2f}"


def losses(spec: FolderSpec) -> str:
    """Draws discarded and questions lost per template; templates that lost nothing are left out."""
    sets = question_sets(spec)
    found: dict[str, dict[str, str]] = {}
    for config in sets:
        for name, draw in spec.notes["draws_by_template"][config.name].items():
            if draw["discarded"]:
                text = f"{draw['discarded']:,} ({draw['lost']:,})"
                found.setdefault(name, {})[config.name] = text
    shown = [config for config in sets if any(config.name in row for row in found.values())]
    rows: list[list[object]] = [
        [name, *(row.get(config.name, "-") for config in shown)] for name, row in found.items()
    ]
    return table(["template", *(f"`{config.name}`" for config in shown)], rows)


def first_set(spec: FolderSpec) -> ConfigSpec:
    """The default question set."""
    return question_sets(spec)[0]


if __name__ == "__main__":
    place = Path(sys.argv[1])
    print(set_sizes(place, read_spec(place)), losses(read_spec(place)), sep="\n\n")
