"""FAISS, imported when first used: exact top-k on CPU or GPU, and what a GPU can do."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maghub.errors import MaghubError, MissingExtra, nearest
from maghub.search.kernels import fast_blas

DEVICES = ("auto", "cpu", "gpu")
GPU_MAX_K = 2048
"""FAISS selects at most this many results on a GPU (getMaxKSelection); IVF probes likewise."""

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@cache
def library() -> Any:
    """The module ``faiss``.

    Raises:
        MissingExtra: Neither faiss-cpu nor faiss-gpu is installed.
    """
    try:
        with fast_blas():
            import faiss
    except ImportError:
        raise MissingExtra("faiss-cpu", "faiss") from None
    return faiss


@cache
def gpu_count() -> int:
    """GPUs that FAISS can use; 0 with faiss-cpu."""
    faiss = library()
    return int(faiss.get_num_gpus()) if hasattr(faiss, "StandardGpuResources") else 0


@cache
def gpu_resources() -> Any:
    """Scratch memory and streams of the first GPU, made once."""
    return library().StandardGpuResources()


def faiss_device(device: str) -> str:
    """Where FAISS searches for a torch device: ``cpu`` keeps it off the GPU."""
    return "cpu" if device == "cpu" else "auto"


def on_gpu(device: str, k: int) -> bool:
    """Whether ``k`` results are searched for on a GPU; more than a GPU can give are not.

    Raises:
        MaghubError: Unknown device, or a GPU was asked for and there is none.
    """
    if device not in DEVICES:
        raise nearest(device, DEVICES, kind="device")
    if device == "gpu" and gpu_count() == 0:
        raise MaghubError(
            "FAISS sees no GPU here",
            fix="give cpu or auto, or install 'maghub[gpu]' in place of 'maghub[faiss]'",
        )
    return device != "cpu" and k <= GPU_MAX_K and gpu_count() > 0


def check_products(largest: NDArray[np.float64]) -> None:
    """Raise one line unless float32 can tell inner products of this size from each other.

    Args:
        largest: The largest possible product of each query.
    """
    bad = ~((largest >= 1e-30) & (largest <= 1e37))
    if bad.any():
        raise MaghubError(
            f"inner products of up to {largest[int(np.argmax(bad))]:.3g} are beyond float32",
            fix="scale the vectors or the queries, or use cosine",
        )


def top_products(queries: Floats, matrix: Floats, k: int, gpu: bool) -> tuple[Floats, Ints]:
    """The ``k`` largest inner products of each query, best first.

    Args:
        queries: float32 [Q, D].
        matrix: float32 [N, D], N >= k.
        k: How many.
        gpu: Whether to compute on the first GPU.

    Returns:
        Products float32 [Q, k] and rows int64 [Q, k]; equal products in no particular order.
    """
    faiss = library()
    if gpu:
        found = faiss.knn_gpu(
            gpu_resources(), queries, matrix, k, metric=faiss.METRIC_INNER_PRODUCT
        )
    else:
        found = faiss.knn(queries, matrix, k, metric=faiss.METRIC_INNER_PRODUCT)
    return found[0], found[1]
