"""NDCG, precision and recall of rankings, by ir-measures (trec_eval's arithmetic).

Binary relevance; the gain at rank r is 1/log2(r + 1), the ideal is cut at K too, precision divides
by K even where fewer were found, and every question counts the same (macro average), also one for
which nothing was found. So does the released code.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maghub.baselines.rag._data import Ints
from maghub.errors import MaghubError
from maghub.libraries import library

CUTS = (5, 10, 20, 50, 100)
KINDS = {"ndcg": "nDCG", "precision": "P", "recall": "R"}


def ranking_metrics(
    rows: Ints,
    query: Ints,
    relevant: Ints,
    cuts: Sequence[int] = CUTS,
) -> dict[str, float]:
    """``ndcg@5`` ... ``recall@100`` as fractions.

    Args:
        rows: int64 [Q, n] what was found, best first, -1 for nothing; no row twice in a question.
        query, relevant: int64 [m] each, the judgements: question and row. A row of -2 and below
            cannot be found and counts as missed.
        cuts: The Ks.

    Raises:
        MaghubError: No question, or one without any judgement.
        MissingExtra: ir-measures is not installed.
    """
    measures = library("ir_measures", "ir-measures", "rag")
    if not len(rows):
        raise MaghubError("there are no questions: nothing can be measured")
    judged = np.bincount(query, minlength=len(rows))
    if not judged.all():
        raise MaghubError(
            f"question {int(np.argmin(judged))} has no relevant triplet",
            fix="check the qrels with: maghub validate",
        )
    names = {f"{kind}@{k}": getattr(measures, own) @ k for k in cuts for kind, own in KINDS.items()}
    found = measures.calc_aggregate(list(names.values()), _qrels(query, relevant), _run(rows))
    return {name: float(found[measure]) for name, measure in sorted(names.items(), key=_order)}


def _order(item: tuple[str, object]) -> tuple[int, int]:
    kind, _, k = item[0].partition("@")
    return list(KINDS).index(kind), int(k)


def _qrels(query: Ints, relevant: Ints) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for q, row in zip(query.tolist(), relevant.tolist(), strict=True):
        found.setdefault(str(q), {})[str(row)] = 1
    return found


def _run(rows: Ints) -> dict[str, dict[str, float]]:
    """Scores that fall by one a rank: equal ones would be ordered by id."""
    width = rows.shape[1]
    return {
        str(q): {str(row): float(width - place) for place, row in enumerate(own) if row >= 0}
        for q, own in enumerate(rows.tolist())
    }
