"""MedMKG on made-up files in its format: CRLF, quoted commas, studies with several pictures."""

from __future__ import annotations

from pathlib import Path

import pytest

import maghub
from maghub import registry
from maghub.builders.medmkg import Medmkg
from tests.helpers.built import check_builder_route, check_valid, check_workers, columns, refusal
from tests.helpers.graphs import png

HEADER = "Head,Relation,Tail,Head_Name,Tail_Name"
ROWS = [
    'I50000001,POSITIVE,C0000001,Image_I50000001,"Lien, made up"',
    'C0000001,isa,C0000002,"Lien, made up",mies',
    'C0000002,inverse_isa,C0000001,mies,"Lien, made up"',
    "I50000002,NEGATIVE,C0000002,Image_I50000002,another synonym",
]
BASE = "physionet.org/files/mimic-cxr-jpg/2.0.0/files/p10/p10000001"
MAPPING = [
    "IID,Image_Path",
    f"I50000001,{BASE}/s50000001/a.jpg",
    f"I50000001,{BASE}/s50000001/b.jpg",
    f"I50000009,{BASE}/s50000009/c.jpg",
]


def write(root: Path, rows: list[str] | None = None, mapping: list[str] | None = None) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    lines = [HEADER, *(ROWS if rows is None else rows)]
    (root / "MedMKG.csv").write_bytes("".join(f"{line}\r\n" for line in lines).encode())
    text = "".join(f"{line}\n" for line in (MAPPING if mapping is None else mapping))
    (root / "image_mapping.csv").write_text(text)
    return root


def test_tables_without_pictures(tmp_path: Path) -> None:
    spec = maghub.build("medmkg", tmp_path / "out", write(tmp_path / "raw"))
    check_valid(tmp_path / "out")
    triplets = columns(tmp_path / "out", "triplets")
    assert triplets["text"] == [
        "Image_I50000001 POSITIVE Lien, made up",
        "Lien, made up isa mies",
        "mies inverse isa Lien, made up",
        "Image_I50000002 NEGATIVE mies",
    ]
    entities = columns(tmp_path / "out", "entities")
    assert entities["entity_id"] == ["I50000001", "C0000001", "C0000002", "I50000002"]
    assert entities["kind"] == [1, 0, 0, 1]
    assert entities["name"][1:3] == ["Lien, made up", "mies"]  # the first name counts
    assert entities["image_path"] == [f"{BASE}/s50000001/a.jpg", "", "", ""]
    assert "image" not in entities
    relations = columns(tmp_path / "out", "relations")
    assert dict(zip(relations["rel_id"], relations["triplets"], strict=True)) == {
        "NEGATIVE": 1, "POSITIVE": 1, "inverse_isa": 1, "isa": 1,
    }  # fmt: skip
    assert spec.notes["triplets"] == {"upstream": 4, "repeated": 0, "self loops": 0}
    assert spec.notes["entities"] == {"concepts": 2, "images": 2}


def test_pictures_of_the_users_own_copy(tmp_path: Path) -> None:
    raw = write(tmp_path / "raw")
    (raw / BASE / "s50000001").mkdir(parents=True)
    (raw / BASE / "s50000001/a.jpg").write_bytes(png(3))
    spec = maghub.build("medmkg", tmp_path / "out", raw)
    check_valid(tmp_path / "out")
    images = columns(tmp_path / "out", "entities")["image"]
    assert [image and image["bytes"] for image in images] == [png(3), None, None, None]
    assert spec.images == {"kept": 1, "missing": 3}
    check_builder_route(Medmkg, tmp_path / "out", tmp_path, raw)
    check_workers("medmkg", raw, tmp_path)


def test_everything_is_local() -> None:
    card = registry.card("medmkg").spec
    assert set(card.policy.model_dump().values()) == {"local"}
    assert card.paper[0].edges == 53_587


def test_missing_files_are_named_at_once(tmp_path: Path) -> None:
    line = refusal("medmkg", tmp_path, tmp_path / "out")
    assert "MedMKG.csv (your copy of" in line
    assert "image_mapping.csv (your copy of" in line


BAD = {
    "kind": (["X1,isa,C1,a,b"], None, "MedMKG.csv, column Head, row 1: 'X1' is neither"),
    "relation": (["C1,,C2,a,b"], None, "column Relation, row 1: is empty"),
    "cells": (["C1,isa,C2,a,b", "C1,isa"], None, "row 2: 2 cells, expected 5"),
    "quote": (['C1,isa,C2,"a,b'], None, "broken quoting"),
    "empty": ([], None, "holds no triplet"),
    "header": (None, ["IID,Path", "I1,x"], "image_mapping.csv: no column Image_Path"),
    "outside": (None, ["IID,Image_Path", "I50000001,a/../../x.jpg"], "leads out of the folder"),
}


@pytest.mark.parametrize("what", list(BAD))
def test_bad_files_give_one_line(what: str, tmp_path: Path) -> None:
    rows, mapping, reason = BAD[what]
    raw = write(tmp_path / "raw", rows, mapping)
    assert reason in refusal("medmkg", raw, tmp_path / "out")
