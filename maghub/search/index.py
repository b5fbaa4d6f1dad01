"""The index that everything uses: nearest rows of a matrix by cosine or inner product."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from maghub.errors import MaghubError, nearest
from maghub.search import approximate
from maghub.search.approximate import KINDS, Approximate, Kind, Options
from maghub.search.backend import Floats, Ints
from maghub.search.blocks import Matrix, Norms, as_matrix, measure_norms
from maghub.search.exact import Exact
from maghub.seeding import DEFAULT_SEED

Metric = Literal["cosine", "ip"]
METRICS = ("cosine", "ip")


class Index:
    """Nearest vectors, exact (``flat``) or approximate (``ivf``, ``hnsw``); made by ``build`` or
    ``open``.

    A row of zeros stands for a missing vector: it is never found.

    Attributes:
        kind: ``flat``, ``ivf`` or ``hnsw``.
        metric: ``cosine`` or ``ip`` (inner product).
        dim: Width of the vectors.
        options: Settings of an approximate index.
        seed: Seed of what is random in building it.

    Example:
        >>> index = Index.build(np.eye(3, dtype=np.float32))
        >>> scores, ids = index.search(np.array([[2.0, 1.0, 0.0]]), k=2)
        >>> ids.tolist()
        [[0, 1]]
    """

    def __init__(
        self,
        engine: Exact | Approximate,
        ids: Ints | None,
        kind: Kind,
        metric: Metric,
        dim: int,
        options: Options,
        seed: int,
    ) -> None:
        self.engine, self.ids = engine, ids
        self.kind, self.metric, self.dim = kind, metric, dim
        self.options, self.seed = options, seed

    @classmethod
    def build(
        cls,
        vectors: object,
        kind: Kind = "flat",
        metric: Metric = "cosine",
        ids: object = None,
        *,
        options: Options | None = None,
        seed: int = DEFAULT_SEED,
    ) -> Index:
        """An index of the rows of a matrix.

        ``flat`` uses the matrix where it lies: nothing is copied of a float16 or float32 array, a
        ``FeatureView`` or a memory map.

        Args:
            vectors: [N, D] real numbers; float16 and float32 are kept, others become float32.
            kind: ``flat``, ``ivf`` or ``hnsw``.
            metric: ``cosine`` or ``ip``.
            ids: int64 [N] distinct names of the rows; None: 0..N-1.
            options: Settings of ``ivf`` and ``hnsw``.
            seed: Seed of ``ivf``.

        Raises:
            MaghubError: NaN or infinity, only rows of zeros, ids that are no names of the rows,
                unknown kind or metric, or faiss is not installed.
        """
        if kind not in KINDS:
            raise nearest(str(kind), KINDS, kind="kind of index")
        if metric not in METRICS:
            raise nearest(str(metric), METRICS, kind="metric")
        matrix = as_matrix(vectors, "the vectors")
        names = None if ids is None else _names(ids, len(matrix))
        if names is not None and (np.diff(names) < 0).any():  # ties are broken by id
            order = np.argsort(names)
            matrix, names = np.ascontiguousarray(matrix[order]), names[order]
        norms = measure_norms(matrix, "the vectors")
        if not norms.any():
            raise MaghubError("no vector is other than zero", fix="give rows to find")
        engine: Exact | Approximate
        if kind == "flat":
            engine, chosen = Exact(matrix, norms, cosine=metric == "cosine"), Options()
        else:
            engine, chosen = _approximate(matrix, norms, kind, metric, options, seed)
            if not norms.all():
                live = np.flatnonzero(norms)
                names = live if names is None else names[live]
        return cls(engine, names, kind, metric, matrix.shape[1], chosen, seed)

    def __len__(self) -> int:
        """How many vectors can be found."""
        return self.engine.size

    def __repr__(self) -> str:
        return f"Index({self.kind}, {self.metric}: {len(self):,} x {self.dim})"

    def search(self, queries: object, k: int, *, device: str = "auto") -> tuple[Floats, Ints]:
        """The ``k`` nearest of each query, best first; equal scores in order of id.

        ``flat`` gives the ranking of float64 brute force over the stored values, products that
        agree to nine digits counting as equal. A GPU is used where FAISS sees one and ``k`` is
        small enough for it (2,048); otherwise the same search runs on the CPU.

        Args:
            queries: [Q, D] real numbers, read as float32.
            k: 1 to ``len(self)``.
            device: ``auto``, ``cpu`` or ``gpu``.

        Returns:
            Scores float32 [Q, k] and ids int64 [Q, k]. Where an approximate index found fewer than
            k, the id is -1 and the score -inf.

        Raises:
            MaghubError: Wrong width, NaN or infinity, a query of zeros, k out of range, or inner
                products that float32 cannot hold.
        """
        self.check_k(k)
        wanted = self._checked(queries)
        scores, rows = self.engine.search(wanted, int(k), device)
        if self.ids is None:
            return scores, rows
        return scores, np.where(rows < 0, -1, self.ids[rows])

    def check_k(self, k: int) -> None:
        """Raise one line unless so many neighbours can be found."""
        if not 1 <= k <= len(self):
            raise MaghubError(
                f"{k:,} neighbours cannot be found among {len(self):,} vectors",
                fix=f"give a k from 1 to {len(self):,}",
            )

    def _checked(self, queries: object) -> Floats:
        array = as_matrix(queries, "the queries")
        if array.shape[1] != self.dim:
            raise MaghubError(
                f"the queries are {array.shape[1]} wide, the vectors of the index {self.dim}",
                fix="encode them with the encoder of the index",
            )
        found: Floats = np.ascontiguousarray(array, dtype=np.float32)
        norms = measure_norms(found, "the queries")
        if not norms.all():
            first = int(np.argmin(norms > 0))
            raise MaghubError(
                f"row {first} of the queries is all zeros, which has no direction",
                fix="leave out rows that have no vector",
            )
        return found

    def save(self, folder: str | Path) -> Path:
        """Write the index into a folder: FAISS's own file, and ``index.json`` with checksums.

        Raises:
            MaghubError: The disk refuses.
        """
        from maghub.search.storage import save

        return save(self, Path(folder))

    @classmethod
    def open(cls, folder: str | Path) -> Index:
        """Open a saved index, its vectors memory-mapped.

        Raises:
            MaghubError: There is none, or its files are not those that were saved.
        """
        from maghub.search.storage import opened

        return opened(Path(folder))


def _approximate(
    matrix: Matrix, norms: Norms, kind: Kind, metric: Metric, options: Options | None, seed: int
) -> tuple[Approximate, Options]:
    chosen = options or Options()
    if kind == "ivf":
        chosen = chosen.resolved(int(np.count_nonzero(norms)))
    cosine = metric == "cosine"
    index = approximate.build(kind, matrix, norms, chosen, seed, cosine=cosine)
    return Approximate(index, chosen, cosine=cosine), chosen


def _names(ids: object, count: int) -> Ints:
    """The ids as int64, once they are known to name the rows."""
    names = np.asarray(ids)
    if names.shape != (count,) or names.dtype.kind not in "iu":
        shown = f"{names.dtype} of shape {list(names.shape)}"
        raise MaghubError(f"the ids are {shown}, not one integer per row ({count:,})")
    found = names.astype(np.int64)
    if found.min() < 0 or len(np.unique(found)) != count:
        raise MaghubError("the ids are not distinct numbers from 0", fix="give each row its own")
    return found
