"""Searching a folder by text and picture with the real offline encoders, and with a tiny CLIP."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import maghub
from maghub import registry
from maghub.mkg import write_benchmark
from maghub.search import build_index
from tests.helpers.built import columns
from tests.helpers.folders import change_spec
from tests.helpers.kgrag import BUILDER, own_card, picture, small_records
from tests.helpers.reports import refusal
from tests.helpers.searchable import IMAGE_ENCODER, NODES, TEXT_ENCODER, write_part
from tests.helpers.tiny_encoders import tiny

pytestmark = pytest.mark.integration
CLIP = "clip-vit-base-patch32"


def line(*args, **options) -> str:
    return refusal(maghub.find, *args, **options)


def test_a_text_finds_the_node_that_has_it(encoded: Path) -> None:
    texts = columns(encoded, "nodes")["text"]
    for node in (0, 25, 59):
        hits = maghub.find(encoded, texts[node], k=5)
        assert [hit.rank for hit in hits] == [1, 2, 3, 4, 5]
        assert hits[0].source_id == f"id {node}"
        assert (hits[0].id, hits[0].text) == (node, texts[node])
        assert hits[0].score == pytest.approx(1, abs=1e-3)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_scores_are_cosines_of_the_encoders_own_vector(encoded: Path) -> None:
    query = registry.get("encoders", TEXT_ENCODER)().encode_texts(["a hot drink"])[0]
    vectors = np.asarray(maghub.load(encoded).features(TEXT_ENCODER, "text"), np.float64)
    lengths = np.linalg.norm(vectors, axis=1)
    cosine = np.divide(vectors @ query, lengths, out=np.full(NODES, -2.0), where=lengths > 0)
    hits = maghub.find(encoded, "a hot drink", k=10)
    assert [hit.id for hit in hits] == np.argsort(-cosine)[:10].tolist()
    np.testing.assert_allclose([hit.score for hit in hits], np.sort(cosine)[::-1][:10], atol=1e-5)


@pytest.mark.parametrize("kind", [None, "flat", "ivf", "hnsw"])
def test_a_picture_finds_itself(own: Path, tmp_path: Path, kind: str | None) -> None:
    if kind:
        build_index(own, modality="image", kind=kind)
    shown = tmp_path / "query.png"
    shown.write_bytes(columns(own, "nodes")["image"][25]["bytes"])
    hits = maghub.find(own, image=shown, k=3, kind=kind)
    assert hits[0].id == 25
    assert hits[0].score == pytest.approx(1, abs=2e-3)


def test_bad_queries(encoded: Path, tmp_path: Path) -> None:
    fake = tmp_path / "fake.png"
    fake.write_text("<html>404</html>")
    assert line(encoded, image=fake) == (
        f"{fake}: is not a picture that can be read. Give a PNG or JPEG"
    )
    assert "gone.png" in line(encoded, image=tmp_path / "gone.png")
    assert "is an empty text" in line(encoded, "  ")
    assert "one query is needed" in line(encoded)
    assert "one query is needed" in line(encoded, "both", image=fake)
    assert "Give a k from 1 to 58" in line(encoded, "a dog", k=59)


def test_text_and_picture_meet_in_joint_vectors_only(encoded: Path, tmp_path: Path) -> None:
    shown = tmp_path / "query.png"
    shown.write_bytes(columns(encoded, "nodes")["image"][25]["bytes"])
    for query, asked, other, encoder in (
        ({"text": "a dog"}, "text", "image", IMAGE_ENCODER),
        ({"image": shown}, "image", "text", TEXT_ENCODER),
    ):
        text = line(encoded, **query, modality=other)
        assert text.startswith(f"{encoder} gives {other} vectors that no {asked} can be compared")
        assert "clip-vit-base-patch32" in text
        assert text == line(encoded, **query, encoder=encoder)


def test_clip_finds_pictures_by_text_and_texts_by_picture(tmp_path: Path) -> None:
    folder, weights = tmp_path / "part", tiny(CLIP, tmp_path / "weights")
    write_part(folder, 20)
    maghub.encode(folder, CLIP, model_path=weights)
    mag = maghub.load(folder)
    model = registry.get("encoders", CLIP)(model_path=weights)
    found = maghub.find(folder, "red apple", modality="image", k=18, model_path=weights)
    query = model.encode_texts(["red apple"])[0].astype(np.float64)
    pictures = np.asarray(mag.features(CLIP, "image"), np.float64)
    for hit in found:
        own = pictures[hit.id] @ query / np.linalg.norm(pictures[hit.id]) / np.linalg.norm(query)
        assert hit.score == pytest.approx(own, abs=1e-5)
    assert sorted(hit.id for hit in found) == [i for i in range(20) if i not in (9, 11)]
    shown = tmp_path / "query.png"
    shown.write_bytes(columns(folder, "nodes")["image"][5]["bytes"])
    across = maghub.find(folder, image=shown, modality="text", k=18, model_path=weights)
    assert sorted(hit.id for hit in across) == [i for i in range(20) if i not in (7, 11)]
    assert maghub.find(folder, image=shown, k=1, model_path=weights)[0].id == 5
    other = tiny(CLIP, tmp_path / "other", seed=1)
    text = line(folder, "red apple", model_path=other)
    assert "the vectors were made with revision local folder, sha256" in text


def test_a_corpus_is_searched_and_its_ids_are_given(tmp_path: Path) -> None:
    folder = tmp_path / "rag"
    write_benchmark(small_records(), own_card(), folder, builder=BUILDER, pictures=picture)
    maghub.encode(folder, TEXT_ENCODER)
    corpus = columns(folder, "corpus")
    for row in (0, 17, 40):
        hits = maghub.find(folder, corpus["text"][row], k=4)
        assert hits[0].text == corpus["text"][row]
        assert [corpus["id"][hit.id] for hit in hits] == [hit.source_id for hit in hits]
    asked = maghub.find(folder, "n3", k=2, encoder=f"embeddings-{TEXT_ENCODER}-queries")
    assert asked[0].source_id in columns(folder, "queries")["id"]


def test_vectors_that_were_projected(tmp_path: Path) -> None:
    folder = tmp_path / "part"
    write_part(folder, 20)
    maghub.encode(folder, TEXT_ENCODER, projection=32)
    texts = columns(folder, "nodes")["text"]
    assert maghub.find(folder, texts[3], k=1)[0].id == 3


def test_vectors_that_nobody_can_make_again(own: Path) -> None:
    change_spec(own, lambda spec: [one.update(origin="upstream") for one in spec["encoders"]])
    assert "came from upstream, so that no query can be encoded" in line(own, "a dog")
    change_spec(own, lambda spec: [one.update(origin="maghub") for one in spec["encoders"]])
    change_spec(own, lambda spec: spec["encoders"][0].update(revision="another"))
    assert "the vectors were made with revision another, the encoder here has" in line(own, "a dog")
    change_spec(own, lambda spec: spec["encoders"][0].update(encoder="all-minilm-l6"))
    assert "all-minilm-l6-v2" in line(own, "a dog")
