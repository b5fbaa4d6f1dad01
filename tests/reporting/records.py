"""Result records as ``maghub run`` writes them, with whatever a test wants to differ."""

from __future__ import annotations

from typing import Any

from maghub.results import DatasetIdentity, RunRecord

CLIP = "clip-vit-large-patch14"
CHECKSUMS = {"nodes": "1" * 64, "edges": "2" * 64}


def record(seed: int = 0, accuracy: float = 0.5, **changes: Any) -> RunRecord:
    """A run of GCN on movies; ``dataset`` changes single fields of the dataset's identity."""
    identity = {"name": "movies", "version": "1.0.0", "split": "openmag", "checksums": CHECKSUMS}
    identity |= changes.pop("dataset", {})
    fields: dict[str, Any] = {
        "task": "node-classification",
        "model": "gcn",
        "encoders": {"text": CLIP, "image": CLIP},
        "model_settings": {"hidden": 256, "layers": 3},
        "task_settings": {"epochs": 100, "lr": 0.005},
        "metrics": {"accuracy": accuracy, "macro_f1": accuracy / 2},
        "epochs": 100,
        "epoch": 80,
        "seconds": 12.0 + seed,
        "train_seconds": 10.0 + seed,
        "parameters": 123_456,
        "peak_cpu_bytes": 2**30 + seed * 2**20,
        "versions": {"maghub": "0.1.0", "torch": "2.9.0"},
    }
    return RunRecord(dataset=DatasetIdentity(**identity), seed=seed, **{**fields, **changes})


def seeds(*values: float, **changes: Any) -> list[RunRecord]:
    """One run per value, with seeds 0, 1, ..."""
    return [record(seed, value, **changes) for seed, value in enumerate(values)]


def showcase() -> list[RunRecord]:
    """Models, two noise sweeps, a row that may not be compared, link prediction, and a GPU."""
    made: list[RunRecord] = []
    for rank, model in enumerate(("mlp", "gcn", "gat")):
        base = 0.50 + 0.02 * rank
        for share in (0.0, 0.1, 0.3, 0.5):
            for kind in ("text", "labels") if share else ("text",):
                values = [base - 0.3 * share + 0.01 * seed for seed in range(3)]
                made += seeds(*values, model=model, noise={kind: share} if share else {})
    made += seeds(0.61, 0.62, dataset={"split": "random-0"}, controls={"majority": 0.21})
    for model in ("mlp", "gcn"):
        for seed in range(3):
            score = 0.6 + 0.01 * seed
            made.append(
                record(
                    seed,
                    model=model,
                    task="link-prediction",
                    dataset={"name": "dy"},
                    task_settings={"ties": "mean"},
                    metrics={f"hits@{k}": score + k / 100 for k in (1, 3, 10)} | {"mrr": score},
                    peak_gpu_bytes=5 * 2**30,
                    device="cuda",
                )
            )
    return made
