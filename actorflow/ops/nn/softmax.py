"""Softmax and its losses, and dropout: what networks need beside products and elementwise ops."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

from actorflow.errors import SpecError, Where
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import Effect, SpecRule, op
from actorflow.ops.array.broadcast import sum
from actorflow.ops.array.constants import ones_like, zeros_like
from actorflow.ops.array.shape import expand_dims
from actorflow.ops.array.slicing import slice
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.error_context import error_context
from actorflow.ops.definition.spec_rules import Axis, DtypeClass, axes_of, check_dtypes
from actorflow.ops.math.arithmetic import lerp, multiply_no_nan
from actorflow.ops.math.elementwise import add, exp, multiply, negative, subtract
from actorflow.ops.math.logic import equal, greater, where
from actorflow.ops.math.random import node_seed
from actorflow.ops.math.reduce import mean
from actorflow.ops.math.statistics import logsumexp
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import is_floating
from actorflow.values.spec import Shape, Spec, axis_of, merge


def _along_axis(op_name: str) -> SpecRule:
    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        (x,) = inputs
        check_dtypes(op_name, DtypeClass.FLOATING, x)
        if x.shape is not None:
            axis_of(attrs["axis"], len(x.shape))
        return (x,)

    return rule


def _softmax_gradient(use: Use, dy: Tensor) -> Sequence[Tensor | None]:
    (y,) = use.outputs
    return (_through_softmax(y, dy, use.attrs["axis"]),)


def _through_softmax(y: Tensor, dy: Tensor, axis: int) -> Tensor:
    """The gradient for x of `sum(dy * y)`, y = softmax(x)."""
    along: Tensor = y * dy
    # Every x is in the sum that divides all y.
    return subtract(along, y * sum(along, axis, keepdims=True))


@op("softmax", spec=_along_axis("softmax"), gradient=_softmax_gradient)
@api_function
def softmax(x: Any, axis: int = -1, *, name: str | None = None) -> Tensor:
    """`exp(x) / sum(exp(x))` along `axis`; does not overflow.

    Shapes:   any, kept; of no elements there is no softmax, and nothing to refuse
    Dtypes:   floating
    Gradient: `y * (dy - sum(y * dy, axis))`
    Raises:   SpecError when there is no such axis.

    >>> with af.Graph():
    ...     af.nn.softmax([[1.0, 2.0, 3.0]])
    <Tensor softmax:0 (1, 3) float32>
    """
    return build_one("softmax", [x], {"axis": axis}, name=name)


def _log_softmax_gradient(use: Use, dy: Tensor) -> Sequence[Tensor | None]:
    (y,) = use.outputs
    # exp(y) is the softmax again.
    return (dy - exp(y) * sum(dy, use.attrs["axis"], keepdims=True),)


@op("log_softmax", spec=_along_axis("log_softmax"), gradient=_log_softmax_gradient)
@api_function
def log_softmax(x: Any, axis: int = -1, *, name: str | None = None) -> Tensor:
    """`log(softmax(x))` along `axis`, exact where softmax itself would round to 0.

    Shapes:   any, kept
    Dtypes:   floating
    Gradient: `dy - softmax(x) * sum(dy, axis)`
    Raises:   SpecError when there is no such axis.
    """
    return build_one("log_softmax", [x], {"axis": axis}, name=name)


def _classes(logits: Spec, labels: Spec) -> Shape:
    """Returns the shape of the examples; raises SpecError when logits and labels do not fit."""
    check_dtypes("softmax_cross_entropy", DtypeClass.FLOATING, logits)
    if not DtypeClass.INTEGER.accepts(labels.dtype):
        message = f"labels must be integers, the number of the class, got {labels}"
        raise SpecError(message)
    if logits.shape is None:
        return labels.shape
    if not logits.shape or logits.shape[-1] == 0:
        message = f"logits need a last axis with an element for every class, got {logits}"
        raise SpecError(message)
    try:
        return merge(logits.shape[:-1], labels.shape)
    except SpecError:
        message = f"there must be one label for each row of logits, got logits {logits} and labels {labels}"
        raise SpecError(message, hint="labels are class numbers, not one-hot rows") from None


def _check_probabilities(logits: Spec, labels: Spec, ignore: int | None) -> None:
    """Raises SpecError unless labels are a probability for each logit."""
    check_dtypes("softmax_cross_entropy", DtypeClass.FLOATING, logits)
    if ignore is not None:
        message = f"ignore is a class number and labels are integers then, got {ignore} and labels {labels}"
        raise SpecError(message, hint="multiply the losses by weights")
    try:
        merge(logits.shape, labels.shape)
        fits = logits.dtype == labels.dtype
    except SpecError:
        fits = False
    if not fits:
        message = (
            "labels that are floating are a probability for each logit, "
            f"got logits {logits} and labels {labels}"
        )
        raise SpecError(message, hint="labels that are class numbers are integers")


def _cross_entropy_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    logits, labels = inputs
    return (Spec(_classes(logits, labels), logits.dtype),)


def _cross_entropy_gradient(use: Use, dy: Tensor) -> Sequence[Tensor | None]:
    logits, labels = use.inputs
    return softmax_cross_entropy_grad(logits, labels, dy), None


@op("softmax_cross_entropy", spec=_cross_entropy_spec, gradient=_cross_entropy_gradient)
@api_function
def softmax_cross_entropy(
    logits: Any, labels: Any, smoothing: float = 0.0, ignore: int | None = None, *, name: str | None = None
) -> Tensor:
    """The loss of each example: `log(sum(exp(logits))) - logits[label]`; does not overflow.

    Labels are numbers of classes, or floating: then they are the probability of each class, and
    the loss is `-sum(labels * log_softmax(logits))`.

    Args:
        logits: Floating, the last axis for the classes.
        labels: Integers without that axis, or floating with it.
        smoothing: The part of every label that is spread evenly over all classes, in [0, 1].
        ignore: The class number whose examples have loss 0, in or out of [0, classes), for instance
            of padding; divide by `af.sum` of the others, as `af.nn.weighted_mean` does, for their mean.
        name: Name of the node.

    Shapes:   logits (..., classes), labels (...) or (..., classes) -> (...)
    Dtypes:   logits floating, labels integer or that of logits -> that of logits
    Gradient: `(softmax(logits) - onehot(labels)) * dy`; to labels that are probabilities
              `-log_softmax(logits) * dy`, else none.
    Raises:   SpecError when they do not fit; KernelError in the step for a label outside
              [0, classes).

    Source of the smoothing: Szegedy and others, "Rethinking the Inception architecture", CVPR 2016.

    >>> with af.Graph():
    ...     logits = af.placeholder("float32", (None, 10), name="logits")
    ...     af.nn.softmax_cross_entropy(logits, af.placeholder("int32", (None,), name="labels"))
    <Tensor softmax_cross_entropy:0 (None,) float32>
    """
    logits, labels = as_tensor(logits), as_tensor(labels)
    with error_context("softmax_cross_entropy"):
        if not 0 <= smoothing <= 1:
            message = f"the smoothing of labels lies in [0, 1], got {smoothing!r}"
            raise SpecError(message)
        if is_floating(labels.dtype):
            _check_probabilities(logits.spec, labels.spec, ignore)
    if is_floating(labels.dtype):
        # log softmax may be -inf where the probability is 0.
        loss = negative(sum(multiply_no_nan(log_softmax(logits), labels), -1), name=name)
    else:
        # The ignored number need not be a class: 0 stands in for it, and its loss is taken out below.
        counted = labels if ignore is None else where(equal(labels, ignore), zeros_like(labels), labels)
        loss = build_one("softmax_cross_entropy", [logits, counted], name=name)
    if smoothing:
        # The loss of an even label: the mean over classes of what each would cost.
        even = subtract(logsumexp(logits, -1), mean(logits, -1))
        loss = lerp(loss, even, smoothing)
    # ORDER: behind the smoothing, which would give the ignored a loss again.
    return loss if ignore is None else where(equal(labels, ignore), zeros_like(loss), loss)


def _cross_entropy_grad_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    logits, labels, dy = inputs
    check_dtypes("softmax_cross_entropy_grad", DtypeClass.FLOATING, logits, dy)
    merge(_classes(logits, labels), dy.shape)
    return (logits,)


def _cross_entropy_grad_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    logits, labels, dy = use.inputs
    # The label is constant in it: only softmax moves.
    to_logits = _through_softmax(softmax(logits), grad, -1) * expand_dims(dy, -1)
    # Linear in dy; for ones, since dy may be 0.
    to_dy = sum(grad * softmax_cross_entropy_grad(logits, labels, ones_like(dy)), -1)
    return to_logits, None, to_dy


@op("softmax_cross_entropy_grad", spec=_cross_entropy_grad_spec, gradient=_cross_entropy_grad_gradient)
def softmax_cross_entropy_grad(logits: Any, labels: Any, dy: Any, *, name: str | None = None) -> Tensor:
    """`(softmax(logits) - onehot(labels)) * dy`: the gradient of the loss for the logits.

    Shapes:   logits (..., classes), labels (...), dy (...) -> that of logits
    Dtypes:   logits and dy floating and the same, labels integer
    Gradient: through softmax to the logits, `sum(g * (softmax - onehot))` to dy.
    Raises:   as softmax_cross_entropy does.
    """
    return build_one("softmax_cross_entropy_grad", [logits, labels, dy], name=name)


def _dropout_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    check_dtypes("dropout", DtypeClass.FLOATING, x)
    return x, x


def _dropout_gradient(use: Use, dy: Tensor | None, to_factors: Tensor | None) -> Sequence[Tensor | None]:
    _, factors = use.outputs
    # By the factors of the forward draw; another draw would drop others.
    return (None if dy is None else dy * factors,)


@op("dropout", spec=_dropout_spec, gradient=_dropout_gradient, effect=Effect.RANDOM)
@api_function
def dropout(
    x: Any,
    rate: float,
    *,
    training: bool = True,
    whole: Axis = (),
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Sets each element to 0 with probability `rate` and scales the others by `1 / (1 - rate)`.

    The node has a second output, the factor of each element, through which the gradient flows.
    Without `training`, and for rate 0, the result is `x` itself. Elements along the axes `whole`
    share one draw: `whole=(1, 2)` drops whole channels of images.

    Shapes:   any, kept; with `whole` a known rank
    Dtypes:   floating
    Gradient: `dy * factors`
    Raises:   SpecError unless 0 <= rate < 1, and for an axis that does not exist.

    >>> with af.Graph(seed=1):
    ...     af.nn.dropout(af.placeholder("float32", (None, 64), name="x"), 0.5)
    <Tensor dropout:0 (None, 64) float32>
    """
    check_rate(rate)
    values = as_tensor(x)
    if not training or rate == 0:
        return values
    attrs = {"rate": float(rate), "seed": node_seed(seed)}
    if whole == ():
        return build("dropout", [values], attrs, name=name)[0]
    with error_context("dropout"):
        if values.shape is None:
            message = f"dropout needs a known rank to drop whole axes, got {values.spec}"
            raise SpecError(message, hint="say it with af.arrays.ensure_shape")
        axes = axes_of(whole, len(values.shape))
    # One element for an axis that goes as a whole: it broadcasts.
    cut = tuple(builtins.slice(None, 1 if i in axes else None) for i in range(len(values.shape)))
    # Of ones, dropout gives the factors.
    return multiply(values, build("dropout", [ones_like(slice(values, cut))], attrs)[0], name=name)


