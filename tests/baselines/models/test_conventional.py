"""Message-passing networks against dense formulas in numpy and against PyTorch Geometric's own."""

from __future__ import annotations

from itertools import pairwise
from math import log

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.nn import models
from torch_geometric.utils import k_hop_subgraph

from maghub.baselines._model import Model
from tests.baselines.models.cases import (
    NODES,
    OUT,
    build,
    dense,
    empty,
    features,
    flat,
    messy,
    ring,
)

HIDDEN, LAYERS, WIDTH = 7, 3, 12
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def weights_of(model: nn.Module) -> dict[str, np.ndarray]:
    return {key: value.double().numpy() for key, value in model.state_dict().items()}


def encoded(model: Model, edges: Tensor, weight: Tensor | None = None) -> np.ndarray:
    with torch.no_grad():
        return model.eval()(features(), edges, weight).h.numpy()


def fused() -> np.ndarray:
    return np.concatenate([x.double().numpy() for x in features().values()], axis=1)


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def random_weights(edges: Tensor) -> np.ndarray:
    return np.random.default_rng(5).uniform(0.5, 2, edges.shape[1]).astype(np.float32)


def gcn_matrix(adjacency: np.ndarray) -> np.ndarray:
    """D^-1/2 A D^-1/2 with one loop for each node that has none."""
    adjacency = adjacency + np.diag(np.diag(adjacency) == 0).astype(float)
    scale = adjacency.sum(axis=1) ** -0.5
    return scale[:, None] * adjacency * scale


# -- dense formulas ----------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("hidden", [HIDDEN, 2 * WIDTH])  # weights before and after the sum
def test_gcn_is_the_dense_formula(hidden: int, weighted: bool) -> None:
    model, edges = build("gcn", hidden=hidden), messy()
    weight = random_weights(edges) if weighted else None
    p, x, a = weights_of(model), fused(), gcn_matrix(dense(edges, weight))
    for i in range(LAYERS):
        x = a @ x @ p[f"stack.convs.{i}.lin.weight"].T + p[f"stack.convs.{i}.bias"]
        x = relu(x) if i < LAYERS - 1 else x
    given = None if weight is None else torch.from_numpy(weight)
    np.testing.assert_allclose(encoded(model, edges, given), x, **CLOSE)


@pytest.mark.parametrize("hidden", [HIDDEN, 2 * WIDTH])
def test_graphsage_is_the_dense_formula(hidden: int) -> None:
    model, edges = build("graphsage", hidden=hidden), messy()
    p, x, a = weights_of(model), fused(), dense(edges)
    mean = a / np.maximum(a.sum(axis=1, keepdims=True), 1)
    for i in range(LAYERS):
        key = f"stack.convs.{i}."
        own, others = x @ p[key + "lin_r.weight"].T, mean @ x @ p[key + "lin_l.weight"].T
        x = own + others + p[key + "lin_l.bias"]
        x = relu(x) if i < LAYERS - 1 else x
    np.testing.assert_allclose(encoded(model, edges), x, **CLOSE)


def test_gin_is_the_dense_formula() -> None:
    model, edges = build("gin", hidden=HIDDEN, eps=0.3), messy()
    p, x, a = weights_of(model), fused(), dense(edges)
    np.fill_diagonal(a, 0)
    for i in range(LAYERS):
        key = f"stack.convs.{i}.nn.lins."
        x = 1.3 * x + a @ x
        x = relu(x @ p[key + "0.weight"].T + p[key + "0.bias"])
        x = x @ p[key + "1.weight"].T + p[key + "1.bias"]
        x = relu(x) if i < LAYERS - 1 else x
    np.testing.assert_allclose(encoded(model, edges), x, **CLOSE)


