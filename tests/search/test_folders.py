"""Indices of a published folder: kept, found, and refused for other vectors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import maghub
from maghub.search import Options, build_index, folders, open_index
from maghub.spec import read_spec
from tests.helpers.folders import change_table, data_path, with_vector_value
from tests.helpers.graphs import ENCODER
from tests.helpers.reports import refusal as line
from tests.helpers.searchable import IMAGE_ENCODER, TEXT_ENCODER

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
def test_kept_index_finds_every_node_by_its_own_vector(folder: Path, kind: str) -> None:
    options = Options(nlist=3, nprobe=3)
    place = build_index(folder, kind=kind, options=options)
    assert place == folder / ".search" / f"embeddings-{ENCODER}-text-{kind}-cosine"
    mag = maghub.load(folder)
    vectors = np.asarray(mag.features(ENCODER, "text"))
    index = open_index(mag, kind=kind)
    assert (index.kind, len(index)) == (kind, 40)
    scores, ids = index.search(vectors, 1)
    assert (ids[:, 0] == np.arange(40)).all()
    np.testing.assert_allclose(scores, 1, atol=1e-3)


def test_nodes_without_a_vector_are_never_found(folder: Path) -> None:
    mag = maghub.load(folder)
    missing = np.flatnonzero(~mag.has(ENCODER, "image"))
    assert len(missing)
    for kept in (False, True):
        if kept:
            build_index(folder, modality="image")
        index = open_index(mag, modality="image")
        assert len(index) == 40 - len(missing)
        _, ids = index.search(np.ones((1, 4)), len(index))
        assert sorted(ids[0]) == sorted(set(range(40)) - set(missing))
        assert "Give a k from 1 to" in line(index.search, np.ones((1, 4)), 40)


def test_the_record_says_what_it_was_made_of(folder: Path) -> None:
    place = build_index(folder, kind="ivf", seed=3)
    record = json.loads((place / "index.json").read_text())
    config = read_spec(folder).config(f"embeddings-{ENCODER}")
    assert record["origin"] == {
        "dataset": "toy",
        "encoder": ENCODER,
        "config": config.name,
        "column": "text",
        "files": [entry.sha256 for entry in config.files],
    }
    assert (record["kind"], record["metric"], record["seed"]) == ("ivf", "cosine", 3)
    assert (record["rows"], record["vectors"], record["dim"]) == (40, 40, 8)
    assert set(record["files"]) == {"index.faiss"}


def test_the_folder_stays_valid(folder: Path) -> None:
    before = maghub.validate(folder).problems
    build_index(folder)
    assert maghub.validate(folder).problems == before == []
    assert folders.SEARCH_FOLDER.startswith(".")  # a push takes no hidden files


def test_an_index_of_another_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    change_table(other, f"embeddings-{ENCODER}", with_vector_value("text", 3, 9.0))
    build_index(other, out=tmp_path / "index")
    text = line(open_index, folder, index=tmp_path / "index")
    assert text.startswith(f"{tmp_path / 'index'}: does not belong to embeddings-{ENCODER}, text")
    assert "the vectors have changed since" in text
    assert f"maghub search build {folder}" in text
    assert len(open_index(other, index=tmp_path / "index")) == 40
    build_index(folder, modality="image", out=tmp_path / "images")
    text = line(open_index, folder, modality="text", index=tmp_path / "images")
    assert "it was made of embeddings-toy-encoder, image, of toy" in text


def test_an_index_is_refused_once_the_folder_was_encoded_anew(own: Path) -> None:
    build_index(own)
    config = f"embeddings-{TEXT_ENCODER}"
    shard = own / data_path(own, config)
    before = shard.read_bytes()
    change_table(own, config, with_vector_value("text", 0, 0.5))
    assert "the vectors have changed since" in line(open_index, own)
    assert "the vectors have changed since" in line(maghub.find, own, "a dog")
    maghub.encode(own, TEXT_ENCODER)
    assert shard.read_bytes() == before
    assert len(open_index(own, TEXT_ENCODER)) == 58


def test_a_damaged_kept_index_is_one_line(folder: Path) -> None:
    place = build_index(folder)
    data = (place / "index.faiss").read_bytes()
    (place / "index.faiss").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert "index.faiss: does not match its checksum" in line(open_index, folder)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"encoder": "all-minilm"}, "make it with: maghub encode"),
        ({"encoder": IMAGE_ENCODER, "modality": "text"}, "holds no text vectors of efficientnet"),
        ({"modality": "sound"}, "unknown modality 'sound'"),
        ({"kind": "hnsw"}, "no hnsw index of text vectors of all-minilm-l6-v2 is kept here"),
        ({"kind": "tree"}, "unknown kind of index 'tree'"),
    ],
)
def test_what_the_folder_has_not(encoded: Path, options: dict[str, str], text: str) -> None:
    assert text in line(open_index, encoded, **options)


def test_a_folder_without_vectors(tmp_path: Path) -> None:
    maghub.build("emoji", tmp_path / "emoji")
    text = line(build_index, tmp_path / "emoji")
    assert text.endswith("maghub encode {} --encoder all-minilm-l6-v2".format(tmp_path / "emoji"))


def test_columns_are_named_by_encoder_or_config(encoded: Path) -> None:
    mag = maghub.load(encoded)
    found = [(one.encoder, one.modality) for one in folders.columns(mag)]
    assert found == [(TEXT_ENCODER, "text"), (IMAGE_ENCODER, "image")]
    assert folders.find_column(mag, modality="image").encoder == IMAGE_ENCODER
    assert folders.find_column(mag, f"embeddings-{IMAGE_ENCODER}").modality == "image"
    assert len(open_index(encoded, modality="image")) == 58
