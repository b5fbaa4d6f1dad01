"""Facts that training says again in other words: found all, and no others."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest

import maghub
from maghub.audit import Columns, Report, imported, run
from maghub.loading import sample_path
from tests.audit.test_audit import cora_folder
from tests.helpers import audited
from tests.helpers.audited import MANY, ids, starting

AGAIN, TWICE = "held-out facts said again in training", "one answer in training, another held out"
NODES = 240
COLUMNS = {"edge-split": "side", "relation": "how"}
Edge = tuple[int, str, int, str]


def knowledge(rng: np.random.Generator) -> list[Edge]:
    """Inverse, duplicated, symmetric, unrelated and single-valued relations, split at random."""
    pairs = {(int(a), int(b)) for a, b in rng.integers(0, NODES, (500, 2)) if a != b}
    chosen = sorted(pairs)
    edges = [(a, "parent of", b) for a, b in chosen[:100]]
    edges += [(b, "child of", a) for a, b in chosen[:95]]
    edges += [(a, "likes", b) for a, b in chosen[100:200]]
    edges += [(a, "is fond of", b) for a, b in chosen[110:200]]
    edges += [(a, "beside", b) for a, b in chosen[200:260]] + [
        (b, "beside", a) for a, b in chosen[200:255]
    ]
    edges += [(a, "knows", b) for a, b in chosen[260:400]]
    edges += [(a, "born in", int(b)) for a, b in enumerate(rng.integers(200, NODES, 100))]
    edges = sorted(set(edges))
    sides = rng.choice(["train", "validation", "test"], len(edges), p=(0.7, 0.1, 0.2))
    return [(*edge, str(side)) for edge, side in zip(edges, sides, strict=True)]


def written(folder: Path, edges: list[Edge], names: list[str]) -> Path:
    with (folder / "n.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *enumerate(names)])
    with (folder / "e.csv").open("w", newline="") as file:
        rows = [(a, how, b, side) for a, how, b, side in edges]
        csv.writer(file).writerows([("src", "how", "dst", "side"), *rows])
    return folder


def audit(folder: Path) -> Report:
    with imported(folder, Columns("n.csv", "e.csv", COLUMNS, directed=True)) as made:
        return run(made, examples=MANY)


INVERSE = {"parent of": "child of", "child of": "parent of", "beside": "beside"}
SAME = {"likes": "is fond of", "is fond of": "likes"}


def said_again(edges: list[Edge], names: list[str]) -> set[int]:
    """Edge by edge, by the relations' known meaning and the nodes' names."""
    train = {(a, how, b) for a, how, b, side in edges if side == "train"}
    pairs = {(a, b) for a, _, b in train}
    named = {(names[a], how, names[b]) for a, how, b in train}
    found = set()
    for row, (a, how, b, side) in enumerate(edges):
        inverse = how in INVERSE and (b, INVERSE[how], a) in train
        same = how in SAME and (a, SAME[how], b) in train
        renamed = (names[a], how, names[b]) in named and (a, b) not in pairs
        if side != "train" and (inverse or same or renamed):
            found.add(row)
    return found


def test_inverse_duplicate_symmetric_and_renamed_facts_are_all_found(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    edges = knowledge(rng)
    names = [f"thing number {i} of many" for i in range(NODES)]
    clones = [row for row, e in enumerate(edges) if e[1] == "knows" and e[3] == "test"][:8]
    for place, row in enumerate(clones):  # node 150 + place is called as the source of a fact
        a, how, b, _ = edges[row]
        names[150 + place] = names[a].upper() + "!"
        edges.append((150 + place, how, b, "train"))
    lower = [name.lower().rstrip("!") for name in names]
    wanted = said_again(edges, lower)
    assert set(clones) <= wanted
    found = audit(written(tmp_path, edges, names)).check(AGAIN)
    assert ids(found) == wanted
    assert found.verdict == "fail"
    assert {example.text.split(", ")[-1] for example in found.examples} == {
        "by nodes of the same text",
        "by a relation that implies it",
        "by a relation that holds the other way round",
    }


def test_a_second_answer_of_a_relation_with_one_is_found(tmp_path: Path) -> None:
    edges = knowledge(np.random.default_rng(4))
    names = [f"thing number {i} of many" for i in range(NODES)]
    clean = audit(written(tmp_path, edges, names)).check(TWICE)
    assert (clean.verdict, clean.count) == ("ok", 0)
    born = [(row, e) for row, e in enumerate(edges) if e[1] == "born in"]
    assert clean.total == sum(e[3] != "train" for _, e in born)
    planted = [e for _, e in born if e[3] == "train"][:3]
    first = len(edges)
    edges += [(a, how, 200 + (b - 199) % 40, "test") for a, how, b, _ in planted]
    found = audit(written(tmp_path, edges, names)).check(TWICE)
    assert ids(found) == {first, first + 1, first + 2}
    assert found.verdict in ("warn", "fail")


@pytest.mark.parametrize("name", ["emoji", "cora"])
def test_a_fact_of_nodes_with_the_same_text_is_found(name: str, tmp_path: Path) -> None:
    if name == "cora":
        folder = cora_folder(tmp_path)
    else:
        folder = Path(shutil.copytree(sample_path("emoji"), tmp_path / "emoji"))
    clean = starting(run(folder, examples=MANY), AGAIN)
    assert clean.verdict in ("ok", "warn")
    mag = maghub.load(folder)
    src, dst = mag.edge_index
    (rule,) = [rule.name for rule in mag.spec.edge_splits]
    sides = mag.edge_splits(rule)
    train, planted, texts = sides["train"].tolist(), set(), {}
    by_end = {int(dst[edge]): int(src[edge]) for edge in train}
    relations = mag.edges["relation"] if "relation" in mag.edges.column_names else [0] * len(src)
    kinds = {int(dst[edge]): relations[edge] for edge in train}
    for edge in sides["test"].tolist():
        a, b = int(src[edge]), int(dst[edge])
        other = by_end.get(b)
        if other is None or other == a or kinds[b] != relations[edge] or len(planted) == 20:
            continue
        if {a, b, other} & {node for pair in texts.items() for node in pair}:
            continue
        texts[other] = a
        planted.add(edge)
    named = mag.nodes["text"]
    own = {other: named[a] for other, a in texts.items()}
    for split in mag.spec.config("nodes").splits:
        audited.replace(folder, split, "text", own)
    found = starting(run(folder, examples=MANY), AGAIN)
    assert len(planted) == 20
    assert planted <= ids(found)
    assert found.verdict in ("warn", "fail")
