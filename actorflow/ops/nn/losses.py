"""Losses: how far predictions are from labels.

One convention for all, and for `softmax_cross_entropy`: predictions come first and labels second,
they broadcast, and what comes out is the loss of each element, or of each example where an axis of
classes or features is folded. Nothing is averaged: `af.mean` or `af.sum` of a loss is what one
minimises, `af.nn.weighted_mean` where some examples count more than others, or not at all. The plainest
loss has its name in arithmetic: `af.math.squared_difference`.

Most are made of a few ops, as fast as a kernel of their own would be, and are no ops themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log as log_of
from math import pi
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build_one, promote
from actorflow.graph.opdef import op
from actorflow.ops.array.broadcast import broadcast_like, sum, unbroadcast
from actorflow.ops.array.constants import ones_like, zeros_like
from actorflow.ops.array.identity import cast, widen_half
from actorflow.ops.array.join import broadcast_arrays
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.error_context import error_context
from actorflow.ops.definition.spec_rules import Axis, DtypeClass, binary, check_dtypes
from actorflow.ops.math.arithmetic import divide_no_nan, multiply_no_nan
from actorflow.ops.math.elementwise import (
    abs,
    add,
    divide,
    exp,
    log,
    maximum,
    multiply,
    negative,
    relu,
    sigmoid,
    square,
    subtract,
)
from actorflow.ops.math.exponential import log1p
from actorflow.ops.math.logic import equal, greater, less_equal, logical_and, logical_or, where
from actorflow.ops.math.rounding import isinf
from actorflow.ops.math.special import lgamma
from actorflow.ops.math.statistics import vector_norm
from actorflow.ops.nn.activation import softplus
from actorflow.values.spec import axis_of

Grads = Sequence[Tensor | None]


def _floats(op_name: str, *values: Any) -> list[Tensor]:
    """The values as tensors of the dtype that they mix to; raises SpecError unless they are floating."""
    tensors = list(promote(*values))
    with error_context(op_name):
        check_dtypes(op_name, DtypeClass.FLOATING, *(t.spec for t in tensors))
    return tensors


def _check_ranks(op_name: str, a: Tensor, b: Tensor) -> None:
    """Raises SpecError for two of different ranks, scalars aside."""
    # (n, 1) and (n,) would broadcast to (n, n): a loss of every example against all labels.
    if a.spec.rank and b.spec.rank and a.spec.rank != b.spec.rank:
        message = f"{op_name} needs predictions and labels of as many axes, got {a.spec} and {b.spec}"
        with error_context(op_name):
            raise SpecError(message, hint="take the axis of size 1 away: af.squeeze(x, -1)")


@api_function
def weighted_mean(values: Any, weights: Any, axis: Axis = None, *, name: str | None = None) -> Tensor:
    """`sum(values * weights) / sum(weights)` over `axis`, over all axes when it is None; 0 of no weight.

    Shapes:   weights broadcast to values; the axes of `axis` are dropped
    Dtypes:   values floating; weights the same, or bool for those that count; halves are computed in float32
    Gradient: g·weights/sum to values; (g·values - g·result)/sum to weights.
    Raises:   SpecError when they do not fit.

    >>> with af.Graph():
    ...     losses = af.placeholder("float32", (None, 20), name="losses")
    ...     af.nn.weighted_mean(losses, af.placeholder("bool", (None, 20), name="there"))
    <Tensor weighted_mean:0 () float32>
    """
    values, weights = as_tensor(values), as_tensor(weights)
    # A bool weight says which values count.
    if weights.dtype.kind == "b":
        weights = cast(weights, values.dtype)
    values, weights = _floats("weighted_mean", values, weights)
    dtype, values = values.dtype, widen_half(values)
    # Made as large first: a weight that stands for many values counts as often.
    weights = broadcast_like(widen_half(weights), values)
    total = sum(multiply(values, weights), axis)
    # Of no weight 0, not 0/0.
    return cast(divide_no_nan(total, sum(weights, axis), name=name or "weighted_mean"), dtype)


# ------------------------------------------------------------------------------ probabilities


def _sigmoid_cross_entropy_gradient(use: Use, grad: Tensor) -> Grads:
    logits, labels = use.inputs
    to_logits = multiply(grad, subtract(sigmoid(logits), labels))
    to_labels = negative(multiply(grad, logits))
    return unbroadcast(to_logits, logits, labels), unbroadcast(to_labels, labels, logits)


@op(
    "sigmoid_cross_entropy",
    spec=binary("sigmoid_cross_entropy", DtypeClass.FLOATING),
    gradient=_sigmoid_cross_entropy_gradient,
)
@api_function
def sigmoid_cross_entropy(
    logits: Any, labels: Any, positive_weight: Any = None, *, name: str | None = None
) -> Tensor:
    """-z·log(sigmoid x) - (1 - z)·log(1 - sigmoid x) of logits x and labels z; exact for all x.

    Args:
        logits: Floating; of labels that are independent of each other.
        labels: The probability that each is true, in [0, 1].
        positive_weight: What the first term is multiplied by, a number or one for each class: above 1
            where positive labels are rare.
        name: Name of the node.

    Shapes:   all broadcast; logits and labels have as many axes, or one of them none
    Dtypes:   floating, the same
    Gradient: g·(sigmoid(x) - z) to logits, -g·x to labels.
    Raises:   SpecError when shapes do not broadcast or dtypes differ.

    >>> with af.Graph():
    ...     logits = af.placeholder("float32", (None, 5), name="logits")
    ...     af.nn.sigmoid_cross_entropy(logits, af.placeholder("float32", (None, 5), name="labels"))
    <Tensor sigmoid_cross_entropy:0 (None, 5) float32>
    """
    x, z = _floats("sigmoid_cross_entropy", logits, labels)
    _check_ranks("sigmoid_cross_entropy", x, z)
    if positive_weight is None:
        return build_one("sigmoid_cross_entropy", [x, z], name=name)
    x, z, weight = _floats("sigmoid_cross_entropy", x, z, positive_weight)
    # -log σ(x) is softplus(-x) and -log(1 - σ(x)) softplus(x), exact for all x; and infinite at one end,
    # where the label 0 takes the term out.
    missed = multiply_no_nan(softplus(negative(x)), multiply(weight, z))
    return add(missed, multiply_no_nan(softplus(x), subtract(1, z)), name=name or "sigmoid_cross_entropy")


@api_function
def binary_cross_entropy(probabilities: Any, labels: Any, *, name: str | None = None) -> Tensor:
    """-z·log p - (1 - z)·log(1 - p) of probabilities p and labels z in [0, 1]; 0·log 0 is 0.

    A p of 0 or 1 on the wrong side has an infinite loss: `sigmoid_cross_entropy` of what p was
    computed from is exact there.

    Shapes:   both broadcast, of as many axes
    Dtypes:   floating, the same
    Gradient: g·(p - z)/(p·(1 - p)) to probabilities, g·log((1 - p)/p) to labels.
    Raises:   SpecError when shapes do not broadcast or dtypes differ.
    """
    p, z = _floats("binary_cross_entropy", probabilities, labels)
    _check_ranks("binary_cross_entropy", p, z)
    # Right and certain: log 0 times 0 would be NaN, so log 1 stands in.
    certain = logical_and(equal(p, 1), equal(z, 1))
    of_others = multiply(subtract(1, z), log1p(negative(where(certain, zeros_like(p), p))))
    return negative(add(_x_log_y(z, p), of_others), name=name or "binary_cross_entropy")


def _x_log_y(x: Tensor, y: Tensor) -> Tensor:
    """x·log y, and 0 with gradient 0 where x is 0 and log y is not a finite number, unless y is NaN."""
    endless = logical_or(less_equal(y, 0), isinf(y))
    # Of 1, not of y: the product is 0 all the same, and its gradient is finite.
    return multiply(x, log(where(logical_and(equal(x, 0), endless), ones_like(y), y)))


@api_function
def kl_divergence(log_predictions: Any, labels: Any, axis: Axis = -1, *, name: str | None = None) -> Tensor:
    """Σ p·(log p - log q) over `axis`, of log-probabilities log q and labels p: what `log_softmax` gives.

    Shapes:   both broadcast; the axis is dropped
    Dtypes:   floating, the same
    Gradient: -g·p to log-probabilities, g·(log p + 1 - log q) to labels above 0.
    Raises:   SpecError when shapes do not broadcast or dtypes differ.
    """
    log_q, p = given = _floats("kl_divergence", log_predictions, labels)
    log_q, p = map(widen_half, given)
    # log q may be -inf where p is 0.
    found = sum(subtract(_x_log_y(p, p), multiply_no_nan(log_q, p)), axis, name=name or "kl_divergence")
    return cast(found, given[0].dtype)


@api_function
def poisson_nll(log_rates: Any, counts: Any, full: bool = False, *, name: str | None = None) -> Tensor:
    """e^x - z·x: minus the log-likelihood of counts z under Poisson rates e^x.

    That is without log z!, which no prediction changes; `full` adds it, as lgamma(z + 1).

    Shapes:   both broadcast, of as many axes
    Dtypes:   floating, the same
    Gradient: g·(e^x - z) to log-rates; -g·x to counts, with `full` + g·digamma(z + 1).
    Raises:   SpecError when shapes do not broadcast or dtypes differ.
    """
    x, z = _floats("poisson_nll", log_rates, counts)
    _check_ranks("poisson_nll", x, z)
    loss = subtract(exp(x), multiply(z, x), name=name or "poisson_nll")
    return add(loss, lgamma(add(z, 1))) if full else loss


@api_function
def gaussian_nll(
    means: Any,
    labels: Any,
    variances: Any,
    epsilon: float = 1e-6,
    full: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """(log v + (mean - z)²/v)/2, v = max(variance, epsilon): minus the log-likelihood of labels z.

    That is without log(2π)/2, which `full` adds.

    Shapes:   all broadcast
    Dtypes:   floating, the same
    Gradient: of the formula; none to variances below epsilon.
    Raises:   SpecError when shapes do not broadcast, dtypes differ or epsilon is not positive.
    """
    mean, z, variance = _floats("gaussian_nll", means, labels, variances)
    with error_context("gaussian_nll"):
        if not epsilon > 0:
            message = f"the epsilon of gaussian_nll must be positive, got {epsilon!r}"
            raise SpecError(message)
    # Bounded, since a variance near 0 makes the loss unbounded; it gets no gradient there.
    v = maximum(variance, epsilon)
    twice = add(log(v), divide(square(subtract(mean, z)), v))
    return multiply(add(twice, log_of(2 * pi)) if full else twice, 0.5, name=name or "gaussian_nll")


# ---------------------------------------------------------------------------------- distances


@api_function
def absolute_difference(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The distance |a - b|, elementwise; inputs broadcast; gradients ±g·sign(a - b), 0 at no distance."""
    return abs(subtract(a, b), name=name or "absolute_difference")


