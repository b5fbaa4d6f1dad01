"""RevGAT: inverse, gradients, masks, and activation memory that does not grow with depth."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from pydantic import ValidationError
from torch_geometric.nn import GATConv, GroupAddRev
from torch_geometric.utils import add_remaining_self_loops

from maghub.baselines.models.revgat import RevGAT
from tests.baselines.models.cases import NODES, build, features, messy

HELD = """
import ctypes, gc, json
import psutil, torch
from maghub.baselines.models.revgat import RevGAT

ctypes.CDLL(None).mallopt(-3, 65536)  # M_MMAP_THRESHOLD: what is freed goes back at once
process = psutil.Process()
nodes = 8_000
torch.set_num_threads(1)
torch.manual_seed(0)
edges = torch.randint(nodes, (2, nodes))
x = {"text": torch.randn(nodes, 8)}

def measure(depth, reversible):
    config = RevGAT.Config(hidden=64, layers=depth + 2, heads=1, reversible=reversible)
    model = RevGAT({"text": 8}, 4, config)
    gc.collect()
    before = process.memory_info().rss
    h = model(x, edges).h
    held = process.memory_info().rss - before
    h.sum().backward()
    return held / 1e6

measure(2, True), measure(2, False)
print(json.dumps({str((d, r)): measure(d, r) for r in (True, False) for d in (4, 20)}))
"""


@pytest.mark.integration
def test_activation_memory_is_constant_in_depth() -> None:
    done = subprocess.run([sys.executable, "-c", HELD], capture_output=True, text=True, check=True)
    held = json.loads(done.stdout.splitlines()[-1])
    one_activation = 8_000 * 64 * 4 / 1e6
    assert held["(20, True)"] - held["(4, True)"] < 2 * one_activation
    assert held["(20, False)"] - held["(4, False)"] > 16 * one_activation


def test_nothing_of_a_block_is_saved_for_the_backward_pass() -> None:
    def saved(layers: int, reversible: bool) -> int:
        sizes: list[int] = []

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            sizes.append(tensor.numel() * tensor.element_size())
            return tensor

        model = build("revgat", layers=layers, reversible=reversible)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            model(features(), messy())
        return sum(sizes)

    assert saved(34, True) == saved(6, True)
    assert saved(34, False) > 3 * saved(6, False)


def block_and_input() -> tuple[GroupAddRev, torch.Tensor, tuple[torch.Tensor, ...]]:
    model = build("revgat", hidden=32)
    edges = messy()
    masks = (torch.rand(NODES, 32) * 2, torch.rand(edges.shape[1], 3) * 2)
    return model.blocks[0], torch.randn(NODES, 32), (edges, *masks)


def test_the_inverse_of_a_block_gives_back_its_input() -> None:
    block, x, given = block_and_input()
    with torch.no_grad():
        y = block(x.clone(), *given)
        assert (y - x).abs().max() > 0.1
        torch.testing.assert_close(block.inverse(y, *given), x, atol=1e-5, rtol=1e-5)


def test_a_block_is_the_formula_of_its_groups() -> None:
    block, x, (edges, mask, kept) = block_and_input()
    one, two = x.chunk(2, dim=1)
    with torch.no_grad():
        one = one + block.convs[0](two, edges, mask[:, :16], kept)
        two = two + block.convs[1](one, edges, mask[:, 16:], kept)
        torch.testing.assert_close(block(x.clone(), edges, mask, kept), torch.cat([one, two], 1))


@pytest.mark.parametrize("groups", [2, 4])
@pytest.mark.parametrize("layers", [3, 18])
def test_gradients_equal_those_of_blocks_that_keep_everything(layers: int, groups: int) -> None:
    settings = {"hidden": 64, "layers": layers, "groups": groups}
    models = [build("revgat", reversible=reversible, **settings) for reversible in (True, False)]
    models[1].load_state_dict(models[0].state_dict())
    outputs = []
    for model in models:  # in training: dropout of values and of attention is on
        torch.manual_seed(1)
        outputs.append(model(features(), messy()).h)
        outputs[-1].square().sum().backward()
    torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-5, atol=1e-5)
    for (key, own), peer in zip(models[0].named_parameters(), models[1].parameters(), strict=True):
        if key.startswith("heads."):
            continue
        scale = float(peer.grad.abs().max()) + 1e-12
        torch.testing.assert_close(own.grad / scale, peer.grad / scale, rtol=1e-4, atol=1e-4)


def test_masks_are_shared_by_all_layers_and_drawn_anew_each_time() -> None:
    model = build("revgat", layers=5)
    seen: list[tuple[int, ...]] = []
    for block in model.blocks:
        block.register_forward_pre_hook(lambda _, given: seen.append(tuple(map(id, given[2:]))))
    first = model(features(), messy()).h
    assert len(seen) == 3
    assert len(set(seen)) == 1
    assert not torch.equal(first, model(features(), messy()).h)
    mask = model._mask(0.25, first, 400, 50)
    assert mask.unique().tolist() == pytest.approx([0, 1 / 0.75])
    assert float(mask.mean()) == pytest.approx(1, abs=0.02)
    assert model.eval()._mask(0.25, first, 400, 50) is None


def test_without_dropout_the_attention_is_pygs() -> None:
    model = build("revgat").eval()
    peer = GATConv(12, 12, heads=3, concat=False, residual=True)
    peer.load_state_dict(model.first.state_dict())
    x = torch.cat(list(features().values()), dim=1)
    edges = messy()
    edges = add_remaining_self_loops(edges[:, edges[0] != edges[1]], num_nodes=NODES)[0]
    torch.testing.assert_close(model.first(x, edges, None), peer(x, messy()))


def test_two_layers_have_no_block_and_more_have_two_fewer() -> None:
    assert [len(build("revgat", layers=n).blocks) for n in (2, 3, 7)] == [0, 1, 5]


def test_settings_that_do_not_fit() -> None:
    with pytest.raises(ValidationError, match="hidden 33 is no multiple of groups 2"):
        RevGAT.Config(hidden=33)
    with pytest.raises(ValidationError, match="heads and hidden must differ"):
        RevGAT.Config(hidden=4, heads=4)
    with pytest.raises(ValidationError, match="norm"):
        RevGAT.Config.model_validate({"norm": "batch"})
