"""The upstream fixtures: the readers get out of them what their records say was planted."""

from __future__ import annotations

import hashlib
import re
import time
from pathlib import Path

import numpy as np
import pytest
from upstream import (
    Planted,
    write_flickr30k,
    write_magb,
    write_mmgraph,
    write_ninerec,
    write_semart,
)

from maghub.builders._formats import torchfiles
from maghub.builders._formats.archives import open_archive
from maghub.builders._formats.dgl import read_dgl_graph
from maghub.builders._formats.features import open_features
from maghub.builders._formats.parts import find_parts
from maghub.builders._formats.tables import Column, Layout, Table, split_number_and_text
from maghub.builders._formats.text import clean_text, read_jsonl, read_lines
from maghub.images import normalise


def rng() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(4))


def check_images(planted: Planted, paths: Path | list[Path], keys: list[str]) -> None:
    with open_archive(paths) as archive:
        index = archive.index()
        found = []
        for key in keys:
            data = index.read(key)
            result = None if data is None else normalise(data)
            found.append("missing" if result is None else result.reason or result.action)
    assert found == planted.images
    assert {"kept", "encoded", "missing", "html", "damaged", "too many pixels"} <= set(found)


def check_features(planted: Planted) -> None:
    for file, rows in planted.features.items():
        features = open_features(planted.root / file, planted.num_nodes)
        has = np.concatenate([flags for _, flags in features.blocks(7)])
        assert (~has).nonzero()[0].tolist() == rows
        assert features.counts.zeroed_rows == len(rows)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Toys", {}), ("Toys", {"neighbors": True}), ("RedditS", {"line_end": "\n"}),
        ("RedditM", {"parts": 3}),
    ],
)  # fmt: skip
def test_magb(tmp_path, name, options):
    planted = write_magb(tmp_path, name, rng(), **options)
    columns = [
        Column("id"), Column("text", ("caption",)), Column("label"),
        Column("class", ("second_category", "subreddit")), Column("neighbors", (), False),
        Column("also_buy", (), False), Column("also_view", (), False),
        Column("also_posted", (), False),
    ]  # fmt: skip
    rows = list(Table(tmp_path / f"{name}.csv", columns))
    assert [row.integer("id") for row in rows] == list(range(planted.num_nodes))
    text = [clean_text(row["text"].replace("Title: None; Description: None", "")) for row in rows]
    assert text == planted.texts
    assert [row.integer("label") for row in rows] == planted.labels
    assert [planted.classes[row.integer("label")] for row in rows] == [row["class"] for row in rows]
    edges = [
        (at, other)
        for at, row in enumerate(rows)
        for column in ("neighbors", "also_posted", "also_buy", "also_view")
        for other in (row.list(column) if column in row.cells else [])
    ]
    assert sorted(edges) == sorted(planted.stored_edges)
    graph = read_dgl_graph(tmp_path / f"{name}Graph.pt")
    assert list(zip(graph.src.tolist(), graph.dst.tolist(), strict=True)) == planted.stored_edges
    assert graph.node_tensors["label"].tolist() == planted.labels
    parts = find_parts(tmp_path, f"{name}Images.tar.gz")
    assert len(parts) == options.get("parts", 1)
    check_images(planted, parts, [str(node) for node in range(planted.num_nodes)])
    check_features(planted)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ele-fashion", {}), ("books-nc", {"images_by": "node id", "id_key": "id"}),
        ("cloth", {"task": "lp"}),
    ],
)  # fmt: skip
def test_mmgraph(tmp_path, name, options):
    pytest.importorskip("torch")
    planted = write_mmgraph(tmp_path, name, rng(), **options)
    nodes = planted.num_nodes
    folder = next(path for path in tmp_path.iterdir() if (path / "node_mapping.pt").exists())
    mapping = torchfiles.read_node_mapping(folder / "node_mapping.pt", nodes)
    texts, dropped = [""] * nodes, 0
    for record in read_jsonl(tmp_path / "raw-data" / f"{name}-raw-text.jsonl"):
        raw = record.identifier("id", "asin")
        if raw in mapping:
            texts[mapping[raw]] = record.text("raw_text")
        dropped += raw not in mapping
    assert texts == planted.texts
    assert dropped == 1
    keys = (
        planted.raw_ids if options.get("images_by") != "node id" else list(map(str, range(nodes)))
    )
    check_images(planted, tmp_path / "raw-data" / f"{name}-images.tar", keys)
    check_features(planted)
    text, image = open_features(folder / "clip_feat.pt").halves()
    assert np.array_equal(text.array, planted.text_half, equal_nan=True)
    assert np.array_equal(image.array, planted.image_half, equal_nan=True)
    if options.get("task") == "lp":
        parts = torchfiles.read_edge_split(folder / "lp-edge-split.pt", nodes)
        for name, part in parts.items():
            pairs = list(zip(part.source.tolist(), part.target.tolist(), strict=True))
            assert pairs == planted.edge_split[name]
            if name != "train":
                assert (part.negatives == planted.negatives[name]).all()
    else:
        edges = torchfiles.read_edges(folder / "nc_edges-nodeid.pt", nodes).tolist()
        assert [tuple(edge) for edge in edges] == planted.stored_edges
        labels = torchfiles.read_labels(folder / "labels-w-missing.pt", nodes)
        assert labels.tolist() == planted.labels
        split = torchfiles.read_split(folder / "split.pt", nodes)
        assert {key: part.tolist() for key, part in split.items()} == planted.splits["public"]


