"""All metrics by name, with their unit and direction."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from maghub.errors import MaghubError, nearest
from maghub.metrics import classification, clustering, generation, ranking


@dataclass(frozen=True)
class Metric:
    """A named metric; calling it computes it.

    Attributes:
        name: Name in results.
        title: Name in tables.
        compute: The function; see its own documentation for arguments.
        takes: Its input: classes (true, predicted), ranks, texts (predicted, references) or
            vectors (two matrices, row by row).
        unit: ``fraction`` (1 is perfect) or ``percent`` (100 is; CIDEr may exceed it).
        higher_is_better: Direction.
    """

    name: str
    title: str
    compute: Callable[..., float]
    takes: Literal["classes", "ranks", "texts", "vectors"]
    unit: Literal["fraction", "percent"] = "fraction"
    higher_is_better: bool = True

    def __call__(self, *inputs: Any) -> float:
        """The value, see ``compute``."""
        return self.compute(*inputs)


def _hits(k: int) -> Metric:
    return Metric(f"hits@{k}", f"Hits@{k}", partial(ranking.hits_at_k, k=k), "ranks")


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "Accuracy", classification.accuracy, "classes"),
        Metric("macro_f1", "Macro-F1", classification.macro_f1, "classes"),
        Metric("nmi", "NMI", clustering.nmi, "classes"),
        Metric("ari", "ARI", clustering.ari, "classes"),
        Metric("clustering_accuracy", "ACC", clustering.clustering_accuracy, "classes"),
        Metric("mrr", "MRR", ranking.mrr, "ranks"),
        *map(_hits, (1, 3, 5, 10, 20)),
        Metric("bleu4", "BLEU-4", generation.bleu4, "texts", "percent"),
        Metric("rouge_l", "ROUGE-L", generation.rouge_l, "texts", "percent"),
        Metric("cider", "CIDEr", generation.cider, "texts", "percent"),
        Metric("clip_score", "CLIP-Score", generation.clip_score, "vectors", "percent"),
        Metric("dinov2_score", "DINOv2-Score", generation.dinov2_score, "vectors", "percent"),
    )
}
"""Every metric by name; ``hits@K`` exists for every K, see ``get_metric``."""


def get_metric(name: str) -> Metric:
    """The metric called ``name``, e.g. ``macro_f1`` or ``hits@7``.

    Raises:
        MaghubError: Unknown name; the nearest are given.
    """
    if name in METRICS:
        return METRICS[name]
    asked = re.fullmatch(r"hits@(\d{1,9})", name)
    if asked is None:
        raise nearest(name, METRICS, kind="metric")
    if int(asked[1]) < 1:
        raise MaghubError(f"{name} is always 0", fix="ask for hits@1 or more")
    return _hits(int(asked[1]))
