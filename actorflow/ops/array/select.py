"""Choosing by conditions and numbers: boolean_mask, select, dynamic_partition and dynamic_stitch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError, Where
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, as_tensors, build, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, op
from actorflow.graph.slices import Gradient, IndexedSlices
from actorflow.ops.array.constants import zeros_like
from actorflow.ops.array.fill import arange
from actorflow.ops.array.identity import cast
from actorflow.ops.array.shape import reshape_like
from actorflow.ops.array.shape_queries import shape, size
from actorflow.ops.array.slicing import concat, gather, slice
from actorflow.ops.array.sort import argsort, searchsorted
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes, check_outputs
from actorflow.ops.math.logic import equal, less, logical_not, where
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import as_array, as_dtype
from actorflow.values.spec import Shape, Spec, axis_of, merge, show

# ------------------------------------------------------------------------------ boolean_mask


def _boolean_mask_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x, mask = inputs
    check_dtypes("the mask of boolean_mask", DtypeClass.BOOL, mask)
    # A scalar mask chooses all or nothing: where does that.
    if mask.shape == ():
        message = f"the mask of boolean_mask needs at least one axis, got {mask}"
        raise SpecError(message, hint="choose by one condition with af.where")
    if x.shape is None or mask.shape is None:
        return (Spec(None, x.dtype),)
    axis = axis_of(attrs["axis"], len(x.shape))
    end = axis + len(mask.shape)
    try:
        merge(x.shape[axis:end], mask.shape)
    except SpecError:
        message = f"the mask of boolean_mask needs the sizes of x from axis {axis} on, got {mask} for {x}"
        raise SpecError(message) from None
    # How many are true shows in the step.
    return (Spec((*x.shape[:axis], None, *x.shape[end:]), x.dtype),)


def _boolean_mask_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    x, mask = use.inputs
    return (boolean_mask_grad(grad, x, mask, use.attrs["axis"]), None)


@op("boolean_mask", spec=_boolean_mask_spec, gradient=_boolean_mask_gradient, takes_bytes=True)
@api_function
def boolean_mask(x: Any, mask: Any, axis: int = 0, *, name: str | None = None) -> Tensor:
    """What lies in `x` where `mask` is true, in row-major order; the mask covers axes from `axis` on.

    How many that are is known in the step only; a card waits for it.

    Shapes:   x (a, b, c), mask (a, b) -> (?, c)
    Dtypes:   x any; mask bool
    Gradient: zeros, with g where the mask is true; none to mask.
    Raises:   SpecError when the sizes of the mask are not those of x; in the step when they were
              unknown.

    >>> with af.Graph():
    ...     x = af.placeholder("float32", (4, 3), name="x")
    ...     af.arrays.boolean_mask(x, x > 0)
    <Tensor boolean_mask:0 (None,) float32>
    """
    return build_one("boolean_mask", [as_tensor(x), as_tensor(mask)], {"axis": axis}, name=name)


def _boolean_mask_grad_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    grad, x, mask = inputs
    merge(grad.shape, _boolean_mask_spec([x, mask], attrs)[0].shape)
    return (Spec(x.shape, grad.dtype),)


def _boolean_mask_grad_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (boolean_mask(grad, use.inputs[2], use.attrs["axis"]), None, None)


@op("boolean_mask_grad", spec=_boolean_mask_grad_spec, gradient=_boolean_mask_grad_gradient)
def boolean_mask_grad(grad: Any, x: Any, mask: Any, axis: int = 0, *, name: str | None = None) -> Tensor:
    """Zeros in the shape of `x` with `grad` where `mask` is true: the gradient of `boolean_mask`.

    Shapes:   grad that of `boolean_mask(x, mask, axis)` -> that of x
    Dtypes:   any, that of `grad`; mask bool
    Gradient: chosen again; none to x and mask.
    """
    return build_one("boolean_mask_grad", [grad, x, mask], {"axis": axis}, name=name)


def _argwhere_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    return (Spec((None, inputs[0].rank), as_dtype("int64")),)


@op("argwhere", spec=_argwhere_spec, gradient=NOT_DIFFERENTIABLE)
@api_function
def argwhere(x: Any, *, name: str | None = None) -> Tensor:
    """The places where `x` is true, or not zero, in row-major order: one row of indices each.

    `gather_nd(x, argwhere(x))` are its elements that are not zero. NaN is not zero.

    Shapes:   x of n axes -> (?, n); a card waits for the size
    Dtypes:   any -> int64
    Gradient: none.

    >>> with af.Graph():
    ...     af.arrays.argwhere(af.placeholder("bool", (4, 3), name="x"))
    <Tensor argwhere:0 (None, 2) int64>
    """
    return build_one("argwhere", [x], name=name)


@api_function
def select(conditions: Sequence[Any], choices: Sequence[Any], default: Any = 0) -> Tensor:
    """Elementwise the choice of the first condition that is true, `default` where none is.

    Shapes:   conditions, choices and default broadcast
    Dtypes:   conditions bool; choices and default any, the same
    Gradient: to the choice that was taken.
    Raises:   SpecError unless there is one choice for each condition.
    """
    if len(conditions) != len(choices) or not choices:
        message = f"select takes a choice for each condition, got {len(conditions)} and {len(choices)}"
        raise SpecError(message, where=Where(op="select", defined_at=source_line()))
    *values, taken = as_tensors(*choices, default)
    # From behind, so that the first condition that is true has the last word.
    for condition, value in zip(reversed(conditions), reversed(values), strict=True):
        taken = where(condition, value, taken)
    return taken


# ---------------------------------------------------------------- dynamic_partition and stitch


def _behind(op_name: str, x: Spec, numbers: Spec, what: str) -> Shape:
    """The axes of `x` behind those of `numbers`, which are its first; None when unknown."""
    check_dtypes(f"the {what} of {op_name}", DtypeClass.INTEGER, numbers)
    if x.shape is None or numbers.shape is None:
        return None
    try:
        merge(x.shape[: len(numbers.shape)], numbers.shape)
    except SpecError:
        message = f"the {what} of {op_name} need the first sizes of their data, got {numbers} for {x}"
        raise SpecError(message) from None
    return x.shape[len(numbers.shape) :]


def _dynamic_partition_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x, partitions = inputs
    count: int = attrs["count"]
    if count < 1:
        message = f"dynamic_partition makes at least one part, got {count}"
        raise SpecError(message)
    check_outputs("dynamic_partition", count)
    rest = _behind("dynamic_partition", x, partitions, "partitions")
    return (Spec(None if rest is None else (None, *rest), x.dtype),) * count


def _dynamic_partition_gradient(use: Use, *grads: Tensor | None) -> Sequence[Tensor | None]:
    x, partitions = use.inputs
    # Numbers of the elements, parted as x was: they say where each goes back.
    numbers = reshape_like(arange(0, size(partitions), 1), partitions)
    origins = dynamic_partition(numbers, partitions, use.attrs["count"])
    parts = [zeros_like(y) if g is None else g for y, g in zip(use.outputs, grads, strict=True)]
    return (reshape_like(dynamic_stitch(origins, parts), x), None)


@op("dynamic_partition", spec=_dynamic_partition_spec, gradient=_dynamic_partition_gradient, takes_bytes=True)
@api_function
def dynamic_partition(x: Any, partitions: Any, count: int, *, name: str | None = None) -> tuple[Tensor, ...]:
    """`count` tensors: the i-th holds what lies in `x` where `partitions` is i, in row-major order.

    `dynamic_stitch` of the parts of a range undoes it:
    `dynamic_stitch(dynamic_partition(af.arange(n), p, k), dynamic_partition(x, p, k))` is `x`.

    Shapes:   x (a, b, c), partitions (a, b) -> `count` of (?, c); a card waits for the sizes
    Dtypes:   x any; partitions integers in [0, count), checked in the step
    Gradient: stitched together; none to partitions.
    Raises:   SpecError for other partitions, and when x does not begin with their sizes.
    """
    inputs = [as_tensor(x), as_tensor(partitions)]
    return build("dynamic_partition", inputs, {"count": count}, name=name)


def _halves(values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    return values[: len(values) // 2], values[len(values) // 2 :]


def _dynamic_stitch_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    indices, data = _halves(inputs)
    check_dtypes("dynamic_stitch", DtypeClass.ANY, *data)
    rest: Shape = None
    for numbers, values in zip(indices, data, strict=True):
        behind = _behind("dynamic_stitch", values, numbers, "indices")
        try:
            rest = merge(rest, behind)
        except SpecError:
            message = (
                f"dynamic_stitch needs equal sizes behind the indices, got {show(rest)} and {show(behind)}"
            )
            raise SpecError(message) from None
    return (Spec(None if rest is None else (None, *rest), data[0].dtype),)


def _dynamic_stitch_gradient(use: Use, grad: Gradient) -> Sequence[Gradient | None]:
    indices, data = _halves(use.inputs)
    # Rows of the whole are rows of its parts: sparse stays sparse.
    if isinstance(grad, IndexedSlices) and all(i.spec.rank == 1 for i in indices):
        return (*(None for _ in indices), *_slices_of_parts(use, grad))
    grad = as_tensor(grad)
    return (*(None for _ in indices), *dynamic_stitch_grad(grad, indices, data))


def _slices_of_parts(use: Use, grad: IndexedSlices) -> Sequence[IndexedSlices]:
    """Of each part the slices of the rows that it gave, the last part first: it replaces those before.

    A row is looked for among the sorted indices of the part; the last of equals is the one that stays.
    """
    indices, data = _halves(use.inputs)
    at, values = cast(grad.indices, "int64"), grad.values
    # Negative indices count from the end.
    at = where(less(at, 0), at + cast(slice(shape(use.outputs[0]), 0), "int64"), at)
    found = []
    # The last part first: where an index comes twice it is the one that stayed.
    for numbers, part in reversed(list(zip(indices, data, strict=True))):
        order = argsort(numbers)
        # -1 in front, so that a place before all indices is one as well.
        ranked = concat(
            [as_tensor(as_array([-1], as_dtype("int64"))), cast(gather(numbers, order), "int64")], 0
        )
        # The last of equals, as it is the one that stays.
        place = searchsorted(ranked, at, side="right") - 1
        own = equal(gather(ranked, place), at)
        # Less the one in front.
        rows = gather(order, boolean_mask(place, own) - 1)
        found.append(IndexedSlices.of(part, boolean_mask(values, own), rows))
        # What this part gave is not looked for in those before.
        others = logical_not(own)
        at, values = boolean_mask(at, others), boolean_mask(values, others)
    return found[::-1]


@op("dynamic_stitch", spec=_dynamic_stitch_spec, gradient=_dynamic_stitch_gradient, sparse=True)
@api_function
def dynamic_stitch(indices: Sequence[Any], data: Sequence[Any], *, name: str | None = None) -> Tensor:
    """One tensor whose row `indices[i][p]` is `data[i][p]`; where one comes twice the last stays.

    Rows that no index names are zeros.

    Shapes:   indices (a,) and (b, c), data (a, d) and (b, c, d) -> (largest index + 1, d); a card
              waits for that
    Dtypes:   indices integers, not negative, checked in the step; data any, the same
    Gradient: the rows of g at the indices, zeros for data that did not stay; none to indices.
    Raises:   SpecError unless there are as many data as indices, which begin with their sizes.
    """
    if len(indices) != len(data) or not data:
        message = f"dynamic_stitch takes data for each tensor of indices, got {len(indices)} and {len(data)}"
        raise SpecError(message, where=Where(op="dynamic_stitch", defined_at=source_line()))
    return build_one("dynamic_stitch", [*(as_tensor(i) for i in indices), *as_tensors(*data)], name=name)


def _dynamic_stitch_grad_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    grad, *rest = inputs
    merge(grad.shape, _dynamic_stitch_spec(rest, attrs)[0].shape)
    return tuple(Spec(d.shape, grad.dtype) for d in _halves(rest)[1])


def _dynamic_stitch_grad_gradient(use: Use, *grads: Tensor | None) -> Sequence[Tensor | None]:
    indices, data = _halves(use.inputs[1:])
    parts = [zeros_like(y) if g is None else g for y, g in zip(use.outputs, grads, strict=True)]
    return (dynamic_stitch(indices, parts), *(None for _ in indices), *(None for _ in data))


@op("dynamic_stitch_grad", spec=_dynamic_stitch_grad_spec, gradient=_dynamic_stitch_grad_gradient)
def dynamic_stitch_grad(
    grad: Any, indices: Sequence[Any], data: Sequence[Any], *, name: str | None = None
) -> tuple[Tensor, ...]:
    """The rows of `grad` at the indices, zeros for data that a later one replaced.

    Shapes:   grad that of `dynamic_stitch(indices, data)` -> those of the data
    Dtypes:   any, that of `grad`
    Gradient: stitched again; none to indices and data.
    """
    return build("dynamic_stitch_grad", [grad, *indices, *data], name=name)


def _invert_permutation_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    check_dtypes("invert_permutation", DtypeClass.INTEGER, x)
    if x.rank not in (None, 1):
        message = f"a permutation is a vector of integers, got {x}"
        raise SpecError(message)
    return (Spec((None,) if x.shape is None else x.shape, as_dtype(x.dtype)),)


@op("invert_permutation", spec=_invert_permutation_spec, gradient=NOT_DIFFERENTIABLE)
@api_function
def invert_permutation(x: Any, *, name: str | None = None) -> Tensor:
    """The permutation that undoes `x`: y[x[i]] = i.

    Shapes:   (n,) -> (n,)
    Dtypes:   integers, kept
    Gradient: none.
    Raises:   SpecError for what is no vector; in the step unless each of 0 … n-1 comes once.
    """
    return build_one("invert_permutation", [x], name=name)
