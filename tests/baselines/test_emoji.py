"""All conventional models on the real emoji graph, a few epochs each."""

from pathlib import Path

import pytest

from maghub.running import run

pytestmark = pytest.mark.integration

MODELS = ("mlp", "gcn", "gat", "graphsage", "revgat", "gin", "chebnet", "gcnii", "gatv2")
ENCODER = {"text": "all-minilm-l6-v2"}
SHORT = {"hidden": 32, "batch_size": None, "scale": "standard", "lr": 0.01, "dropout": 0.1}


@pytest.mark.parametrize("model", MODELS)
def test_every_model_learns_every_graph_task(emoji_text: Path, model: str) -> None:
    classes, links, clusters = (
        run(model, emoji_text, task, encoder=ENCODER, seeds=1, settings={**SHORT, **more})[0]
        for task, more in [
            ("node-classification", {"epochs": 25, "eval_every": 25, "modality_loss": 0}),
            ("link-prediction", {"epochs": 15, "eval_every": 15, "modality_loss": 0, "lr": 0.003}),
            ("node-clustering", {"epochs": 5, "restarts": 2}),
        ]
    )
    assert classes.metrics["accuracy"] > classes.controls["majority"] + 0.1
    assert links.metrics["mrr"] > links.controls["random_mrr"] + 0.05
    assert clusters.metrics["nmi"] > 0.05
    for record in (classes, links, clusters):
        assert record.dataset.name == "emoji"
        assert record.epochs == record.task_settings["epochs"]