def check_rate(rate: float) -> None:
    """Raises SpecError, at the user's line, unless `rate` is a part that can be dropped."""
    if not 0 <= rate < 1:
        message = f"a dropout rate lies in [0, 1), got {rate!r}"
        hint = "it is the part that is dropped, not the part that is kept"
        raise SpecError(message, where=Where(defined_at=source_line()), hint=hint)


@api_function
def alpha_dropout(
    x: Any, rate: float, *, training: bool = True, seed: int | None = None, name: str | None = None
) -> Tensor:
    """Dropout for `selu`: what is dropped becomes selu(-inf), and mean 0 and variance 1 are kept.

    Without `training`, and for rate 0, the result is `x` itself.

    Shapes:   any, kept
    Dtypes:   floating
    Gradient: dy·a where elements were kept, with the a below, else 0.
    Raises:   SpecError unless 0 <= rate < 1.

    Source: Klambauer and others, "Self-normalizing neural networks", 2017, section 3.
    """
    check_rate(rate)
    values = as_tensor(x)
    if not training or rate == 0:
        return values
    lowest, kept = -1.7580993408473766, 1 - rate  # -scale·alpha of selu
    # a and b take mean and variance back to 0 and 1, of inputs that have those.
    a = 1 / sqrt(kept + lowest**2 * rate * kept)
    b = -a * rate * lowest
    # Only which are 0 counts: what is kept is not scaled by 1/(1 - rate) here.
    factors = build("dropout", [ones_like(values)], {"rate": float(rate), "seed": node_seed(seed)})[0]
    held = where(greater(factors, 0), values, lowest)
    return add(multiply(held, a), b, name=name)
