"""What a run refuses: numbers beyond all limits, and numbers that training has broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from maghub import registry
from maghub.errors import MaghubError
from tests.baselines.test_hardening import SHORT, line
from tests.helpers.planted import ENCODER, planted


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("limits") / "toy"
    planted(folder, n=60)
    return folder


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden", "9" * 30),
        ("hidden", 1e12),
        ("lr", 1e308),
        ("weight_decay", 1e308),
        ("clip", "1e39"),
    ],
)
def test_numbers_are_as_large_however_they_are_written(toy: Path, name: str, value: object) -> None:
    assert f"setting {name}={value!r} is too large" in line("mlp", toy, settings={name: value})


def test_a_long_value_is_cut_and_a_rule_over_several_settings_is_said_plainly(toy: Path) -> None:
    assert "setting lr=1000" in line("mlp", toy, settings={"lr": 10**1000})
    text = line("revgat", toy, settings={"hidden": 5})
    assert text.startswith("settings: hidden 5 is no multiple of groups 2")


@pytest.mark.parametrize("noise", [{"edges": 1e300}, {"edges": 1e12}])
def test_more_spurious_edges_than_a_graph_can_have(toy: Path, noise: dict[str, float]) -> None:
    assert "noise edges=1e+" in line("mlp", toy, noise=noise)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({"noise": {"text": "x"}}, "noise.text of the run: Input should be a valid number"),
        ({"seeds": ["x"]}, "seed of the run: Input should be a valid integer"),
        ({"device": 5}, "device of the run: Input should be a valid string"),
    ],
)
def test_a_request_of_the_wrong_kind(toy: Path, asked: dict[str, object], wanted: str) -> None:
    assert wanted in line("mlp", toy, **asked)


@pytest.mark.parametrize("task", ["node-classification", "link-prediction", "node-clustering"])
def test_weights_that_the_last_step_has_broken_give_no_result(toy: Path, task: str) -> None:
    settings = {**SHORT, "epochs": 1, "batch_size": None, "lr": 1e30, "weight_decay": 1e30}
    text = line("gcn", toy, task, settings=settings)
    assert "after epoch 1 weight " in text
    assert "is not finite. Lower lr" in text


@pytest.mark.parametrize("task", ["node-classification", "link-prediction", "node-clustering"])
def test_representations_that_are_not_finite_give_no_result(
    tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mag = planted(tmp_path / "toy", n=60)
    kind = registry.get("tasks", task)
    model, own, config = kind.configs("gin", None, {"layers": 2, "hidden": 4})
    measured = kind(mag, ENCODER, config)
    step = measured.step(model(measured.features.dims, measured.width(4), own))
    for weight in step.encoder.parameters():
        weight.data.abs_().mul_(1e19)  # each weight is finite, their products are not
    with pytest.raises(MaghubError, match="representations of the trained model are not finite"):
        measured.evaluate(step, "test")
