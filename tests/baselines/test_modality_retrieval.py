"""Modality retrieval: ranks from the definition, two stages, and what is chance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maghub import layout
from maghub.baselines._task import Step
from maghub.baselines.tasks import _modality_pairs
from maghub.baselines.tasks._modality_pairs import pair_ranks
from maghub.baselines.tasks.modality_retrieval import (
    KS,
    ModalityRetrieval,
    ModalityRetrievalConfig,
    Retriever,
)
from maghub.baselines.training.loop import fit
from maghub.errors import MaghubError
from maghub.loading import load
from maghub.mag import MAG
from maghub.results import RunRecord
from maghub.running import run
from maghub.search import Index
from tests.baselines.models.cases import CONVENTIONAL, build
from tests.baselines.test_permutation import renumbered
from tests.helpers.graphs import write_toy
from tests.helpers.paired import paired, pairs_toy
from tests.helpers.planted import ENCODER

TASK = "modality-retrieval"
SMALL = {"hidden": 16, "epochs": 30, "batch_size": None, "lr": 0.01, "dropout": 0}
SMALL |= {"stage2_epochs": 30, "stage2_lr": 0.01, "stage2_batch_size": None}


@pytest.fixture(scope="module")
def mag(tmp_path_factory: pytest.TempPathFactory) -> MAG:
    return paired(tmp_path_factory.mktemp("pairs") / "toy")


def retrieval(folder: Path, model: str = "mlp", **options: Any) -> RunRecord:
    given = {name: options.pop(name, None) for name in ("noise", "preset", "work")}
    chosen = {**SMALL, "layers": 2 if model == "revgat" else 1, **options}
    (record,) = run(model, folder, TASK, encoder=ENCODER, seeds=1, settings=chosen, **given)
    return record


def task_of(mag: MAG, **config: Any) -> ModalityRetrieval:
    return ModalityRetrieval(mag, ENCODER, ModalityRetrievalConfig(**config))


def trained(task: ModalityRetrieval, model: str = "mlp") -> Retriever:
    step = task.step(build(model, task.features.dims, dropout=0))
    for stage, module in task.stages(step):
        fit(stage, module)
    return step


@pytest.mark.parametrize("model", CONVENTIONAL)
def test_all_conventional_models_find_the_other_modality(mag: MAG, model: str) -> None:
    record = retrieval(mag.folder, model)
    for name in ("t2i", "i2t"):
        assert record.metrics[f"{name}_mrr"] > 3 * record.controls["random_mrr"]
        hits = [record.metrics[f"{name}_hits@{k}"] for k in (1, 3, 5, 10, 20)]
        assert hits == sorted(hits)
        assert hits[3] > 2 * record.controls["random_hits@10"]
    assert "the 45 nodes of split test" in record.notes[1]


@pytest.mark.parametrize("model", ["mlp", "gcn"])
def test_shuffled_pairs_are_at_chance(mag: MAG, model: str) -> None:
    """Texts that belong to other nodes, in training and in test.

    Ranks of 45 texts among 45 images are then uniform on 1..45: 1/rank has mean 0.0977 and
    deviation at most sqrt(pi^2 / 6 / 45 - 0.0977^2) = 0.164, over 45 texts 0.0245; the mean of both
    directions deviates no more. A hit among ten has probability 10/45, deviation 0.062. Four
    deviations are allowed.
    """
    record = retrieval(mag.folder, model, noise={"text": 1.0})
    assert abs(record.metrics["mrr"] - record.controls["random_mrr"]) < 4 * 0.0245
    for name in ("t2i", "i2t"):
        assert abs(record.metrics[f"{name}_hits@10"] - 10 / 45) < 4 * 0.062


def brute_force(queries: np.ndarray, candidates: np.ndarray, places: list[int]) -> list[float]:
    """Mean of optimistic and pessimistic rank by cosine, one query and one candidate at a time."""
    found = []
    for query, place in zip(queries.astype(np.float64), places, strict=True):
        scores = []
        for candidate in candidates.astype(np.float64):
            length = np.sqrt(query @ query) * np.sqrt(candidate @ candidate)
            scores.append(round(query @ candidate / length, 9) if length else 0.0)
        better = sum(score > scores[place] for score in scores)
        equal = sum(score == scores[place] for score in scores)
        found.append(((1 + better) + (better + equal)) / 2)
    return found


@pytest.mark.parametrize("candidates", ["split", "all"])
def test_metrics_equal_brute_force(mag: MAG, candidates: str) -> None:
    task = task_of(mag, candidates=candidates, epochs=5, stage2_epochs=5)
    step = trained(task, "gcn")
    found = task.evaluate(step, layout.TEST)
    assert step.towers is not None
    with torch.no_grad():
        text, image = (side.numpy() for side in step.towers.sides(*task.represent(step)))
    ids = mag.splits()[layout.TEST]
    among = ids if candidates == "split" else np.arange(mag.num_nodes)
    places = [among.tolist().index(node) for node in ids.tolist()]
    means = []
    for name, asked, shown in (("t2i", text, image), ("i2t", image, text)):
        ranks = brute_force(asked[ids], shown[among], places)
        means.append(np.mean([1 / rank for rank in ranks]))
        assert found[f"{name}_mrr"] == pytest.approx(means[-1], abs=1e-12)
        for k in KS:
            assert found[f"{name}_hits@{k}"] == np.mean([rank <= k for rank in ranks])
    assert found["mrr"] == pytest.approx(np.mean(means), abs=1e-12)


ROWS = st.lists(st.lists(st.integers(-1, 1), min_size=2, max_size=2), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(ROWS, ROWS, st.data())
def test_ranks_with_ties_and_zeros_in_any_block_size(
    queries: list[list[int]], candidates: list[list[int]], data: st.DataObject
) -> None:
    places = [data.draw(st.integers(0, len(candidates) - 1)) for _ in queries]
    wanted = brute_force(np.array(queries), np.array(candidates), places)
    size = _modality_pairs._SCORED_AT_ONCE
    try:
        for _modality_pairs._SCORED_AT_ONCE in (1, size):
            found = pair_ranks(
                torch.tensor(queries), torch.tensor(candidates), torch.tensor(places), "mean"
            )
            assert found.tolist() == wanted
    finally:
        _modality_pairs._SCORED_AT_ONCE = size


def test_ranks_agree_with_the_neighbours_that_search_finds() -> None:
    rng = np.random.default_rng(0)
    candidates = rng.standard_normal((300, 16)).astype(np.float32)
    candidates[100:110] = candidates[0]  # ties
    queries = candidates + 0.8 * rng.standard_normal(candidates.shape).astype(np.float32)
    places = torch.arange(300)
    _, top = Index.build(candidates).search(queries, 20)
    best, worst = (
        pair_ranks(torch.from_numpy(queries), torch.from_numpy(candidates), places, ties)
        for ties in ("optimistic", "pessimistic")
    )
    assert (best < worst).sum() == 11
    for place, row in enumerate(top.tolist()):
        if place in row:
            assert best[place] <= row.index(place) + 1 <= worst[place]
        else:
            assert worst[place] > 20
    for ties, rank in (("optimistic", best), ("pessimistic", worst)):
        assert np.isin(places[rank <= 20], [r for r, row in enumerate(top) if r in row]).all(), ties


def test_vectors_that_say_nothing_earn_what_chance_earns(mag: MAG) -> None:
    ones = torch.ones(mag.num_nodes, 3)
    for ties, wanted in (("mean", 1 / 23), ("optimistic", 1.0), ("pessimistic", 1 / 45)):
        assert task_of(mag, ties=ties).measure((ones, ones), layout.TEST)["mrr"] == pytest.approx(
            wanted
        )


def test_the_second_stage_trains_towers_and_leaves_the_encoder_alone(mag: MAG) -> None:
    task = task_of(mag, epochs=4, stage2_epochs=6, stage2_batch_size=16, lr=0.01)
    step = task.step(build("mlp", task.features.dims))
    stages = task.stages(step)
    first, module = next(stages)
    assert (first, module) == (task, step)
    fit(first, module)
    state = {name: value.clone() for name, value in step.state_dict().items()}
    second, towers = next(stages)
    assert second.config.epochs == 6
    assert second.config.patience == 10
    assert not {id(p) for p in towers.parameters()} & {id(p) for p in step.parameters()}
    before = {name: value.clone() for name, value in towers.state_dict().items()}
    fit(second, towers)
    assert list(stages) == []
    assert all(torch.equal(step.state_dict()[name], value) for name, value in state.items())
    assert any(not torch.equal(towers.state_dict()[name], value) for name, value in before.items())
    shapes = [tuple(p.shape) for p in towers.text.parameters() if p.dim() == 2]  # type: ignore[union-attr]
    assert shapes == [(128, step.encoder.out), (128, 128), (64, 128)]


class Killed(Exception):
    pass


@pytest.mark.parametrize("stage", [0, 1])
def test_a_run_killed_in_either_stage_goes_on_where_it_was(
    mag: MAG, tmp_path: Path, stage: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    small = {"epochs": 4, "stage2_epochs": 5, "dropout": 0.2}
    whole = retrieval(mag.folder, **small)
    calls = iter(range(2))

    def stopping(*args: Any, **options: Any) -> Any:
        def stop(epoch: int) -> None:
            if epoch == 3:
                raise Killed

        last = next(calls) == stage
        return fit(*args, **options, after_epoch=stop if last else None)

    with monkeypatch.context() as patch:
        patch.setattr("maghub.baselines.run.fit", stopping)
        with pytest.raises(Killed):
            retrieval(mag.folder, work=work, **small)
    assert len(list(work.glob("*.checkpoint"))) == stage + 1
    again = retrieval(mag.folder, work=work, **small)
    assert again.metrics == whole.metrics
    assert (again.epoch, again.epochs) == (whole.epoch, 9)
    assert not list(work.glob("*.checkpoint"))
    assert len(list(work.glob("*.csv"))) == 2


@pytest.mark.parametrize("model", ["mlp", "gcn", "graphsage"])
def test_a_permutation_of_node_ids_changes_no_metric(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = pairs_toy(90)
    toy.negatives = None
    order = np.random.default_rng(3).permutation(toy.n)
    write_toy(toy, tmp_path / "one")
    write_toy(renumbered(toy, order), tmp_path / "two")
    few = {"epochs": 3, "stage2_epochs": 3, "tower_dropout": 0, "lr": 1e-3, "stage2_lr": 1e-3}
    one, two = (retrieval(tmp_path / name, model, **few) for name in ("one", "two"))
    assert one.metrics == pytest.approx(two.metrics, abs=1e-6)


def test_controls_tell_chance_and_what_the_input_gives(tmp_path: Path) -> None:
    toy = pairs_toy(90)
    toy.vectors["text"] = toy.vectors["image"] + np.float32(0.01)
    write_toy(toy, tmp_path / "joint")
    controls = task_of(load(tmp_path / "joint")).controls()
    count = len(load(tmp_path / "joint").splits()[layout.TEST])
    assert controls["random_mrr"] == pytest.approx(sum(1 / i for i in range(1, count + 1)) / count)
    assert controls["random_hits@5"] == pytest.approx(5 / count)
    assert controls["input_mrr"] == 1.0


def test_noise_preset_and_bad_input(mag: MAG) -> None:
    noise = {"missing-text": 0.4, "image": 0.2, "edges": 0.5}
    few = {"epochs": 2, "stage2_epochs": 2}
    record = retrieval(mag.folder, "gcn", noise=noise, **few)
    assert record.noise == noise
    assert "45 test" in record.notes[0]  # what is measured stays
    few["stage2_batch_size"] = 64
    record = retrieval(mag.folder, preset="openmag-code", **few)
    assert record.task_settings["inputs"] == "all"
    with pytest.raises(MaghubError, match="unknown setting 'stage3_lr'"):
        retrieval(mag.folder, stage3_lr=1)
    with pytest.raises(MaghubError, match="setting candidates='some'"):
        retrieval(mag.folder, candidates="some")


def test_an_empty_split_has_no_metrics(mag: MAG) -> None:
    task = task_of(mag)
    task.ids[layout.VALIDATION] = task.ids[layout.VALIDATION][:0]
    step: Step = task.step(build("mlp", task.features.dims))
    assert task.evaluate(step, layout.VALIDATION) == {}
