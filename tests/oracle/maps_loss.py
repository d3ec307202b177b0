"""Losses; torch folds those of single elements by its argument `reduction`."""

from __future__ import annotations

from typing import Any

import actorflow as af
from actorflow.graph.builder import Tensor
from tests.oracle.table import composes, maps, need, rank, sizes


def _folded(loss: Tensor, reduction: str) -> Tensor:
    """What torch makes of the losses of single elements."""
    return {"mean": af.mean, "sum": af.sum, "none": af.arrays.identity}[reduction](loss)


def _weighted(loss: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    return _folded(loss if weight is None else loss * weight, reduction)


@maps("nn.functional.mse_loss", "squared_difference")
def _mse(x: Tensor, y: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    return _weighted(af.math.squared_difference(x, y), weight, reduction)


@maps("nn.functional.l1_loss", "absolute_difference")
def _l1(x: Tensor, y: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    return _weighted(af.nn.absolute_difference(x, y), weight, reduction)


@maps("nn.functional.huber_loss", "huber_loss")
def _huber(
    x: Tensor, y: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    return _weighted(af.nn.huber_loss(x, y, delta), weight, reduction)


@maps("nn.functional.smooth_l1_loss", "smooth_l1_loss")
def _smooth_l1(x: Tensor, y: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    need(beta > 0, "beta 0 of smooth_l1_loss: ours has absolute_difference for that")
    return _folded(af.nn.smooth_l1_loss(x, y, beta), reduction)


@maps("nn.functional.binary_cross_entropy", "binary_cross_entropy")
def _bce(x: Tensor, y: Tensor, weight: Tensor | None = None, reduction: str = "mean") -> Tensor:
    return _weighted(af.nn.binary_cross_entropy(x, y), weight, reduction)


@maps("nn.functional.binary_cross_entropy_with_logits", "sigmoid_cross_entropy")
def _bce_of_logits(
    x: Tensor,
    y: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    return _weighted(af.nn.sigmoid_cross_entropy(x, y, pos_weight), weight, reduction)


@maps("nn.functional.poisson_nll_loss", "poisson_nll")
def _poisson(
    x: Tensor,
    y: Tensor,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    need(not full, "full of poisson_nll_loss: torch has Stirling's formula, ours lgamma")
    need(log_input, "rates that are no logarithms: ours takes logarithms")
    return _folded(af.nn.poisson_nll(x, y), reduction)


@maps("nn.functional.gaussian_nll_loss", "gaussian_nll")
def _gaussian(
    x: Tensor, y: Tensor, var: Any, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    need(isinstance(var, Tensor), "one number as the variance: ours takes a tensor")
    if rank(var) == rank(x) - 1:
        var = af.expand_dims(var, -1)
    return _folded(af.nn.gaussian_nll(x, y, var, eps, full), reduction)


@maps("nn.functional.kl_div", "kl_divergence")
def _kl(x: Tensor, y: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    need(reduction != "none", "the terms of kl_div one by one: ours sums them over an axis")
    need(rank(x) > 0, "kl_div of scalars: ours has no axis there")
    total = af.sum(af.nn.kl_divergence(x, af.exp(y) if log_target else y))
    parts = {"sum": 1, "batchmean": sizes(x)[0]}.get(reduction)
    if parts is None:
        parts = 1
        for size in sizes(x):
            parts *= size
    return total / parts


@maps("nn.functional.margin_ranking_loss", "margin_ranking_loss")
def _margin_ranking(
    a: Tensor, b: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    return _folded(af.nn.margin_ranking_loss(a, b, af.cast(target, a.dtype), margin), reduction)


@maps("nn.functional.cosine_embedding_loss", "cosine_embedding_loss")
def _cosine_embedding(
    a: Tensor, b: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    return _folded(af.nn.cosine_embedding_loss(a, b, target, margin), reduction)


@maps("nn.functional.cosine_similarity", "cosine_similarity")
def _cosine_similarity(a: Tensor, b: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    need(rank(a) > 0 or rank(b) > 0, "a dim of a scalar: ours has no axis there")
    return af.nn.cosine_similarity(a, b, dim, eps)


@composes("nn.functional.pairwise_distance", "vector_norm(a - b + eps)")
def _pairwise_distance(
    a: Tensor, b: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    return af.linalg.vector_norm(a - b + eps, -1, keepdim, p)


@composes(
    "nn.functional.triplet_margin_loss", "relu(vector_norm(a - p + eps) - vector_norm(a - n + eps) + margin)"
)
def _triplet(
    a: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    near = af.linalg.vector_norm(a - positive + eps, -1, ord=p)
    far = af.linalg.vector_norm(a - negative + eps, -1, ord=p)
    if swap:
        far = af.minimum(far, af.linalg.vector_norm(positive - negative + eps, -1, ord=p))
    return _folded(af.nn.relu(near - far + margin), reduction)


@composes("nn.functional.soft_margin_loss", "softplus(-x·y)")
def _soft_margin(x: Tensor, y: Tensor, reduction: str = "mean") -> Tensor:
    return _folded(af.nn.softplus(-(x * y)), reduction)


@composes("nn.functional.hinge_embedding_loss", "x where y is 1, else relu(margin - x)")
def _hinge_embedding(x: Tensor, y: Tensor, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    zeros = af.zeros_like(x)
    near = af.where(af.equal(y, -1), zeros, x)
    return _folded(near + af.where(af.equal(y, 1), zeros, af.nn.relu(margin - x)), reduction)


# ------------------------------------------------------------------------------------ classes


def _classes_last(x: Tensor) -> Tensor:
    return af.moveaxis(x, 1, -1) if rank(x) > 2 else x


@maps("nn.functional.cross_entropy", "softmax_cross_entropy")
def _cross_entropy(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    need(weight is None, "weights of classes: ours has one for each example, by a product")
    need(ignore_index == -100, "ignore_index: ours counts every label, weighted_mean leaves some out")
    need(label_smoothing == 0, "label_smoothing: ours takes class numbers")
    if target.dtype.kind == "f":
        logits, shares = _classes_last(x), _classes_last(target)
        losses = -af.sum(shares * af.nn.log_softmax(logits), -1)
        return _folded(losses, reduction)
    return _folded(af.nn.softmax_cross_entropy(_classes_last(x), target), reduction)


@composes("nn.functional.nll_loss", "-take_along_axis(x, labels)")
def _nll(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    need(weight is None, "weights of classes: ours has one for each example, by a product")
    need(ignore_index == -100, "ignore_index: ours counts every label, weighted_mean leaves some out")
    chosen = af.take_along_axis(_classes_last(x), af.expand_dims(target, -1), -1)
    return _folded(-af.squeeze(chosen, -1), reduction)


@maps("nn.functional.ctc_loss", "ctc_loss", second_order="ours has none")
def _ctc(
    x: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    # torch takes logarithms of probabilities, which its table makes of x as ours does.
    losses = af.nn.ctc_loss(af.arrays.swapaxes(x, 0, 1), targets, input_lengths, target_lengths, blank)
    if zero_infinity:
        losses = af.where(af.isinf(losses), af.zeros_like(losses), losses)
    if reduction == "mean":  # torch's is that of the losses of a label
        losses = losses / af.cast(target_lengths, losses.dtype)
    return _folded(losses, reduction)
