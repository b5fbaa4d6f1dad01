"""Computers, Photo and History on files in CS-TAG's format, and its real WebKB files."""

from __future__ import annotations

import ast
import csv
from pathlib import Path

import numpy as np
import pytest
from mutants import check_survives
from planted import Planted
from upstream_cstag import write_cstag

import maghub
from maghub import registry
from maghub.builders.cstag import CsTagSource, Photo
from maghub.spec import FolderSpec
from tests.helpers.built import (
    check_builder_route,
    check_valid,
    check_workers,
    columns,
    pairs,
    refusal,
)
from tests.helpers.real import real

CASES = {
    "computers": ("Computers", range(2010, 2020), (2017, 2018)),
    "photo": ("Photo", range(2010, 2019), (2015, 2016)),
    "history": ("History", None, None),
}
Case = tuple[str, Planted, Path, FolderSpec]


def rng() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(5))


@pytest.fixture(scope="module", params=list(CASES))
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    name, tmp = request.param, tmp_path_factory.mktemp(request.param)
    stem, years, _ = CASES[name]
    planted = write_cstag(tmp / "raw", stem, rng(), years=years, features=name == "photo")
    return name, planted, tmp / name, maghub.build(name, tmp / name, tmp / "raw")


def test_nodes_and_edges_are_those_planted(case: Case) -> None:
    name, planted, folder, _ = case
    check_valid(folder)
    nodes = columns(folder, "nodes")
    assert nodes["text"] == planted.texts
    assert nodes["label"] == planted.labels
    assert nodes["source_id"] == [str(node) for node in range(planted.num_nodes)]
    assert pairs(folder) == sorted(planted.edges)
    names = maghub.load(folder).label_names
    assert list(names[:4]) == planted.classes
    if name == "history":
        assert "year" not in nodes
    else:
        assert nodes["year"] == planted.splits["year"]["all"]


def test_splits_of_both_papers(case: Case) -> None:
    name, planted, folder, spec = case
    stored, n = columns(folder, "node-splits"), planted.num_nodes
    part = int(n * 0.6)
    recipes = {f"clegr-{s}": (s, int(n * 0.8)) for s in (0, 42, 1918, 2004, 2024)}
    if name == "history":
        recipes["cstag"] = (42, part + int(n * 0.2))
    for rule, (seed, end) in recipes.items():
        order = np.random.RandomState(seed).permutation(n)
        wanted = np.empty(n, int)
        for code, ids in enumerate((order[:part], order[part:end], order[end:])):
            wanted[ids] = code
        wanted[7] = 3  # without a label
        assert stored[rule] == wanted.tolist()
    limits = CASES[name][2]
    if limits is not None:
        years = planted.splits["year"]["all"]
        wanted = [(year >= limits[0]) + (year >= limits[1]) for year in years]
        assert stored["cstag"] == [*wanted[:7], 3, *wanted[8:]]
    assert spec.default_split == "cstag"


def test_upstream_vectors_and_builder_route(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    planted = write_cstag(raw, "Photo", rng(), years=range(2010, 2019), features=True)
    spec = maghub.build("photo", tmp_path / "out", raw)
    vectors = columns(tmp_path / "out", "embeddings-roberta-base")
    gaps = planted.features["Photo"]
    assert [node for node, has in enumerate(vectors["has_text"]) if not has] == gaps
    assert [e.origin for e in spec.encoders] == ["upstream"]
    check_builder_route(Photo, tmp_path / "out", tmp_path, raw)
    check_workers("photo", raw, tmp_path)


def test_class_names_without_categories_and_a_thirteenth_class(tmp_path: Path) -> None:
    write_cstag(tmp_path / "raw", "History", rng(), classes=13, categories=False)
    maghub.build("history", tmp_path / "out", tmp_path / "raw" / "History")  # flat folder
    names = maghub.load(tmp_path / "out").label_names
    assert (names[0], names[11], names[12]) == ("World", "Arctic & Antarctica", "class 12")
    check_valid(tmp_path / "out")


@pytest.mark.parametrize("stem", ["Cornell", "Texas", "Washington"])
def test_real_webkb_files_of_the_same_family(stem: str) -> None:
    folder = real("cstag_webkb")
    source = type("WebKb", (CsTagSource,), {"name": "webkb", "stem": stem})
    graph = source(folder).graph
    with (folder / f"{stem}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    names, labels = graph.nodes["label"].names, graph.read_nodes.columns["label"]
    assert [names[label.as_py()] for label in labels] == [row["category"] for row in rows]
    near = {
        frozenset((int(row["node_id"]), other))
        for row in rows
        for other in ast.literal_eval(row["neighbor_ids"])
    }
    found = {frozenset(pair) for pair in zip(graph.src.tolist(), graph.dst.tolist(), strict=True)}
    assert found == {pair for pair in near if len(pair) == 2}


def test_cards_state_the_sizes() -> None:
    sizes = {"computers": (87_229, 10), "photo": (48_362, 12), "history": (41_551, 12)}
    for name, size in sizes.items():
        card = registry.card(name).spec
        assert (card.paper[0].nodes, card.paper[0].classes) == size
        assert registry.get("builders", name).SOURCE.name == card.name == name


def test_missing_files_are_named_at_once(tmp_path: Path) -> None:
    line = refusal("photo", tmp_path, tmp_path / "out")
    assert "Photo/Photo.csv" in line
    assert "Photo/Photo.pt" in line
    assert "CSTAG" in line


BAD_TABLES = {
    "a node twice": ("text,label,node_id\na,0,1\nb,0,1\n", "row 2: node 1 comes twice"),
    "outside": ("text,label,node_id\na,0,90\n", "column node_id, row 1: '90' is not an integer"),
    "no label": ("text,label,node_id\na,x,0\n", "column label, row 1"),
    "one node": ("text,label,node_id\na,0,0\n", "no row has node_id 1"),
    "no text": ("label,node_id\n0,0\n", "no column text or raw_text"),
    "two names": ("category,text,label,node_id\nA,a,0,0\nB,b,0,1\n", "column category, row 2"),
    "cut": ('text,label,node_id\n"a,0', "broken quoting"),
}


@pytest.mark.parametrize("what", list(BAD_TABLES))
def test_bad_tables_give_one_line(what: str, tmp_path: Path) -> None:
    text, reason = BAD_TABLES[what]
    write_cstag(tmp_path / "raw", "History", rng())
    (tmp_path / "raw" / "History" / "History.csv").write_text(text)
    line = refusal("history", tmp_path / "raw", tmp_path / "out")
    assert "History.csv" in line
    assert reason in line


def test_a_graph_of_other_labels_or_a_damaged_one(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    write_cstag(raw, "History", rng())
    write_cstag(tmp_path / "other", "History", np.random.Generator(np.random.PCG64(6)))
    path = raw / "History" / "History.pt"
    whole = path.read_bytes()
    path.write_bytes((tmp_path / "other" / "History" / "History.pt").read_bytes())
    assert "History.pt says otherwise" in refusal("history", raw, tmp_path / "out")
    for damaged in (b"", whole[:100], whole[: len(whole) // 2], b"PK\x03\x04" + whole):
        path.write_bytes(damaged)
        assert "History.pt" in refusal("history", raw, tmp_path / "out")


def test_mutants_of_the_table_are_read_or_refused(tmp_path: Path) -> None:
    write_cstag(tmp_path / "raw", "History", rng())
    path = tmp_path / "raw" / "History" / "History.csv"
    source = registry.get("builders", "history").SOURCE
    check_survives(lambda _: source(tmp_path / "raw").graph, path.read_bytes(), path, count=60)
