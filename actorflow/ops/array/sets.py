"""What occurs in a tensor, how often and where: unique, nonzero, bincount, histogram.

The sizes of results depend on the data, so specs have unknown sizes here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError, Where
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, SpecRule, op
from actorflow.ops.array.slicing import gather
from actorflow.ops.array.sort import one_dimensional
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import as_dtype, is_floating
from actorflow.values.spec import Spec, show

# ---------------------------------------------------------------------------------------- unique


def _unique(op_name: str, *more: str) -> SpecRule:
    """The rule of values, each once, and of `more`: their indices and counts, or an inverse like x."""

    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        (x,) = inputs
        check_dtypes(op_name, DtypeClass.ANY, x)
        whole = as_dtype("int64")
        # The inverse has the shape of x; all else as many elements as there are values.
        rest = (Spec(x.shape if what == "inverse" else (None,), whole) for what in more)
        return (Spec((None,), x.dtype), *rest)

    return rule


@op("unique_values", spec=_unique("unique_values"), gradient=NOT_DIFFERENTIABLE)
@api_function
def unique_values(x: Any, *, name: str | None = None) -> Tensor:
    """The values that occur in `x`, each once, in ascending order; every NaN counts as a value of its own.

    Shapes:   any -> (number of values,), known in the step
    Dtypes:   any, kept; complex numbers by their real parts first, False before True
    Gradient: none: a value that moves away from its equals becomes one more. Gather at the
              indices of `unique_all` for one that goes to the first of equals.
    """
    return build_one("unique_values", [x], name=name)


@op("unique_counts", spec=_unique("unique_counts", "counts"), gradient=NOT_DIFFERENTIABLE)
@api_function
def unique_counts(x: Any, *, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The values that occur in `x`, and how often, as int64; no gradient. Else like `unique_values`."""
    values, counts = build("unique_counts", [x], name=name)
    return values, counts


@op("unique_inverse", spec=_unique("unique_inverse", "inverse"), gradient=NOT_DIFFERENTIABLE)
@api_function
def unique_inverse(x: Any, *, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The values that occur in `x`, and for each element the number of its value.

    The inverse is int64 in the shape of x; `gather(values, inverse)` is x. No gradient. Else like
    `unique_values`.
    """
    values, inverse = build("unique_inverse", [x], name=name)
    return values, inverse


@op("unique_all", spec=_unique("unique_all", "indices", "inverse", "counts"), gradient=NOT_DIFFERENTIABLE)
@api_function
def unique_all(x: Any, *, name: str | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(values, indices, inverse, counts); the indices name the first of equals in the flattened `x`.

    No gradient. Else like `unique_values`, `unique_inverse` and `unique_counts`.
    """
    values, indices, inverse, counts = build("unique_all", [x], name=name)
    return values, indices, inverse, counts


# --------------------------------------------------------------------------------------- nonzero


def _nonzero_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,), rank = inputs, attrs["rank"]
    # A scalar has no axis to be indexed along.
    if rank < 1 or (x.shape is not None and len(x.shape) != rank):
        message = f"nonzero needs a tensor of at least one axis, got {x}"
        raise SpecError(message)
    return tuple(Spec((None,), as_dtype("int64")) for _ in range(rank))


@op("nonzero", spec=_nonzero_spec, gradient=NOT_DIFFERENTIABLE)
@api_function
def nonzero(x: Any, *, name: str | None = None) -> tuple[Tensor, ...]:
    """Where elements are true or not 0: the indices along each axis, in row-major order.

    Shapes:   any of known rank r > 0 -> r tensors (number of such elements,)
    Dtypes:   any -> int64
    Gradient: none.
    Raises:   SpecError for rank 0, and for an unknown rank.
    """
    x = as_tensor(x)
    if x.spec.rank is None:
        message = f"nonzero gives a tensor for each axis and needs a known rank, got {x.spec}"
        raise SpecError(message, where=Where(defined_at=source_line()), hint="flatten it with af.reshape")
    return build("nonzero", [x], {"rank": x.spec.rank}, name=name)


# -------------------------------------------------------------------------------------- counting


def _bincount_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x, *weights = inputs
    check_dtypes("bincount", DtypeClass.INTEGER, x)
    one_dimensional("bincount", "numbers and their weights along one axis", *inputs)
    if attrs["minlength"] < 0:
        message = f"bincount takes a minlength of at least 0, got {attrs['minlength']}"
        raise SpecError(message)
    if not weights:
        return (Spec((None,), as_dtype("int64")),)
    check_dtypes("bincount with weights", DtypeClass.FLOATING, *weights)
    return (Spec((None,), weights[0].dtype),)


def _bincount_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (None, gather(grad, use.inputs[0]))[: len(use.inputs)]


@op("bincount", spec=_bincount_spec, gradient=_bincount_gradient)
@api_function
def bincount(x: Any, weights: Any = None, minlength: int = 0, *, name: str | None = None) -> Tensor:
    """How often each of 0, 1, 2, … occurs in `x`; with weights, the sum of those of its places.

    Shapes:   x (n,), weights (n,) -> (max(largest + 1, minlength),), known in the step
    Dtypes:   x integers; weights floating, kept -> int64, or the dtype of the weights
    Gradient: to the weights g at their numbers; none to x.
    Raises:   SpecError for other shapes and dtypes; in the step KernelError for a negative number.
    """
    inputs = [as_tensor(x)] if weights is None else [as_tensor(x), as_tensor(weights)]
    return build_one("bincount", inputs, {"minlength": minlength}, name=name)


def _histogram_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,), bins, span = inputs, attrs["bins"], attrs["range"]
    check_dtypes("histogram", DtypeClass.REAL, x)
    if bins < 1:
        message = f"histogram needs at least one bin, got {bins}"
        raise SpecError(message)
    if span is not None and not -float("inf") < span[0] <= span[1] < float("inf"):
        message = f"the range of a histogram is (lowest, highest), both finite, got {show(span)}"
        raise SpecError(message)
    # Edges of integers lie between them.
    edges = x.dtype if is_floating(x.dtype) else as_dtype("float64")
    return Spec((bins,), as_dtype("int64")), Spec((bins + 1,), edges)


@op("histogram", spec=_histogram_spec, gradient=NOT_DIFFERENTIABLE)
@api_function
def histogram(
    x: Any, bins: int = 10, range: tuple[float, float] | None = None, *, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """How many elements lie in each of `bins` equal parts of a range, and their edges: (counts, edges).

    The range is from the smallest to the largest element when it is None, and (0, 1) of none; one
    without width is widened by 0.5 on both sides. An edge belongs to the bin above it, the last one
    to the last bin. Elements outside the range and NaN are not counted.

    Shapes:   any -> (bins,), (bins + 1,)
    Dtypes:   real numbers -> int64; edges that of x, float64 for integers
    Gradient: none.
    Raises:   SpecError unless bins is positive and the range finite and in order; in the step
              KernelError when it comes from elements that are not finite.
    """
    span = None if range is None else tuple(float(end) for end in range)
    counts, edges = build("histogram", [x], {"bins": bins, "range": span}, name=name)
    return counts, edges
