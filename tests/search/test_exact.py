"""Exact search equals float64 brute force, ties included, on every path through the code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maghub.errors import MaghubError
from maghub.search import Index, blocks, exact
from tests.helpers.brute import nearest_rows

KINDS = ("normal", "binary", "copies", "multiples")


def matrix(kind: str, n: int, d: int, dtype: str, seed: int) -> np.ndarray:
    """Rows without and with many exact ties, one in ten of them zero."""
    rng = np.random.default_rng(seed)
    if kind == "normal":
        made = rng.standard_normal((n, d))
    elif kind == "binary":
        made = rng.integers(0, 2, (n, d))
    elif kind == "copies":
        made = rng.standard_normal((3, d))[rng.integers(0, 3, n)]
    else:
        made = rng.integers(-1, 2, (n, d)) * rng.integers(1, 4, (n, 1))
    made = made.astype(dtype)
    made[rng.random(n) < 0.1] = 0
    made[0, 0] = 1
    return made


def queries_for(vectors: np.ndarray, seed: int) -> np.ndarray:
    own = vectors[vectors.any(axis=1)][:5].astype(np.float32)
    random = np.random.default_rng(seed).standard_normal((3, vectors.shape[1]), dtype=np.float32)
    return np.concatenate([own, random])


@pytest.fixture(params=["in memory", "block by block"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows kept as float32, or decoded anew for each search in blocks of a few rows."""
    if request.param == "block by block":
        monkeypatch.setattr(exact, "CACHE_BYTES", 0)
        monkeypatch.setattr(blocks, "BLOCK_BYTES", 4096)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("metric", ["cosine", "ip"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("kind", KINDS)
def test_ranking_is_that_of_float64_brute_force(kind: str, dtype: str, metric: str) -> None:
    @settings(max_examples=15, deadline=None)
    @given(
        n=st.integers(1, 200),
        d=st.integers(1, 40),
        seed=st.integers(0, 2**16),
        share=st.floats(0, 1),
    )
    def check(n: int, d: int, seed: int, share: float) -> None:
        vectors = matrix(kind, n, d, dtype, seed)
        asked = queries_for(vectors, seed)
        index = Index.build(vectors, metric=metric)
        k = 1 + int(share * (len(index) - 1))
        scores, ids = index.search(asked, k)
        wanted, rows = nearest_rows(vectors, asked, k, cosine=metric == "cosine")
        assert (ids == rows).all()
        assert (scores.dtype, ids.dtype) == (np.float32, np.int64)
        np.testing.assert_allclose(scores, wanted, rtol=1e-5, atol=2e-5 * np.abs(wanted).max())
        assert (np.diff(scores, axis=1) <= 0).all()

    check()


@pytest.mark.usefixtures("path")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("longest", [1e-44, 1e-40, 1e-30, 1e-10, 1e10, 1e30, 3e37])
@pytest.mark.parametrize("metric", ["cosine", "ip"])
def test_lengths_of_any_size(metric: str, longest: float) -> None:
    """Rankings stay right down to the least numbers there are; else it says that they cannot."""
    rng = np.random.default_rng(0)
    queries = rng.standard_normal((9, 12)).astype(np.float32)
    for spread in (0, 3):  # all of one size, and of very different ones
        sizes = longest * 10.0 ** -rng.integers(0, spread + 1, (150, 1))
        vectors = (rng.standard_normal((150, 12)) * sizes).astype(np.float32)
        index = Index.build(vectors, metric=metric)  # type: ignore[arg-type]
        if metric == "ip" and not 1e-35 < longest < 1e35:
            with pytest.raises(MaghubError, match="beyond float32"):
                index.search(queries, 7)
            continue
        scores, rows = index.search(queries, 7)
        wanted = nearest_rows(vectors, queries, 7, cosine=metric == "cosine")
        assert np.isfinite(scores).all()
        np.testing.assert_array_equal(rows, wanted[1])


def test_equals_scikit_learn() -> None:
    neighbors = pytest.importorskip("sklearn.neighbors")
    rng = np.random.default_rng(0)
    vectors, asked = rng.standard_normal((3000, 96)), rng.standard_normal((50, 96))
    peer = neighbors.NearestNeighbors(n_neighbors=20, metric="cosine", algorithm="brute")
    distance, rows = peer.fit(vectors.astype(np.float32)).kneighbors(asked)
    scores, ids = Index.build(vectors).search(asked, 20)
    assert (ids == rows).all()
    np.testing.assert_allclose(scores, 1 - distance, atol=1e-6)


def test_a_thousand_copies_come_in_order_of_id() -> None:
    """More equal rows than any margin: the lowest ids are taken, and in order."""
    rng = np.random.default_rng(0)
    row, others = rng.standard_normal(64), rng.standard_normal((500, 64))
    vectors = np.concatenate([others, np.tile(row, (1000, 1))]).astype(np.float16)
    places = np.random.default_rng(1).permutation(1500)
    vectors = vectors[places]
    copies = np.flatnonzero(places >= 500)
    scores, ids = Index.build(vectors).search(np.tile(row, (7, 1)), 40)
    assert (ids == copies[:40]).all()
    assert (scores == scores[0, 0]).all()


def test_threads_and_batches_change_nothing() -> None:
    faiss = pytest.importorskip("faiss")
    vectors = matrix("binary", 2000, 24, "float16", 3)
    asked = queries_for(np.tile(vectors, (1, 1)), 4)
    index = Index.build(vectors)
    before = faiss.omp_get_max_threads()
    results = []
    try:
        for threads in (1, 2):
            faiss.omp_set_num_threads(threads)
            results.append(index.search(asked, 25))
            parts = [index.search(one[None], 25) for one in asked]
            results.append(tuple(np.concatenate(part) for part in zip(*parts, strict=True)))
    finally:
        faiss.omp_set_num_threads(before)
    for scores, ids in results[1:]:
        assert (ids == results[0][1]).all()
        np.testing.assert_allclose(scores, results[0][0], atol=1e-6)


def test_nothing_is_copied_and_float16_stays(tmp_path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, matrix("normal", 50, 8, "float16", 0))
    mapped = np.load(path, mmap_mode="r")
    index = Index.build(mapped)
    assert np.shares_memory(index.engine.matrix, mapped)
    assert index.engine.matrix.dtype == np.float16


def test_ids_name_the_rows_and_break_ties() -> None:
    vectors = np.array([[1, 0], [1, 0], [0, 0], [1, 0]], np.float32)
    index = Index.build(vectors, ids=[30, 10, 20, 15])
    scores, ids = index.search([[2.0, 0.0]], 3)
    assert ids.tolist() == [[10, 15, 30]]
    assert scores.tolist() == [[1.0, 1.0, 1.0]]
    assert len(index) == 3
