"""Exact search: FAISS's brute force over blocks of rows, then a decision of close calls in float64.

FAISS sums in float32, so that equal vectors may differ in the last bits and neighbours that are
nearly equal may change places. Here results closer to each other than that error are computed again
in float64 and compared in steps of 1e-9 of the largest possible product; equal ones come in order
of their row. So the ranking is that of float64 brute force over the stored values, on every machine
and device, at FAISS's speed: few results are that close on ordinary data.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maghub.search.backend import Floats, Ints, check_products, library, on_gpu, top_products
from maghub.search.blocks import Matrix, Norms, decoded, reciprocal, row_ranges

CACHE_BYTES = 512 << 20
"""Up to this size the float32 rows stay in memory after the first search."""
MARGIN = 8
"""Results asked for beyond k, so that nearly equal ones on both sides of the cut are all seen."""
STEP = 1e-9
_QUERY_ROWS = 1 << 16
_RESULTS = 1 << 24
_WIDE_BYTES = 32 << 20


class Exact:
    """Search over all rows of a matrix that have a length.

    Args:
        matrix: [N, D] float16 or float32, used where it is.
        norms: float64 [N] lengths of the rows; rows of length 0 are never found.
        cosine: Whether to divide products by the lengths.
    """

    def __init__(self, matrix: Matrix, norms: Norms, *, cosine: bool) -> None:
        self.matrix, self.norms, self.cosine = matrix, norms, cosine
        self.live = None if norms.all() else np.flatnonzero(norms)
        self.size = int(np.count_nonzero(norms))
        self._scale = reciprocal(norms) if cosine else None
        self._largest = 1.0 if cosine else float(norms.max())
        self._cached: Floats | None = None
        self.owner: object = None  # of memory that the matrix is a view of

    def search(self, queries: Floats, k: int, device: str) -> tuple[Floats, Ints]:
        """Scores float32 [Q, k] and rows int64 [Q, k] of the k best, best first.

        Args:
            queries: float32 [Q, D] without rows of zeros.
            k: At most ``size``.
            device: ``auto``, ``cpu`` or ``gpu``.
        """
        asked = min(self.size, k + MARGIN)
        gpu = on_gpu(device, asked)
        scores = np.empty((len(queries), k), np.float32)
        rows = np.empty((len(queries), k), np.int64)
        step = max(1, min(_QUERY_ROWS, _RESULTS // asked))
        for start in range(0, len(queries), step):
            part = slice(start, start + step)
            scores[part], rows[part] = self._search(queries[part], k, asked, gpu)
        return scores, rows

    def _search(self, queries: Floats, k: int, asked: int, gpu: bool) -> tuple[Floats, Ints]:
        lengths = np.sqrt(np.einsum("ij,ij->i", queries, queries, dtype=np.float64))
        scaled = (queries / lengths[:, None]).astype(np.float32) if self.cosine else queries
        largest = self._largest * (np.ones(len(queries)) if self.cosine else lengths)
        check_products(largest)
        raw, rows = self._faiss(scaled, asked, gpu)
        scores = raw.astype(np.float64)
        # What float32 sums of D products can be wrong by, in practice.
        tolerance = largest * max(8.0, np.sqrt(self.matrix.shape[1])) * 2.0**-23
        close = -np.diff(scores, axis=1) <= tolerance[:, None]
        # Before a clear step at or after the cut everything is complete; without one it is not.
        complete, settled = np.full(len(queries), asked), np.full(len(queries), True)
        if asked > k:
            clear = ~close[:, k - 1 :]
            settled = clear.any(axis=1)
            complete[settled] = k + clear.argmax(axis=1)[settled]
        if asked == self.size:
            settled[:] = True
        self._decide(queries, lengths, largest, scores, rows, close & settled[:, None], complete)
        scores, rows = scores[:, :k], rows[:, :k]
        more = np.flatnonzero(~settled)
        if len(more):
            scores[more], rows[more] = self._wide(queries[more], lengths[more], largest[more], k)
        return scores.astype(np.float32), rows

    def _decide(
        self,
        queries: Floats,
        lengths: Norms,
        largest: Norms,
        scores: NDArray[np.float64],
        rows: Ints,
        close: NDArray[np.bool_],
        complete: Ints,
    ) -> None:
        """Put the results that are close to each other into their true order, in place.

        Args:
            queries: float32 [Q, D].
            lengths: [Q] of the queries.
            largest: [Q] the largest possible score of each.
            scores: [Q, A], best first.
            rows: [Q, A].
            close: [Q, A - 1], whether a result and the next one may have changed places.
            complete: [Q], results from there on are left alone.
        """
        beyond = np.arange(scores.shape[1]) >= complete[:, None]
        doubtful = np.zeros(scores.shape, bool)
        doubtful[:, :-1] |= close
        doubtful[:, 1:] |= close
        query, place = np.nonzero(doubtful & ~beyond)
        if not len(query):
            return
        products = self._products(queries, query, rows[query, place])
        if self.cosine:
            products /= lengths[query]
        unit = STEP * largest[query]
        scores[query, place] = np.rint(products / unit) * unit
        scores[beyond] = -np.inf
        again = np.unique(query)
        order = np.lexsort((rows[again], -scores[again]), axis=1)
        scores[again] = np.take_along_axis(scores[again], order, axis=1)
        rows[again] = np.take_along_axis(rows[again], order, axis=1)

    # -- FAISS ---------------------------------------------------------------------------------

    def _block(self, start: int, stop: int) -> tuple[Floats, Ints | None]:
        """Scaled rows ``start..stop`` that have a length, and which they are if not all."""
        rows = self.matrix[start:stop]
        scale = None if self._scale is None else self._scale[start:stop]
        found = decoded(rows, scale)
        if self.live is None:
            return found, None
        first, last = np.searchsorted(self.live, [start, stop])
        own = self.live[first:last]
        return found[own - start], own

    def _faiss(self, queries: Floats, k: int, gpu: bool) -> tuple[Floats, Ints]:
        """The k largest float32 products of each query, block by block."""
        count, width = self.matrix.shape
        if 4 * count * width <= CACHE_BYTES:
            if self._cached is None:
                self._cached = self._block(0, count)[0]
            scores, rows = top_products(queries, self._cached, k, gpu)
            return scores, rows if self.live is None else self.live[rows]
        heap = library().ResultHeap(len(queries), k, keep_max=True)
        for start, stop in row_ranges(count, width):
            block, own = self._block(start, stop)
            if len(block):
                scores, rows = top_products(queries, block, min(k, len(block)), gpu)
                heap.add_result(scores, rows + start if own is None else own[rows])
        heap.finalize()
        return heap.D, heap.I

    # -- float64 -------------------------------------------------------------------------------

    def _products(self, queries: Floats, query: Ints, rows: Ints) -> NDArray[np.float64]:
        """float64 products of pairs (query, row), rows scaled."""
        found = np.empty(len(rows), np.float64)
        step = max(1, _WIDE_BYTES // (8 * self.matrix.shape[1]))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            left = queries[query[part]].astype(np.float64)
            right = self.matrix[rows[part]].astype(np.float64)
            found[part] = np.einsum("ij,ij->i", left, right)
        return found if self._scale is None else found * self._scale[rows]

    def _wide(
        self, queries: Floats, lengths: Norms, largest: Norms, k: int
    ) -> tuple[NDArray[np.float64], Ints]:
        """Brute force in float64, for queries with more equal results than were asked for."""
        scores = np.empty((len(queries), k), np.float64)
        rows = np.empty((len(queries), k), np.int64)
        units = STEP * largest
        factor = 1.0 / ((lengths if self.cosine else 1.0) * units)
        ranges = row_ranges(len(self.matrix), self.matrix.shape[1], parts=8)
        size = ranges[0][1] + k
        step = max(1, _WIDE_BYTES // (8 * size))
        for start in range(0, len(queries), step):
            part = slice(start, start + step)
            best = self._ranks(queries[part].astype(np.float64) * factor[part, None], ranges, k)
            # A rank is steps * N - row, so that equal products prefer the lower row.
            count = len(self.matrix)
            steps = -(-best // count)
            rows[part] = steps * count - best
            scores[part] = steps * units[part, None]
        return scores, rows

    def _ranks(
        self, queries: NDArray[np.float64], ranges: list[tuple[int, int]], k: int
    ) -> NDArray[np.int64]:
        """int64 [Q, k] ranks of the best rows, best first."""
        count = len(self.matrix)
        best = np.empty((len(queries), 0), np.int64)
        for start, stop in ranges:
            own = np.arange(start, stop)
            own = own[self.norms[start:stop] > 0]
            block = self.matrix[own].astype(np.float64)
            if self._scale is not None:
                block *= self._scale[own, None]
            ranks = np.rint(queries @ block.T).astype(np.int64) * count - own
            best = np.concatenate([best, ranks], axis=1)
            if best.shape[1] > k:
                best = np.partition(best, best.shape[1] - k, axis=1)[:, -k:]
        return np.sort(best, axis=1)[:, ::-1]
