"""MarKG and MARS: the real files of the repository, pictures, bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import maghub
from maghub import layout
from maghub.builders.markg import FILES, Markg
from maghub.spec import FolderSpec
from tests.helpers.built import check_builder_route, check_valid, check_workers, columns, refusal
from tests.helpers.graphs import png
from tests.helpers.real import real

ENTITIES = {"Q1": "pencil", "Q2": "drawing", "Q3": "None", "Q4": "pencil"}
RELATIONS = {"P366": "has use", "A0": "used to"}
TRIPLETS = ["Q1\tP366\tQ2", "Q2\tA0\tQ2", "Q1\tP366\tQ2", "Q4\tP366\tQ2"]
ANALOGY = {
    "example": ["Q1", "Q2"], "question": "Q4", "answer": "Q2", "relation": "P366", "mode": 1,
}  # fmt: skip
Built = tuple[Path, FolderSpec]


def write_small(root: Path) -> Path:
    """A folder in the repository's format: tabs, no header, LF."""
    (root / "MarKG").mkdir(parents=True)
    (root / "MARS").mkdir()
    for kind, names in (("entity", ENTITIES), ("relation", RELATIONS)):
        for length, start in (("", ""), ("long", 'what "')):
            lines = [f"{key}\t{start}{name}\n" for key, name in names.items()]
            (root / f"MarKG/{kind}2text{length}.txt").write_text("".join(lines))
    (root / FILES[0]).write_text("".join(f"{line}\n" for line in TRIPLETS))
    for part in ("train", "dev", "test"):
        (root / f"MARS/{part}.json").write_text(json.dumps(ANALOGY) + "\n")
    return root


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    tmp = tmp_path_factory.mktemp("markg")
    return tmp / "markg", maghub.build("markg", tmp / "markg", real("markg_mars"))


def test_counts_of_the_real_files(built: Built) -> None:
    folder, spec = built
    check_valid(folder)
    rows = {config.name: config.rows for config in spec.configs}
    assert rows["entities"] == 11_292
    assert rows["relations"] == 192
    assert rows["triplets"] == 33_301
    assert spec.notes["triplets"] == {"upstream": 33_307, "repeated": 6, "self loops": 75}
    assert spec.notes["entities in no triplet"] == 1_110
    assert spec.notes["relations in no triplet"] == 1
    assert spec.config("mars").splits == {"train": 10_641, "validation": 1_020, "test": 1_362}
    assert spec.configs[0].name == "triplets"
    assert all(config.kind == "table" for config in spec.configs)


def test_rows_of_the_real_files(built: Built) -> None:
    """Against a plain reading of the same files."""
    folder, raw = built[0], real("markg_mars")
    lines = {path.stem: path.read_text().splitlines() for path in (raw / "MarKG").iterdir()}
    texts = {
        stem: dict(line.split("\t") for line in lines[stem])
        for stem in ("entity2text", "entity2textlong", "relation2text")
    }
    triplets = [line.split("\t") for line in lines["wiki_tuple_ids"]]
    stored = columns(folder, "triplets")
    found = list(zip(stored["head_id"], stored["rel_id"], stored["tail_id"], strict=True))
    assert found == list(dict.fromkeys(map(tuple, triplets)))
    assert sum(head == tail for head, _, tail in found) == 75
    names, relations = texts["entity2text"], texts["relation2text"]
    for row in range(0, len(found), 997):
        head, rel, tail = found[row]
        assert stored["text"][row] == f"{names[head]} {relations[rel]} {names[tail]}"
    entities = columns(folder, "entities")
    assert entities["entity_id"] == list(names)
    assert entities["name"] == [name.strip() for name in names.values()]
    long = texts["entity2textlong"]
    pairs = zip(entities["entity_id"], entities["description"], strict=True)
    assert all(description == long[key].strip() for key, description in pairs)
    own = columns(folder, "relations")
    assert sum(own["own"]) == 19
    wanted = [json.loads(line) for line in (raw / "MARS/dev.json").read_text().splitlines()]
    dev = pq.read_table(next((folder / "mars").glob("validation-*"))).to_pydict()
    assert dev["answer"] == [row["answer"] for row in wanted]
    assert dev["mode"] == [row["mode"] for row in wanted]
    assert [dev["mode"].count(mode) for mode in range(3)] == [397, 397, 226]


def test_small_files_names_and_pictures(tmp_path: Path) -> None:
    raw = write_small(tmp_path / "raw")
    files = {"Q1/b.png": png(1), "Q1/a 1.name.jpg.png": png(2), "Q2/x.jpg": b"<html>"}
    for name, data in files.items():
        (raw / "MARS/images" / name).parent.mkdir(parents=True, exist_ok=True)
        (raw / "MARS/images" / name).write_bytes(data)
    spec = maghub.build("markg", tmp_path / "out", raw)
    check_valid(tmp_path / "out")
    entities = columns(tmp_path / "out", "entities")
    assert entities["name"] == ["pencil", "drawing", "None", "pencil"]
    assert entities["description"][0] == 'what "pencil'
    images = [image and image["bytes"] for image in entities[layout.IMAGE]]
    assert images == [png(2), None, None, None]  # the first by name
    assert spec.images == {"kept": 1, "missing": 2, "refused: html": 1}
    assert columns(tmp_path / "out", "triplets")["text"][0] == "pencil has use drawing"
    check_builder_route(Markg, tmp_path / "out", tmp_path, raw)
    check_workers("markg", raw, tmp_path)


def test_missing_files_are_named_at_once(tmp_path: Path) -> None:
    line = refusal("markg", tmp_path, tmp_path / "out")
    assert all(name in line for name in FILES)


BAD = {
    "unknown tail": (FILES[0], "Q1\tP366\tQ9\n", "row 1: unknown id 'Q9'"),
    "unknown relation": (FILES[0], "Q1\tP366\tQ2\nQ1\tP1\tQ2\n", "row 2: unknown id 'P1'"),
    "two cells": (FILES[0], "Q1\tP366\tQ2\nQ1\tP36", "row 2"),
    "empty": (FILES[0], "", "holds no triplet"),
    "binary": (FILES[0], "\0\xff\xfe", "wiki_tuple_ids.txt"),
    "twice": ("MarKG/entity2text.txt", "Q1\ta\nQ1\tb\n", "row 2: Q1 comes twice"),
    "one file only": ("MarKG/entity2textlong.txt", "Q1\ta\n", "is in only one of"),
    "cut": ("MARS/dev.json", json.dumps(ANALOGY)[:-9], "row 1: not JSON"),
    "no pair": ("MARS/dev.json", json.dumps(ANALOGY | {"example": ["Q1"]}), "is not a pair"),
    "mode": ("MARS/test.json", json.dumps(ANALOGY | {"mode": 3}), "3 is none of"),
    "stranger": ("MARS/test.json", json.dumps(ANALOGY | {"answer": "Q9"}), "unknown id 'Q9'"),
    "nested": ("MARS/test.json", json.dumps(ANALOGY | {"example": [["Q1"], {}]}), "unknown id"),
}


@pytest.mark.parametrize("what", list(BAD))
def test_bad_files_give_one_line(what: str, tmp_path: Path) -> None:
    name, text, reason = BAD[what]
    raw = write_small(tmp_path / "raw")
    (raw / name).write_text(text, encoding="latin-1")
    line = refusal("markg", raw, tmp_path / "out")
    assert Path(name).stem.removesuffix("long") in line
    assert reason in line
