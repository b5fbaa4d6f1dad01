"""Sets of questions as an audit sees them: what is asked of which graph, and by which slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from maghub import layout
from maghub.audit.subject import Bools, Keys, key_of, keys_of, normalised
from maghub.mag import MAG
from maghub.reader import read_columns
from maghub.spec import ConfigSpec

ANSWER, ANSWER_LIST, TYPE, ARGUMENTS = "answer", "answer_list", "question_type", "arguments"
SLOTS = (
    (layout.MASKED, layout.HEAD_ID, layout.REL_ID, layout.TAIL_ID),
    (layout.QUESTION, layout.RELATION),
)
"""Columns that say what is asked, whatever the words: of queries on triplets, of analogies."""
SIDES = (layout.TRAIN, layout.VALIDATION, layout.TEST)


def _names(config: ConfigSpec) -> tuple[str, ...]:
    """The columns of texts or of what is asked that a set of questions must have."""
    return (layout.TEXT,) if config.kind == "queries" else (layout.QUESTION,)


def question_configs(mag: MAG) -> list[ConfigSpec]:
    """The configs that ask questions and are split."""
    return [
        config
        for config in mag.spec.configs
        if config.kind in ("table", "queries", "qa")
        and set(_names(config)) <= set(config.features)
        and len(set(config.splits) & set(SIDES)) > 1
    ]


class QuestionSet:
    """One config of questions, splits one after the other.

    Args:
        mag: The opened dataset.
        config: The config.
    """

    def __init__(self, mag: MAG, config: ConfigSpec) -> None:
        self.mag, self.config = mag, mag.config(config.name)
        self.name = config.name
        wanted = (
            *_names(config), layout.GRAPH_ID, layout.IMAGE_PATH,
            TYPE, ARGUMENTS, ANSWER, ANSWER_LIST, layout.ANSWERS,
            *(column for slots in SLOTS for column in slots),
        )  # fmt: skip
        columns = [name for name in dict.fromkeys(wanted) if name in config.features]
        table = read_columns(mag.folder, self.config, columns)
        self.columns: dict[str, list[Any]] = {n: table[n].to_pylist() for n in columns}
        rows = [np.full(count, _code(split)) for split, count in config.splits.items()]
        self.codes: NDArray[np.int64] = np.concatenate(rows)
        """int64 [Q]: 0 train, 1 validation, 2 test, 3 another split."""

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def held_out(self) -> Bools:
        """Which questions are in validation or test."""
        return (self.codes == 1) | (self.codes == 2)

    @property
    def texts(self) -> list[str]:
        """The questions as they are worded."""
        return [text or "" for text in self.columns[_names(self.config)[0]]]

    @property
    def pictures(self) -> list[str]:
        """What names the picture that a question is about; "" where there is none."""
        return [name or "" for name in self.columns.get(layout.IMAGE_PATH) or [""] * len(self)]

    @cached_property
    def worded(self) -> bool:
        """Whether questions are texts; else they are ids, and only slots say what is asked."""
        return any(" " in text.strip() for text in self.texts)

    @cached_property
    def graphs(self) -> Keys | None:
        """A key of the contents of each question's graph, whatever it is called; None where the
        questions are not about graphs of their own."""
        if layout.GRAPH_ID not in self.columns:
            return None
        known = graph_keys(self.mag, self.config)
        ids = self.columns[layout.GRAPH_ID]
        keys = [known.get(name) or key_of(str(name).encode()) for name in ids]
        return np.asarray(keys, np.uint64)

    @cached_property
    def wording(self) -> Keys:
        """Equal for questions that say the same of equal graphs, the sides of an "and" or "or"
        exchanged or not."""
        arguments = self.columns.get(ARGUMENTS) or [()] * len(self)
        words = [_ordered(text, own or ()) for text, own in zip(self.texts, arguments, strict=True)]
        asked = [f"{own}\0{image}" for own, image in zip(words, self.pictures, strict=True)]
        return self._keys(asked)

    @cached_property
    def slots(self) -> Keys | None:
        """Equal for questions that ask the same, however it is worded; None where the columns do
        not tell. A question without slots is equal to none."""
        if TYPE in self.columns and ARGUMENTS in self.columns:
            kinds, filled = self.columns[TYPE], self.columns[ARGUMENTS]
            asked = [
                "\0".join([str(kind), *own]) if own else f"\1{row}"
                for row, (kind, own) in enumerate(zip(kinds, filled, strict=True))
            ]
            return self._keys(asked)
        for names in SLOTS:
            if set(names) <= set(self.columns):
                rows = zip(*(self.columns[name] for name in names), strict=True)
                return self._keys(["\0".join(map(str, row)) for row in rows])
        return None

    def _keys(self, asked: Sequence[str]) -> Keys:
        keys = keys_of(asked)
        return keys if self.graphs is None else keys * np.uint64(0x9E3779B97F4A7C15) ^ self.graphs

    @cached_property
    def answers(self) -> list[str] | None:
        """The answers, lists in any order; None where there are none."""
        lists = self.columns.get(ANSWER_LIST) or self.columns.get(layout.ANSWERS)
        single = self.columns.get(ANSWER)
        if lists is None:
            return None if single is None else [str(answer) for answer in single]
        joined = ["\0".join(sorted(map(str, own or ()))) for own in lists]
        if single is None:
            return joined
        return [many or str(one) for many, one in zip(joined, single, strict=True)]


def _code(split: str) -> int:
    return SIDES.index(split) if split in SIDES else len(SIDES)


def _ordered(text: str, arguments: Sequence[str]) -> str:
    """The question without its answer format, neighbours of "and" and "or" in sorted order."""
    text = text.split("\n\n")[0]
    for one, other in pairwise(arguments):
        for word in (" and ", " or ", " and the ", " or the "):
            first, second = sorted((one, other))
            text = text.replace(f"{one}{word}{other}", f"{first}{word}{second}")
    return normalised(text)


@dataclass(frozen=True)
class GraphTexts:
    """The sentences of a table of graphs, graph by graph, its nodes and then its edges."""

    ids: list[str]
    nodes: list[list[str]]
    edges: list[list[str]]

    def flat(self) -> list[str]:
        """All sentences in the order of their vectors."""
        pairs = zip(self.nodes, self.edges, strict=True)
        return [text for nodes, edges in pairs for text in (*nodes, *edges)]


def graph_texts(mag: MAG, config: ConfigSpec) -> GraphTexts:
    """The sentences of a table of graphs."""
    names = [layout.GRAPH_ID, layout.NODE_TEXTS, layout.EDGE_TEXTS]
    table: pa.Table = read_columns(mag.folder, mag.config(config.name), names)
    return GraphTexts(*(table[name].to_pylist() for name in names))


def graph_keys(mag: MAG, config: ConfigSpec) -> Mapping[str, int]:
    """A key of the contents of each graph that a set asks about, by its id."""
    target = config.target
    if target is None or layout.NODE_TEXTS not in mag.spec.config(target).features:
        return {}
    found = graph_texts(mag, mag.spec.config(target))
    rows = zip(found.ids, found.nodes, found.edges, strict=True)
    return {
        name: key_of("\0".join([*sorted(nodes), "", *sorted(edges)]).encode())
        for name, nodes, edges in rows
    }
