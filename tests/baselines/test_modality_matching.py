"""Modality matching: which pairs are false, what is learnt, and what is chance."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maghub import layout, registry
from maghub.baselines.sampling import Shard
from maghub.baselines.tasks.modality_matching import (
    ModalityMatching,
    ModalityMatchingConfig,
    best_threshold,
    draw_false,
)
from maghub.errors import MaghubError
from maghub.loading import load
from maghub.mag import MAG
from maghub.results import RunRecord
from maghub.running import run
from tests.baselines.models.cases import CONVENTIONAL, build
from tests.helpers.graphs import write_toy
from tests.helpers.paired import paired, pairs_toy
from tests.helpers.planted import ENCODER

TASK = "modality-matching"
SMALL = {"hidden": 16, "layers": 1, "epochs": 40, "batch_size": None, "lr": 0.01, "dropout": 0}


@pytest.fixture(scope="module")
def mag(tmp_path_factory: pytest.TempPathFactory) -> MAG:
    return paired(tmp_path_factory.mktemp("pairs") / "toy")


def matching(mag: MAG, model: str = "mlp", **options: Any) -> RunRecord:
    noise = options.pop("noise", None)
    preset = options.pop("preset", None)
    chosen = {**SMALL, **options}
    (record,) = run(
        model,
        mag.folder,
        TASK,
        encoder=ENCODER,
        seeds=1,
        settings=chosen,
        noise=noise,
        preset=preset,
    )
    return record


def task_of(mag: MAG, seed: int = 0, **config: Any) -> ModalityMatching:
    return ModalityMatching(mag, ENCODER, ModalityMatchingConfig(**config), seed=seed)


@pytest.mark.parametrize("model", CONVENTIONAL)
def test_all_conventional_models_learn_which_belong_together(mag: MAG, model: str) -> None:
    record = matching(mag, model, layers=2 if model == "revgat" else 1)
    assert record.metrics["mrr"] > 5 * record.controls["random_mrr"]
    assert record.metrics["accuracy"] > 0.75
    assert record.dataset.split == "public"


@pytest.mark.parametrize("model", ["mlp", "gcn"])
def test_shuffled_pairs_are_at_chance(mag: MAG, model: str) -> None:
    """Texts that belong to other nodes, in training and in test.

    Ranks are then uniform on 1..151: 1/rank has mean 0.037 and deviation at most
    sqrt(pi^2 / 6 / 151) = 0.104, over 45 texts 0.0156. The accuracy of 45 true and 45 false pairs
    has mean 0.5 and deviation at most 0.5 / sqrt(45) = 0.075. Four deviations are allowed.
    """
    record = matching(mag, model, noise={"text": 1.0})
    assert record.noise == {"text": 1.0}
    assert record.metrics["mrr"] < record.controls["random_mrr"] + 4 * 0.0156
    assert abs(record.metrics["accuracy"] - 0.5) < 4 * 0.075


def test_with_both_modalities_on_each_side_shuffled_pairs_are_found_too(mag: MAG) -> None:
    """Why each side sees its own modality unless asked: the released wiring cannot fail."""
    record = matching(mag, noise={"text": 1.0}, inputs="all")
    assert record.metrics["mrr"] > 0.9


def test_false_pairs_are_fixed_and_never_true(mag: MAG, tmp_path: Path) -> None:
    for split in (layout.VALIDATION, layout.TEST):
        query, others = task_of(mag, 0, ranked=7).negatives(split)
        assert torch.equal(others, task_of(mag, 5, ranked=7).negatives(split)[1])
        assert set(query.tolist()) == set(mag.splits()[split].tolist())
        assert set(others.ravel().tolist()) <= set(query.tolist())
        assert not (others == query[:, None]).any()
    toy = pairs_toy()
    # Texts of three nodes are equal, and images of two: their cross pairs are true as well.
    test = mag.splits()[layout.TEST]
    toy.vectors["text"][test[:3]] = toy.vectors["text"][test[0]]
    toy.vectors["image"][test[4:6]] = toy.vectors["image"][test[4]]
    write_toy(toy, tmp_path / "twins")
    query, others = task_of(load(tmp_path / "twins"), ranked=400).negatives(layout.TEST)
    drawn = {(q, o) for q, row in zip(query.tolist(), others.tolist(), strict=True) for o in row}
    same = [set(test[:3].tolist()), set(test[4:6].tolist())]
    assert not any({q, o} <= group for q, o in drawn for group in same)
    assert len(drawn) > 0.9 * (len(test) * (len(test) - 1) - 8)


def test_a_node_without_any_false_partner_is_left_out() -> None:
    rows, partners = draw_false([np.array([0, 0, 0]), np.array([0, 1, 2])], 4, _rng())
    assert len(rows) == 0
    assert partners.shape == (0, 4)
    groups = [np.array([0, 0, 1, 2]), np.array([0, 1, 1, 1])]  # 1 has no partner but none
    rows, partners = draw_false(groups, 50, _rng())
    allowed = {i: {j for j in range(4) if all(g[i] != g[j] for g in groups)} for i in range(4)}
    assert rows.tolist() == [i for i in range(4) if allowed[i]]
    for row, drawn in zip(rows.tolist(), partners.tolist(), strict=True):
        assert set(drawn) == allowed[row]


@pytest.mark.parametrize("odd", [1, 3, 400])
def test_partners_are_found_among_the_few_that_there_are(odd: int) -> None:
    """All texts but a few are one and the same, as where a placeholder stands for them."""
    n, count = 8_000, 150
    texts = np.zeros(n, np.int64)
    texts[-odd:] = 1 + np.arange(odd)
    images = np.arange(n)
    images[:4] = n - 1  # the same picture as one of the others: no false pair of these
    begin = time.perf_counter()
    rows, partners = draw_false([texts, images], count, _rng())
    assert time.perf_counter() - begin < 10  # guessing takes minutes
    lost = set(range(4)) if odd == 1 else set()
    assert set(range(n)) - set(rows.tolist()) == lost
    own, others = np.repeat(rows, count), partners.ravel()
    assert not (texts[own] == texts[others]).any()
    assert not (images[own] == images[others]).any()
    common = own[(own >= 4) & (own < n - odd)]
    share = np.bincount(others[np.isin(own, common)], minlength=n)[n - odd :] / len(common)
    assert abs(share * odd - 1).max() < 0.25 if odd > 1 else share[0] == 1


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


SCORES = st.lists(st.integers(-4, 4), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(SCORES, SCORES)
def test_the_threshold_is_the_best_one(true: list[int], false: list[int]) -> None:
    def right(threshold: float) -> int:
        return sum(s >= threshold for s in true) + sum(s < threshold for s in false)

    found = best_threshold(np.array(true, float), np.array(false, float))
    assert right(found) == max(right(t / 2 - 0.25) for t in range(-12, 13))


def mean_rank(scores: list[float]) -> float:
    """The rank of scores[0] among all, from the definition; nine digits count."""
    own, *others = (round(score, 9) for score in scores)
    return 1 + sum(s > own for s in others) + sum(s == own for s in others) / 2


def test_metrics_equal_a_computation_pair_by_pair(mag: MAG) -> None:
    task = task_of(mag, ranked=9)
    step = task.step(build("gcn", task.features.dims)).eval()
    with torch.no_grad():
        text, image = (side.double() for side in task.represent(step))
    cosine = torch.nn.functional.cosine_similarity
    scores = {}
    for split in (layout.VALIDATION, layout.TEST):
        query, others = task.negatives(split)
        scores[split] = [
            [float(cosine(text[q], image[i], dim=0)) for i in (q, *row)]
            for q, row in zip(query.tolist(), others.tolist(), strict=True)
        ]
    known = np.array(scores[layout.VALIDATION])
    threshold = best_threshold(known[:, 0], known[:, 1])  # test has no part in it
    rows = scores[layout.TEST]
    hits = sum((r[0] >= threshold) + (r[1] < threshold) for r in rows)
    ranks = [mean_rank(row) for row in rows]
    found = task.evaluate(step, layout.TEST)
    assert found["accuracy"] == pytest.approx(hits / (2 * len(rows)))
    assert found["mrr"] == pytest.approx(np.mean([1 / r for r in ranks]))
    assert found["mean_cosine"] == pytest.approx(np.mean([r[0] for r in rows]))


def test_equal_representations_earn_what_chance_earns(mag: MAG) -> None:
    for ties, wanted in (("mean", 2 / 11), ("optimistic", 1), ("pessimistic", 1 / 10)):
        task = task_of(mag, ranked=9, ties=ties)
        ones = torch.ones(mag.num_nodes, 4)
        task.represent = lambda _, ones=ones: (ones, ones)  # type: ignore[method-assign]
        found = task.evaluate(task.step(build("mlp", task.features.dims)), layout.TEST)
        assert found["mrr"] == pytest.approx(wanted)
        assert found["accuracy"] == 0.5


def test_the_preset_of_the_released_code_takes_the_mean_cosine(mag: MAG) -> None:
    record = matching(mag, preset="openmag-code", epochs=5)
    assert next(iter(record.metrics)) == "mean_cosine"
    assert record.task_settings["inputs"] == "all"
    assert task_of(mag, score="mean-cosine").monitor == "mean_cosine"
    assert task_of(mag).monitor == "mrr"


def test_noise_damages_inputs_and_never_what_is_measured(mag: MAG) -> None:
    clean = task_of(mag)
    noise = {"missing-image": 0.5, "text": 0.3, "edges": 1.0}
    damaged = ModalityMatching(mag, ENCODER, ModalityMatchingConfig(), noise=noise)
    for split in (layout.VALIDATION, layout.TEST):
        for one, other in zip(clean.negatives(split), damaged.negatives(split), strict=True):
            assert torch.equal(one, other)
    assert damaged.edge_index.shape[1] > clean.edge_index.shape[1]
    lost = (damaged.features()["image"] == 0).all(dim=1)
    assert int(lost.sum()) == mag.num_nodes // 2
    moved = (damaged.features()["text"] != clean.features()["text"]).any(dim=1)
    assert int(moved.sum()) == round(0.3 * mag.num_nodes)
    record = matching(mag, noise=noise, epochs=2)
    assert record.noise == noise


def test_batches_cover_every_training_pair_once(mag: MAG) -> None:
    train = mag.splits()[layout.TRAIN]
    for whole in (True, False):
        task = task_of(mag, batch_size=32, whole_graph=whole, fanout=3)
        step = task.step(build("graphsage", task.features.dims))
        seen = []
        for batch in task.batches(step, 0, Shard()):
            ids = torch.arange(mag.num_nodes) if batch.n_id is None else batch.n_id
            seen += ids[batch.rows].tolist()
            assert len(batch.rows) <= 32
            step(batch)["info_nce"].backward()
        assert sorted(seen) == train.tolist()
    record = matching(mag, "graphsage", batch_size=32, whole_graph=False, fanout=3, epochs=15)
    assert record.metrics["mrr"] > 3 * record.controls["random_mrr"]


def test_each_side_sees_its_own_modality(mag: MAG) -> None:
    task = task_of(mag)
    step = task.step(build("gcn", task.features.dims)).eval()
    x = task.features()
    other = {**x, "image": x["image"].flip(0)}
    (text, image), _ = step.sides(x, task.edge_index)
    (same, changed), _ = step.sides(other, task.edge_index)
    assert torch.equal(text, same)
    assert not torch.allclose(image, changed)


@pytest.mark.parametrize("model", ["mlp", "gcn", "gat", "graphsage", "gin"])
def test_a_permutation_of_node_ids_changes_no_metric(tmp_path: Path, model: str) -> None:
    from tests.baselines.test_permutation import renumbered

    toy = pairs_toy(90)
    order = np.random.default_rng(3).permutation(toy.n)
    toy.negatives = None
    write_toy(toy, tmp_path / "one")
    write_toy(renumbered(toy, order), tmp_path / "two")
    place = torch.from_numpy(np.argsort(order))
    tasks = [task_of(load(tmp_path / name), ranked=20) for name in ("one", "two")]
    for split in (layout.VALIDATION, layout.TEST):  # drawn by number: give them their new ones
        query, others = tasks[0].negatives(split)
        tasks[1]._negatives[split] = place[query], place[others]
    steps = [task.step(build(model, task.features.dims, dropout=0)) for task in tasks]
    one, two = (t.evaluate(s, layout.TEST) for t, s in zip(tasks, steps, strict=True))
    assert one == pytest.approx(two, abs=1e-6)


def test_without_published_splits_a_seeded_one_is_drawn_and_recorded(tmp_path: Path) -> None:
    toy = replace(pairs_toy(60), codes=None)
    write_toy(toy, tmp_path / "toy")
    mag = load(tmp_path / "toy")
    sizes = {name: len(ids) for name, ids in task_of(mag).ids.items()}
    assert sizes == {"train": 36, "validation": 12, "test": 12}
    assert torch.equal(task_of(mag, 0).ids["test"], task_of(mag, 9).ids["test"])
    assert matching(mag, epochs=1).dataset.split == "seeded-60-20-20"


def test_only_nodes_with_both_modalities_count(tmp_path: Path) -> None:
    toy = pairs_toy(90)
    toy.vectors["image"][::3] = 0
    toy.vectors["text"][1] = 0
    write_toy(toy, tmp_path / "toy")
    mag = load(tmp_path / "toy")
    counted = torch.cat(list(task_of(mag).ids.values()))
    assert set(counted.tolist()) == {i for i in range(90) if i % 3 and i != 1}


def test_bad_input_is_one_line(mag: MAG, tmp_path: Path) -> None:
    with pytest.raises(MaghubError, match=r"those of image are missing.*maghub encode .*--encoder"):
        run("mlp", mag.folder, TASK, encoder=ENCODER, modalities=["text"], seeds=1)
    toy = pairs_toy(60)
    del toy.vectors["image"]
    write_toy(toy, tmp_path / "text-only")
    with pytest.raises(MaghubError, match=r"no image.*see: maghub list") as caught:
        run("mlp", tmp_path / "text-only", TASK, seeds=1)
    assert "\n" not in str(caught.value)
    toy = pairs_toy(60)
    toy.vectors["text"][::2] = 0
    toy.vectors["image"][1::2] = 0
    write_toy(toy, tmp_path / "never-both")
    with pytest.raises(MaghubError, match=r"two training nodes.*0 nodes with both.*maghub encode"):
        run("mlp", tmp_path / "never-both", TASK, encoder=ENCODER, seeds=1)
    with pytest.raises(MaghubError, match="unknown split rule"):
        matching(mag, node_rule="publik")
    with pytest.raises(MaghubError, match="is no encoder of graphs"):
        matching(mag, "copy-neighbour")


def test_registered_under_its_name() -> None:
    assert registry.get("tasks", TASK) is ModalityMatching