@pytest.mark.parametrize("filter_size", [1, 2, 3, 5])
def test_chebnet_is_the_dense_recurrence(filter_size: int) -> None:
    model, edges = build("chebnet", hidden=HIDDEN, filter_size=filter_size), ring()
    edges = torch.cat([edges, torch.tensor([[2], [2]])], dim=1)  # a loop, to be taken off
    half = np.random.default_rng(5).uniform(0.5, 2, (ring().shape[1]) // 2)
    weight = np.concatenate([half, half, [9.0]]).astype(np.float32)
    p, x, a = weights_of(model), fused(), dense(edges, weight)
    np.fill_diagonal(a, 0)
    degree = a.sum(axis=1)
    scale = np.divide(1, np.sqrt(degree), out=np.zeros(NODES), where=degree > 0)
    laplacian = np.eye(NODES) - scale[:, None] * a * scale
    scaled = 2 * laplacian / 2.0 - np.eye(NODES)
    for i in range(LAYERS):
        terms = [x, scaled @ x]
        while len(terms) < filter_size:
            terms.append(2 * scaled @ terms[-1] - terms[-2])
        lins = [p[f"stack.convs.{i}.lins.{k}.weight"].T for k in range(filter_size)]
        x = sum(t @ w for t, w in zip(terms, lins, strict=False)) + p[f"stack.convs.{i}.bias"]
        x = relu(x) if i < LAYERS - 1 else x
    np.testing.assert_allclose(encoded(model, edges, torch.from_numpy(weight)), x, **CLOSE)


@pytest.mark.parametrize(("alpha", "theta"), [(0.1, 0.5), (0.4, 0.0)])
def test_gcnii_is_the_dense_formula(alpha: float, theta: float) -> None:
    model, edges = build("gcnii", hidden=HIDDEN, alpha=alpha, theta=theta), messy()
    weight = random_weights(edges)
    p, a = weights_of(model), gcn_matrix(dense(edges, weight))
    x = start = relu(fused() @ p["first.weight"].T + p["first.bias"])
    for layer in range(1, 9):
        beta = log(theta / layer + 1)
        mix = (1 - beta) * np.eye(HIDDEN) + beta * p[f"convs.{layer - 1}.weight1"]
        x = relu(((1 - alpha) * a @ x + alpha * start) @ mix)
    expected = x @ p["last.weight"].T + p["last.bias"]
    np.testing.assert_allclose(encoded(model, edges, torch.from_numpy(weight)), expected, **CLOSE)


# -- PyTorch Geometric's layers with the same state: values and gradients ----------------------


class ChebStack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = (WIDTH, HIDDEN, HIDDEN, OUT)
        self.convs = nn.ModuleList(pyg.ChebConv(a, b, 3) for a, b in pairwise(widths))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        for conv in self.convs[:-1]:
            x = conv(x, edges, lambda_max=2.0).relu()
        return self.convs[-1](x, edges, lambda_max=2.0)


class GCN2Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, OUT)
        self.convs = nn.ModuleList(pyg.GCN2Conv(HIDDEN, 0.1, 0.5, i) for i in range(1, 9))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        x = start = self.first(x).relu()
        for conv in self.convs:
            x = conv(x, start, edges).relu()
        return self.last(x)


PEERS = {
    "gcn": lambda: models.GCN(WIDTH, HIDDEN, LAYERS, OUT),
    "graphsage": lambda: models.GraphSAGE(WIDTH, HIDDEN, LAYERS, OUT),
    "gin": lambda: models.GIN(WIDTH, HIDDEN, LAYERS, OUT),
    "chebnet": ChebStack,
    "gcnii": GCN2Stack,
}


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("graph", ["ring", "messy", "empty"])
def test_values_and_gradients_are_those_of_pyg(name: str, graph: str) -> None:
    edges = {"ring": ring(), "messy": messy(), "empty": empty()}[graph]
    model, peer = build(name, hidden=HIDDEN, dropout=0.0), PEERS[name]()
    state = {key.removeprefix("stack."): value for key, value in model.state_dict().items()}
    peer.load_state_dict({key: value for key, value in state.items() if "heads." not in key})
    x, own_x = (torch.cat(list(features().values()), dim=1).requires_grad_() for _ in range(2))
    if name == "gin":  # which counts loops; ours takes them off
        keep = edges[0] != edges[1]
        expected = peer(x, edges[:, keep])
    else:
        expected = peer(x, edges)
    found = model.encode(own_x, edges, None)
    torch.testing.assert_close(found, expected, **CLOSE)
    factors = torch.randn(expected.shape)
    for output in (found, expected):
        (output * factors).sum().backward()
    torch.testing.assert_close(own_x.grad, x.grad, **CLOSE)
    own = {key.removeprefix("stack."): value.grad for key, value in model.named_parameters()}
    for key, value in peer.named_parameters():
        torch.testing.assert_close(own[key], value.grad, **CLOSE)


