"""Losses that models and tasks share; each is a mean and is 0 (with a gradient of 0) of nothing.

Cosines are taken in float32 at least, so that half precision changes representations only. A row
of zeros has cosine 0 with everything.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from maghub.errors import MaghubError

ZERO = 1e-12
"""Rows shorter than this have no direction."""


def _unit(x: Tensor) -> Tensor:
    """Rows of length 1, float32 or wider; a row of zeros stays so and has a gradient of 0."""
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    # Dividing by a small constant instead would give such a row a gradient of 1e12.
    return x / norm.masked_fill(norm <= ZERO, torch.inf)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """[..., ] cosines of the last dimension of ``a`` and ``b`` [..., D], which broadcast."""
    return (_unit(a) * _unit(b)).sum(-1)


def info_nce(a: Tensor, b: Tensor, temperature: float = 0.07, *, symmetric: bool = True) -> Tensor:
    """InfoNCE with cosine logits: row i of ``a`` should be closest to row i of ``b``.

    -mean_i log softmax_j(cos(a_i, b_j) / temperature)[i], van den Oord et al. 2018, equation 4;
    symmetric: the mean of both directions, as CLIP (Radford et al. 2021, figure 3).

    Args:
        a: float [B, D].
        b: float [B, D].
        temperature: Positive; OpenMAG takes 0.07.
        symmetric: Whether ``b`` is also asked for its row of ``a``.

    Raises:
        MaghubError: Shapes differ, or the temperature is not positive.
    """
    if a.shape != b.shape or a.dim() != 2:
        raise MaghubError(
            f"InfoNCE of {list(a.shape)} and {list(b.shape)}", fix="give two matrices of one shape"
        )
    _check_temperature(temperature)
    if len(a) == 0:
        return _nothing(a) + _nothing(b)
    with torch.autocast(a.device.type, enabled=False):  # it would halve this product again
        logits = _unit(a) @ _unit(b).T / temperature
    own = torch.arange(len(a), device=a.device)
    loss = functional.cross_entropy(logits, own)
    if symmetric:
        loss = (loss + functional.cross_entropy(logits.T, own)) / 2
    return loss


def scaled_cosine_error(predicted: Tensor, target: Tensor, gamma: float = 2.0) -> Tensor:
    """mean_i (1 - cos(predicted_i, target_i)) ** gamma (GraphMAE, Hou et al. 2022, equation 2).

    Args:
        predicted: float [B, D].
        target: float [B, D].
        gamma: At least 1; larger values give easy rows less weight.
    """
    if len(predicted) == 0:
        return _nothing(predicted)
    # Rounding may leave 1 - cos a little below 0, whose power is NaN.
    return (1 - cosine(predicted, target)).clamp(min=0).pow(gamma).mean()


def edge_info_nce(h: Tensor, pairs: Tensor, others: Tensor, temperature: float = 0.5) -> Tensor:
    """InfoNCE over edges: a neighbour against random nodes (OpenMAG's clustering loss).

    -mean over edges (i, j) of log(e_ij / (e_ij + sum_k e_ik)), e_ij = exp(cos(h_i, h_j) / tau).
    A random node that happens to be i or j is left out of the sum.

    Args:
        h: float [N, D].
        pairs: int64 [2, P] edges.
        others: int64 [P, K] random nodes (OpenMAG: P at most 2,048, K 5).
        temperature: tau.

    Raises:
        MaghubError: The temperature is not positive.
    """
    _check_temperature(temperature)
    if pairs.shape[1] == 0:
        return _nothing(h)
    unit = _unit(h)
    src, dst = pairs
    ends = torch.cat([dst[:, None], others], dim=1)
    logits = (unit[src, None] * unit[ends]).sum(-1) / temperature
    own = (ends == src[:, None]) | (ends == dst[:, None])
    own[:, 0] = False
    return functional.cross_entropy(logits.masked_fill(own, -torch.inf), torch.zeros_like(dst))


def cosine_reconstruction(
    predicted: Tensor, target: Tensor, other: Tensor, margin: float = 0.5
) -> Tensor:
    """Close to one's own target, far from another (OpenMAG's clustering loss).

    mean_i (1 - cos(predicted_i, target_i)) + mean_i relu(cos(predicted_i, other_i) + margin).

    Args:
        predicted: float [B, D].
        target: float [B, D].
        other: float [B, D] targets of other rows.
        margin: 0.5 in OpenMAG.
    """
    if len(predicted) == 0:
        return _nothing(predicted)
    near = 1 - cosine(predicted, target)
    far = functional.relu(cosine(predicted, other) + margin)
    return near.mean() + far.mean()


def link_bce(positive: Tensor, negative: Tensor) -> Tensor:
    """Binary cross-entropy of edge scores: mean over all pairs, positives 1 and negatives 0.

    Args:
        positive: float [P] logits of edges.
        negative: float [M] logits of pairs that are none.
    """
    logits = torch.cat([positive.ravel(), negative.ravel()])
    if len(logits) == 0:
        return _nothing(logits)
    labels = torch.zeros_like(logits)
    labels[: positive.numel()] = 1
    return functional.binary_cross_entropy_with_logits(logits, labels)


def _nothing(x: Tensor) -> Tensor:
    """0 that still belongs to the graph of ``x``, so that ``backward`` works."""
    return (x * 0).sum()


def _check_temperature(temperature: float) -> None:
    if not temperature > 0:
        raise MaghubError(f"the temperature is {temperature}", fix="give a positive number")
