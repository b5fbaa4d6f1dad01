"""clegr and clegr-compat: the CLeGR question sets, generated here (../shared/specs/clegr.md).

There are no upstream files: graphs, questions and answers come from ``maghub.clegr`` and one seed.
``clegr`` holds questions with exactly one right answer (well_posed); ``clegr-compat`` keeps the
behaviour of the released generator, so that results compare with the paper.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from maghub import layout
from maghub.builders._source import (
    Batch,
    Facts,
    MadeTable,
    Part,
    Recipe,
    Source,
    SourceBuilder,
    by_split,
)
from maghub.clegr.generate import (
    DEFAULT_GRAPHS,
    PART_GRAPHS,
    SetConfig,
    generate_part,
    split_of_graph,
)
from maghub.clegr.rows import QUESTION_SCHEMA, features, graph_schema
from maghub.clegr.schema import DOMAINS, NETWORK, SETS, SUBWAY, VARIANT_NOTE
from maghub.errors import MaghubError

SPLITS = (layout.TRAIN, layout.VALIDATION, layout.TEST)
PUBLISHED_SIZES = {SUBWAY: ("small", "medium"), NETWORK: ("small",)}
DRAWS_NOTE = "draws_by_template"


def _numbers(config: SetConfig, part: int) -> range:
    """Numbers of the graphs in one part."""
    first = part * PART_GRAPHS
    return range(first, min(first + PART_GRAPHS, config.graphs))


@dataclass(frozen=True)
class _MakeSet:
    """Graphs and questions of one part of a set, by split, with its draw counts (picklable)."""

    config: SetConfig

    def __call__(self, part: int) -> Batch:
        made, config = generate_part(self.config, part), self.config
        graph_ids = made.graphs["graph_id"].combine_chunks()
        codes = np.asarray(
            [SPLITS.index(split_of_graph(n, config.graphs)) for n in _numbers(config, part)],
            dtype=np.int8,
        )
        asked = pc.index_in(made.questions["graph_id"], graph_ids).combine_chunks()
        rows = {
            config.name: _split(made.questions, codes[np.asarray(asked)]),
            layout.graphs_config(config.name): _split(made.graphs, codes),
        }
        counts = {name: asdict(count) for name, count in made.counts.items()}
        return Batch(rows, {DRAWS_NOTE: {config.name: counts}})


def _split(rows: pa.Table, codes: np.ndarray) -> dict[str, pa.Table]:
    return by_split(rows, codes, SPLITS) if rows.num_rows else {}


def _recipe(config: SetConfig) -> Recipe:
    """How a set is made; every split with the parts that its graphs lie in."""
    parts: dict[str, dict[Part, None]] = {split: {} for split in SPLITS}
    for number in range(config.graphs):
        parts[split_of_graph(number, config.graphs)][(number // PART_GRAPHS,)] = None
    return Recipe(_MakeSet(config), {split: tuple(own) for split, own in parts.items()})


class ClegrSource(Source):
    """The published question sets, or the sets that ``domain``, ``question_set``, ``size`` name."""

    name = "clegr"
    variant: ClassVar[str] = "well_posed"
    defaults: ClassVar[dict[str, str | int | float | bool | None]] = {
        "graphs": DEFAULT_GRAPHS,
        "domain": None,
        "question_set": None,
        "size": None,
        "int_names": False,
    }

    def __init__(
        self,
        raw_dir: Path | None = None,
        seed: int = 0,
        **options: str | int | float | bool | None,
    ) -> None:
        super().__init__(raw_dir, seed, **options)
        if raw_dir is not None:
            what = f"{self.name} is generated and reads no files"
            raise MaghubError(what, fix="leave raw_dir out")
        self.sets = self._sets()

    def _sets(self) -> list[SetConfig]:
        """The chosen sets, subway-facts first."""
        own = self.options
        domains = DOMAINS if own["domain"] is None else (own["domain"],)
        kinds = SETS if own["question_set"] is None else (own["question_set"],)
        sets = []
        for domain in domains:
            published = PUBLISHED_SIZES.get(str(domain), ("small",))
            sizes = published if own["size"] is None else (own["size"],)
            for size, kind in product(sizes, kinds):
                sets.append(
                    SetConfig(
                        domain=str(domain),
                        question_set=str(kind),
                        size=str(size),
                        graphs=own["graphs"],  # type: ignore[arg-type]  # SetConfig checks it
                        seed=self.seed,
                        int_names=bool(own["int_names"]),
                        variant=self.variant,
                    )
                )
        return sets

    def tables(self) -> list[MadeTable]:
        """Questions of every set, then the graphs of every set; both made in one pass."""
        questions, graphs = [], []
        for config in self.sets:
            recipe, target = _recipe(config), layout.graphs_config(config.name)
            asked = features(QUESTION_SCHEMA)
            questions.append(MadeTable(config.name, "table", asked, recipe, target=target))
            drawn = features(graph_schema(config.domain))
            graphs.append(MadeTable(target, "table", drawn, recipe))
        return questions + graphs

    def facts(self) -> Facts:
        """The variant; what was drawn and lost is counted while the rows are written."""
        return Facts(notes={VARIANT_NOTE: self.variant})


class ClegrCompatSource(ClegrSource):
    """The sets with the released generator's behaviour."""

    name = "clegr-compat"
    variant: ClassVar[str] = "compat"


class Clegr(SourceBuilder):
    """``datasets`` builder: ``Clegr(config_name="subway-facts", graphs=500, seed=0)``."""

    SOURCE = ClegrSource
    DEFAULT_CONFIG_NAME = "subway-facts"


class ClegrCompat(SourceBuilder):
    """``datasets`` builder of the released behaviour."""

    SOURCE = ClegrCompatSource
    DEFAULT_CONFIG_NAME = "subway-facts"
