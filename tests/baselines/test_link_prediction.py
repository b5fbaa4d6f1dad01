"""Link prediction: what may be seen while training, and how true edges are ranked."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch

from maghub import layout, registry
from maghub.baselines._model import Output
from maghub.baselines.sampling import Shard
from maghub.baselines.settings import resolve
from maghub.baselines.tasks.link_prediction import LinkPrediction, LinkPredictionConfig, Scorer
from maghub.baselines.training.loop import fit, seed_torch
from maghub.errors import MaghubError
from maghub.loading import load
from maghub.mag import MAG
from maghub.running import run
from tests.helpers.graphs import random_toy, write_toy
from tests.helpers.planted import ENCODER, communities, planted

TASK = "link-prediction"
SMALL = {"hidden": 16, "layers": 2, "epochs": 30, "lr": 0.01, "batch_size": None, "head_hidden": 16}


def task_of(mag: MAG, seed: int = 0, **settings: object) -> LinkPrediction:
    return LinkPrediction(mag, ENCODER, LinkPredictionConfig(**settings), seed=seed)  # type: ignore[arg-type]


def scorer(task: LinkPrediction, model: str = "gcn", **settings: object) -> Scorer:
    kind = registry.get("models", model)
    config, _ = resolve(kind.Config, task.Config, {"hidden": 16, "layers": 2, **settings})
    seed_torch(0, "weights")
    return task.step(kind(task.features.dims, task.width(16), config))


def undirected(edges: np.ndarray) -> set[tuple[int, int]]:
    return {(min(a, b), max(a, b)) for a, b in edges.T.tolist()}


def test_messages_flow_over_training_edges_only(tmp_path: Path) -> None:
    mag = planted(tmp_path / "toy")
    task = task_of(mag)
    splits = mag.edge_splits()
    train = undirected(mag.edge_index[:, splits[layout.TRAIN]])
    held_out = undirected(mag.edge_index[:, np.concatenate([splits["validation"], splits["test"]])])
    seen = undirected(task.edge_index.numpy())
    assert seen == train
    assert not seen & held_out  # in neither direction
    assert undirected(task.train_pairs.numpy()) == train
    for batch_size in (None, 16):
        task = task_of(mag, batch_size=batch_size, fanout=-1)
        step = scorer(task)
        for batch in task.batches(step, 0, Shard()):
            ids = torch.arange(mag.num_nodes) if batch.n_id is None else batch.n_id
            assert undirected(ids[batch.edge_index].numpy()) <= train
            assert batch.pairs is not None
            assert batch.y is not None
            positive = ids[batch.pairs[:, batch.y == 1]].numpy()
            negative = ids[batch.pairs[:, batch.y == 0]].numpy()
            assert undirected(positive) <= train
            assert not undirected(negative) & train
            assert (negative[0] != negative[1]).all()


def test_negatives_are_no_edge_of_any_split_and_are_fixed(tmp_path: Path) -> None:
    mag = planted(tmp_path / "toy")
    graph = nx.Graph(mag.edge_index.T.tolist())
    toy = communities()
    toy.negatives = None
    write_toy(toy, tmp_path / "without")
    for published, config in ((mag, {}), (load(tmp_path / "without"), {"ranked": 12})):
        first, second = task_of(published, 0, **config), task_of(published, 7, **config)
        for split in (layout.VALIDATION, layout.TEST):
            query, candidates = first.ranked(split)
            assert candidates.shape[1] == 1 + (12 if config else 20)
            for node, row in zip(query.tolist(), candidates.tolist(), strict=True):
                assert graph.has_edge(node, row[0])
                assert not any(graph.has_edge(node, other) for other in row[1:])
                assert node not in row[1:]
            again = second.ranked(split)
            assert torch.equal(query, again[0])
            assert torch.equal(candidates, again[1])


def brute_rank(scores: list[float], ties: str) -> float:
    """The rank of scores[0] among all, from the definition."""
    higher = sum(s > scores[0] for s in scores[1:])
    equal = sum(s == scores[0] for s in scores[1:])
    best, worst = 1 + higher, 1 + higher + equal
    return {"mean": (best + worst) / 2, "optimistic": best, "pessimistic": worst}[ties]


@pytest.mark.parametrize("ties", ["mean", "optimistic", "pessimistic"])
def test_metrics_equal_a_computation_edge_by_edge(tmp_path: Path, ties: str) -> None:
    task = task_of(planted(tmp_path / "toy"), ties=ties)
    step = scorer(task).eval()
    with torch.no_grad():
        for p in step.head.parameters():  # coarse scores: many ties
            p.copy_((p * 4).round() / 4)
        h = (task.encode(step).h * 2).round()
        ranks = []
        query, candidates = task.ranked(layout.TEST)
        task.encode = lambda _: Output(h)  # type: ignore[method-assign]
        for node, row in zip(query.tolist(), candidates.tolist(), strict=True):
            scores = [step.head((h[node] * h[other])[None]).item() for other in row]
            ranks.append(brute_rank(scores, ties))
        found = task.evaluate(step, layout.TEST)
    assert found["mrr"] == pytest.approx(np.mean([1 / r for r in ranks]), abs=1e-9)
    for k in (1, 3, 10):
        assert found[f"hits@{k}"] == pytest.approx(np.mean([r <= k for r in ranks]), abs=1e-9)


def test_equal_scores_earn_what_chance_earns(tmp_path: Path) -> None:
    """A model that says nothing: mean ranks give no credit, optimistic ones full credit."""
    mag = planted(tmp_path / "toy")
    scores = {}
    for ties in ("mean", "optimistic", "pessimistic"):
        task = task_of(mag, ties=ties)
        step = scorer(task).eval()
        for p in step.head.parameters():
            torch.nn.init.zeros_(p)
        scores[ties] = task.evaluate(step, layout.TEST)["mrr"]
    assert scores == {
        "mean": pytest.approx(1 / 11),
        "optimistic": 1.0,
        "pessimistic": pytest.approx(1 / 21),
    }


def test_edges_between_communities_are_found_and_random_features_are_not(tmp_path: Path) -> None:
    # An edge joins equal communities and a negative is in another one in 2 of 3 draws.
    planted(tmp_path / "toy", 0.1)
    (record,) = run("gcn", tmp_path / "toy", TASK, encoder=ENCODER, seeds=1, settings=SMALL)
    assert record.metrics["mrr"] > 1.3 * record.controls["random_mrr"]
    toy = random_toy(200, seed=3)  # edges have nothing to do with the vectors
    write_toy(toy, tmp_path / "random")
    (record,) = run(
        "mlp", tmp_path / "random", TASK, encoder="toy-encoder", seeds=1, settings=SMALL
    )
    assert record.metrics["mrr"] < record.controls["random_mrr"] + 0.15


@pytest.mark.parametrize("batch_size", [None, 64])
def test_other_validation_and_test_edges_leave_training_bit_identical(
    tmp_path: Path, batch_size: int | None
) -> None:
    toy = communities(noise=0.5)
    write_toy(toy, tmp_path / "one")
    one = load(tmp_path / "one")
    splits = one.edge_splits()
    held_out = np.concatenate([splits["validation"], splits["test"]])
    other = MAG(one.folder, one.spec)
    changed = one.edge_index.copy()
    changed[:, held_out] = changed[::-1, np.roll(held_out, 7)]
    changed[1, held_out] = (changed[0, held_out] + 1 + held_out % 5) % one.num_nodes
    other.__dict__["edge_index"] = changed
    assert undirected(changed[:, held_out]) != undirected(one.edge_index[:, held_out])
    states = []
    for mag in (one, other):
        task = task_of(
            mag, batch_size=batch_size, epochs=3, eval_every=100, lr=0.01, negatives_rule=None
        )
        task.monitor = None  # type: ignore[misc]
        step = scorer(task, dropout=0.2)
        fit(task, step)
        states.append(step.state_dict())
    for name, tensor in states[0].items():
        assert torch.equal(tensor, states[1][name]), name


def test_upstreams_negatives_are_used_where_they_belong_to_the_split(tmp_path: Path) -> None:
    mag = planted(tmp_path / "toy")
    query, candidates = task_of(mag).ranked(layout.TEST)
    published = mag.negatives()[layout.TEST]
    assert np.array_equal(query, published["query"])
    assert np.array_equal(candidates[:, 1:], published["neg"])
    with pytest.raises(MaghubError, match="unknown negatives config"):
        task_of(mag, negatives_rule="none").ranked(layout.TEST)


def test_mini_batches_learn_and_one_line_for_what_is_missing(tmp_path: Path) -> None:
    planted(tmp_path / "toy", 0.1)
    settings = {**SMALL, "batch_size": 64, "fanout": 5, "epochs": 10}
    (record,) = run(
        "graphsage", tmp_path / "toy", TASK, encoder=ENCODER, seeds=1, settings=settings
    )
    assert record.metrics["mrr"] > 1.2 * record.controls["random_mrr"]
    assert record.dataset.split == "public"
    assert "negatives-public" in record.dataset.checksums
    toy = communities(n=60)
    toy.edges, toy.negatives = [], None
    write_toy(toy, tmp_path / "edgeless")
    with pytest.raises(MaghubError, match=r"has no (training edge|edge-splits)"):
        run("mlp", tmp_path / "edgeless", TASK, encoder=ENCODER, seeds=1)
    toy = communities(n=30)
    toy.negatives = None
    write_toy(toy, tmp_path / "dense")
    with pytest.raises(MaghubError, match="non-neighbours"):
        run("mlp", tmp_path / "dense", TASK, encoder=ENCODER, seeds=1, settings={"ranked": 29})


def test_test_edges_that_training_gives_away_are_counted(tmp_path: Path) -> None:
    """A split made elsewhere may hold the other direction of an edge, or a parallel one."""
    mag = planted(tmp_path / "toy")
    assert task_of(mag).notes == []  # our own rule keeps a pair on one side
    splits = mag.edge_splits()
    leaky = MAG(mag.folder, mag.spec)
    edges = mag.edge_index.copy()
    train = edges[:, splits[layout.TRAIN]]
    test = splits[layout.TEST]
    edges[:, test[:3]] = train[::-1, :3]  # turned around
    edges[:, test[3:5]] = train[:, 3:5]  # once more
    leaky.__dict__["edge_index"] = edges
    task = task_of(leaky)
    query, candidates = task._drawn(layout.TEST)
    task._ranked = {layout.TEST: (query, candidates)}
    assert task.notes == [f"5 of {len(test)} test edges join nodes that a training edge joins"]


def test_negatives_that_cannot_be_had_are_said_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LinkPrediction, "_negatives_rule", lambda _: None)  # none is published
    task = task_of(planted(tmp_path / "toy", n=60), ranked=59)
    with pytest.raises(MaghubError, match="fewer than 59 non-neighbours"):
        scorer(task)
