"""IVF and HNSW: recall against exact search, equal bytes from equal seeds, what is not found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from maghub.errors import MaghubError
from maghub.search import Index, Options
from tests.helpers.brute import nearest_rows

K = 10


@pytest.fixture(scope="module")
def clusters() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clustered vectors, queries from the same clusters, and the true neighbours."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((40, 32))
    vectors, queries = (
        (centres[rng.integers(0, 40, n)] + 0.7 * rng.standard_normal((n, 32))).astype(np.float32)
        for n in (4000, 60)
    )
    return vectors, queries, nearest_rows(vectors, queries, K)[1]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_recall_on_clustered_vectors(clusters, kind: str, dtype: str) -> None:
    vectors, queries, wanted = clusters
    stored = vectors.astype(dtype)
    index = Index.build(stored, kind)
    scores, ids = index.search(queries, K)
    recall = np.mean([len(set(a) & set(b)) / K for a, b in zip(ids, wanted, strict=True)])
    assert recall > 0.95
    assert (np.diff(scores, axis=1) <= 0).all()
    unit = stored / np.linalg.norm(stored.astype(np.float64), axis=1, keepdims=True)
    asked = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    exact = np.einsum("qd,qkd->qk", asked, unit[ids])
    np.testing.assert_allclose(scores, exact, atol=1e-6 if dtype == "float32" else 2.0**-11)


def test_more_lists_probed_find_more(clusters) -> None:
    vectors, queries, wanted = clusters
    recalls = []
    for nprobe in (1, 4, 64):
        index = Index.build(vectors, "ivf", options=Options(nlist=64, nprobe=nprobe))
        ids = index.search(queries, K)[1]
        recalls.append(np.mean([len(set(a) & set(b)) for a, b in zip(ids, wanted, strict=True)]))
    assert recalls[0] < recalls[1] < recalls[2] == K


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_same_seed_same_bytes(clusters, kind: str, tmp_path: Path) -> None:
    vectors = clusters[0].astype(np.float16)
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        Index.build(vectors, kind, seed=seed).save(tmp_path / name)
    assert files(tmp_path / "a") == files(tmp_path / "b")
    if kind == "ivf":
        assert files(tmp_path / "a")["index.faiss"] != files(tmp_path / "c")["index.faiss"]


@pytest.mark.parametrize("metric", ["cosine", "ip"])
@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_rows_of_zeros_are_never_found(kind: str, metric: str) -> None:
    vectors = np.random.default_rng(0).standard_normal((400, 8)).astype(np.float32)
    vectors[::3] = 0
    index = Index.build(vectors, kind, metric, options=Options(nlist=4, nprobe=4))
    assert len(index) == 266
    ids = index.search(vectors[1:3], len(index))[1]
    assert set(ids.ravel()) - {-1} <= set(np.flatnonzero(vectors.any(axis=1)))
    assert ids[:, 0].tolist() == [1, 2] or metric == "ip"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_the_shortest_and_the_longest_vectors(kind: str) -> None:
    vectors = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)
    wanted = Index.build(vectors, kind).search(vectors, 1)[1]
    for size in (1e-40, 1e37):
        scaled = vectors * np.float32(size)
        assert (Index.build(scaled, kind).search(vectors, 1)[1] == wanted).mean() > 0.9
    with pytest.raises(MaghubError, match="beyond float32"):
        Index.build(scaled, kind, "ip").search(vectors * np.float32(100), 1)


def test_what_is_not_found_is_minus_one(clusters) -> None:
    vectors, queries, _ = clusters
    index = Index.build(vectors, "ivf", options=Options(nlist=64, nprobe=1))
    scores, ids = index.search(queries, 1000)
    assert (ids[:, -1] == -1).all()
    assert np.isneginf(scores[ids == -1]).all()
    assert (ids[:, 0] >= 0).all()


def test_equal_vectors_come_in_order_of_id() -> None:
    vectors = np.repeat(np.eye(4, dtype=np.float32), 5, axis=0)
    index = Index.build(vectors, "ivf", options=Options(nlist=2, nprobe=2))
    assert index.search(vectors[:1], 5)[1].tolist() == [[0, 1, 2, 3, 4]]


def test_defaults_grow_with_the_vectors() -> None:
    assert Options().resolved(35_000).nlist == 748
    assert Options().resolved(100).nlist == 2
    assert Options().resolved(1).nprobe == 1
    assert Options(nlist=500, nprobe=900).resolved(50).nlist == 50
