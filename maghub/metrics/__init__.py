"""Metrics of all tasks: numpy arrays (or texts) in, a float out, each through a known library.

Classification, clustering and ranking give fractions, generation gives percent as OpenMAG's tables.
"""

from maghub.metrics.catalog import METRICS, Metric, get_metric
from maghub.metrics.classification import accuracy, macro_f1
from maghub.metrics.clustering import ari, clustering_accuracy, nmi
from maghub.metrics.generation import (
    bleu4,
    cider,
    clip_score,
    clip_score_of,
    dinov2_score,
    dinov2_score_of,
    rouge_l,
)
from maghub.metrics.ranking import Ties, hits_at_k, mrr, ranks

__all__ = [
    "METRICS",
    "Metric",
    "Ties",
    "accuracy",
    "ari",
    "bleu4",
    "cider",
    "clip_score",
    "clip_score_of",
    "clustering_accuracy",
    "dinov2_score",
    "dinov2_score_of",
    "get_metric",
    "hits_at_k",
    "macro_f1",
    "mrr",
    "nmi",
    "ranks",
    "rouge_l",
]
