"""FAISS on a GPU gives what it gives on the CPU. Skipped, with the reason, where there is none.

Run on a machine with a GPU: pip install -e '.[baselines,gpu,test]', then pytest tests/gpu.
"""

from __future__ import annotations

import numpy as np
import pytest

from maghub.search import Index, Options, backend, blocks, exact, knn_graph
from tests.helpers.brute import nearest_rows

faiss = pytest.importorskip("faiss", reason="faiss is not installed")
if backend.gpu_count() == 0:
    pytest.skip(
        f"FAISS {faiss.__version__} sees no GPU (get_num_gpus() is 0)", allow_module_level=True
    )


def rows(n: int, d: int, seed: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)


@pytest.mark.parametrize("metric", ["cosine", "ip"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_flat_gives_the_same_neighbours(dtype: str, metric: str) -> None:
    vectors, queries = rows(20_000, 128, 0, dtype), rows(200, 128, 1)
    index = Index.build(vectors, metric=metric)
    cpu_scores, cpu = index.search(queries, 100, device="cpu")
    gpu_scores, gpu = index.search(queries, 100, device="gpu")
    assert (cpu == gpu).all()
    np.testing.assert_allclose(gpu_scores, cpu_scores, rtol=1e-4, atol=1e-4)
    _, wanted = nearest_rows(vectors, queries[:5], 100, cosine=metric == "cosine")
    assert (gpu[:5] == wanted).all()


def test_ties_are_decided_alike() -> None:
    vectors = np.random.default_rng(0).integers(0, 2, (3000, 16)).astype(np.float16)
    vectors[::10] = 0
    queries = vectors[vectors.any(axis=1)][:50].astype(np.float32)
    index = Index.build(vectors)
    assert (index.search(queries, 30, device="cpu")[1] == index.search(queries, 30)[1]).all()


def test_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, queries = rows(5000, 64, 0, "float16"), rows(50, 64, 1)
    wanted = Index.build(vectors).search(queries, 20, device="cpu")[1]
    monkeypatch.setattr(exact, "CACHE_BYTES", 0)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 18)
    assert (Index.build(vectors).search(queries, 20, device="gpu")[1] == wanted).all()


def test_more_neighbours_than_a_gpu_can_give() -> None:
    index = Index.build(rows(5000, 16, 0))
    queries = rows(4, 16, 1)
    for k in (backend.GPU_MAX_K - exact.MARGIN, backend.GPU_MAX_K, backend.GPU_MAX_K + 1, 5000):
        cpu = index.search(queries, k, device="cpu")[1]
        assert (index.search(queries, k, device="gpu")[1] == cpu).all()


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_ivf_searches_the_same_lists(dtype: str) -> None:
    """Near-equal scores may change places, so sets of neighbours are compared."""
    index = Index.build(rows(20_000, 64, 0, dtype), "ivf", options=Options(nlist=100, nprobe=20))
    queries = rows(100, 64, 1)
    cpu_scores, cpu = index.search(queries, 10, device="cpu")
    gpu_scores, gpu = index.search(queries, 10, device="gpu")
    shared = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(cpu, gpu, strict=True)])
    assert shared > 0.99
    np.testing.assert_allclose(gpu_scores, cpu_scores, atol=2e-3)


def test_hnsw_stays_on_the_cpu() -> None:
    index = Index.build(rows(500, 16, 0), "hnsw")
    assert (index.search(rows(5, 16, 1), 5)[1] >= 0).all()


def test_graphs_are_the_same() -> None:
    vectors = rows(4000, 32, 0)
    assert (knn_graph(vectors, 10, device="gpu") == knn_graph(vectors, 10, device="cpu")).all()
