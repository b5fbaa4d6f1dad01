"""Masked forms: the tail or the relation of a triplet is hidden, never the head (section 3.1).

A form (head, relation, ?) or (head, ?, tail) is one question, however many triplets answer it; its
positives are all triplets of the whole graph that have the form, whatever the filter said of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maghub import layout
from maghub.mkg.kg import Bools, Ints, KnowledgeGraph
from maghub.mkg.text import plain

TAIL, RELATION = (layout.MASKS.index(mask) for mask in (layout.MASK_TAIL, layout.MASK_RELATION))
HIDDEN = -1


@dataclass(frozen=True)
class Forms:
    """F masked forms in the order of their first triplet, tail before relation.

    Attributes:
        mask: int8 [F], ``TAIL`` or ``RELATION``.
        heads, rels, tails: int64 [F], codes in the graph; ``HIDDEN`` where masked.
        starts: int64 [F + 1]; the positives of form i are ``members[starts[i]:starts[i + 1]]``.
        members: int64, rows of triplets, ascending within a form.
        ambiguous: bool [F]: another form of the graph has the same words.
    """

    mask: NDArray[np.int8]
    heads: Ints
    rels: Ints
    tails: Ints
    starts: Ints
    members: Ints
    ambiguous: Bools

    def __len__(self) -> int:
        return len(self.mask)

    def positives(self, form: int) -> Ints:
        """Rows of the triplets that answer a form."""
        return self.members[self.starts[form] : self.starts[form + 1]]

    def take(self, chosen: Ints) -> Forms:
        """Some of the forms, in the order given."""
        sizes = np.diff(self.starts)[chosen]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        at = np.arange(starts[-1]) - np.repeat(starts[:-1] - self.starts[chosen], sizes)
        return Forms(
            self.mask[chosen],
            self.heads[chosen],
            self.rels[chosen],
            self.tails[chosen],
            starts,
            self.members[at],
            self.ambiguous[chosen],
        )


def masked_forms(graph: KnowledgeGraph, asked: Bools) -> Forms:
    """All forms of the triplets to be asked about.

    Args:
        graph: The whole graph.
        asked: bool [T], triplets that questions may be made from.
    """
    names = _name_codes(graph.entities.names)
    relations = _name_codes(graph.relations.names)
    kinds = (
        (TAIL, graph.rels, relations[graph.rels]),
        (RELATION, graph.tails, names[graph.tails]),
    )
    parts = []
    for mask, other, words in kinds:
        inverse, first = _groups(graph.heads, other)
        order = np.argsort(inverse, kind="stable")
        sizes = np.bincount(inverse, minlength=len(first))
        wanted = np.bincount(inverse[asked], minlength=len(first)) > 0
        # A picture tells its entity; asked in words, all heads of one name are one.
        pictured, spoken = (
            _shared(head, words[first]) for head in (graph.heads[first], names[graph.heads[first]])
        )
        shared = np.where(graph.pictures[graph.heads[first]] > 0, pictured, spoken)
        parts.append((mask, first, sizes, order, wanted, shared))
    return _joined(graph, parts)


def _groups(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Number of each row's pair, and the first row of each pair."""
    keys = left * (right.max(initial=0) + 1) + right
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return inverse, first


def _shared(left: Ints, right: Ints) -> Bools:
    """Which pairs occur more than once."""
    inverse, _ = _groups(left, right)
    found: Bools = np.bincount(inverse)[inverse] > 1
    return found


def _joined(
    graph: KnowledgeGraph, parts: list[tuple[int, Ints, Ints, Ints, Bools, Bools]]
) -> Forms:
    """The forms of both masks, sorted by first triplet, those nobody asks about left out."""
    mask = np.concatenate([np.full(len(first), kind, np.int8) for kind, first, *_ in parts])
    first = np.concatenate([part[1] for part in parts])
    sizes = np.concatenate([part[2] for part in parts])
    members = np.concatenate([part[3] for part in parts])
    wanted = np.concatenate([part[4] for part in parts])
    ambiguous = np.concatenate([part[5] for part in parts])
    forms = Forms(
        mask,
        graph.heads[first],
        np.where(mask == TAIL, graph.rels[first], HIDDEN),
        np.where(mask == RELATION, graph.tails[first], HIDDEN),
        np.concatenate([[0], np.cumsum(sizes)]),
        members,
        ambiguous,
    )
    order = np.lexsort((mask, first))
    return forms.take(order[wanted[order]])


def _name_codes(names: list[str]) -> Ints:
    """One number per name, equal for names that are equal in plain words (or signs)."""
    _, codes = np.unique(
        np.asarray([plain(name) or name for name in names], dtype=object), return_inverse=True
    )
    return codes.astype(np.int64)
