"""Openclipart from small packages in Debian's format: rows, edges, safety, bad input."""

from __future__ import annotations

import io
import itertools
from collections import Counter, defaultdict
from pathlib import Path

import PIL.Image
import pytest
from mutants import check_survives
from upstream_openclipart import (
    CATEGORIES,
    Openclipart,
    deb,
    plant,
    png,
    svg,
    write_debs,
    write_folders,
)

import maghub
from maghub.builders._formats.debfiles import open_deb
from maghub.builders._formats.svg import read_svg_metadata
from maghub.builders.openclipart import Openclipart as Builder
from maghub.spec import FolderSpec
from tests.helpers.built import check_builder_route, check_valid, check_workers, columns, refusal
from tests.helpers.graphs import files_of

NAME = "openclipart"
PNG, SVG = (f"openclipart-{kind}_1%3a0.18+dfsg-19_all.deb" for kind in ("png", "svg"))
Case = tuple[Openclipart, Path, FolderSpec]


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    tmp, planted = tmp_path_factory.mktemp("clips"), plant()
    write_debs(tmp / "raw", planted)
    return planted, tmp / "out", maghub.build(NAME, tmp / "out", tmp / "raw")


def test_rows_are_the_public_domain_pictures(case: Case) -> None:
    planted, folder, spec = case
    check_valid(folder)
    nodes = columns(folder, "nodes")
    assert nodes["source_id"] == planted.keys
    assert nodes["text"] == [planted.texts[key] for key in planted.keys]
    assert nodes["keywords"] == [planted.keywords[key] for key in planted.keys]
    assert nodes["author"] == [planted.authors[key] for key in planted.keys]
    names = maghub.load(folder).label_names
    assert list(names) == list(CATEGORIES)
    assert [names[label] for label in nodes["label"]] == [k.split("/")[0] for k in planted.keys]
    assert spec.notes["pictures"] == {
        "licence http://creativecommons.org/licenses/GPL/2.0/": 1,
        "licence http://web.resource.org/cc/PublicDomain": len(planted.keys),
        "licence none": 1,
        "pictures without metadata": 1,
    }


def test_pictures_are_small_and_on_white(case: Case) -> None:
    planted, folder, spec = case
    images = dict(zip(planted.keys, columns(folder, "nodes")["image"], strict=True))
    without = [key for key, image in images.items() if image is None]
    assert without == ["signs_and_symbols/sub/picture_005"]
    assert spec.images == {"encoded": len(planted.keys) - 1, "refused: too many pixels": 1}
    for key in ("food/sub/picture_004", "animals/sub/picture_000"):
        with PIL.Image.open(io.BytesIO(images[key]["bytes"])) as image:
            assert image.mode == "RGB"
            assert max(image.size) == (256 if key.endswith("004") else 40)
    assert spec.statistics is not None
    assert spec.statistics.image_pixels["p100"] == 256


def test_edges_follow_both_rules(case: Case) -> None:
    planted, folder, _ = case
    edges = columns(folder, "edges")
    found: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for src, dst, relation in zip(edges["src"], edges["dst"], edges["relation"], strict=True):
        assert src < dst
        found[relation].add((src, dst))
    uses: dict[str, list[int]] = defaultdict(list)
    works: dict[str, set[int]] = defaultdict(set)
    for node, key in enumerate(planted.keys):
        for word in planted.keywords[key]:
            if word != "hash" and word.replace(" ", "_") not in CATEGORIES:
                uses[word].append(node)
        works[planted.authors[key]].add(node)
    wanted = {
        pair
        for nodes in uses.values()
        if 2 <= len(nodes) <= 20
        for pair in itertools.combinations(nodes, 2)
    }
    assert found[0] == wanted
    degree = Counter(node for pair in found[1] for node in pair)
    author = {node: name for name, nodes in works.items() for node in nodes}
    assert all(author[a] == author[b] for a, b in found[1])
    for node, name in author.items():
        others = 0 if name == "Unknown" else min(len(works[name]) - 1, 10)
        assert degree[node] == others  # 5 on each side of the ring
    assert len(edges["src"]) == len(found[0]) + len(found[1])


