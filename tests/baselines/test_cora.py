"""Well-known results on Cora's public split, from the real files, with the papers' own settings."""

import statistics
from pathlib import Path

import pytest

import maghub
from maghub.running import run
from tests.helpers.real import linked, real

PUBLIC = {"gcn": 0.815, "gat": 0.830}  # Kipf and Welling 2017; Velickovic et al. 2018
SEEDS = 5


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("model", PUBLIC)
def test_public_results_within_a_point_and_a_half(tmp_path: Path, model: str) -> None:
    parts = sorted(real("planetoid").glob("ind.cora.*"))
    raw = linked(tmp_path / "raw", *parts, real("gnn_benchmark_npz") / "cora.npz")
    maghub.build("cora", tmp_path / "cora", raw)
    records = run(
        model,
        tmp_path / "cora",
        encoder="bag-of-words",
        preset="planetoid",
        seeds=SEEDS,
        device="cpu",
    )
    assert {record.dataset.split for record in records} == {"public"}
    mean = statistics.fmean(record.metrics["accuracy"] for record in records)
    assert mean == pytest.approx(PUBLIC[model], abs=0.015)
