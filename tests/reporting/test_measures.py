"""Names, units and directions of metrics, known ones and others."""

from __future__ import annotations

import pytest

from maghub.metrics import METRICS
from maghub.reporting.measures import measure


@pytest.mark.parametrize(
    ("name", "values", "title", "unit", "higher"),
    [
        ("accuracy", [0.5], "Accuracy", "%", True),
        ("hits@7", [0.5], "Hits@7", "%", True),
        ("t2i_mrr", [0.5], "T2I MRR", "%", True),
        ("i2t_hits@5", [0.5], "I2T Hits@5", "%", True),
        ("random_mrr", [0.5], "Random MRR", "%", True),
        ("ndcg@10", [0.5], "NDCG@10", "%", True),
        ("recall@100", [0.5], "Recall@100", "%", True),
        ("exact_match", [0.5], "Exact match", "%", True),
        ("cider", [44.0], "CIDEr", "", True),
        ("test_loss", [0.5], "Test loss", "", False),
        ("mean_rank", [12.0], "Mean rank", "", False),
        ("error_rate", [0.1], "Error rate", "%", False),
        ("queries_per_second", [0.5], "Queries per second", "", True),
        ("purity", [0.5, 1.0], "Purity", "%", True),
        ("density", [0.5, 3.0], "Density", "", True),
    ],
)
def test_a_metric(name: str, values: list[float], title: str, unit: str, higher: bool) -> None:
    found = measure(name, values)
    assert (found.title, found.unit, found.higher_is_better) == (title, unit, higher)
    assert found.factor == (100.0 if unit == "%" else 1.0)


def test_every_metric_of_the_catalogue_is_known() -> None:
    for name, metric in METRICS.items():
        found = measure(name, [])
        assert (found.title, found.higher_is_better) == (metric.title, metric.higher_is_better)
        assert (found.factor == 100.0) == (metric.unit == "fraction")
