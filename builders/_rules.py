"""Named splits and fixed negatives: how a rule is drawn, and how it becomes table and record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from maghub import layout, schema
from maghub.builders._source import Table, in_memory
from maghub.errors import MaghubError
from maghub.seeding import child_rng
from maghub.spec import NegativesRule, Origin, SplitRule
from maghub.splits import edge_split, fixed_negatives, random_split, split_counts, stratified_split

EDGE_FRACTIONS = (0.7, 0.1, 0.2)
NODE_FRACTIONS = (0.6, 0.2, 0.2)


@dataclass(frozen=True)
class Rule:
    """A named split: ``codes`` int8 per node or edge, indices into ``layout.SPLITS``."""

    name: str
    codes: NDArray[np.int8]
    description: str
    origin: Origin = "maghub"
    seed: int | None = None

    def spec(self, of: str) -> SplitRule:
        """The rule as ``maghub.json`` records it."""
        return SplitRule(
            name=self.name,
            of=of,  # type: ignore[arg-type]
            origin=self.origin,
            description=self.description,
            seed=self.seed,
            counts=split_counts(self.codes),
        )


@dataclass(frozen=True)
class Negatives:
    """Fixed negatives of the validation and test edges of one edge rule.

    ``edge_id``, ``query``, ``positive`` are int64 [M], ``neg`` int64 [M, K]; ``codes`` int8 [M].
    """

    name: str
    edge_split: str
    edge_id: NDArray[np.int64]
    query: NDArray[np.int64]
    positive: NDArray[np.int64]
    neg: NDArray[np.int64]
    codes: NDArray[np.int8]
    description: str
    origin: Origin = "maghub"
    seed: int | None = None

    def table(self) -> Table:
        """The config ``negatives-<name>``."""
        k = self.neg.shape[1]
        columns = {
            layout.EDGE_ID: self.edge_id,
            layout.QUERY: self.query,
            layout.POSITIVE: self.positive,
            layout.NEG: pa.FixedSizeListArray.from_arrays(pa.array(self.neg.ravel()), k),
        }
        return in_memory(
            layout.negatives_config(self.name),
            "negatives",
            schema.negatives_features(k),
            columns,
            split_names=layout.SPLITS,
            split_ids=self.codes,
            target=layout.EDGES,
        )

    def spec(self) -> NegativesRule:
        """The rule as ``maghub.json`` records it."""
        return NegativesRule(
            name=self.name,
            edge_split=self.edge_split,
            origin=self.origin,
            description=self.description,
            k=self.neg.shape[1],
            seed=self.seed,
        )


def stratified_rule(
    name: str,
    labels: NDArray[np.int64],
    seed: int,
    fractions: Sequence[float] = NODE_FRACTIONS,
    within: str = "class",
) -> Rule:
    """Our seeded node split, in these fractions within each class; unlabelled nodes unassigned."""
    codes = stratified_split(labels, fractions, child_rng(seed, "nodes", name))
    return Rule(name, codes, f"{_percent(fractions)} within each {within}", seed=seed)


def random_rule(
    name: str, labels: NDArray[np.int64], seed: int, fractions: Sequence[float] = NODE_FRACTIONS
) -> Rule:
    """Our seeded random node split over all labelled nodes."""
    codes = np.full(len(labels), layout.SPLITS.index(layout.UNASSIGNED), np.int8)
    rows = np.flatnonzero(labels >= 0)
    codes[rows] = random_split(len(rows), fractions, child_rng(seed, "nodes", name))
    return Rule(name, codes, f"{_percent(fractions)} at random", seed=seed)


def upstream_permutation(
    name: str, rows: NDArray[np.int64], ends: tuple[int, int], num_nodes: int, seed: int, text: str
) -> Rule:
    """Upstream's split by ``numpy.random.seed(seed)`` and one permutation of ``rows``.

    Args:
        name: Of the rule.
        rows: int64 [M] ids that upstream permutes; all others are unassigned.
        ends: Where train and validation end in the permutation.
        num_nodes: Nodes (or edges) N.
        seed: Upstream's seed.
        text: Where upstream does so.
    """
    codes = np.full(num_nodes, layout.SPLITS.index(layout.UNASSIGNED), np.int8)
    order = rows[np.random.RandomState(seed).permutation(len(rows))]
    for code, part in enumerate(np.split(order, ends)):
        codes[part] = code
    return Rule(name, codes, text, origin="upstream", seed=seed)


def edge_rule(
    name: str,
    src: NDArray[np.int64],
    dst: NDArray[np.int64],
    num_nodes: int,
    seed: int,
    fractions: Sequence[float] = EDGE_FRACTIONS,
) -> Rule:
    """Our seeded edge split by unordered node pair (relations and directions stay together)."""
    codes = edge_split(src, dst, num_nodes, fractions, child_rng(seed, "edges", name))
    text = f"{_percent(fractions)} of the node pairs; edges of one pair stay together"
    return Rule(name, codes, text, seed=seed)


def uniform_negatives(
    name: str,
    rule: Rule,
    src: NDArray[np.int64],
    dst: NDArray[np.int64],
    num_nodes: int,
    seed: int,
    k: int = 50,
    *,
    directed: bool = False,
) -> Negatives:
    """Our seeded negatives; in an undirected graph either end may be the query, drawn at random."""
    rng = child_rng(seed, "negatives", name)
    edge = np.flatnonzero((rule.codes > 0) & (rule.codes < len(layout.SPLITS) - 1) & (src != dst))
    flip = np.zeros(len(edge), bool) if directed else rng.random(len(edge)) < 0.5
    query = np.where(flip, dst[edge], src[edge])
    positive = np.where(flip, src[edge], dst[edge])
    try:
        neg = fixed_negatives(src, dst, num_nodes, query, k, rng)
    except ValueError as error:
        raise MaghubError(f"no {k} negatives per edge ({error})", fix="lower the number") from None
    text = "uniform nodes that are no neighbour of the query in any split"
    return Negatives(name, rule.name, edge, query, positive, neg, rule.codes[edge], text, seed=seed)


def _percent(fractions: Sequence[float]) -> str:
    return "/".join(f"{100 * fraction:g}" for fraction in fractions)
