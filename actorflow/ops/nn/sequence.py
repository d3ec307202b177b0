"""Sequences of different lengths in one tensor: sequence_mask, reverse_sequence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import op
from actorflow.ops.array.fill import arange
from actorflow.ops.array.identity import cast
from actorflow.ops.array.shape import expand_dims
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.error_context import error_context
from actorflow.ops.definition.spec_rules import DtypeClass, axes_of, check_dtypes
from actorflow.ops.math.logic import less
from actorflow.ops.math.reduce import max
from actorflow.values.spec import Spec, merge


@api_function
def sequence_mask(
    lengths: Any, longest: int | None = None, dtype: Any = "bool", *, name: str | None = None
) -> Tensor:
    """True for the first `lengths[...]` places of a new last axis.

    Shapes:   (...) -> (..., longest); the largest of the lengths when it is None, known in the step
    Dtypes:   integers -> `dtype`
    Gradient: none.
    Raises:   SpecError for other lengths.

    >>> with af.Graph():
    ...     af.nn.sequence_mask([1, 3, 2], 4)
    <Tensor less:0 (3, 4) bool>
    """
    lengths = as_tensor(lengths)
    with error_context("sequence_mask"):
        check_dtypes("sequence_mask", DtypeClass.INTEGER, lengths.spec)
    # As long as the longest of this step.
    places = arange(max(lengths)) if longest is None else arange(longest, dtype=lengths.dtype)
    return cast(less(places, expand_dims(lengths, -1), name=name), dtype)


def _reverse_sequence_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x, lengths = inputs
    check_dtypes("the lengths of reverse_sequence", DtypeClass.INTEGER, lengths)
    if lengths.rank not in (None, 1):
        message = f"the lengths of reverse_sequence are a vector, got {lengths}"
        raise SpecError(message)
    if x.shape is None:
        return (x,)
    axes = (attrs["axis"], attrs["batch_axis"])
    # Also refuses that both are one axis.
    axes_of(axes, len(x.shape))
    try:
        merge((x.shape[axes[1]],), lengths.shape)
    except SpecError:
        message = f"reverse_sequence needs a length for each of axis {axes[1]}, got {lengths} for {x}"
        raise SpecError(message) from None
    return (x,)


def _reverse_sequence_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    # It undoes itself.
    return (reverse_sequence(grad, use.inputs[1], **use.attrs), None)


@op("reverse_sequence", spec=_reverse_sequence_spec, gradient=_reverse_sequence_gradient)
@api_function
def reverse_sequence(
    x: Any, lengths: Any, axis: int = 1, batch_axis: int = 0, *, name: str | None = None
) -> Tensor:
    """`x` with the first `lengths[b]` elements along `axis` backwards, for each b of `batch_axis`.

    Shapes:   x (b, t, c), lengths (b,) -> (b, t, c)
    Dtypes:   x any; lengths integers in [0, t], checked in the step
    Gradient: reversed back; none to lengths.
    Raises:   SpecError when the two axes are one or do not exist, and for too many lengths.
    """
    attrs = {"axis": axis, "batch_axis": batch_axis}
    return build_one("reverse_sequence", [as_tensor(x), as_tensor(lengths)], attrs, name=name)