@pytest.mark.parametrize(
    ("name", "options"), [("Bili_Food", {}), ("DY", {"user_first": True}), ("QB", {})]
)
def test_ninerec(tmp_path, name, options):
    planted = write_ninerec(tmp_path, name, rng(), **options)
    folder = tmp_path / name
    layout = Layout(header=("item", "chinese", "english"))
    items = {row["item"]: row for row in Table(folder / f"{name}_item.csv", None, layout)}
    assert list(items) != planted.item_ids  # shuffled
    assert [items[item]["english"] for item in planted.item_ids] == planted.texts
    assert [items[item]["chinese"] for item in planted.item_ids] == planted.chinese
    names = ("user", "item", "time") if options.get("user_first") else ("item", "user", "time")
    names = names if name != "QB" else ("item", "user")
    pairs = list(Table(folder / f"{name}_pair.csv", None, Layout(header=names)))
    pairs.sort(key=lambda row: int(row.get("time", "0")))  # stable
    sequences: dict[str, list[str]] = {}
    for row in pairs:
        if row["item"] in items:
            sequences.setdefault(row["user"], []).append(row["item"])
    assert sequences == planted.sequences
    assert sum(row["item"] not in items for row in pairs) == len(sequences)
    check_images(planted, folder / f"{name}_cover", planted.item_ids)
    assert (folder / f"{name}_behaviour.tsv").exists() == (name == "QB")


@pytest.mark.parametrize("zipped", [False, True])
def test_semart(tmp_path, zipped):
    planted = write_semart(tmp_path, "SemArt", rng(), zipped=zipped)
    layout = Layout("\t", ("utf-8", "latin-1"), quoting="auto")
    rows, splits = [], {}
    for part, name in (("train", "train"), ("val", "validation"), ("test", "test")):
        table = Table(tmp_path / "SemArt" / f"semart_{part}.csv", None, layout)
        splits[name] = list(range(len(rows), len(rows) + len(list(table))))
        rows += list(table)
        assert table.quoting == ("none" if part == "train" else "minimal")
    assert splits == planted.splits["public"]
    assert [row["DESCRIPTION"] for row in rows] == planted.texts
    for column, values in planted.columns.items():
        assert [row[column] for row in rows] == values
    stems = [Path(file).stem for file in planted.files]
    check_images(planted, tmp_path / ("SemArt.zip" if zipped else "SemArt/Images"), stems)


@pytest.mark.parametrize("captions", ["token", "kaggle"])
def test_flickr30k(tmp_path, captions):
    planted = write_flickr30k(tmp_path, "Flickr30k", rng(), captions=captions)
    found: dict[str, list[str]] = {}
    if captions == "token":
        for _, line in read_lines(tmp_path / "results_20130124.token"):
            key, text = line.split("\t", 1)
            found.setdefault(key.split(".jpg#")[0], []).append(text)
    else:
        layout = Layout("|", quoting="none", repairs={"delimiter": split_number_and_text})
        table = Table(tmp_path / "results.csv", None, layout)
        for row in table:
            image = row["image_name"].removesuffix(".jpg")
            found.setdefault(image, []).append(row["comment"].strip())
        assert table.repairs == {"delimiter": 1}
    assert found == dict(zip(planted.image_ids, planted.captions, strict=True))
    check_images(planted, tmp_path / "flickr30k-images", planted.image_ids)
    ids = {image: node for node, image in enumerate(planted.image_ids)}
    for part, name in (("train", "train"), ("val", "validation"), ("test", "test")):
        lines = [ids[line] for _, line in read_lines(tmp_path / f"{part}.txt")]
        assert lines == planted.splits["entities"][name]
    with open_archive(tmp_path / "annotations.zip") as archive:
        members = dict(archive.members())
    assert len(members) == 2 * planted.num_nodes
    for image, phrases in planted.phrases.items():
        text = members[f"Sentences/{image}.txt"].decode()
        marked = [
            (at, *match)
            for at, line in enumerate(text.splitlines())
            for match in re.findall(r"\[/EN#(\d+)/(\S+) ([^\]]*)\]", line)
        ]
        assert marked == phrases
        xml = members[f"Annotations/{image}.xml"].decode()
        boxes = [
            (name, tuple(map(int, re.findall(r"<[xy]m..>(\d+)", item))))
            for item in re.findall(r"<object>(.*?)</object>", xml)
            if "<bndbox>" in item
            for name in re.findall(r"<name>(\d+)", item)
        ]
        assert sorted(boxes) == sorted(planted.boxes[image])


@pytest.mark.parametrize(
    "write", [write_magb, write_mmgraph, write_ninerec, write_semart, write_flickr30k]
)
def test_fixtures_are_deterministic(tmp_path, write, monkeypatch):
    pytest.importorskip("torch")
    hashes = []
    for at, folder in enumerate((tmp_path / "a", tmp_path / "b")):
        monkeypatch.setattr(time, "time", lambda at=at: 1.5e9 + at * 1e7)  # must not show
        planted = write(folder, "RedditS", rng())
        assert planted.num_nodes <= 60
        assert len(planted.images) == planted.num_nodes
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
        hashes.append([*(path.relative_to(folder) for path in files), *digests])
    assert hashes[0] == hashes[1]
