"""GAT and GATv2: attention weights, static and dynamic ranking, Velickovic's network."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F
from torch_geometric.nn import GATConv
from torch_geometric.utils import scatter

from tests.baselines.models.cases import NODES, build, features, messy, ring


@pytest.mark.parametrize("name", ["gat", "gatv2"])
def test_attention_sums_to_one_for_every_node_and_head(name: str) -> None:
    model = build(name).eval()
    for conv in model.stack.convs:
        x = torch.randn(NODES, conv.in_channels)
        _, (edges, alpha) = conv(x, messy(), return_attention_weights=True)
        total = scatter(alpha, edges[1], dim=0, dim_size=NODES, reduce="sum")
        torch.testing.assert_close(total, torch.ones(NODES, conv.heads))


@pytest.mark.parametrize("name", ["gat", "gatv2"])
def test_equal_features_get_equal_attention(name: str) -> None:
    conv = build(name).eval().stack.convs[0]
    edges, alpha = conv(torch.ones(NODES, 12), ring(), return_attention_weights=True)[1]
    degree = torch.bincount(edges[1], minlength=NODES)
    torch.testing.assert_close(alpha, (1 / degree[edges[1]])[:, None].expand(-1, conv.heads))


QUERIES_AND_KEYS = torch.tensor([[10.0, -10], [-10, 10], [1, 0], [0, 1]])
ASKED = torch.tensor([[2, 3, 2, 3], [0, 0, 1, 1]])  # keys 2 and 3 to query 0, then to query 1


def ranking(conv: torch.nn.Module, x: torch.Tensor) -> list[bool]:
    """For both queries, whether key 2 gets more attention than key 3."""
    alpha = conv(x, ASKED, return_attention_weights=True)[1][1]
    return [bool(alpha[0, 0] > alpha[1, 0]), bool(alpha[2, 0] > alpha[3, 0])]


def test_gatv2_ranks_neighbours_by_the_node_that_asks() -> None:
    conv = build("gatv2", {"text": 2}, hidden=2, heads=1).eval().stack.convs[0]
    for lin in (conv.lin_l, conv.lin_r):
        torch.nn.init.eye_(lin.weight)
        torch.nn.init.zeros_(lin.bias)
    torch.nn.init.ones_(conv.att)
    # Query 0: 11 - .2 * 10 = 9 against 10 - .2 * 9 = 8.2; query 1 the other way round.
    assert ranking(conv, QUERIES_AND_KEYS) == [True, False]
    alpha = conv(QUERIES_AND_KEYS, ASKED, return_attention_weights=True)[1][1]
    assert (alpha[0] / alpha[1]).log().item() == pytest.approx(9 - 8.2, abs=1e-5)


def test_gat_ranks_them_the_same_for_all() -> None:
    for seed in range(20):
        conv = build("gat", {"text": 2}, hidden=2, heads=1, seed=seed).eval().stack.convs[0]
        first, second = ranking(conv, QUERIES_AND_KEYS)
        assert first == second


def test_gat_with_his_settings_is_velickovics_network() -> None:
    drop = dict.fromkeys(("dropout", "input_dropout", "attention_dropout"), 0.6)
    model = build("gat", out=7, hidden=8, heads=8, layers=2, activation="elu", **drop)
    first, last = GATConv(12, 8, heads=8, dropout=0.6), GATConv(64, 7, heads=1, dropout=0.6)
    for own, peer in zip(model.stack.convs, (first, last), strict=True):
        peer.load_state_dict(own.state_dict())
    x, edges = torch.cat(list(features().values()), dim=1), messy()
    for training in (True, False):
        model.train(training), first.train(training), last.train(training)
        torch.manual_seed(0)
        hidden = F.elu(first(F.dropout(x, 0.6, training), edges))
        expected = last(F.dropout(hidden, 0.6, training), edges)
        torch.manual_seed(0)
        torch.testing.assert_close(model.encode(x, edges, None), expected)


def test_openmags_gat_has_full_width_heads_and_relu() -> None:
    model = build("gat", hidden=256)
    assert [conv.heads for conv in model.stack.convs] == [3, 3, 1]
    assert [conv.in_channels for conv in model.stack.convs] == [12, 768, 768]
    assert isinstance(model.stack.activation, torch.nn.ReLU)


def test_gatv2_is_layers_with_norm_residual_and_elu() -> None:
    model = build("gatv2", dropout=0.0, attention_dropout=0.0)
    stack = model.stack
    x, edges = torch.cat(list(features().values()), dim=1), messy()
    y = F.elu(stack.norms[0](stack.convs[0](x, edges) + stack.skips[0](x)))
    y = F.elu(stack.norms[1](stack.convs[1](y, edges) + y))
    torch.testing.assert_close(model.encode(x, edges, None), model.last(y))
    assert stack.skips[0].bias is not None
    assert len(stack.skips) == 2
