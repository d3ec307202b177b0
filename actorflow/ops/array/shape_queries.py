"""What a tensor's shape is in the step: shape, size, rank, and a shape that is promised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, op
from actorflow.graph.slices import Gradient
from actorflow.ops.array.constants import constant
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import size_of
from actorflow.values.arrays import as_dtype
from actorflow.values.spec import Dim, Shape, Spec, check_shape, merge, show


def _shape_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    return (Spec((inputs[0].rank,), as_dtype("int32")),)


def _scalar_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    return (Spec((), as_dtype("int32")),)


@op("shape", spec=_shape_spec, gradient=NOT_DIFFERENTIABLE, takes_bytes=True)
@api_function
def shape(x: Any, *, name: str | None = None) -> Tensor:
    """The sizes of `x` in the step; a constant where they are all known, which needs no `x`.

    Shapes:   (d0, …, dn) -> (n + 1,)
    Dtypes:   any -> int32
    Gradient: none.

    >>> with af.Graph():
    ...     af.arrays.shape(af.placeholder("float32", (None, 3), name="x"))
    <Tensor shape:0 (2,) int32>
    """
    x = as_tensor(x)
    # A constant keeps no x alive, and other rules can read it.
    if x.spec.is_static:
        return constant(x.shape, "int32", name=name or "shape")
    return build_one("shape", [x], name=name)


@op("size", spec=_scalar_spec, gradient=NOT_DIFFERENTIABLE, takes_bytes=True)
@api_function
def size(x: Any, *, name: str | None = None) -> Tensor:
    """The number of elements of `x` in the step, as an int32 scalar; else like `shape`: no gradient."""
    x = as_tensor(x)
    known = None if x.shape is None else size_of(x.shape)
    if known is not None:
        return constant(known, "int32", name=name or "size")
    return build_one("size", [x], name=name)


@op("rank", spec=_scalar_spec, gradient=NOT_DIFFERENTIABLE, takes_bytes=True)
@api_function
def rank(x: Any, *, name: str | None = None) -> Tensor:
    """The number of axes of `x` in the step, as an int32 scalar; else like `shape`: no gradient."""
    x = as_tensor(x)
    if x.spec.rank is not None:
        return constant(x.spec.rank, "int32", name=name or "rank")
    return build_one("rank", [x], name=name)


def _ensure_shape_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,), wanted = inputs, check_shape(attrs["shape"])
    try:
        return (Spec(merge(x.shape, wanted), x.dtype),)
    except SpecError:
        message = f"ensure_shape needs a shape that fits {show(wanted)}, got {x}"
        raise SpecError(message) from None


def check_shape_of(holder: str, x: Tensor, shape: Shape) -> Tensor:
    """`x`, of a shape that fits `shape`; the error of a step where it does not names the holder."""
    return build_one("ensure_shape", [x], {"shape": shape, "holder": holder})


def _pass(use: Use, grad: Gradient) -> Sequence[Gradient | None]:
    return (grad,)


@op("ensure_shape", spec=_ensure_shape_spec, gradient=_pass, takes_bytes=True, sparse=True)
@api_function
def ensure_shape(x: Any, shape: Iterable[Dim] | None, *, name: str | None = None) -> Tensor:
    """`x` itself, whose shape fits `shape` from here on; checked in every step.

    Shapes:   what is known of `x` and `shape` together; None in `shape` for sizes that are not
    Dtypes:   any
    Gradient: passes unchanged.
    Raises:   SpecError when the two can never agree; in the step when they do not.

    >>> with af.Graph():
    ...     af.arrays.ensure_shape(af.placeholder("float32", None, name="x"), (None, 3))
    <Tensor ensure_shape:0 (None, 3) float32>
    """
    return build_one("ensure_shape", [x], {"shape": check_shape(shape)}, name=name)
