"""Metrics of short answers against gold answers (paper, 4.3): each the best over the gold ones.

Texts are compared after lower-casing, dropping punctuation and the articles a, an, the, and joining
what is left by single blanks (SQuAD's rule).
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from maghub.errors import MaghubError
from maghub.libraries import library

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
NAMES = ("exact_match", "token_f1", "contains@1", "bleu1")


def normal(text: str) -> str:
    """A text as it is compared; one of which nothing would be left, as ``A``, stays as it is.

    Example:
        >>> normal("The  United-Nations.")
        'unitednations'
    """
    lower = text.lower()
    words = _ARTICLES.sub(" ", lower.translate(_PUNCTUATION)).split()
    return " ".join(words or lower.split())


def exact_match(answer: str, gold: str) -> float:
    """1 where both are equal."""
    return float(answer == gold)


def token_f1(answer: str, gold: str) -> float:
    """Harmonic mean of precision and recall of words, each counted as often as it stands there."""
    said, wanted = answer.split(), gold.split()
    if not said or not wanted:
        return float(said == wanted)
    common = sum((Counter(said) & Counter(wanted)).values())
    return 2 * common / (len(said) + len(wanted))


def contains(answer: str, gold: str) -> float:
    """1 where the words of the gold answer stand in the answer one after the other."""
    return float(bool(gold) and f" {gold} " in f" {answer} ")


def bleu1(answer: str, gold: str) -> float:
    """BLEU of single words with the penalty on short answers, 0 to 1, by sacrebleu.

    Raises:
        MissingExtra: sacrebleu is not installed.
    """
    return min(1.0, float(_bleu().sentence_score(answer, [gold]).score) / 100)


@cache
def _bleu() -> Any:
    return library("sacrebleu.metrics", "sacrebleu", "rag").BLEU(
        max_ngram_order=1, tokenize="none", smooth_method="none", effective_order=True
    )


_COMPUTE: dict[str, Callable[[str, str], float]] = dict(
    zip(NAMES, (exact_match, token_f1, contains, bleu1), strict=True)
)


def score_answer(answer: str, gold: Sequence[str]) -> dict[str, float]:
    """All metrics of one answer.

    Args:
        answer: What was said; "" where nothing was.
        gold: At least one gold answer.

    Raises:
        MaghubError: No gold answer.
    """
    if not gold:
        raise MaghubError("there is no gold answer to compare with")
    said, wanted = normal(answer), [normal(one) for one in gold]
    return {name: max(own(said, one) for one in wanted) for name, own in _COMPUTE.items()}