@api_function
def huber_loss(predictions: Any, labels: Any, delta: float = 1.0, *, name: str | None = None) -> Tensor:
    """d²/2 where the difference |d| is at most `delta`, and delta·(|d| - delta/2) beyond: straight there.

    Shapes:   both broadcast, of as many axes
    Dtypes:   floating, the same
    Gradient: g·d, or g·delta·sign d.
    Raises:   SpecError when shapes do not broadcast, dtypes differ or delta is not positive.

    Source: Huber, "Robust estimation of a location parameter", 1964.
    """
    predictions, labels = _floats("huber_loss", predictions, labels)
    _check_ranks("huber_loss", predictions, labels)
    with error_context("huber_loss"):
        if not delta > 0:
            message = f"the delta of huber_loss must be positive, got {delta!r}"
            raise SpecError(message, hint="the limit of huber_loss / delta at 0 is af.nn.absolute_difference")
    d = subtract(predictions, labels)
    straight = multiply(subtract(abs(d), delta / 2), delta)
    near = less_equal(abs(d), delta)
    bent = multiply(square(where(near, d, zeros_like(d))), 0.5)  # 0·d² would be NaN where d is infinite
    return where(near, bent, straight, name=name or "huber_loss")


@api_function
def smooth_l1_loss(predictions: Any, labels: Any, beta: float = 1.0, *, name: str | None = None) -> Tensor:
    """`huber_loss` of delta `beta`, over beta: its gradient far away is ±g for any beta. Else like that."""
    with error_context("smooth_l1_loss"):
        if not beta > 0:
            message = f"the beta of smooth_l1_loss must be positive, got {beta!r}"
            raise SpecError(message, hint="the limit of smooth_l1_loss at 0 is af.nn.absolute_difference")
    return divide(huber_loss(predictions, labels, beta), beta, name=name or "smooth_l1_loss")


