"""The loss of sequences without alignment: labels in their order, at times that nobody has marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import GradientError, SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import op
from actorflow.ops.array.broadcast import sum
from actorflow.ops.array.constants import ones_like
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.values.spec import Shape, Spec, merge


def _examples(inputs: Sequence[Spec], blank: int) -> Shape:
    """The shape of the losses; raises SpecError when the inputs do not fit."""
    logits, labels, *lengths = inputs
    check_dtypes("ctc_loss", DtypeClass.FLOATING, logits)
    for spec in (labels, *lengths):
        check_dtypes("the labels and lengths of ctc_loss", DtypeClass.INTEGER, spec)
    n: Shape = (None,)
    try:
        # All have one first axis, and each may know it.
        for spec, rank in zip(inputs, (3, 2, 1, 1), strict=True):
            full = merge(spec.shape, (None,) * rank)
            n = merge(n, (full or (None,))[:1])
    except SpecError:
        message = (
            "ctc_loss needs logits (n, time, classes), labels (n, length) and two lengths (n,), "
            f"got {', '.join(map(str, inputs))}"
        )
        raise SpecError(message) from None
    classes = None if logits.shape is None else logits.shape[2]
    # Refused: beyond the classes when their number is known; below 0 always.
    if blank < 0 or (classes is not None and blank >= classes):
        message = f"the blank of ctc_loss is one of the classes, got {blank} for logits {logits}"
        raise SpecError(message)
    if logits.shape is not None and logits.shape[1] == 0:
        message = f"ctc_loss needs some time, got logits {logits}"
        raise SpecError(message)
    return n


def _spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    return (Spec(_examples(inputs, attrs["blank"]), inputs[0].dtype),)


def _gradient(use: Use, dy: Tensor) -> Sequence[Tensor | None]:
    return build_one("ctc_loss_grad", [*use.inputs, dy], use.attrs), None, None, None


@op("ctc_loss", spec=_spec, gradient=_gradient)
@api_function
def ctc_loss(
    logits: Any,
    labels: Any,
    logit_lengths: Any,
    label_lengths: Any,
    blank: int = 0,
    *,
    name: str | None = None,
) -> Tensor:
    """Minus the log of the probability that the logits, read over time, write the labels; one an example.

    At each time a class is written or the blank. Equal classes one after the other are one label, and
    blanks none; all ways to write the labels count.

    Args:
        logits: For each time and class.
        labels: Class numbers in their order; what lies behind their length counts for nothing.
        logit_lengths: How many times of each example count.
        label_lengths: How many labels of each example count.
        blank: The class that stands for no label.
        name: Name of the node.

    Shapes:   logits (n, time, classes), labels (n, length), lengths (n,) -> (n,)
    Dtypes:   logits floating, kept; the others integers. Halves are computed in float32
    Gradient: softmax(logits) less the share of all ways that write the class at the time, times g;
              0 behind the end, and for an example whose labels need more time than there is: its
              loss is infinite. A second derivative for the logits is refused.
    Raises:   SpecError when they do not fit; in the step KernelError for a length or a label out of
              range, and for the blank as a label.

    Source: Graves and others, "Connectionist temporal classification", ICML 2006.

    >>> with af.Graph():
    ...     logits = af.placeholder("float32", (None, 50, 28), name="logits")
    ...     af.nn.ctc_loss(logits, af.placeholder("int32", (None, 9), name="labels"), [50], [9])
    <Tensor ctc_loss:0 (1,) float32>
    """
    inputs = [as_tensor(v) for v in (logits, labels, logit_lengths, label_lengths)]
    return build_one("ctc_loss", inputs, {"blank": blank}, name=name)


def _grad_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    *given, dy = inputs
    check_dtypes("ctc_loss_grad", DtypeClass.FLOATING, given[0], dy)
    merge(dy.shape, _examples(given, attrs["blank"]))
    return (given[0],)


def _grad_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    """For dy, in which the gradient is linear."""
    if use.needs[0]:
        message = (
            "ctc_loss has no second derivative for its logits: it would need a pass over all pairs of times"
        )
        hint = "stop the gradient at one of the two; af.autodiff.jvp and the first gradient are there"
        raise GradientError(message, where=use.node.where, hint=hint)
    *given, dy = use.inputs
    # Not the output over dy, in which there may be zeros: the slopes once more, for ones.
    slopes = build_one("ctc_loss_grad", [*given, ones_like(dy)], use.attrs)
    return None, None, None, None, sum(slopes * grad, axis=(1, 2))


@op("ctc_loss_grad", spec=_grad_spec, gradient=_grad_gradient)
def ctc_loss_grad(
    logits: Any,
    labels: Any,
    logit_lengths: Any,
    label_lengths: Any,
    dy: Any,
    blank: int = 0,
    *,
    name: str | None = None,
) -> Tensor:
    """The gradient of `ctc_loss` for the logits, given that for the losses.

    Shapes:   those of `ctc_loss`, dy (n,) -> that of logits
    Dtypes:   logits and dy floating, the same; the others integers
    Gradient: to dy, sum(g * that of ctc_loss) over time and classes, which `af.autodiff.jvp` needs; asking
              for one to the logits is an error.
    Raises:   as `ctc_loss` does.
    """
    inputs = [as_tensor(v) for v in (logits, labels, logit_lengths, label_lengths, dy)]
    return build_one("ctc_loss_grad", inputs, {"blank": blank.__index__()}, name=name)
