"""MM-Graph data sets, on files in upstream's format with its quirks planted in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from upstream import MmGraph, write_mmgraph

import maghub
from maghub import registry
from maghub.builders.mmgraph import EleFashion, Sports
from maghub.spec import FolderSpec
from tests.helpers.built import (
    check_builder_route,
    check_pictures,
    check_valid,
    check_workers,
    columns,
    pairs,
)

torch = pytest.importorskip("torch")

RAW = {
    "ele-fashion": "ele-fashion",
    "goodreads-nc": "books-nc",
    "sports": "sports",
    "cloth": "cloth",
    "goodreads-lp": "books-lp",
}
LINKS = ("sports", "cloth", "goodreads-lp")
FEW = {"negatives": 5}  # 50 need more nodes than a fixture has
VECTORS = ("embeddings-mm-graph-clip", "embeddings-mm-graph-t5vit")
Case = tuple[str, MmGraph, Path, FolderSpec]


def rng() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(4))


def write(root: Path, name: str, **options: Any) -> MmGraph:
    task = "lp" if name in LINKS else "nc"
    return write_mmgraph(root, RAW[name], rng(), task=task, **options)


@pytest.fixture(scope="module", params=[*RAW])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Pictures by raw id and key asin; for two of the sets by node and key id."""
    name = request.param
    root = tmp_path_factory.mktemp(name)
    other = name in ("goodreads-nc", "cloth")
    options = {"images_by": "node id", "id_key": "id"} if other else {}
    planted = write(root / "raw", name, **options)
    return name, planted, root / "out", maghub.build(name, root / "out", root / "raw", **FEW)


def test_folder_is_valid_and_says_how_it_differs(case: Case) -> None:
    name, _, folder, spec = case
    check_valid(folder)
    card = registry.card(name).spec
    assert card.differences
    assert spec.graph is not None
    assert not spec.graph.directed
    rules = ["mm-graph"] if name in LINKS else ["openmag", "mm-graph", "random"]
    assert [r.name for r in (*spec.node_splits, *spec.edge_splits)] == rules
    assert "node_mapping.pt" in spec.builder.sources


def test_texts_and_raw_ids_are_joined_through_the_mapping(case: Case) -> None:
    """Lines are shuffled, a text is a list or a string, one is of nobody, one is missing."""
    _, planted, folder, spec = case
    nodes = columns(folder, "nodes")
    assert nodes["source_id"] == planted.raw_ids
    assert nodes["text"] == planted.texts
    assert nodes["text"][8] == ""
    assert spec.notes["texts of unknown ids"] == 1
    assert spec.notes["nodes without a raw text"] == 1


def test_pictures_by_raw_id_or_by_node(case: Case) -> None:
    name, planted, folder, spec = case
    check_pictures(folder, spec, planted.images)
    assert spec.notes["pictures of no node"] == 1
    by = "node" if name in ("goodreads-nc", "cloth") else "raw id"
    assert spec.notes["pictures are named by"] == by


def test_edges_are_stored_once(case: Case) -> None:
    _, planted, folder, spec = case
    assert pairs(folder) == sorted(planted.edges)
    loops = sum(src == dst for src, dst in planted.stored_edges)
    assert spec.notes["edges"] == {
        "upstream edges": len(planted.stored_edges),
        "folded duplicates and reverses": len(planted.stored_edges) - loops - len(planted.edges),
        "self loops dropped": loops,
    }


def test_labels_and_node_splits(case: Case) -> None:
    name, planted, folder, spec = case
    if name in LINKS:
        assert spec.config("nodes").splits == {"full": planted.num_nodes}
        assert "label" not in spec.config("nodes").features
        return
    classes = 11 if name == "goodreads-nc" else 12
    assert spec.config("nodes").features["label"]["names"] == [str(i) for i in range(classes)]
    labels = [None if label == classes else label for label in planted.labels]
    assert columns(folder, "nodes")["label"] == labels
    odd = spec.notes.get(f"labels outside 0..{classes - 1}, null here", {})
    assert odd == ({str(classes): labels.count(None)} if None in labels else {})
    if name == "goodreads-nc":
        assert spec.node_splits[0].description.startswith("10/5/85")
        known = planted.num_nodes - labels.count(None)
        for part, share in (("train", 0.1), ("validation", 0.05), ("test", 0.85)):
            assert abs(spec.node_splits[0].counts[part] - share * known) < 1
    else:
        assert spec.node_splits[0].counts == {"train": 24, "validation": 8, "test": 8}
    names = ("train", "validation", "test")
    wanted = {
        node: names.index(part) for part, own in planted.splits["public"].items() for node in own
    }
    assert columns(folder, "node-splits")["mm-graph"] == [
        wanted[n] for n in range(planted.num_nodes)
    ]


