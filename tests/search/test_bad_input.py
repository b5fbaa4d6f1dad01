"""Each kind of bad input is one line that says what, where and what to do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maghub.errors import MissingExtra
from maghub.search import Index, Options, backend, knn_graph
from tests.helpers.reports import refusal as line

VECTORS = np.random.default_rng(0).standard_normal((12, 4)).astype(np.float32)


def changed(value: float, row: int = 3) -> np.ndarray:
    found = VECTORS.copy()
    found[row, 1] = value
    return found


@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
@pytest.mark.parametrize(
    ("queries", "k", "text"),
    [
        (VECTORS, 13, "13 neighbours cannot be found among 12 vectors. Give a k from 1 to 12"),
        (VECTORS, 0, "Give a k from 1 to 12"),
        (np.zeros((2, 4)), 1, "row 0 of the queries is all zeros, which has no direction"),
        (changed(np.nan), 1, "row 3 of the queries is not finite (1 such rows)"),
        (changed(-np.inf), 1, "row 3 of the queries is not finite"),
        (VECTORS[:, :3], 1, "the queries are 3 wide, the vectors of the index 4"),
        (VECTORS[0], 1, "float32 of shape [4], not a matrix of numbers"),
        (VECTORS.astype(str), 1, "not a matrix of numbers"),
    ],
)
def test_queries(kind: str, queries: np.ndarray, k: int, text: str) -> None:
    index = Index.build(VECTORS, kind, options=Options(nlist=2))
    assert text in line(index.search, queries, k)


@pytest.mark.parametrize(
    ("vectors", "options", "text"),
    [
        (changed(np.nan), {}, "row 3 of the vectors is not finite"),
        (np.zeros((3, 4)), {}, "no vector is other than zero"),
        (np.zeros((0, 4)), {}, "no vector is other than zero"),
        (VECTORS.astype(complex), {}, "complex128"),
        (VECTORS, {"kind": "flatt"}, "unknown kind of index 'flatt'. Did you mean flat?"),
        (VECTORS, {"metric": "cosin"}, "Did you mean cosine?"),
        (VECTORS, {"ids": [1, 2]}, "one integer per row (12)"),
        (VECTORS, {"ids": np.zeros(12, int)}, "not distinct numbers from 0"),
        (VECTORS, {"ids": np.arange(12) - 1}, "not distinct numbers from 0"),
    ],
)
def test_building(vectors: np.ndarray, options: dict[str, Any], text: str) -> None:
    assert text in line(Index.build, vectors, **options)


def test_neighbours_of_too_few_vectors() -> None:
    text = "12 neighbours of each of 12 vectors cannot be found among the others"
    assert text in line(knn_graph, VECTORS, 12)
    assert "Give a k from 1 to 11" in line(knn_graph, VECTORS, 0)


def test_devices() -> None:
    index = Index.build(VECTORS)
    assert "unknown device 'gpus'. Did you mean gpu" in line(
        index.search, VECTORS, 1, device="gpus"
    )
    if backend.gpu_count() == 0:
        assert "FAISS sees no GPU here" in line(index.search, VECTORS, 1, device="gpu")


def test_more_than_a_gpu_can_give_goes_to_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "gpu_count", lambda: 1)
    assert backend.on_gpu("auto", backend.GPU_MAX_K)
    assert backend.on_gpu("gpu", backend.GPU_MAX_K)
    assert not backend.on_gpu("gpu", backend.GPU_MAX_K + 1)
    assert not backend.on_gpu("cpu", 1)


def test_without_faiss_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index.build(VECTORS)
    monkeypatch.setitem(sys.modules, "faiss", None)
    backend.library.cache_clear()
    try:
        with pytest.raises(MissingExtra, match=r"pip install 'maghub\[faiss\]'"):
            index.search(VECTORS, 1)
    finally:
        backend.library.cache_clear()


def test_nothing_heavy_is_imported_for_the_names() -> None:
    import subprocess

    code = (
        "import maghub, maghub.search, sys; maghub.find; "
        "assert not {'faiss', 'torch', 'transformers', 'ray'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_folder_that_holds_something_else(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    assert "holds thesis.tex, which is no index" in line(Index.build(VECTORS).save, tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "mine"