def test_unpacked_packages_give_the_same_bytes(case: Case, tmp_path: Path) -> None:
    planted, folder, _ = case
    write_folders(tmp_path / "raw", planted)
    maghub.build(NAME, tmp_path / "out", tmp_path / "raw")
    assert files_of(tmp_path / "out") == files_of(folder)


def test_builder_route_and_workers(case: Case, tmp_path: Path) -> None:
    raw = case[1].parent / "raw"
    check_builder_route(Builder, case[1], tmp_path, raw)
    check_workers(NAME, raw, tmp_path)


def test_missing_packages_are_named_at_once(tmp_path: Path) -> None:
    line = refusal(NAME, tmp_path, tmp_path / "out")
    assert "missing: openclipart-png, openclipart-svg" in line
    assert line.endswith("apt-get download openclipart-png openclipart-svg")
    (tmp_path / PNG).touch()
    assert "missing: openclipart-svg" in refusal(NAME, tmp_path, tmp_path / "out")
    (tmp_path / "openclipart-png_2.deb").touch()
    assert "several versions of openclipart-png" in refusal(NAME, tmp_path, tmp_path / "out")


@pytest.mark.parametrize("package", [PNG, SVG])
def test_damaged_packages_give_one_line(package: str, tmp_path: Path) -> None:
    planted = plant(60)
    write_debs(tmp_path / "raw", planted)
    whole = (tmp_path / "raw" / package).read_bytes()
    middle = len(whole) // 2
    for damaged in (
        b"",
        b"<html>",
        whole[:-100],
        whole[:60],
        whole[:middle] + bytes(40) + whole[middle + 40 :],
        whole.replace(b"data.tar.xz ", b"data.tar.zst"),
    ):
        (tmp_path / "raw" / package).write_bytes(damaged)
        assert package in refusal(NAME, tmp_path / "raw", tmp_path / "out")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"<svg><metadata></svg>", "is not XML"),
        (b'<!DOCTYPE s [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><s>&b;</s>', "could grow"),
        (b"<s>" * 300 + b"</s>" * 300, "nested more than"),
        (b"\xff\xfe", "is not XML"),
    ],
)
def test_a_bad_svg_is_named(data: bytes, reason: str, tmp_path: Path) -> None:
    planted = plant(60)
    planted.files["svg/animals/sub/picture_000.svg"] = data
    write_debs(tmp_path / "raw", planted)
    line = refusal(NAME, tmp_path / "raw", tmp_path / "out")
    assert SVG in line
    assert "animals/sub/picture_000.svg" in line
    assert reason in line


def test_no_external_entity_is_fetched(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    entities = f'<!ENTITY ns_cc "http://web.resource.org/cc/"><!ENTITY x SYSTEM "{secret}">'
    head = f"<!DOCTYPE svg [{entities}]>"
    data = svg("TITLE", ["w"], "a", head=head).replace(b"TITLE", b"a&x;b")
    found = read_svg_metadata(data)
    assert found.title == "ab"
    assert found.licence == "http://web.resource.org/cc/PublicDomain"


def test_a_picture_outside_a_category_and_nothing_public(tmp_path: Path) -> None:
    planted = plant(60)
    planted.add("lonely", svg("x", [], "a"), png(1))
    write_debs(tmp_path / "one", planted)
    assert "lies in no category" in refusal(NAME, tmp_path / "one", tmp_path / "out")
    empty = Openclipart()
    empty.add("food/x", svg("x", [], "a", ""), png(1))
    write_debs(tmp_path / "two", empty)
    assert "no picture in the public domain" in refusal(NAME, tmp_path / "two", tmp_path / "out")


def test_mutants_of_a_package_are_read_or_refused(tmp_path: Path) -> None:
    def read(path: Path) -> None:
        with open_deb(path) as archive:
            for _, data in archive.members():
                assert isinstance(data, bytes)

    check_survives(read, deb(plant(6), "svg"), tmp_path / "x.deb", count=200, megabytes=16)
