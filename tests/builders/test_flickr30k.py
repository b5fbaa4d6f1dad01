"""Flickr30k, on files in upstream's format with its quirks planted in them."""

from __future__ import annotations

import itertools
import shutil
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from mutants import check_survives
from upstream import Flickr30k as Planted
from upstream import write_flickr30k

import maghub
from maghub import registry
from maghub.builders.flickr30k import Flickr30k, Flickr30kSource, read_captions
from maghub.errors import MaghubError
from maghub.spec import FolderSpec
from tests.helpers.built import (
    check_builder_route,
    check_pictures,
    check_valid,
    check_workers,
    columns,
    pairs,
    refusal,
)
from tests.helpers.neighbours import mutual_by_hand

# 50 negatives need more nodes than a fixture has; its five common phrases are in all 30 pictures.
FEW = {"negatives": 3}
WORDS = ("A dog", "the dog", "dog", "two Dogs", "a red hat", "Red hat", "the sea", "sea", "a boat")
Case = tuple[Planted, Path, FolderSpec]


def rng() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(4))


def name_things(planted: Planted) -> dict[int, list[list[str]]]:
    """Write other sentences: each names up to two of WORDS, and in node 3 something not visible."""
    draw = np.random.default_rng(7)
    named: dict[int, list[list[str]]] = {}
    path = planted.root / "annotations.zip"
    with zipfile.ZipFile(path) as archive:
        kept = {n: archive.read(n) for n in archive.namelist() if n.startswith("Annotations/")}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in kept.items():
            archive.writestr(zipfile.ZipInfo(name), data)
        for node, image in enumerate(planted.image_ids):
            five = [
                [str(w) for w in draw.choice(WORDS, size=int(draw.integers(0, 3)), replace=False)]
                for _ in range(5 if node else 1)
            ]
            five += [[]] * (5 - len(five))
            named[node] = five
            lines = [
                "Here " + " and ".join(f"[/EN#{at + 1}/other {w}]" for at, w in enumerate(words))
                for words in five
            ]
            if node == 3:
                lines[0] += " [/EN#0/notvisual a boat]"
            archive.writestr(zipfile.ZipInfo(f"Sentences/{image}.txt"), "\n".join(lines) + "\n")
    return named


def shared(named: dict[int, list[list[str]]], most: int) -> Counter[tuple[int, int]]:
    """The rule shared-phrase, pair by pair."""
    plain = {"A dog": "dog", "the dog": "dog", "two Dogs": "two dogs", "a red hat": "red hat",
             "Red hat": "red hat", "the sea": "sea", "a boat": "boat"}  # fmt: skip
    things = {n: {plain.get(w, w) for words in five for w in words} for n, five in named.items()}
    uses = Counter(itertools.chain(*things.values()))
    return Counter(
        (a, b)
        for a, b in itertools.combinations(sorted(things), 2)
        for thing in things[a] & things[b]
        if uses[thing] <= most
    )


