"""ogbn-arxiv on files in OGB's format: texts by paper id, the time split, bad input."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from upstream_ogbn_arxiv import STRANGERS, OgbnArxiv, write_ogbn_arxiv

import maghub
from maghub import registry
from maghub.builders.ogbn_arxiv import FILES
from maghub.builders.ogbn_arxiv import OgbnArxiv as Builder
from maghub.spec import FolderSpec
from tests.helpers.built import (
    check_builder_route,
    check_valid,
    check_workers,
    columns,
    pairs,
    refusal,
)

NAME = "ogbn-arxiv"
Case = tuple[OgbnArxiv, Path, FolderSpec]


def rng() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(7))


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    tmp = tmp_path_factory.mktemp("arxiv")
    planted = write_ogbn_arxiv(tmp / "raw", rng())
    return planted, tmp / NAME, maghub.build(NAME, tmp / NAME, tmp / "raw")


def test_nodes_are_those_planted(case: Case) -> None:
    planted, folder, spec = case
    check_valid(folder)
    nodes = columns(folder, "nodes")
    assert nodes["text"] == planted.texts
    assert nodes["source_id"] == planted.papers
    assert nodes["label"] == planted.labels
    assert nodes["year"] == planted.years
    assert list(maghub.load(folder).label_names) == planted.classes
    rows = planted.num_nodes + STRANGERS + 2
    assert spec.notes["titleabs.tsv.gz"] == {
        "rows": rows,
        "not a paper id": 2,
        "papers that are no node": STRANGERS,
        "repeated": 1,
        "repaired: no abstract": 2,
        "repaired: tab in abstract": 1,
    }


def test_edges_are_directed_and_as_stored(case: Case) -> None:
    planted, folder, spec = case
    assert spec.graph is not None
    assert spec.graph.directed
    assert pairs(folder) == sorted(planted.stored_edges)


def test_time_split_and_features(case: Case) -> None:
    planted, folder, spec = case
    stored = columns(folder, "node-splits")["time"]
    for code, part in enumerate(("train", "valid", "test")):
        ids = planted.splits[part]["ids"]
        assert [node for node, own in enumerate(stored) if own == code] == ids
    vectors = columns(folder, "embeddings-skipgram")
    assert np.array_equal(np.array(vectors["text"], np.float32), planted.vectors)
    assert [node for node, has in enumerate(vectors["has_text"]) if not has] == [4]
    assert spec.encoders[0].missing == {"text": 1}


def test_builder_route_and_workers(case: Case, tmp_path: Path) -> None:
    check_builder_route(Builder, case[1], tmp_path, case[0].root)
    check_workers(NAME, case[0].root, tmp_path)


def test_missing_files_are_named_at_once(tmp_path: Path) -> None:
    line = refusal(NAME, tmp_path, tmp_path / "out")
    for name in (*FILES, "titleabs.tsv.gz"):
        assert name in line
    assert "unzip arxiv.zip" in line
    assert (registry.card(NAME).spec.paper[0].nodes, NAME) == (169_343, Builder.SOURCE.name)


def zipped(text: str) -> Callable[[bytes], bytes]:
    return lambda _: gzip.compress(text.encode())


BAD = {
    "cut edges": ("raw/edge.csv.gz", lambda data: data[: len(data) // 2], "cannot be read"),
    "no gzip": ("raw/node-label.csv.gz", lambda _: b"<html>404</html>", "cannot be read"),
    "a word": ("raw/edge.csv.gz", zipped("1,2\n3,x\n"), "cannot be read"),
    "an edge to nowhere": ("raw/edge.csv.gz", zipped("1,2\n3,60\n"), "row 2: [3, 60] is not"),
    "three ends": ("raw/edge.csv.gz", zipped("1,2\n3,4,5\n"), "Expected 2 columns, got 3"),
    "few labels": ("raw/node-label.csv.gz", zipped("1\n2\n"), "2 rows, expected 60"),
    "two parts": ("split/time/test.csv.gz", zipped("0\n1\n2\n3\n4\n5\n"), "of another part too"),
    "no paper": (FILES[-2], zipped("node idx,paper id\n0,1\n"), "each of 60 nodes a paper of"),
    "a gap": (FILES[-1], zipped("label idx,arxiv category\n0,arxiv cs na\n2,b\n"), "0, 1, 2"),
    "header": (FILES[-1], zipped("label,category\n0,arxiv cs na\n"), "no column label idx"),
}


@pytest.mark.parametrize("what", list(BAD))
def test_damaged_files_give_one_line(what: str, tmp_path: Path) -> None:
    name, change, reason = BAD[what]
    write_ogbn_arxiv(tmp_path / "raw", rng())
    path = tmp_path / "raw" / "arxiv" / name
    path.write_bytes(change(path.read_bytes()))
    line = refusal(NAME, tmp_path / "raw", tmp_path / "out")
    assert name in line
    assert reason in line


def test_a_truncated_file_of_texts(tmp_path: Path) -> None:
    write_ogbn_arxiv(tmp_path / "raw", rng())
    path = tmp_path / "raw" / "titleabs.tsv.gz"
    path.write_bytes(path.read_bytes()[:-40])
    line = refusal(NAME, tmp_path / "raw", tmp_path / "out")
    assert "titleabs.tsv.gz: a damaged gzip file after line" in line
