"""Ops that hand their input on: as it is, cut off from gradients, checked, or in another dtype."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError, Where
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, op
from actorflow.graph.slices import Gradient, map_values
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, unary
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import as_dtype, is_differentiable, wide_dtype
from actorflow.values.dtypes import can_cast
from actorflow.values.spec import Spec, spec


def _pass_gradient(use: Use, grad: Gradient) -> Sequence[Gradient | None]:
    return (grad,)


@op("identity", spec=unary("identity"), gradient=_pass_gradient, takes_bytes=True, sparse=True)
@api_function
def identity(x: Any, *, name: str | None = None) -> Tensor:
    """The same value under another name; its gradient passes unchanged."""
    return build_one("identity", [x], name=name)


@op("stop_gradient", spec=unary("stop_gradient"), gradient=NOT_DIFFERENTIABLE)
@api_function
def stop_gradient(x: Any, *, name: str | None = None) -> Tensor:
    """The same value, through which no gradient flows: to `gradients` it is a constant."""
    return build_one("stop_gradient", [x], name=name)


@op("check_numerics", spec=unary("check_numerics", DtypeClass.INEXACT), gradient=_pass_gradient, sparse=True)
@api_function
def check_numerics(x: Any, message: str = "", *, name: str | None = None) -> Tensor:
    """The same value, checked in every step.

    Shapes:   any, kept
    Dtypes:   floating or complex
    Gradient: passes unchanged and unchecked.
    Raises:   SpecError for other dtypes; in the step NumericError, beginning with `message`, when
              an element is NaN or infinite.
    """
    return build_one("check_numerics", [x], {"message": message}, name=name)


def _cast_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    to = spec(attrs["dtype"], x.shape)
    # Dropped in silence it would be a mistake more often than not.
    if x.dtype.kind == "c" and to.dtype.kind != "c":
        message = f"cast cannot drop the imaginary part, got {x} to {to.dtype.name}"
        raise SpecError(message, hint="take af.real of it, or af.abs")
    return (to,)


def _cast_gradient(use: Use, grad: Gradient) -> Sequence[Gradient | None]:
    dtype = use.inputs[0].dtype
    # No gradient flows through integers and bools.
    return (map_values(grad, lambda g: cast(g, dtype)) if is_differentiable(dtype) else None,)


@op("cast", spec=_cast_spec, gradient=_cast_gradient, sparse=True)
@api_function
def cast(x: Any, dtype: Any, *, safe: bool = False, name: str | None = None) -> Tensor:
    """The same numbers in another dtype; `x` itself when it has that dtype.

    What does not fit becomes, on every device: floats to integers, the whole number on the way to 0,
    or the nearest one that there is, and 0 for NaN; integers to narrower ones, what is left modulo
    2^bits; numbers to narrower floats, the nearest one, or an infinity; anything to bool, whether it
    is not 0. With `safe` every value must be kept, or the step fails.

    Shapes:   any, kept
    Dtypes:   any to any, but complex only to complex
    Gradient: cast back; none between integers and floats.
    Raises:   SpecError for an unknown dtype, and for complex to real. With `safe`, NumericError in
              the step, which names the first value that would change, and its place.

    >>> with af.Graph():
    ...     af.cast([0, 1], "float32")
    <Tensor cast:0 (2,) float32>
    """
    tensor = as_tensor(x)
    try:
        wanted = as_dtype(dtype)
    except TypeError as error:
        raise SpecError(str(error), where=Where(defined_at=source_line())) from None
    # x itself: a cast to its own dtype is no node.
    if tensor.dtype == wanted:
        return tensor
    attrs: dict[str, Attr] = {"dtype": wanted.name}
    # A cast that always keeps every value need not be looked at in the step.
    if safe and not can_cast(tensor.dtype, wanted):
        attrs["safe"] = True
    return build_one("cast", [tensor], attrs, name=name)


def widen_half(x: Tensor) -> Tensor:
    """`x`, halves as float32."""
    return cast(x, wide_dtype(x.dtype))
