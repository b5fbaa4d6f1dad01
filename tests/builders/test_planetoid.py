"""Cora and CiteSeer from Planetoid's real files: counts, paper ids, texts, splits, bad input."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maghub
from maghub.builders.planetoid import CoraSource
from maghub.spec import FolderSpec
from tests.helpers.built import (
    check_valid,
    check_workers,
    columns,
    pairs,
    refusal,
)
from tests.helpers.real import linked, real

PARTS = ("y", "allx", "ally", "tx", "ty", "graph", "test.index")
MISSING = [
    2407, 2489, 2553, 2682, 2781, 2953, 3042, 3063, 3212, 3214, 3250, 3292, 3305, 3306, 3309,
]  # fmt: skip
Built = tuple[Path, FolderSpec]


def raw_files(name: str) -> list[Path]:
    files = [real("planetoid") / f"ind.{name}.{part}" for part in PARTS]
    return [*files, real("gnn_benchmark_npz") / f"{name}.npz"]


def built(name: str, tmp: Path) -> Built:
    raw = linked(tmp / "raw", *raw_files(name))
    return tmp / name, maghub.build(name, tmp / name, raw)


@pytest.fixture(scope="module")
def cora(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built("cora", tmp_path_factory.mktemp("cora"))


@pytest.fixture(scope="module")
def citeseer(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built("citeseer", tmp_path_factory.mktemp("citeseer"))


def counts(spec: FolderSpec) -> dict[str, Any]:
    return {rule.name: rule.counts for rule in spec.node_splits}


def test_cora_counts(cora: Built) -> None:
    folder, spec = cora
    check_valid(folder)
    assert spec.graph is not None
    assert spec.statistics is not None
    assert (spec.graph.num_nodes, spec.graph.num_edges) == (2_708, 5_278)
    assert spec.statistics.isolated_nodes == spec.statistics.unlabelled == 0
    public = {"train": 140, "validation": 500, "test": 1_000, "unassigned": 1_068}
    assert counts(spec)["public"] == spec.config("nodes").splits == public
    assert spec.notes["edges"]["upstream edges"] == 10_858
    assert spec.notes["paper ids"] == {"certain": 2_683, "not told apart": 25, "unknown": 0}


def test_citeseer_counts(citeseer: Built) -> None:
    folder, spec = citeseer
    check_valid(folder)
    assert spec.graph is not None
    assert spec.statistics is not None
    assert (spec.graph.num_nodes, spec.graph.num_edges) == (3_327, 4_552)
    assert (spec.statistics.isolated_nodes, spec.statistics.unlabelled) == (48, 15)
    assert counts(spec)["public"] == {
        "train": 120, "validation": 500, "test": 1_000, "unassigned": 1_707,
    }  # fmt: skip
    nodes, vectors = columns(folder, "nodes"), columns(folder, "embeddings-bag-of-words")
    assert [n for n, flag in enumerate(nodes["without_data"]) if flag] == MISSING
    assert [n for n, label in enumerate(nodes["label"]) if label is None] == MISSING
    assert [n for n, has in enumerate(vectors["has_text"]) if not has] == MISSING
    rules = columns(folder, "node-splits")
    for rule in counts(spec):
        assert {rules[rule][node] for node in MISSING} == {3}


def test_paper_ids_of_cora_are_those_derived_before(cora: Built) -> None:
    """By feature row, label and three rounds of neighbourhood hashing, in another program."""
    nodes = columns(cora[0], "nodes")
    with real("derived/cora_planetoid_to_paper_id.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert nodes["source_id"] == [row["paper_id"] for row in rows]
    names = maghub.load(cora[0]).label_names
    assert [names[label] for label in nodes["label"]] == [row["label_name"] for row in rows]


@pytest.mark.parametrize("name", ["cora", "citeseer"])
def test_words_classes_and_citations_agree_with_the_other_publisher(
    name: str, request: pytest.FixtureRequest
) -> None:
    folder, _ = request.getfixturevalue(name)
    with np.load(real(f"gnn_benchmark_npz/{name}.npz"), allow_pickle=True) as npz:
        other = {key: npz[key] for key in npz.files}
    row = {str(paper): at for at, paper in enumerate(other["node_names"])}
    nodes, vectors = columns(folder, "nodes"), columns(folder, "embeddings-bag-of-words")
    names, starts = maghub.load(folder).label_names, other["attr_indptr"]
    known = {node: row[i] for node, i in enumerate(nodes["source_id"]) if i in row}
    assert len(known) == {"cora": 2_683, "citeseer": 3_300}[name]
    for node, at in list(known.items())[::7]:
        words = sorted(other["attr_indices"][starts[at] : starts[at + 1]].tolist())
        assert np.flatnonzero(vectors["text"][node]).tolist() == words
        assert names[nodes["label"][node]] == str(other["class_names"][other["labels"][at]])
    ends = other["adj_indptr"]
    theirs = {
        frozenset((src, int(dst)))
        for src in range(len(ends) - 1)
        for dst in other["adj_indices"][ends[src] : ends[src + 1]]
        if src != dst
    }
    ours = {frozenset((known[a], known[b])) for a, b in pairs(folder) if a in known and b in known}
    certain = set(known.values())
    assert ours == {edge for edge in theirs if edge <= certain}


def test_random_splits_are_those_of_the_clegr_code(cora: Built, citeseer: Built) -> None:
    seen: dict[tuple[int, ...], int] = {}
    words = columns(cora[0], "embeddings-bag-of-words")["text"]
    for node, row in enumerate(words):
        seen.setdefault(tuple(np.flatnonzero(row)), node)
    kept = {"cora": sorted(seen.values())}
    kept["citeseer"] = [node for node in range(3_327) if node not in MISSING]
    assert len(kept["cora"]) == 2_708 - 16
    for name, (folder, spec) in {"cora": cora, "citeseer": citeseer}.items():
        stored, total = columns(folder, "node-splits"), len(kept[name])
        for seed in (0, 42, 1918, 2004, 2024):
            order = np.random.RandomState(seed).permutation(total)
            wanted = np.full(spec.config("nodes").rows, 3)
            for place, index in enumerate(order):
                part = (place >= int(total * 0.6)) + (place >= int(total * 0.8))
                wanted[kept[name][index]] = part
            assert stored[f"clegr-{seed}"] == wanted.tolist()


def test_one_worker_and_two_write_the_same_bytes(cora: Built, tmp_path: Path) -> None:
    check_workers("cora", cora[0].parent / "raw", tmp_path)


def texts_of(raw: Path) -> dict[str, str]:
    graph = CoraSource(raw).graph
    rows = graph.read_nodes(0, graph.num_nodes)
    return dict(zip(rows["source_id"].to_pylist(), rows["text"].to_pylist(), strict=True))  # type: ignore[union-attr]


def test_mccallum_texts_are_joined_by_paper_id(tmp_path: Path) -> None:
    raw = linked(tmp_path, *raw_files("cora"))
    (raw / "extractions").mkdir()
    (raw / "papers").write_text(
        "31336\thttp:##a.edu#one.ps\t<citation>\n"
        "1061127\tftp:##b.edu#none.ps\tno such extraction\n"
        "1106406\tftp:##c.edu#untitled.ps\t\n"
        "1106406\tftp:##c.edu#second.ps\tanother file of the same paper\n"
        "1152259\tftp:##d.edu#twin.ps\t\n"
        "99999999\tftp:##e.edu#stranger.ps\tno node\n"
    )
    fields = {
        "http_##a.edu#one.ps": "URL: x\nTitle: Caf\xe9: a title\nAbstract: first",
        "ftp_##c.edu#untitled.ps": "URL: y",
        "ftp_##c.edu#second.ps": "Title: second\nAuthor: Abstract: nobody",
        "ftp_##d.edu#twin.ps": "Title: twin",
        "ftp_##e.edu#stranger.ps": "Title: stranger",
    }
    for name, text in fields.items():
        (raw / "extractions" / name).write_bytes(text.encode("latin-1"))
    texts = {paper: text for paper, text in texts_of(raw).items() if text}
    assert texts == {
        "31336": "Café: a title\nfirst",
        "1106406": "second",
        "1152259|1152991": "twin",
    }


def test_texts_from_a_table(tmp_path: Path) -> None:
    raw = linked(tmp_path, *raw_files("cora"))
    (raw / "cora_texts.csv").write_text('paper_id,title,abstract\n31336,"A, b",None\n1,x,y\n')
    assert {paper: text for paper, text in texts_of(raw).items() if text} == {"31336": "A, b"}
    (raw / "cora_texts.csv").write_text("paper_id,title,abstract\n31336,A\n")
    assert "cora_texts.csv, column title, row 1" in refusal("cora", raw, raw / "out")


def test_half_of_the_texts_is_refused(tmp_path: Path) -> None:
    raw = linked(tmp_path, *raw_files("cora"))
    (raw / "papers").write_text("no tabs here\n")
    assert "holds papers but no extractions" in refusal("cora", raw, raw / "out")
    (raw / "extractions").mkdir()
    assert "papers, row 1: is not: id, tab, file name" in refusal("cora", raw, raw / "out")


def test_missing_files_are_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    line = refusal("citeseer", tmp_path / "empty", tmp_path / "out")
    for name in (*(f"ind.citeseer.{part}" for part in PARTS), "citeseer.npz"):
        assert name in line


@pytest.mark.parametrize("part", ["allx", "graph", "test.index", "npz"])
def test_damaged_files_give_one_line(part: str, tmp_path: Path) -> None:
    name = "citeseer.npz" if part == "npz" else f"ind.citeseer.{part}"
    files = {path.name: path for path in raw_files("citeseer")}
    raw = linked(tmp_path / "raw", *(path for key, path in files.items() if key != name))
    whole = files[name].read_bytes()
    for damaged in (b"", b"<html>", whole[: len(whole) // 2]):
        (raw / name).write_bytes(damaged)
        line = refusal("citeseer", raw, tmp_path / "out")
        # half an index is a good index: the file that disagrees with it is named
        assert "ind.citeseer.t" in line if part == "test.index" else name in line


def test_the_wrong_graph_of_paper_ids_is_refused(tmp_path: Path) -> None:
    raw = linked(tmp_path / "raw", *raw_files("citeseer"))
    (raw / "citeseer.npz").unlink()
    (raw / "citeseer.npz").symlink_to(real("gnn_benchmark_npz/cora.npz"))
    line = refusal("citeseer", raw, tmp_path / "out")
    assert "citeseer.npz: does not hold the graph of the Planetoid files" in line
