"""Approximate search with FAISS: inverted lists (IVF) and navigable small worlds (HNSW).

Both store the vectors in the precision they were given in (float16 through FAISS's scalar
quantiser), divided by their lengths for cosine. float16 vectors are rounded once more by that: a
cosine is then off by at most 5e-4 (2^-11), measured 1.4e-5 root mean square at 512 dimensions.

IVF (Sivic and Zisserman 2003; Johnson et al. 2017): k-means centroids, of which the ``nprobe``
nearest lists are searched. HNSW: Malkov and Yashunin 2018, https://arxiv.org/abs/1603.09320.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from maghub.errors import MaghubError
from maghub.search.backend import (
    GPU_MAX_K,
    Floats,
    Ints,
    check_products,
    gpu_resources,
    library,
    on_gpu,
)
from maghub.search.blocks import Matrix, Norms, blocks, decoded, reciprocal
from maghub.seeding import child_rng
from maghub.spec import Model

Kind = Literal["flat", "ivf", "hnsw"]
KINDS = ("flat", "ivf", "hnsw")
_TRAINING_PER_LIST, _LEAST_PER_LIST = 64, 39


class Options(Model):
    """Settings of an approximate index; None takes a default that grows with the vectors.

    Attributes:
        nlist: IVF: number of lists; None: 4 sqrt(N), at least 39 vectors in each on average.
        nprobe: IVF: lists searched per query; None: 8, or 1 of 32 lists if that is more.
        m: HNSW: links per vector (twice as many at the bottom).
        ef_construction: HNSW: candidates while building.
        ef_search: HNSW: candidates while searching; never fewer than k.
        threads: HNSW: threads that build. More than 1 is faster and gives another graph each time.
    """

    nlist: Annotated[int | None, Field(ge=1)] = None
    nprobe: Annotated[int | None, Field(ge=1)] = None
    m: Annotated[int, Field(ge=2)] = 32
    ef_construction: Annotated[int, Field(ge=1)] = 80
    ef_search: Annotated[int, Field(ge=1)] = 64
    threads: Annotated[int, Field(ge=1)] = 1

    def resolved(self, count: int) -> Options:
        """The options of IVF for ``count`` vectors, defaults filled in."""
        most = max(1, count // _LEAST_PER_LIST)
        nlist = min(self.nlist or round(4 * np.sqrt(count)), most if self.nlist is None else count)
        nprobe = min(self.nprobe or max(8, nlist // 32), nlist)
        return self.model_copy(update={"nlist": nlist, "nprobe": nprobe})


def build(
    kind: Kind, matrix: Matrix, norms: Norms, options: Options, seed: int, *, cosine: bool
) -> Any:
    """A FAISS index of the rows that have a length, in their order.

    Equal vectors, options and seed give equal bytes (with one thread for HNSW). The rows are read
    in blocks; memory is that of the index.

    Args:
        kind: ``ivf`` or ``hnsw``.
        matrix: [N, D] float16 or float32.
        norms: float64 [N] lengths of the rows.
        options: Resolved ones.
        seed: Seed of the training sample and of k-means.
        cosine: Whether to divide the rows by their lengths.
    """
    faiss = library()
    scale = reciprocal(norms) if cosine else None
    half = matrix.dtype == np.float16
    if kind == "ivf":
        index = _ivf(matrix, norms, scale, options, seed, half=half)
    else:
        index = _hnsw(matrix.shape[1], options, half=half)
    before = faiss.omp_get_max_threads()
    if kind == "hnsw":
        faiss.omp_set_num_threads(options.threads)
    try:
        for start, rows in blocks(matrix, f"building {kind}"):
            stop = start + len(rows)
            vectors = decoded(rows, None if scale is None else scale[start:stop])
            index.add(np.ascontiguousarray(vectors[norms[start:stop] > 0]))
    finally:
        faiss.omp_set_num_threads(before)
    configure(index, options)
    return index


def _ivf(
    matrix: Matrix, norms: Norms, scale: Norms | None, options: Options, seed: int, *, half: bool
) -> Any:
    """Trained, empty lists."""
    faiss = library()
    width, product = matrix.shape[1], faiss.METRIC_INNER_PRODUCT
    assert options.nlist is not None
    coarse = faiss.IndexFlatIP(width)
    if half:
        kind = faiss.ScalarQuantizer.QT_fp16
        index = faiss.IndexIVFScalarQuantizer(coarse, width, options.nlist, kind, product, False)
    else:
        index = faiss.IndexIVFFlat(coarse, width, options.nlist, product)
    index.cp.spherical = True  # centroids on the sphere, as inner products ask for
    rng = child_rng(seed, "search", "ivf")
    index.cp.seed = int(rng.integers(1 << 31))
    live = np.flatnonzero(norms)
    size = min(len(live), options.nlist * _TRAINING_PER_LIST)
    sample = np.sort(rng.choice(live, size, replace=False))
    index.cp.min_points_per_centroid = 1  # as many lists as were asked for, without a warning
    index.train(decoded(matrix[sample], None if scale is None else scale[sample]))
    return index


def _hnsw(width: int, options: Options, *, half: bool) -> Any:
    faiss = library()
    product = faiss.METRIC_INNER_PRODUCT
    if half:
        kind = faiss.ScalarQuantizer.QT_fp16
        index = faiss.IndexHNSWSQ(width, kind, options.m, product)
    else:
        index = faiss.IndexHNSWFlat(width, options.m, product)
    index.hnsw.efConstruction = options.ef_construction
    return index


def configure(index: Any, options: Options) -> None:
    """Set what decides between speed and recall at search time."""
    if hasattr(index, "hnsw"):
        index.hnsw.efSearch = options.ef_search
    else:
        index.nprobe = options.nprobe


class Approximate:
    """Search in a FAISS index, on a GPU where the kind and the numbers allow it."""

    def __init__(self, index: Any, options: Options, *, cosine: bool) -> None:
        self.index, self.options, self.cosine = index, options, cosine
        self.size = int(index.ntotal)
        self._on_gpu: Any = None

    def search(self, queries: Floats, k: int, device: str) -> tuple[Floats, Ints]:
        """Scores float32 [Q, k] and rows int64 [Q, k], best first, equal scores by row.

        Where fewer than k were found the row is -1 and the score -inf.
        """
        if self.cosine:
            lengths = np.linalg.norm(queries.astype(np.float64), axis=1, keepdims=True)
            queries = (queries / lengths).astype(np.float32)
        scores, rows = self._chosen(k, device).search(queries, k)
        if not np.isfinite(scores[rows >= 0]).all():
            check_products(np.array([np.inf]))
        scores[rows < 0] = -np.inf
        order = np.lexsort((rows, -scores), axis=1)
        return np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1)

    def _chosen(self, k: int, device: str) -> Any:
        """The index itself or its copy on the GPU (there is none of HNSW)."""
        gpu = on_gpu(device, k)
        if hasattr(self.index, "hnsw"):
            if device == "gpu":
                raise MaghubError("HNSW runs on the CPU alone", fix="use flat or ivf, or cpu")
            return self.index
        if not gpu or (self.options.nprobe or 1) > GPU_MAX_K:
            return self.index
        if self._on_gpu is None:
            self._on_gpu = library().index_cpu_to_gpu(gpu_resources(), 0, self.index)
            self._on_gpu.nprobe = self.options.nprobe
        return self._on_gpu
