"""Matrices are kept while their edges live and are what the edges say now."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from maghub.baselines.models import _adjacency
from maghub.baselines.models._adjacency import adjacency
from tests.baselines.models.cases import NODES, build, empty, features, messy

KINDS = ["gcn", "mean", "sum", "chebyshev"]


def value(kind: str, edges: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
    return adjacency(kind, edges, weight, NODES) @ torch.eye(NODES)


@pytest.mark.parametrize("kind", KINDS)
def test_a_matrix_is_made_once_per_tensor_of_edges_and_goes_with_it(kind: str) -> None:
    edges, other = messy(), messy()
    first = adjacency(kind, edges, None, NODES)
    assert adjacency(kind, edges, None, NODES) is first
    assert adjacency(kind, other, None, NODES) is not first
    gone, count = weakref.ref(first), len(_adjacency._CACHE)
    del first, edges
    gc.collect()
    assert gone() is None
    assert len(_adjacency._CACHE) == count - 1


@pytest.mark.parametrize("kind", KINDS)
def test_edges_changed_in_place_are_read_again(kind: str) -> None:
    edges = messy()
    before = value(kind, edges)
    edges[:, 0] = torch.tensor([1, 0]) if edges[0, 0] != 1 else torch.tensor([2, 0])
    assert torch.equal(value(kind, edges), value(kind, edges.clone()))
    assert not torch.equal(value(kind, edges), before)
    assert adjacency(kind, edges, None, NODES + 3) @ torch.eye(NODES + 3) is not None


def test_weights_are_told_apart_and_read_again() -> None:
    edges = messy()
    one, two = (torch.rand(edges.shape[1]) for _ in range(2))
    first = value("gcn", edges, one)
    assert not torch.equal(first, value("gcn", edges, two))
    assert torch.equal(first, value("gcn", edges, one))
    one.mul_(torch.rand(edges.shape[1]))
    assert not torch.equal(first, value("gcn", edges, one))
    assert torch.equal(value("gcn", edges), value("gcn", edges, torch.ones(edges.shape[1])))


def formula(kind: str, edges: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The matrix with dense operations that autograd follows."""
    matrix = torch.zeros(NODES, NODES).index_put((edges[1], edges[0]), weight, accumulate=True)
    if kind == "gcn":
        matrix = matrix + torch.diag((matrix.diagonal() == 0).float())
        scale = matrix.sum(dim=1) ** -0.5
        return scale[:, None] * matrix * scale
    matrix = matrix * (1 - torch.eye(NODES))
    scale = matrix.sum(dim=0).clamp(min=1e-12) ** -0.5  # degrees of sources, as PyG's Laplacian
    return -scale[:, None] * matrix * scale


@pytest.mark.parametrize("kind", ["gcn", "chebyshev"])
def test_learnt_weights_of_edges_get_gradients_in_every_step(kind: str) -> None:
    edges, x = messy(), torch.randn(NODES, 5)
    start = torch.rand(edges.shape[1]) + 0.5
    factors = torch.randn(NODES, 5)
    for _ in range(2):
        own, peer = start.clone().requires_grad_(), start.clone().requires_grad_()
        found, expected = adjacency(kind, edges, own, NODES) @ x, formula(kind, edges, peer) @ x
        torch.testing.assert_close(found, expected)
        (found * factors).sum().backward()
        (expected * factors).sum().backward()
        torch.testing.assert_close(own.grad, peer.grad)


@pytest.mark.parametrize("name", ["gcn", "chebnet", "gcnii"])
def test_weights_reach_the_layers(name: str) -> None:
    model, edges = build(name), messy()
    weight = torch.ones(edges.shape[1], requires_grad=True)
    model(features(), edges, weight).h.square().sum().backward()
    assert weight.grad.isfinite().all()
    assert weight.grad.any()


@pytest.mark.parametrize("kind", KINDS)
def test_no_edges_and_inference_tensors(kind: str) -> None:
    expected = torch.eye(NODES) if kind == "gcn" else torch.zeros(NODES, NODES)
    assert torch.equal(value(kind, empty()), expected)
    with torch.inference_mode():
        assert torch.equal(value(kind, messy()), value(kind, messy()))