@pytest.fixture(scope="module", params=["token", "kaggle"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    root = tmp_path_factory.mktemp(request.param)
    planted = write_flickr30k(root / "raw", "F", rng(), captions=request.param)
    spec = maghub.build("flickr30k", root / "out", root / "raw", max_uses=30, negatives=0)
    return planted, root / "out", spec


def test_folder_is_valid(case: Case) -> None:
    _, folder, spec = case
    check_valid(folder)
    names = ["nodes", "edges", "node-splits", "edge-splits", "entities", "phrases"]
    assert [config.name for config in spec.configs] == names
    assert [spec.config(name).target for name in ("entities", "phrases")] == ["nodes", "nodes"]


def test_nodes_with_five_captions(case: Case) -> None:
    planted, folder, spec = case
    nodes = columns(folder, "nodes")
    assert nodes["source_id"] == planted.image_ids
    five = [nodes[f"caption_{number}"] for number in range(5)]
    assert list(map(list, zip(*five, strict=True))) == planted.captions
    assert nodes["text"] == nodes["caption_0"] == planted.texts
    assert nodes["caption_4"][1] == "A dog runs across the grass ."
    assert nodes["unrelated"] == [[2] if node == 2 else [] for node in range(30)]
    check_pictures(folder, spec, planted.images)
    repairs = spec.notes.get("delimiter missing before the caption")
    assert repairs == {"token": None, "kaggle": 1}[folder.parent.name.rstrip("0123456789")]


def test_entities_with_boxes_from_0(case: Case) -> None:
    planted, folder, spec = case
    rows = columns(folder, "entities")
    entities = {
        (node, entity): dict(
            zip(("boxes", "scene", "no_box", "phrases", "captions"), rest, strict=True)
        )
        for node, entity, *rest in zip(*rows.values(), strict=True)
    }
    assert list(rows)[:2] == ["node_id", "entity"]
    for node, image in enumerate(planted.image_ids):
        wanted: dict[int, list[list[int]]] = {4: [], 5: []}
        for chain, box in planted.boxes[image]:
            wanted.setdefault(int(chain), []).append([corner - 1 for corner in box])
        assert {e: row["boxes"] for (n, e), row in entities.items() if n == node} == wanted
    assert entities[0, 3]["boxes"] == entities[0, 2]["boxes"] == [[2, 2, 7, 7]]
    assert len(entities[0, 1]["boxes"]) == 2
    assert [entities[0, e]["scene"] for e in (1, 4, 5)] == [False, False, True]
    assert [entities[0, e]["no_box"] for e in (1, 4, 5)] == [False, True, True]
    assert entities[7, 1]["phrases"] == [f"Caption {number}" for number in range(5)]
    assert entities[7, 1]["captions"] == [0, 1, 2, 3, 4]
    assert entities[7, 5]["phrases"] == []
    assert 0 not in {entity for _, entity in entities}  # not visual: no thing
    assert spec.notes["boxes that reach beyond their image"] == 0


def test_phrases_with_their_place(case: Case) -> None:
    planted, folder, spec = case
    rows = columns(folder, "phrases")
    found: dict[int, list[tuple[int, str, str, str]]] = {}
    for node, caption, _, phrase, entity, types in zip(*rows.values(), strict=True):
        entry = (caption, "0" if entity is None else str(entity), "/".join(types), phrase)
        found.setdefault(node, []).append(entry)
    assert [found[n] for n in range(30)] == [planted.phrases[i] for i in planted.image_ids]
    # "Caption 0 of picture 0 it ."
    assert rows["first_word"][:3] == [0, 3, 5]
    assert rows["entity"][:3] == [1, 2, None]
    # the fixture's sentences have "it" where its captions have not
    assert spec.notes["annotated sentences that differ from the caption"] == 150


def test_splits(case: Case) -> None:
    planted, folder, spec = case
    rows = columns(folder, "node-splits")
    for code, part in enumerate(("train", "validation", "test")):
        ids = {node for node, value in enumerate(rows["entities"]) if value == code}
        assert ids == set(planted.splits["entities"][part])
    assert spec.default_split == "random-nodes"
    assert spec.config("nodes").splits == {"train": 18, "validation": 6, "test": 6}


def test_common_phrases_join_all(case: Case) -> None:
    _, folder, spec = case
    assert pairs(folder) == list(itertools.combinations(range(30), 2))
    assert set(columns(folder, "edges")["weight"]) == {5}
    assert spec.notes["phrases that join"] == 5


def test_card_states_table_7() -> None:
    (paper,) = registry.card("flickr30k").spec.paper
    assert (paper.nodes, paper.edges, paper.classes) == (31_783, 181_151, None)


@pytest.mark.parametrize("most", [3, 6, 30])
def test_edges_join_pictures_that_name_the_same(tmp_path: Path, most: int) -> None:
    planted = write_flickr30k(tmp_path / "raw", "F", rng(), nodes=15)
    named = name_things(planted)
    wanted = shared(named, most)
    options = {"max_uses": most, "negatives": 0}
    if not wanted:
        line = refusal("flickr30k", tmp_path / "raw", tmp_path / "out", **options)
        assert "edges=shared-phrase gives no edge" in line
        return
    maghub.build("flickr30k", tmp_path / "out", tmp_path / "raw", **options)
    check_valid(tmp_path / "out")
    weights = columns(tmp_path / "out", "edges")["weight"]
    assert dict(zip(pairs(tmp_path / "out"), weights, strict=True)) == wanted


def test_mutual_neighbours(tmp_path: Path) -> None:
    planted = write_flickr30k(tmp_path / "raw", "F", rng())
    vectors = np.random.default_rng(1).normal(size=(planted.num_nodes, 4)).astype("<f4")
    np.save(tmp_path / "raw" / "v.npy", vectors)
    options = {"edges": "mutual-knn", "embeddings": "v.npy", "k": 4}
    spec = maghub.build("flickr30k", tmp_path / "out", tmp_path / "raw", **options, **FEW)
    check_valid(tmp_path / "out")
    assert pairs(tmp_path / "out") == sorted(mutual_by_hand(vectors, 4))
    assert spec.has("negatives-uniform")


def test_images_in_an_archive(tmp_path: Path) -> None:
    planted = write_flickr30k(tmp_path / "raw", "F", rng())
    shutil.make_archive(
        str(tmp_path / "raw" / "flickr30k-images"), "gztar", tmp_path / "raw", "flickr30k-images"
    )
    shutil.rmtree(tmp_path / "raw" / "flickr30k-images")
    spec = maghub.build("flickr30k", tmp_path / "out", tmp_path / "raw", max_uses=30, negatives=0)
    check_pictures(tmp_path / "out", spec, planted.images)


def test_captions_quirks(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    rows = [f"{image}.jpg| {n}| text {n}" for image in (20, 3) for n in range(5)]
    rows[1] = "20.jpg| 1| with | inside"
    rows[2] = '20.jpg| 2| " quoted " and not'
    rows[6] = "3.jpg| 1   no delimiter"
    path.write_text("image_name| comment_number| comment\r\n" + "\r\n".join(rows) + "\r\n")
    found = read_captions(path)
    assert found.ids == ["3", "20"]  # by number
    assert found.texts[0][1] == "no delimiter"
    assert found.texts[1][:3] == ["text 0", "with | inside", '" quoted " and not']
    assert found.notes == {
        "captions from": "results.csv",
        "delimiters inside the caption": 1,
        "delimiter missing before the caption": 1,
    }


TOKEN = "results_20130124.token"


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        (TOKEN, lambda t: t[: t.rindex("\t")], "row 150: no tab"),
        (TOKEN, lambda t: t[: t.rindex("\n", 0, -2) + 1], "999999999999.jpg has no caption 4"),
        (TOKEN, lambda t: t.replace("#4", "#5", 1), "row 5: expected ID.jpg and a number from 0"),
        (TOKEN, lambda t: t.replace("#4", "#3", 1), "row 5: caption 3 of"),
        (TOKEN, lambda t: t.replace(".jpg", ".png", 1), "row 1: expected ID.jpg"),
        (TOKEN, lambda t: "", "holds no captions"),
        ("val.txt", lambda t: t + "77\n", "val.txt, row 5: image '77' has no captions"),
        ("val.txt", lambda t: t + t, "val.txt, row 5: image"),
        ("UNRELATED_CAPTIONS", lambda t: t + "77 1\n", "row 3: expected an image with captions"),
        ("UNRELATED_CAPTIONS", lambda t: t.replace(" 3", " 6"), "row 2: expected an image"),
    ],
)
def test_bad_files_give_one_line(tmp_path: Path, file: str, change, words: str) -> None:
    write_flickr30k(tmp_path / "raw", "F", rng())
    path = tmp_path / "raw" / file
    path.write_text(change(path.read_text()))
    line = refusal("flickr30k", tmp_path / "raw", tmp_path / "out", max_uses=30, **FEW)
    assert words in line
    assert str(path) in line


def test_missing_files_are_listed_at_once(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    line = refusal("flickr30k", tmp_path / "raw", tmp_path / "out")
    wanted = ("train.txt", "val.txt", "test.txt", "UNRELATED_CAPTIONS", "annotations.zip")
    for name in (*wanted, TOKEN, "or results.csv", "flickr30k-images", "68b3d6f"):
        assert name in line
    with pytest.raises(MaghubError, match=r"no --raw-dir given"):
        maghub.build("flickr30k", tmp_path / "out")
    write_flickr30k(tmp_path / "other", "F", rng(), captions="kaggle")
    (tmp_path / "other" / "val.txt").unlink()
    line = refusal("flickr30k", tmp_path / "other", tmp_path / "out")
    assert "val.txt" in line
    assert "results" not in line


def test_options_that_cannot_be(tmp_path: Path) -> None:
    write_flickr30k(tmp_path / "raw", "F", rng())
    for options, words in (
        ({"edges": "knn"}, "must be one of shared-phrase, mutual-knn"),
        ({"max_uses": 1}, "option max_uses is 1, must be a whole number of at least 2"),
        ({"edges": "mutual-knn"}, "mutual-knn edges need embeddings"),
        ({}, "edges=shared-phrase gives no edge"),
    ):
        assert words in refusal("flickr30k", tmp_path / "raw", tmp_path / "out", **options)


def test_builder_route_and_workers(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    planted = write_flickr30k(raw, "F", rng())
    name_things(planted)
    check_workers("flickr30k", raw, tmp_path / "out", **FEW)
    check_builder_route(Flickr30k, tmp_path / "out" / "1", tmp_path / "cache", raw, **FEW)


@pytest.mark.parametrize("file", [TOKEN, "annotations.zip", "UNRELATED_CAPTIONS"])
def test_mutated_files(tmp_path: Path, file: str) -> None:
    write_flickr30k(tmp_path, "F", rng(), nodes=12)
    path = tmp_path / file
    if file == "annotations.zip":  # unpacked bytes, so that mutations reach XML and sentences
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in members.items():
                archive.writestr(zipfile.ZipInfo(name), data)
    read = lambda _: Flickr30kSource(tmp_path, 0, negatives=0).graph  # noqa: E731
    check_survives(read, path.read_bytes(), path, count=60, names="/")
