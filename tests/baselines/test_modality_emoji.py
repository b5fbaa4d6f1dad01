"""All conventional models on text and pictures of the real emoji, a few epochs each."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import maghub
from maghub.running import run
from tests.baselines.models.cases import CONVENTIONAL

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.timeout(1800)]

ENCODER = {"text": "all-minilm-l6-v2", "image": "efficientnet-lite0"}
SHORT = {"hidden": 64, "layers": 2, "batch_size": None, "lr": 0.005, "dropout": 0.1, "epochs": 20}


@pytest.fixture(scope="module")
def emoji_both(emoji_text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled emoji with vectors of texts and pictures."""
    folder = tmp_path_factory.mktemp("both") / "emoji"
    shutil.copytree(emoji_text, folder)
    maghub.encode(folder, ENCODER["image"])
    return folder


@pytest.mark.parametrize("model", CONVENTIONAL)
def test_every_model_matches_and_retrieves(emoji_both: Path, model: str) -> None:
    matched, found = (
        run(model, emoji_both, task, encoder=ENCODER, seeds=1, settings={**SHORT, **more})[0]
        for task, more in [
            ("modality-matching", {}),
            ("modality-retrieval", {"stage2_epochs": 20, "stage2_lr": 0.003}),
        ]
    )
    assert matched.metrics["mrr"] > 1.5 * matched.controls["random_mrr"]
    assert found.metrics["mrr"] > 1.5 * found.controls["random_mrr"]


def test_shuffled_pairs_are_at_chance(emoji_both: Path) -> None:
    """The mean of 1/rank of 382 test nodes deviates by at most sqrt(pi^2 / 6) / 382 = 0.0034."""
    (record,) = run(
        "mlp",
        emoji_both,
        "modality-retrieval",
        encoder=ENCODER,
        seeds=1,
        settings={**SHORT, "stage2_epochs": 20, "stage2_lr": 0.003},
        noise={"text": 1.0},
    )
    assert abs(record.metrics["mrr"] - record.controls["random_mrr"]) < 4 * 0.0034
