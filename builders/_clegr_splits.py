"""The random node splits of CLeGR's released code, one for each seed of the paper."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from maghub.builders._graph import Rule, upstream_permutation

SEEDS = (0, 42, 1918, 2004, 2024)
"""Appendix A.6 of the CLeGR paper."""
TEXT = "CLeGR code: numpy RandomState permutation, 60/20/20"


def clegr_rules(rows: NDArray[np.int64], num_nodes: int, more: str = "") -> Iterator[Rule]:
    """Rules ``clegr-SEED``; every loader of the code splits its list of samples in this way.

    Args:
        rows: int64 [M] nodes that the loader keeps, in its order.
        num_nodes: Nodes N; the others are unassigned.
        more: What the loader leaves out.
    """
    ends = (int(len(rows) * 0.6), int(len(rows) * (0.6 + 0.2)))
    for seed in SEEDS:
        yield upstream_permutation(f"clegr-{seed}", rows, ends, num_nodes, seed, TEXT + more)