@api_function
def cosine_similarity(
    a: Any, b: Any, axis: int = -1, epsilon: float = 1e-8, *, name: str | None = None
) -> Tensor:
    """Σ a·b over `axis`, over the lengths of a and b, which count as `epsilon` at least.

    Shapes:   both broadcast; the axis, of what they broadcast to, is dropped
    Dtypes:   floating, the same
    Gradient: of the formula; finite for vectors 0.
    Raises:   SpecError when shapes do not broadcast, dtypes differ, or there is no such axis.
    """
    a, b = _floats("cosine_similarity", a, b)
    a, b = _of_one_length(a, b, axis)
    # Bounded, so that the vector 0 has a gradient.
    lengths = [maximum(vector_norm(v, axis, keepdims=True), epsilon) for v in (a, b)]
    units = [divide(v, length) for v, length in zip((a, b), lengths, strict=True)]
    return sum(multiply(*units), axis, name=name or "cosine_similarity")


def _of_one_length(a: Tensor, b: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Both with the vectors that they broadcast to along `axis`; as they are where that is certain."""
    # Of equal ranks the axis is the same in both and in what they broadcast to.
    if a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape) > 0:
        with error_context("cosine_similarity"):
            at = axis_of(axis, len(a.shape))
        if a.shape[at] is not None and a.shape[at] == b.shape[at]:
            return a, b
    # Else a size of 1 stands for several equal elements, and the length must count each.
    left, right = broadcast_arrays(a, b)
    return left, right


# ---------------------------------------------------------------------------------- margins


@api_function
def hinge_loss(predictions: Any, labels: Any, *, name: str | None = None) -> Tensor:
    """max(0, 1 - z·x) of predictions x and labels z, which are -1 or 1; its square is `af.square` of it.

    Shapes:   both broadcast, of as many axes
    Dtypes:   floating, the same
    Gradient: -g·z to predictions where the loss is above 0, else 0.
    Raises:   SpecError when shapes do not broadcast or dtypes differ.
    """
    x, z = _floats("hinge_loss", predictions, labels)
    _check_ranks("hinge_loss", x, z)
    return relu(subtract(1, multiply(z, x)), name=name or "hinge_loss")


@api_function
def margin_ranking_loss(
    a: Any, b: Any, labels: Any, margin: float = 0.0, *, name: str | None = None
) -> Tensor:
    """max(0, margin - z·(a - b)): scores a should be above b by the margin where z is 1, below where -1.

    Shapes:   all broadcast
    Dtypes:   floating, the same
    Gradient: ∓g·z to a and b where the loss is above 0, else 0.
    Raises:   SpecError when shapes do not broadcast or dtypes differ.
    """
    a, b, z = _floats("margin_ranking_loss", a, b, labels)
    return relu(subtract(margin, multiply(z, subtract(a, b))), name=name or "margin_ranking_loss")


@api_function
def triplet_loss(
    anchors: Any,
    positives: Any,
    negatives: Any,
    margin: float = 1.0,
    ord: float = 2,
    axis: int = -1,
    *,
    name: str | None = None,
) -> Tensor:
    """max(0, |anchor - positive| - |anchor - negative| + margin), lengths by `vector_norm` over `axis`.

    Shapes:   all broadcast; the axis is dropped
    Dtypes:   floating, the same
    Gradient: that of the two lengths where the loss is above 0, else 0.
    Raises:   SpecError when shapes do not broadcast, dtypes differ, or there is no such axis.
    """
    anchor, positive, other = _floats("triplet_loss", anchors, positives, negatives)
    near, far = (vector_norm(subtract(anchor, v), axis, ord=ord) for v in (positive, other))
    return relu(add(subtract(near, far), margin), name=name or "triplet_loss")


@api_function
def cosine_embedding_loss(
    a: Any, b: Any, labels: Any, margin: float = 0.0, axis: int = -1, *, name: str | None = None
) -> Tensor:
    """1 - `cosine_similarity` where the label is above 0, else how far that is above the margin.

    Shapes:   a and b broadcast, labels with what is left without the axis
    Dtypes:   a and b floating, the same; labels real, 1 for pairs that belong together and -1 for others
    Gradient: ∓g times that of the similarity; none to labels.
    Raises:   SpecError when shapes do not broadcast, dtypes differ, or there is no such axis.
    """
    alike = cosine_similarity(a, b, axis)
    apart = relu(subtract(alike, margin))
    return where(greater(labels, 0), subtract(1, alike), apart, name=name or "cosine_embedding_loss")
