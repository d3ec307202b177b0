"""What becomes of an `IndexedSlices`: the dense tensor, and one slice for each index.

Both take values (k, …), indices (k,) in [-n, n), and how many rows n the dense tensor has: an integer
or, when that is known in the step only, its shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import op
from actorflow.ops.array.identity import cast
from actorflow.ops.array.slicing import gather, slice
from actorflow.ops.array.sort import searchsorted
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.ops.math.logic import less, where
from actorflow.values.arrays import as_dtype
from actorflow.values.spec import Shape, Spec, merge, show


def _check(op_name: str, inputs: Sequence[Spec], rows: int | None) -> Shape:
    """The shape of the dense tensor, as far as it is known; SpecError when the inputs do not fit."""
    values, indices, *whole = inputs
    check_dtypes(op_name, DtypeClass.NUMBER, values)
    check_dtypes(f"the indices of {op_name}", DtypeClass.INTEGER, indices)
    # One of both says how many rows there are.
    if (rows is None) != bool(whole) or (rows is not None and rows < 0):
        message = f"{op_name} needs a number of rows, or the whole shape as a tensor, got {rows}"
        raise SpecError(message)
    if whole:
        check_dtypes(f"the shape of {op_name}", DtypeClass.INTEGER, *whole)
        merge(whole[0].shape, (None,))
    if indices.rank not in (1, None) or values.shape == ():
        message = f"{op_name} needs an index for each slice, got values {values} and indices {indices}"
        raise SpecError(message)
    if values.shape is None:
        return None
    try:
        merge(values.shape[:1], indices.shape)
    except SpecError:
        message = (
            f"{op_name} needs an index for each slice, got {show(indices.shape)} for {show(values.shape)}"
        )
        raise SpecError(message) from None
    return (rows, *values.shape[1:])


def _inputs(values: Any, indices: Any, rows: int | Tensor) -> tuple[list[Tensor], dict[str, Attr]]:
    given = [as_tensor(values), as_tensor(indices)]
    if isinstance(rows, Tensor):
        return [*given, rows], {"rows": None}
    return given, {"rows": rows.__index__()}


def _rows(use: Use) -> int | Tensor:
    return use.inputs[2] if use.attrs["rows"] is None else use.attrs["rows"]


def _slices_to_dense_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    return (Spec(_check("slices_to_dense", inputs, attrs["rows"]), inputs[0].dtype),)


def _slices_to_dense_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    # Each slice gets the row that it was added to.
    return (gather(grad, use.inputs[1]), None, None)[: len(use.inputs)]


@op("slices_to_dense", spec=_slices_to_dense_spec, gradient=_slices_to_dense_gradient)
@api_function
def slices_to_dense(values: Any, indices: Any, rows: int | Tensor, *, name: str | None = None) -> Tensor:
    """Zeros, with `values[i]` added to row `indices[i]`, one after the other; halves are summed in float32.

    Shapes:   values (k, …), indices (k,) -> (rows, …)
    Dtypes:   numbers, kept; indices integers in [-rows, rows), checked in the step
    Gradient: the rows of g at the indices; none to them.
    Raises:   SpecError for other shapes and indices.
    """
    inputs, attrs = _inputs(values, indices, rows)
    return build_one("slices_to_dense", inputs, attrs, name=name)


def _sum_duplicates_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    shape = _check("sum_duplicates", inputs, attrs["rows"])
    # How many indices differ shows in the step.
    summed = None if shape is None else (None, *shape[1:])
    return Spec((None,), as_dtype("int64")), Spec(summed, inputs[0].dtype)


def _sum_duplicates_gradient(use: Use, _: Tensor | None, grad: Tensor | None) -> Sequence[Tensor | None]:
    if grad is None:
        return (None,) * len(use.inputs)
    rows, at = _rows(use), cast(use.inputs[1], "int64")
    n = cast(slice(rows, 0), "int64") if isinstance(rows, Tensor) else rows
    # Where each index lies among the distinct ones, counted from the front.
    place = searchsorted(use.outputs[0], where(less(at, 0), at + n, at))
    return (gather(grad, place), None, None)[: len(use.inputs)]


@op("sum_duplicates", spec=_sum_duplicates_spec, gradient=_sum_duplicates_gradient)
@api_function
def sum_duplicates(
    values: Any, indices: Any, rows: int | Tensor, *, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """The indices that occur, ascending in [0, rows), and for each the sum of its values: (indices, sums).

    The values of one index are added up from the left, in the order in which they come; those of float16
    and bfloat16 in float32, and rounded once.

    Shapes:   values (k, …), indices (k,) -> (m,) and (m, …), m known in the step
    Dtypes:   numbers, kept; indices integers in [-rows, rows), checked in the step -> int64
    Gradient: to each value that of its sum; none to the indices.
    Raises:   SpecError for other shapes and indices.
    """
    inputs, attrs = _inputs(values, indices, rows)
    at, sums = build("sum_duplicates", inputs, attrs, name=name)
    return at, sums
