"""The utility filter: reasons of the structure, of the rules, and of a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from maghub.llm import Outcome
from maghub.mkg.filter import Judged, judge_triplets
from maghub.mkg.kg import KnowledgeGraph, read_graph
from maghub.mkg.rule_writer import (
    CONSTANT,
    DEFINITIONAL,
    HOUSEKEEPING,
    IDENTITY,
    KEPT,
    NESTED,
    RuleWriter,
)
from maghub.mkg.writers import Verdict
from tests.helpers.graphs import png
from tests.helpers.kg_folders import Graph, write_graph

ENTITIES = {
    "Q1": "Sun", "Q2": "star", "Q3": "Category:Sun", "Q4": "history of the Sun", "Q5": "Helios",
    "Q6": "", "Q7": "Sunday", "I1": "Image_I1", "I2": "Image_I2",
}  # fmt: skip
RELATIONS = {
    "P1": "instance of", "P2": "different from", "P3": "named after", "P4": "", "P5": "main page",
    "P6": "finding",
}  # fmt: skip
DESCRIPTIONS = {"P5": "the page at Wikimedia about this"}
CASES = [
    (("Q1", "P3", "Q5"), KEPT),
    (("Q7", "P3", "Q1"), KEPT),  # no whole word: Sunday does not contain Sun
    (("Q1", "P1", "Q2"), DEFINITIONAL),
    (("Q1", "P2", "Q5"), IDENTITY),
    (("Q1", "P3", "Q3"), HOUSEKEEPING),
    (("Q1", "P5", "Q2"), HOUSEKEEPING),
    (("Q1", "P3", "Q4"), NESTED),
    (("Q4", "P3", "Q1"), NESTED),
    (("Q1", "P4", "Q5"), "relation without a text"),
    (("Q6", "P3", "Q5"), "head without a text"),
    (("Q1", "P3", "Q6"), "tail without a text"),
    (("Q1", "P3", "Q1"), "self loop"),
    (("I1", "P6", "Q2"), KEPT),
    (("I2", "P6", "Q2"), "the head is a picture that is not there"),
    (("Q2", "P6", "I1"), "the tail is a picture"),
]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    made = Graph(
        [triplet for triplet, _ in CASES],
        ENTITIES,
        RELATIONS,
        DESCRIPTIONS,
        {"I1": [png(1)]},
        {"I1", "I2"},
    )
    return read_graph(write_graph(made, tmp_path_factory.mktemp("kg") / "kg"))


def judged(graph: KnowledgeGraph) -> Judged:
    return judge_triplets(graph, np.arange(len(graph)), RuleWriter(0))


@pytest.mark.parametrize("row", range(len(CASES)))
def test_rules(graph: KnowledgeGraph, row: int) -> None:
    found, (triplet, reason) = judged(graph), CASES[row]
    assert graph.ids(row) == triplet
    assert found.reasons[row] == reason
    assert bool(found.keep[row]) is (reason == KEPT)
    structural = "without a text" in reason or "picture" in reason or reason == "self loop"
    assert found.judges[row] == ("structure" if structural else "rule")


def test_nothing_is_dropped_silently(graph: KnowledgeGraph) -> None:
    report = judged(graph).report(graph)
    dropped = report["dropped"]
    assert isinstance(dropped, dict)
    assert report["kept"] == 3
    assert sum(dropped.values()) + 3 == report["judged"] == len(CASES)
    assert dropped[NESTED] == 2
    assert report["examples"][IDENTITY] == ["Sun | different from | Helios"]  # type: ignore[index]
    assert graph.counts["pictures without an image"] == 1
    assert graph.counts["relations without a text"] == 1
    assert graph.counts["entities without a text"] == 1


def test_a_relation_with_one_answer_tells_nothing(tmp_path: Path) -> None:
    entities = {f"Q{i}": f"town {i}" for i in range(30)} | {"R": "right", "L": "left"}
    triplets = [(f"Q{i}", "P1", "L" if i == 7 else "R") for i in range(30)]
    triplets += [(f"Q{i}", "P2", "L" if i % 3 else "R") for i in range(30)]
    triplets += [(f"Q{i}", "P3", "R") for i in range(19)]  # too few to say so
    relations = {"P1": "driving side", "P2": "railway side", "P3": "writing side"}
    read = read_graph(write_graph(Graph(triplets, entities, relations), tmp_path / "kg"))
    reasons = judged(read).reasons
    assert [reason == CONSTANT for reason in reasons] == [i < 30 and i != 7 for i in range(79)]


class Undecided:
    """Keeps the first, drops the second, has nothing to say on the others."""

    name = "undecided"

    def judge(self, graph: KnowledgeGraph, rows: np.ndarray) -> list[Outcome[Verdict]]:
        said = [Outcome(Verdict(True, "useful")), Outcome(Verdict(False, "dull"))]
        return [*said, *[Outcome[Verdict](None, "malformed JSON")] * (len(rows) - 2)]


def test_no_verdict_means_not_kept_and_is_counted(graph: KnowledgeGraph) -> None:
    found = judge_triplets(graph, np.arange(len(graph)), Undecided())  # type: ignore[arg-type]
    assert found.keep.tolist() == [True, *[False] * (len(CASES) - 1)]
    dropped = found.report(graph)["dropped"]
    assert isinstance(dropped, dict)
    sound = sum(judge == "undecided" for judge in found.judges)
    assert dropped["no verdict: malformed JSON"] == sound - 2
    assert dropped["dull"] == 1
    assert found.table(graph).num_rows == len(CASES)
