"""croissant.json, read by the real mlcroissant: valid, linked, and the tables come back equal."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import math
from pathlib import Path
from typing import Any

import mlcroissant as mlc
import numpy as np
import PIL.Image
import pyarrow.parquet as pq
import pytest

import maghub
from maghub import layout, registry
from maghub.cards import read_card
from maghub.croissant import render_croissant
from maghub.loading import sample_path
from maghub.spec import read_spec
from tests.helpers.built import columns
from tests.helpers.folders import change_spec, record_file, write_valid

FILE = layout.CROISSANT_FILE
RENDERED_WRONG = "is not what card.md and maghub.json give"


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("croissant") / "toy"
    write_valid(folder, directed=True)
    return folder


@pytest.fixture(scope="module")
def clegr(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("croissant") / "clegr"
    maghub.build("clegr", folder, domain="subway", question_set="facts", size="small", graphs=6)
    return folder


def opened(folder: Path) -> mlc.Dataset:
    """A fresh reader: one that has read a record set once does not read it correctly again."""
    return mlc.Dataset(folder / FILE)


def plain(value: Any) -> Any:
    """A value as it can be compared: numpy's and mlcroissant's types taken off."""
    match value:
        case bytes():
            return value.decode()
        case PIL.Image.Image():
            return value.mode, value.size, value.convert("RGBA").tobytes()
        case dict() if set(value) == {"bytes", "path"}:
            return plain(PIL.Image.open(io.BytesIO(value["bytes"])))
        case dict():
            return {name.rpartition("/")[2]: plain(inner) for name, inner in value.items()}
        case list() | np.ndarray():
            return [plain(inner) for inner in value]
        case np.generic():
            return plain(value.item())
        case float() if math.isnan(value):
            return None
    return value


def stored(folder: Path, config: str) -> list[dict[str, Any]]:
    """Rows of a config with their split, read with pyarrow alone."""
    rows = []
    for path in sorted((folder / config).glob("*.parquet")):
        split = path.name.split("-")[0]
        rows += [{**plain(row), "split": split} for row in pq.read_table(path).to_pylist()]
    return rows


def read_back(folder: Path, config: str) -> list[dict[str, Any]]:
    return [plain(record) for record in opened(folder).records(config)]


@pytest.mark.parametrize(
    "config",
    ["nodes", "edges", "node-splits", "edge-splits", "negatives-public", "embeddings-toy-encoder"],
)
def test_every_table_of_a_graph_reads_back_equal(toy: Path, config: str) -> None:
    rows = stored(toy, config)
    assert len(rows) == read_spec(toy).config(config).rows > 0
    assert read_back(toy, config) == rows


def test_the_toy_holds_what_is_hard_to_keep(toy: Path) -> None:
    nodes = columns(toy, "nodes")
    assert None in nodes["image"]
    assert None in nodes["label"]
    assert any("猫" in text for text in nodes["text"])
    assert "" in nodes["text"]


@pytest.mark.parametrize("config", ["nodes", "edges"])
def test_emoji_reads_back_equal(config: str) -> None:
    folder = sample_path("emoji")
    assert folder is not None
    assert read_back(folder, config) == stored(folder, config)


def test_tables_of_graphs_read_back_equal(clegr: Path) -> None:
    names = [config.name for config in read_spec(clegr).configs]
    assert len(names) > 1
    for name in names:
        assert read_back(clegr, name) == stored(clegr, name), name


def data_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / FILE).read_text("utf-8"))


def references(folder: Path) -> dict[str, str]:
    """Field -> the field that it refers to, as mlcroissant understands it; splits left out."""
    found = {
        field.uuid: field.references.field
        for record_set in opened(folder).metadata.record_sets
        for field in record_set.fields
        if field.references
    }
    return {name: to for name, to in found.items() if not name.endswith("/split")}


def test_keys_are_references_and_splits_are_declared(toy: Path) -> None:
    node, edge = "nodes/node_id", "edges/edge_id"
    assert references(toy) == {
        "edges/src": node,
        "edges/dst": node,
        "node-splits/node_id": node,
        "edge-splits/edge_id": edge,
        "negatives-public/edge_id": edge,
        "negatives-public/query": node,
        "negatives-public/positive": node,
        "embeddings-toy-encoder/node_id": node,
    }
    for config in read_spec(toy).configs:
        names = read_back(toy, f"{config.name}-split-names")
        assert [row["name"] for row in names] == list(config.splits)


def test_facts_types_and_checksums(toy: Path) -> None:
    metadata = opened(toy).metadata
    assert (metadata.name, str(metadata.version)) == ("toy", "1.0.0")
    assert metadata.license == ["https://spdx.org/licenses/MIT.html"]
    assert metadata.cite_as == "none"
    assert not metadata.ctx.issues.errors
    fields = {field["@id"]: field for item in data_of(toy)["recordSet"] for field in item["field"]}
    vector = fields["embeddings-toy-encoder/text"]
    assert (vector["dataType"], vector["arrayShape"]) == ("cr:Float16", "8")
    assert fields["nodes/image"]["dataType"] == "sc:ImageObject"
    assert "2 none of both" in fields["nodes/label"]["description"]
    assert fields["nodes/year"]["description"] == "of birth"
    files = [item for item in data_of(toy)["distribution"] if item["@type"] == "cr:FileObject"]
    on_disk = {path.relative_to(toy).as_posix() for path in toy.rglob("*.parquet")}
    assert {item["@id"] for item in files} == on_disk
    for item in files:
        assert hashlib.sha256((toy / item["contentUrl"]).read_bytes()).hexdigest() == item["sha256"]


@pytest.mark.parametrize("name", registry.names("builders"))
def test_the_card_of_every_dataset_gives_a_valid_croissant(
    name: str, toy: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    card = registry.card(name)
    spec = read_spec(toy).model_copy(update={"name": name, "dataset_version": card.spec.version})
    (tmp_path / FILE).write_text(render_croissant(card, spec), "utf-8")
    with caplog.at_level(logging.WARNING):
        metadata = opened(tmp_path).metadata
    assert not metadata.ctx.issues.errors
    assert metadata.license
    assert metadata.cite_as == card.spec.citation.strip()
    assert all("datePublished" in problem for problem in metadata.ctx.issues.warnings)


def test_same_folder_same_bytes(toy: Path) -> None:
    card, spec = read_card(toy / layout.CARD_SOURCE_FILE), read_spec(toy)
    assert render_croissant(card, spec) == (toy / FILE).read_text("utf-8")


def test_validate_finds_a_missing_a_broken_and_a_stale_one(tmp_path: Path) -> None:
    folder = tmp_path / "toy"
    write_valid(folder)
    assert maghub.validate(folder).problems == []
    text = (folder / FILE).read_text("utf-8")
    for content, message in (
        (None, "is missing"),
        (b"\xff", "cannot be read"),
        (b"{}", RENDERED_WRONG),
        (text.replace('"1.0.0"', '"1.0.1"').encode(), RENDERED_WRONG),
    ):
        (folder / FILE).unlink() if content is None else (folder / FILE).write_bytes(content)
        (problem,) = maghub.validate(folder).problems
        assert (problem.file, message in problem.message) == (FILE, True)


def test_a_changed_table_or_card_makes_it_stale(tmp_path: Path) -> None:
    folder = tmp_path / "toy"
    write_valid(folder)
    old = (folder / FILE).read_bytes()
    (path,) = (p for p in (folder / "edges").iterdir())
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata(table.schema.metadata), path, compression="gzip")
    record_file(folder, f"edges/{path.name}")
    assert maghub.validate(folder).problems == []
    (folder / FILE).write_bytes(old)
    (problem,) = maghub.validate(folder).problems
    assert problem.file == FILE
    change_spec(folder, lambda spec: None, readme=True)
    card = folder / layout.CARD_SOURCE_FILE
    card.write_text(card.read_text("utf-8").replace("citation: none", "citation: some"), "utf-8")
    (problem,) = maghub.validate(folder).problems
    assert problem.file == FILE
