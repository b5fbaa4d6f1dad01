"""Graphs of nearest neighbours."""

from __future__ import annotations

import numpy as np

from maghub.errors import MaghubError
from maghub.search.approximate import Kind, Options
from maghub.search.backend import Ints
from maghub.search.blocks import as_matrix
from maghub.search.index import Index, Metric
from maghub.seeding import DEFAULT_SEED

_ROWS = 1 << 16


def knn_graph(
    vectors: object,
    k: int,
    metric: Metric = "cosine",
    *,
    kind: Kind = "flat",
    options: Options | None = None,
    seed: int = DEFAULT_SEED,
    device: str = "auto",
) -> Ints:
    """Edges from the ``k`` nearest other rows of each row to it.

    Args:
        vectors: [N, D], row i is node i; a row of zeros has no neighbours and is none.
        k: How many neighbours, fewer than there are rows.
        metric: ``cosine`` or ``ip``.
        kind: ``flat`` (exact), ``ivf`` or ``hnsw``.
        options: Settings of ``ivf`` and ``hnsw``.
        seed: Seed of ``ivf``.
        device: ``auto``, ``cpu`` or ``gpu``.

    Returns:
        int64 [2, N k]: row 0 the neighbours, row 1 the nodes (messages flow from 0 to 1, as in
        ``torch_geometric``), by node, nearest first, equally near ones by id; no self loops. Fewer
        edges where rows are zeros, or an approximate index found fewer.

    Raises:
        MaghubError: As ``Index.build``, or too few vectors for ``k``.
    """
    matrix = as_matrix(vectors, "the vectors")
    index = Index.build(matrix, kind, metric, options=options, seed=seed)
    if not 1 <= k < len(index):
        raise MaghubError(
            f"{k:,} neighbours of each of {len(index):,} vectors cannot be found among the others",
            fix=f"give a k from 1 to {len(index) - 1:,}",
        )
    parts = []
    for start in range(0, len(matrix), _ROWS):
        rows = np.asarray(matrix[start : start + _ROWS])
        nodes = np.flatnonzero(rows.any(axis=1))
        if len(nodes):
            _, found = index.search(rows[nodes], k + 1, device=device)
            parts.append(_others(nodes + start, found, k))
    return np.concatenate(parts, axis=1)


def _others(nodes: Ints, found: Ints, k: int) -> Ints:
    """int64 [2, E]: the first k of each row of ``found`` that are not the node itself."""
    own = found == nodes[:, None]
    own[~own.any(axis=1), -1] = True  # it is not among them: then the last is one too many
    others = found[~own].reshape(len(nodes), k)
    edges = np.stack([others, np.broadcast_to(nodes[:, None], others.shape)])
    return edges[:, others >= 0].reshape(2, -1)