def test_text_and_image_halves(case: Case) -> None:
    """The halves are two columns; rows 3 and 5 (text half: NaN, Inf) are zeroed there alone."""
    _, planted, folder, spec = case
    table = columns(folder, VECTORS[0])
    assert planted.text_half is not None
    assert planted.image_half is not None
    text = planted.text_half.copy()
    text[[3, 5]] = 0
    assert np.asarray(table["text"], np.float32).tobytes() == text.tobytes()
    image = np.ascontiguousarray(planted.image_half)
    assert np.asarray(table["image"], np.float32).tobytes() == image.tobytes()
    assert [row for row, has in enumerate(table["has_text"]) if not has] == [3, 5]
    assert all(table["has_image"])
    assert [encoder.config for encoder in spec.encoders] == [*VECTORS]
    for encoder in spec.encoders:
        assert encoder.origin == "upstream"
        assert encoder.dim == {"text": 8, "image": 8}
        assert encoder.missing == {"text": 2, "image": 0}
    assert spec.notes["vectors zeroed for NaN or Inf"]["mm-graph-clip"] == {"text": 2}


def held_out(planted: MmGraph) -> dict[tuple[int, int], str]:
    """The part of each pair: test before validation before train."""
    side = {}
    for part in ("train", "validation", "test"):
        for src, dst in planted.edge_split[part]:
            if src != dst:
                side[min(src, dst), max(src, dst)] = part
    return side


def test_upstreams_edge_split_and_hard_negatives(case: Case) -> None:
    """Loops go, a pair of two parts is held out, the negatives are upstream's, row by row."""
    name, planted, folder, spec = case
    if name not in LINKS:
        assert [n.name for n in spec.negatives] == ["uniform"]
        return
    stored, side = pairs(folder), held_out(planted)
    names = ("train", "validation", "test")
    codes = columns(folder, "edge-splits")["mm-graph"]
    assert [names[code] for code in codes] == [side[edge] for edge in stored]
    own = [
        {frozenset(edge) for edge in planted.edge_split[part] if edge[0] != edge[1]}
        for part in names
    ]
    shared = (own[0] & own[1]) | (own[0] & own[2]) | (own[1] & own[2])
    assert spec.notes["pairs in two or three parts"] == len(shared) > 0
    found = columns(folder, "negatives-hard")
    rows = set(zip(found["query"], found["positive"], map(tuple, found["neg"]), strict=True))
    wanted, dropped = set(), 0
    for part in ("validation", "test"):
        for (src, dst), neg in zip(
            planted.edge_split[part], planted.negatives[part].tolist(), strict=True
        ):
            mine = src != dst and side[min(src, dst), max(src, dst)] == part
            dropped += not mine
            if mine:
                wanted.add((src, dst, tuple(neg)))
    assert rows == wanted
    assert spec.notes["rows of negatives dropped (loops, pairs of another part)"] == dropped
    for edge, query, positive in zip(
        found["edge_id"], found["query"], found["positive"], strict=True
    ):
        assert stored[edge] == (min(query, positive), max(query, positive))
    (rule,) = spec.negatives
    assert (rule.origin, rule.k, rule.edge_split) == ("upstream", 7, "mm-graph")


@pytest.mark.parametrize(("name", "builder"), [("ele-fashion", EleFashion), ("sports", Sports)])
def test_the_builder_route_and_workers(name: str, builder: Any, tmp_path: Path) -> None:
    """Three parts of nodes, so that there is work for two."""
    write(tmp_path / "raw", name, nodes=600)
    (tmp_path / "built").mkdir()
    check_workers(name, tmp_path / "raw", tmp_path / "built", **FEW)
    own = ["negatives-hard"] if name == "sports" else ["node-splits", "negatives-uniform"]
    configs = ["nodes", "edges", "edge-splits", *own, VECTORS[0]]
    folder = tmp_path / "built" / "1"
    check_builder_route(builder, folder, tmp_path / "cache", tmp_path / "raw", configs, **FEW)
