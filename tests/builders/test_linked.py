"""Sources whose edges are ours: given vectors, their mean, options (on a NineRec domain)."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from planted import features_with_gaps
from upstream import write_ninerec

import maghub
from maghub.builders.ninerec import BiliFoodSource
from maghub.files import write_text
from maghub.spec import EncoderProvenance, read_spec
from maghub.writing import write_config
from tests.helpers.built import check_valid, pairs, refusal
from tests.helpers.graphs import vectors_table
from tests.helpers.neighbours import mutual_by_hand

FEW = {"negatives": 3}  # 50 need more nodes than a fixture has


def rng() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(4))


def edges_of(raw: Path, **options: object) -> set[tuple[int, int]]:
    graph = BiliFoodSource(raw, 0, **{"negatives": 0, **options}).graph  # type: ignore[arg-type]
    return set(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))


def test_mutual_neighbours_of_given_vectors(tmp_path: Path) -> None:
    planted = write_ninerec(tmp_path / "raw", "Bili_Food", rng())
    text, gaps = features_with_gaps(rng(), planted.num_nodes, 8)
    image = np.random.default_rng(1).normal(size=text.shape).astype("<f4")
    np.save(tmp_path / "raw" / "text.npy", text)
    np.save(tmp_path / "raw" / "image.npy", image)
    clean = text.copy()
    clean[gaps] = 0  # a row with NaN or Inf counts as absent
    spec = maghub.build(
        "bili-food", tmp_path / "a", tmp_path / "raw", edges="mutual-knn", k=4,
        embeddings="text.npy,image.npy", **FEW,
    )  # fmt: skip
    check_valid(tmp_path / "a")
    assert pairs(tmp_path / "a") == sorted(mutual_by_hand(clean + image, 4))
    assert spec.builder.options["embeddings"] == "text.npy,image.npy"
    files = ("text.npy", "image.npy")
    hashes = [hashlib.sha256((tmp_path / "raw" / f).read_bytes()).hexdigest() for f in files]
    assert spec.notes["embeddings"] == {
        file: f"sha256 {digest}" for file, digest in zip(files, hashes, strict=True)
    }
    alone = edges_of(tmp_path / "raw", edges="mutual-knn", k=3, embeddings="text.npy")
    assert alone == set(mutual_by_hand(clean, 3))
    assert not {node for pair in alone for node in pair} & set(gaps)  # no vector, no edge


def test_mutual_neighbours_of_a_torch_file(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    planted = write_ninerec(tmp_path, "Bili_Food", rng())
    vectors = np.random.default_rng(2).normal(size=(planted.num_nodes, 5)).astype("<f4")
    torch.save(torch.from_numpy(vectors), tmp_path / "v.pt")
    found = edges_of(tmp_path, edges="mutual-knn", embeddings=str(tmp_path / "v.pt"))
    assert found == set(mutual_by_hand(vectors, 10))


def add_vectors(folder: Path, nodes: int) -> dict[str, np.ndarray]:
    """The config ``embeddings-toy``, as ``maghub encode`` would add it."""
    draw = np.random.default_rng(0)
    vectors = {m: draw.normal(size=(nodes, 6)).astype(np.float16) for m in ("text", "image")}
    config = write_config(folder, vectors_table(vectors, "toy"))
    assert config is not None
    encoder = EncoderProvenance(
        encoder="toy", config=config.name, modalities=("text", "image"), model_id="toy",
        revision="1", library="none", licence="MIT", dim={"text": 6, "image": 6}, pooling="none",
        normalized=False, dtype="float16", missing={},
    )  # fmt: skip
    spec = read_spec(folder)
    update = {"configs": (*spec.configs, config), "encoders": (encoder,)}
    write_text(folder / "maghub.json", spec.model_copy(update=update).to_json())
    return vectors


def test_mutual_neighbours_of_a_published_config(tmp_path: Path) -> None:
    """A folder built before and encoded since; its nodes must be these."""
    planted = write_ninerec(tmp_path / "raw", "Bili_Food", rng())
    maghub.build("bili-food", tmp_path / "first", tmp_path / "raw", **FEW)
    vectors = add_vectors(tmp_path / "first", planted.num_nodes)
    given = str(tmp_path / "first" / "embeddings-toy")
    spec = maghub.build(
        "bili-food",
        tmp_path / "second",
        tmp_path / "raw",
        edges="mutual-knn",
        embeddings=given,
        **FEW,
    )
    mean = vectors["text"].astype(np.float32) + vectors["image"].astype(np.float32)
    assert pairs(tmp_path / "second") == sorted(mutual_by_hand(mean, 10))
    assert spec.builder.options["embeddings"] == "first/embeddings-toy"
    write_ninerec(tmp_path / "other", "Bili_Food", np.random.default_rng(1))
    line = refusal(
        "bili-food", tmp_path / "other", tmp_path / "out", edges="mutual-knn", embeddings=given
    )
    assert "its nodes are not those of the raw files" in line


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"edges": "knn"}, "option edges is 'knn', must be one of maghub-v1, mutual-knn"),
        ({"k": 0}, "option k is 0, must be a whole number of at least 1"),
        ({"window": True}, "option window is True"),
        ({"negatives": -1}, "option negatives is -1"),
        ({"min_interactions": 0}, "option min_interactions is 0"),
        ({"text": "german"}, "must be one of english, chinese"),
        ({"edges": "mutual-knn"}, "mutual-knn edges need embeddings"),
        ({"edges": "mutual-knn", "embeddings": "no.npy"}, "no.npy"),
        ({"edges": "mutual-knn", "embeddings": "few.npy"}, "39 rows of features for 40 nodes"),
        ({"edges": "mutual-knn", "embeddings": "v3.npy,v4.npy"}, "3 and 4 columns have no mean"),
        ({"min_interactions": 99}, "edges=maghub-v1 gives no edge"),
        ({}, "no 50 negatives per edge"),
        ({"widow": 2}, "unknown option of builder bili-food 'widow'. Did you mean window"),
    ],
)  # fmt: skip
def test_options_that_cannot_be(tmp_path: Path, options: dict[str, object], words: str) -> None:
    raw = tmp_path / "raw"
    write_ninerec(raw, "Bili_Food", rng())
    for name, shape in (("few", (39, 3)), ("v3", (40, 3)), ("v4", (40, 4))):
        np.save(raw / f"{name}.npy", np.ones(shape, np.float32))
    assert words in refusal("bili-food", raw, tmp_path / "out", **options)
