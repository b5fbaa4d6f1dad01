"""Losses against plain numpy formulas, their gradients, and edge cases."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from maghub.baselines.losses import (
    cosine,
    cosine_reconstruction,
    edge_info_nce,
    info_nce,
    link_bce,
    scaled_cosine_error,
)
from maghub.errors import MaghubError

Matrix = NDArray[np.float64]


def matrices(count: int, rows: int, width: int = 5, seed: int = 0) -> list[Matrix]:
    return list(np.random.default_rng(seed).standard_normal((count, rows, width)))


def cos(a: Matrix, b: Matrix) -> float:
    return float(a @ b / (np.sqrt(a @ a) * np.sqrt(b @ b)))


def tensors(*arrays: Matrix) -> list[Tensor]:
    return [torch.tensor(array, requires_grad=True) for array in arrays]


@pytest.mark.parametrize("temperature", [0.07, 0.5, 1.0])
def test_info_nce_is_the_mean_negative_log_softmax(temperature: float) -> None:
    a, b = matrices(2, 6)
    e = np.array([[np.exp(cos(x, y) / temperature) for y in b] for x in a])
    forward = -np.mean([np.log(e[i, i] / e[i].sum()) for i in range(6)])
    backward = -np.mean([np.log(e[i, i] / e[:, i].sum()) for i in range(6)])
    one_way = info_nce(*tensors(a, b), temperature, symmetric=False)
    assert one_way.item() == pytest.approx(forward, rel=1e-10)
    assert info_nce(*tensors(a, b), temperature).item() == pytest.approx(
        (forward + backward) / 2, rel=1e-10
    )


def test_info_nce_of_equal_rows_is_log_of_their_number() -> None:
    rows = torch.ones(8, 3)
    assert info_nce(rows, 5 * rows).item() == pytest.approx(np.log(8), rel=1e-6)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 8), st.integers(0, 99), st.floats(0.1, 100))
def test_info_nce_ignores_order_and_length_of_rows(rows: int, seed: int, scale: float) -> None:
    a, b = map(torch.from_numpy, matrices(2, rows, seed=seed))
    order = torch.from_numpy(np.random.default_rng(seed).permutation(rows))
    loss = info_nce(a, b)
    assert torch.allclose(info_nce(a[order], b[order]), loss)
    assert torch.allclose(info_nce(scale * a, b), loss)
    assert torch.allclose(info_nce(b, a), loss)
    assert loss >= 0


@pytest.mark.parametrize("gamma", [1.0, 2.0, 3.0])
def test_scaled_cosine_error(gamma: float) -> None:
    a, b = matrices(2, 7)
    wanted = np.mean([(1 - cos(x, y)) ** gamma for x, y in zip(a, b, strict=True)])
    assert scaled_cosine_error(*tensors(a, b), gamma).item() == pytest.approx(wanted, rel=1e-10)
    # Rounding puts some cosines of equal float32 rows above 1; a power of that would be NaN.
    same = torch.randn(2000, 7, generator=torch.Generator().manual_seed(0))
    assert scaled_cosine_error(same, same.clone(), 1.5).item() == pytest.approx(0, abs=1e-9)


def test_edge_info_nce_compares_a_neighbour_with_random_nodes() -> None:
    (h,) = matrices(1, 9)
    pairs = np.array([[0, 1, 5, 8], [3, 2, 6, 7]])
    others = np.array([[4, 5], [6, 7], [0, 1], [2, 3]])
    terms = []
    for i, j, row in zip(*pairs, others, strict=True):
        near = np.exp(cos(h[i], h[j]) / 0.5)
        terms.append(-np.log(near / (near + sum(np.exp(cos(h[i], h[k]) / 0.5) for k in row))))
    found = edge_info_nce(torch.from_numpy(h), torch.from_numpy(pairs), torch.from_numpy(others))
    assert found.item() == pytest.approx(np.mean(terms), rel=1e-10)


def test_edge_info_nce_leaves_out_random_nodes_that_are_the_ends() -> None:
    h = torch.from_numpy(matrices(1, 6)[0])
    pair = torch.tensor([[0], [3]])
    clean = edge_info_nce(h, pair, torch.tensor([[4, 5]]))
    hit = edge_info_nce(h, pair, torch.tensor([[4, 0, 5, 3]]))
    assert torch.allclose(clean, hit)
    assert edge_info_nce(h, pair, torch.tensor([[0, 3]])).item() == 0


def test_cosine_reconstruction() -> None:
    a, b, c = matrices(3, 8)
    near = np.mean([1 - cos(x, y) for x, y in zip(a, b, strict=True)])
    far = np.mean([max(0.0, cos(x, y) + 0.5) for x, y in zip(a, c, strict=True)])
    assert cosine_reconstruction(*tensors(a, b, c)).item() == pytest.approx(near + far, rel=1e-10)
    one = torch.tensor([[1.0, 0.0]])
    assert cosine_reconstruction(one, 3 * one, -2 * one).item() == 0
    assert cosine_reconstruction(one, -one, one).item() == pytest.approx(3.5)


def test_link_bce_weighs_every_pair_alike() -> None:
    positive, negative = np.array([2.0, -1.0]), np.array([0.5, -3.0, 40.0, -800.0])
    terms = [np.log1p(np.exp(-s)) for s in positive] + [np.logaddexp(0, s) for s in negative]
    assert link_bce(*tensors(positive, negative)).item() == pytest.approx(np.mean(terms))


def test_gradients_are_those_of_finite_differences() -> None:
    a, b, c = tensors(*matrices(3, 4, 3))
    pairs, others = torch.tensor([[0, 1], [2, 3]]), torch.tensor([[3, 1], [0, 2]])
    assert torch.autograd.gradcheck(info_nce, (a, b, 0.5))
    assert torch.autograd.gradcheck(scaled_cosine_error, (a, b))
    assert torch.autograd.gradcheck(cosine_reconstruction, (a, b, c))
    assert torch.autograd.gradcheck(lambda h: edge_info_nce(h, pairs, others), (a,))
    assert torch.autograd.gradcheck(link_bce, (a, b))


def test_a_row_of_zeros_has_cosine_0_and_no_gradient() -> None:
    a = torch.zeros(2, 3, requires_grad=True)
    b = torch.tensor([[1.0, 0, 0], [0, 2.0, 0]], requires_grad=True)
    assert cosine(a, b).tolist() == [0, 0]
    for loss in (info_nce(a, b), scaled_cosine_error(a, b), cosine_reconstruction(a, b, b.flip(0))):
        grads = torch.autograd.grad(loss, (a, b))
        assert all(torch.isfinite(grad).all() for grad in grads)
        assert not grads[0].any()


def test_half_precision_rows_are_compared_in_float32() -> None:
    a, b = (torch.from_numpy(x).half() for x in matrices(2, 50, 64))
    found = info_nce(a, b)
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(info_nce(a.double(), b.double()).item(), rel=1e-5)


def test_mixed_precision_halves_representations_and_not_cosines() -> None:
    a, b = (torch.from_numpy(x).float() for x in matrices(2, 50, 64))
    with torch.autocast("cpu", torch.bfloat16):
        found = info_nce(a, b)
    assert found.item() == pytest.approx(info_nce(a, b).item(), rel=1e-6)


def test_nothing_to_compare_is_0_and_can_be_differentiated() -> None:
    h = torch.randn(4, 3, requires_grad=True)
    none = h[:0]
    no_pairs, no_others = torch.empty((2, 0), dtype=torch.long), torch.empty((0, 5)).long()
    losses = [
        info_nce(none, none),
        scaled_cosine_error(none, none),
        cosine_reconstruction(none, none, none),
        edge_info_nce(h, no_pairs, no_others),
        link_bce(none, none),
    ]
    assert all(loss.item() == 0 for loss in losses)
    torch.stack(losses).sum().backward()
    assert h.grad is not None
    assert not h.grad.any()


def test_bad_input_is_one_line() -> None:
    with pytest.raises(MaghubError, match=r"^InfoNCE of \[2, 3\] and \[3, 3\]. Give two matrices"):
        info_nce(torch.ones(2, 3), torch.ones(3, 3))
    with pytest.raises(MaghubError, match=r"^the temperature is 0. Give a positive number"):
        info_nce(torch.ones(2, 3), torch.ones(2, 3), 0)
