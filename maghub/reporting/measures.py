"""How metrics are named and scaled in tables, known ones and those of third parties."""

from __future__ import annotations

import re
from collections.abc import Iterable

from maghub.errors import MaghubError
from maghub.metrics.catalog import get_metric
from maghub.reporting.model import Measure

_AT_K = re.compile(r"(ndcg|precision|recall|map|contains)@(\d+)")
_TITLES = {
    "ndcg": "NDCG",
    "map": "MAP",
    "contains": "Contains",
    "exact_match": "Exact match",
    "token_f1": "Token F1",
    "bleu1": "BLEU-1",
}
_ERROR = re.compile(r"(^|_)(loss|error|entropy|perplexity|rmse|mse|mae|rank|seconds)(_rate)?$")
_AMOUNT = re.compile(r"(^|_)(per_second|qps|count|tokens)$")


def measure(name: str, values: Iterable[float]) -> Measure:
    """How a metric is shown.

    Known metrics say so themselves, also behind a prefix (``t2i_mrr``). Others are shares shown in
    percent, unless their name is that of an error or an amount, or a value exceeds 1.

    Args:
        name: Name in records.
        values: All values of one table, which a share never exceeds 1 in.
    """
    known = _known(name)
    if known is not None:
        return known
    lower = _ERROR.search(name)
    rate = bool(lower and lower[3])
    beyond = any(abs(value) > 1 for value in values)
    title = name.replace("_", " ")
    title = title[:1].upper() + title[1:]
    if beyond or _AMOUNT.search(name) or (lower and not rate):
        return Measure(
            name=name, title=title, factor=1.0, unit="", digits=3, higher_is_better=not lower
        )
    return Measure(name=name, title=title, higher_is_better=not lower)


def _known(name: str) -> Measure | None:
    """A metric of the catalogue or of retrieval, with or without a prefix."""
    at = _AT_K.fullmatch(name)
    if at is not None:
        return Measure(name=name, title=f"{_TITLES.get(at[1], at[1].capitalize())}@{at[2]}")
    if name in _TITLES:
        return Measure(name=name, title=_TITLES[name])
    try:
        metric = get_metric(name)
    except MaghubError:
        prefix, _, rest = name.partition("_")
        inner = _known(rest) if rest and prefix else None
        if inner is None:
            return None
        way = prefix.upper() if len(prefix) <= 3 else prefix.capitalize()
        return inner.model_copy(update={"name": name, "title": f"{way} {inner.title}"})
    return Measure(
        name=name,
        title=metric.title,
        factor=100.0 if metric.unit == "fraction" else 1.0,
        unit="%" if metric.unit == "fraction" else "",
        higher_is_better=metric.higher_is_better,
    )