# -- single properties -------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [(1,), (1, 2), (1, 2, 3)])
def test_gcn_leaves_a_constant_on_a_regular_graph_alone(steps: tuple[int, ...]) -> None:
    nodes = 11
    pairs = torch.tensor([[i, (i + step) % nodes] for i in range(nodes) for step in steps]).T
    edges = torch.cat([pairs, pairs.flip(0)], dim=1)
    model = build("gcn", layers=1)
    row = torch.randn(12)
    found = model.encode(row.expand(nodes, -1), edges, None)
    lin = model.stack.convs[0].lin
    torch.testing.assert_close(found, lin(row).expand(nodes, -1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("out", [5, 30])
def test_an_isolated_node_of_graphsage_is_its_own_part(out: int) -> None:
    model = build("graphsage", layers=1, out=out)
    conv = model.stack.convs[0]
    x = torch.cat(list(features().values()), dim=1)
    found = model.encode(x, ring(), None)[-1]
    torch.testing.assert_close(found, x[-1] @ conv.lin_r.weight.T + conv.lin_l.bias)


def test_sums_tell_three_neighbours_from_two_and_means_do_not() -> None:
    edges = torch.tensor([[1, 2, 3, 5, 6], [0, 0, 0, 4, 4]])
    x = torch.ones(7, 12)
    gin, sage = build("gin", layers=1), build("graphsage", layers=1)
    counted, averaged = gin.encode(x, edges, None), sage.encode(x, edges, None)
    assert (counted[0] - counted[4]).abs().max() > 1e-2
    torch.testing.assert_close(averaged[0], averaged[4])


def test_gin_without_the_node_and_without_edges_is_its_network_at_zero() -> None:
    model = build("gin", layers=1, eps=-1.0)
    found = model.encode(torch.randn(4, 12), empty(), None)
    torch.testing.assert_close(found, model.stack.convs[0].nn(torch.zeros(4, 12)))


def test_self_loops_do_not_count_twice() -> None:
    loops = torch.arange(NODES).expand(2, -1)
    x = torch.cat(list(features().values()), dim=1)
    for name in ("gcn", "gat", "revgat", "gin", "chebnet", "gcnii", "gatv2"):
        model = build(name).eval()
        with_loops = model.encode(x, torch.cat([ring(), loops], dim=1), None)
        torch.testing.assert_close(with_loops, model.encode(x, ring(), None), rtol=1e-5, atol=1e-5)


def test_the_first_chebyshev_filter_ignores_edges_and_the_second_is_minus_the_mean() -> None:
    x = torch.cat(list(features().values()), dim=1)
    one = build("chebnet", layers=1, filter_size=1)
    assert torch.equal(one.encode(x, ring(), None), one.encode(x, empty(), None))
    two = build("chebnet", layers=1, filter_size=2)
    conv = two.stack.convs[0]
    nn.init.zeros_(conv.lins[0].weight)
    adjacency = torch.from_numpy(dense(ring())).float()
    scale = adjacency.sum(1).clamp(min=1) ** -0.5
    expected = -(scale[:, None] * adjacency * scale) @ x @ conv.lins[1].weight.T
    torch.testing.assert_close(two.encode(x, ring(), None), expected, rtol=1e-5, atol=1e-6)


def test_gcnii_of_alpha_one_scales_the_start_and_theta_zero_drops_the_weights() -> None:
    x = torch.cat(list(features().values()), dim=1)
    start = build("gcnii", alpha=1.0, layers=3)
    for conv in start.convs:
        nn.init.zeros_(conv.weight1)
    x0 = start.first(x).relu()
    beta = log(0.5 / 3 + 1)  # of the last layer, counted from 1; earlier ones have no say
    expected = start.last((1 - beta) * x0)
    torch.testing.assert_close(start.eval().encode(x, ring(), None), expected)
    none = build("gcnii", theta=0.0, layers=3).eval()
    before = none.encode(x, ring(), None)
    for conv in none.convs:
        nn.init.normal_(conv.weight1)
    assert torch.equal(none.encode(x, ring(), None), before)


LOCAL = ["graphsage", "gin", "gat", "gatv2", "revgat"]  # no degrees of nodes at the rim


@pytest.mark.parametrize("name", LOCAL)
def test_a_neighbourhood_of_all_hops_gives_the_seeds_their_full_graph_output(name: str) -> None:
    model, x, edges = build(name, layers=2).eval(), features(40), ring(40)
    seeds = torch.tensor([0, 4, 39])
    nodes, inner, where, _ = k_hop_subgraph(seeds, 2, edges, relabel_nodes=True, num_nodes=40)
    assert len(nodes) < 30
    part = flat(model({key: value[nodes] for key, value in x.items()}, inner))[where]
    torch.testing.assert_close(part, flat(model(x, edges))[seeds], rtol=1e-5, atol=1e-5)
