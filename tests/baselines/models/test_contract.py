"""What every registered model must do; a new entry point is tested without a new line here."""

from __future__ import annotations

import copy
import io
from itertools import accumulate

import pytest
import torch
from pydantic import ValidationError

from maghub import registry
from maghub.baselines._model import Model
from maghub.baselines.sampling import ALL, NeighborSampler
from tests.baselines.models.cases import (
    DIMS,
    NAMES,
    NODES,
    OUT,
    build,
    empty,
    features,
    flat,
    messy,
    ring,
)
from tests.helpers.sampled import random_graph

GRAPHS = {
    "ring": (NODES, ring()),
    "messy": (NODES, messy()),
    "empty": (NODES, empty()),
    "one": (1, empty()),
    "one-loop": (1, torch.zeros(2, 1, dtype=torch.int64)),
}
pytestmark = pytest.mark.parametrize("name", NAMES)


def evaluated(model: Model, *arguments: object) -> torch.Tensor:
    model.eval()
    with torch.no_grad():
        return flat(model(*arguments))


def task_loss(model: Model, nodes: int, edges: torch.Tensor) -> torch.Tensor:
    """Something that every part of the output bears on."""
    output = model(features(nodes), edges)
    values = flat(output)
    made = torch.Generator().manual_seed(1)
    return (values * torch.randn(values.shape, generator=made)).sum() + sum(output.losses.values())


@pytest.mark.parametrize("graph", GRAPHS)
def test_shapes_and_finite_values_and_gradients(name: str, graph: str) -> None:
    nodes, edges = GRAPHS[graph]
    model = build(name)
    output = model(features(nodes), edges)
    assert output.h.shape == (nodes, OUT)
    assert set(output.modalities) <= set(DIMS)
    assert all(len(part) == nodes for part in output.modalities.values())
    assert all(loss.shape == () for loss in output.losses.values())
    loss = task_loss(model, nodes, edges)
    loss.backward()
    values = [flat(output), loss, *(p.grad for p in model.parameters() if p.grad is not None)]
    assert all(torch.isfinite(value).all() for value in values)


def test_a_permutation_of_nodes_permutes_the_output(name: str) -> None:
    model, x, edges = build(name), features(), messy()
    order = torch.randperm(NODES, generator=torch.Generator().manual_seed(2))
    moved = evaluated(model, {k: v[order] for k, v in x.items()}, order.argsort()[edges])
    torch.testing.assert_close(moved, evaluated(model, x, edges)[order], atol=1e-5, rtol=1e-5)


def test_the_order_of_edges_does_not_matter(name: str) -> None:
    model, x, edges = build(name), features(), messy()
    order = torch.randperm(edges.shape[1], generator=torch.Generator().manual_seed(3))
    shuffled = evaluated(model, x, edges[:, order])
    torch.testing.assert_close(shuffled, evaluated(model, x, edges), atol=1e-5, rtol=1e-5)


def test_weights_of_one_are_no_weights(name: str) -> None:
    model, x, edges = build(name), features(), messy()
    weighted = evaluated(model, x, edges, torch.ones(edges.shape[1]))
    torch.testing.assert_close(weighted, evaluated(model, x, edges), atol=1e-6, rtol=1e-6)


def test_evaluation_is_deterministic_and_leaves_its_input_alone(name: str) -> None:
    model, x, edges = build(name), features(), messy()
    before = copy.deepcopy(x)
    first = evaluated(model, x, edges)
    assert torch.equal(first, evaluated(model, x, edges))
    assert all(torch.equal(x[key], before[key]) for key in x)
    assert torch.equal(edges, messy())
    assert model(x, edges).losses == {}  # self-supervised losses are for training


def test_a_saved_state_and_a_copy_give_the_same_output(name: str) -> None:
    model, other, x, edges = build(name), build(name, seed=1), features(), messy()
    expected = evaluated(model, x, edges)
    assert not torch.equal(expected, evaluated(other, x, edges))
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(expected, evaluated(other, x, edges))
    assert torch.equal(expected, evaluated(copy.deepcopy(model), x, edges))


def test_every_trainable_tensor_gets_a_gradient(name: str) -> None:
    model = build(name, out=32)  # a head of few units may be dead by chance
    task_loss(model, NODES, ring()).backward()
    without = [
        key
        for key, value in model.named_parameters()
        if value.requires_grad and (value.grad is None or not value.grad.any())
    ]
    assert without == []


@pytest.mark.parametrize("fanout", [ALL, 2])
@pytest.mark.parametrize("options", [{}, {"residual": True, "norm": "layer", "layers": 4}])
def test_trimming_a_sampled_graph_changes_nothing_that_is_asked_for(
    name: str, fanout: int, options: dict[str, object]
) -> None:
    fields = registry.get("models", name).Config.model_fields
    model = build(name, **{key: value for key, value in options.items() if key in fields}).eval()
    if not model.trims:
        pytest.skip(f"{name} computes all nodes of a sampled graph")
    edges = random_graph(60, 200)
    batch = NeighborSampler(edges, 60, [fanout] * model.hops).sample(torch.tensor([4, 59, 0, 7]))
    x = {key: value[batch.n_id] for key, value in features(60).items()}
    hops = list(accumulate(batch.num_sampled_nodes))
    gradients, outputs = [], []
    for more in ({}, {"hops": hops}):
        model.zero_grad()
        out = flat(model(x, batch.edge_index, **more))[: batch.batch_size]
        (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
        outputs.append(out)
        gradients.append([p.grad for p in model.parameters()])
    assert model(x, batch.edge_index, hops=hops).h.shape == (batch.batch_size, OUT)
    torch.testing.assert_close(outputs[1], outputs[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(gradients[1], gradients[0], atol=1e-5, rtol=1e-4)


def test_modalities_go_by_name(name: str) -> None:
    model, x, edges = build(name), features(), messy()
    expected = evaluated(model, x, edges)
    backwards = dict(reversed(x.items()))
    assert torch.equal(expected, evaluated(model, backwards, edges))
    swapped = {"text": x["image"], "image": x["text"]}
    assert not torch.allclose(expected, evaluated(model, swapped, edges), atol=1e-3)
    same = {"text": x["text"], "image": x["text"].clone()}
    twice = {"text": same["image"], "image": same["text"]}
    assert torch.equal(evaluated(model, same, edges), evaluated(model, twice, edges))


def test_one_modality_is_enough(name: str) -> None:
    model = build(name, {"text": 6})
    assert evaluated(model, {"text": features()["text"]}, ring()).isfinite().all()


def test_mixed_precision_stays_finite_and_close(name: str) -> None:
    model, x, edges = build(name), features(), messy()
    expected = evaluated(model, x, edges)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = evaluated(model, x, edges).float()
        model.train()
        loss = task_loss(model, NODES, edges)
    loss.backward()
    assert (mixed - expected).abs().max() < 0.1 * expected.abs().max()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_settings_are_typed_and_printable(name: str) -> None:
    config = registry.get("models", name).Config
    assert config.model_validate_json(config().model_dump_json()) == config()
    with pytest.raises(ValidationError, match="no_such_setting"):
        config.model_validate({"no_such_setting": 1})
