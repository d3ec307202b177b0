"""The same elements under another shape: reshape, transpose, expand_dims, squeeze."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

from actorflow.errors import SpecError, pluralise
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import op
from actorflow.graph.slices import Gradient, IndexedSlices
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import (
    Axis,
    DtypeClass,
    axes_of,
    check_dtypes,
    first_with_shape_of_last,
    size_of,
)
from actorflow.values.spec import Shape, Spec, axis_of, show


def _reshape_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x, shape = inputs[0], attrs["shape"]
    if len(inputs) == 2:
        return (Spec(shape_held("reshape", inputs[1]), x.dtype),)
    if sum(d == -1 for d in shape) > 1 or any(d < -1 for d in shape):
        message = f"reshape takes sizes and at most one -1, got {show(shape)}"
        raise SpecError(message, hint="name all sizes but one; -1 is what is left")
    size = None if x.shape is None else size_of(x.shape)
    rest = prod(d for d in shape if d != -1)
    # With a -1 the rest must divide the size; of no elements -1 could be anything.
    if size is not None and (size != rest if -1 not in shape else rest == 0 or size % rest):
        message = f"reshape keeps the number of elements, got {show(x.shape)} to {show(shape)}"
        raise SpecError(
            message, hint=f"it has {pluralise(size, 'element')}; one size may be -1, for what is left"
        )
    inferred = None if size is None else size // max(rest, 1)
    return (Spec(tuple(inferred if d == -1 else d for d in shape), x.dtype),)


def shape_held(op_name: str, sizes: Spec) -> Shape:
    """What is known of a shape that a tensor holds: its rank, when the tensor's length is known."""
    check_dtypes(f"the shape of {op_name}", DtypeClass.INTEGER, sizes)
    if sizes.shape is None:
        return None
    if len(sizes.shape) != 1:
        message = f"a shape is a vector of integers, got {sizes}"
        raise SpecError(message)
    return None if sizes.shape[0] is None else (None,) * sizes.shape[0]


def _reshape_gradient(use: Use, grad: Gradient) -> Sequence[Gradient | None]:
    x = use.inputs[0]
    if isinstance(grad, IndexedSlices):
        # Rows under the same number of rows are rows still.
        kept = _of_rows(x, grad)
        return (reshape_like(grad.as_tensor(), x) if kept is None else kept, None)[: len(use.inputs)]
    return (reshape_like(grad, x), None)[: len(use.inputs)]


def _of_rows(x: Tensor, grad: IndexedSlices) -> IndexedSlices | None:
    """The slices under the shape of `x`, if both are known and have as many rows."""
    # As many rows before and after: then a row is a row.
    if not x.spec.is_static or not x.shape or not grad.shape or x.shape[0] != grad.shape[0]:
        return None
    count = None if grad.values.shape is None else grad.values.shape[0]
    row = tuple(d or 0 for d in x.shape[1:])
    # Two open sizes, or an empty one, leave -1 undecided.
    if count is None and 0 in row:
        return None
    return IndexedSlices.of(x, reshape(grad.values, (-1 if count is None else count, *row)), grad.indices)


@op("reshape", spec=_reshape_spec, gradient=_reshape_gradient, takes_bytes=True, sparse=True)
@api_function
def reshape(x: Any, shape: Iterable[int] | Tensor, *, name: str | None = None) -> Tensor:
    """The elements of `x` in row-major order under `shape`.

    Shapes:   any -> `shape`, in which one size may be -1: whatever is left. A vector of integers
              computed in the step (by `af.arrays.shape`) is a shape too; only its rank is known before.
    Dtypes:   any
    Gradient: reshaped back.
    Raises:   SpecError when the numbers of elements differ; in the step when that was unknown.

    >>> with af.Graph():
    ...     af.reshape(af.placeholder("float32", (None, 2, 3), name="x"), (-1, 6))
    <Tensor reshape:0 (None, 6) float32>
    """
    if isinstance(shape, Tensor):
        return build_one("reshape", [x, shape], {"shape": None}, name=name)
    sizes = tuple(shape)
    return build_one("reshape", [x], {"shape": sizes}, name=name)


def _back_to_first(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (reshape_like(grad, use.inputs[0]), None)


def _reshape_like_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x, like = (None if s.shape is None else size_of(s.shape) for s in inputs)
    if None not in (x, like) and x != like:
        message = f"reshape keeps the number of elements, got {inputs[0]} to the shape of {inputs[1]}"
        raise SpecError(message, hint="af.reshape(x, shape) takes one size of -1, for what is left")
    return first_with_shape_of_last("reshape_like")(inputs, attrs)


@op("reshape_like", spec=_reshape_like_spec, gradient=_back_to_first, takes_bytes=True)
@api_function
def reshape_like(x: Any, like: Any, *, name: str | None = None) -> Tensor:
    """The elements of `x` under the shape that `like` has in the step.

    Shapes:   x any, like with as many elements -> that of `like`
    Dtypes:   any
    Gradient: reshaped back; none to `like`.
    Raises:   SpecError when the numbers of elements differ; in the step when that was unknown.
    """
    x, like = as_tensor(x), as_tensor(like)
    if like.shape is not None and like.shape.count(None) == 0:
        return reshape(x, like.shape, name=name)  # does not keep `like` alive
    return build_one("reshape_like", [x, like], name=name)


def _transpose_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    perm = attrs["perm"]
    if x.shape is None:
        return (Spec(None if perm is None else (None,) * len(perm), x.dtype),)
    order = tuple(reversed(range(len(x.shape)))) if perm is None else perm
    rank = len(x.shape)
    if len(order) != rank or sorted(axis_of(a, rank) for a in order) != list(range(rank)):
        message = f"perm must name every axis once, got {perm} for {show(x.shape)}"
        raise SpecError(message)
    return (Spec(tuple(x.shape[a] for a in order), x.dtype),)


def _transpose_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    perm = use.attrs["perm"]
    # The reverse of a reverse.
    if perm is None:
        return (transpose(grad),)
    # Negative axes counted from the front: places of places below.
    order = [a % len(perm) for a in perm]
    # The inverse permutation.
    return (transpose(grad, [order.index(i) for i in range(len(order))]),)


@op("transpose", spec=_transpose_spec, gradient=_transpose_gradient, takes_bytes=True)
@api_function
def transpose(x: Any, perm: Iterable[int] | None = None, *, name: str | None = None) -> Tensor:
    """The axes of `x` in the order `perm`, reversed when it is None; a view, nothing is moved.

    Shapes:   x (d0, …, dn) -> (d[perm[0]], …, d[perm[n]])
    Dtypes:   any
    Gradient: transposed by the inverse permutation.
    Raises:   SpecError unless `perm` names every axis once.
    """
    order = None if perm is None else tuple(perm)
    return build_one("transpose", [x], {"perm": order}, name=name)


def _expand_dims_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    axis = attrs["axis"]
    if x.shape is None:
        return (x,)
    rank = len(x.shape) + (len(axis) if isinstance(axis, tuple) else 1)
    new, old = axes_of(axis, rank), iter(x.shape)
    return (Spec(tuple(1 if i in new else next(old) for i in range(rank)), x.dtype),)


@op("expand_dims", spec=_expand_dims_spec, gradient=_reshape_gradient, takes_bytes=True, sparse=True)
@api_function
def expand_dims(x: Any, axis: int | tuple[int, ...], *, name: str | None = None) -> Tensor:
    """`x` with new axes of size 1; `axis` says where they are in the result.

    Shapes:   x (a, b), axis 1 -> (a, 1, b)
    Dtypes:   any
    Gradient: reshaped back.
    Raises:   SpecError when there is no such axis.
    """
    return build_one("expand_dims", [x], {"axis": axis}, name=name)


def _squeeze_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    axis: Axis = attrs["axis"]
    # An open size may be 1 or not, so the rank is open.
    if x.shape is None or (axis is None and None in x.shape):
        return (Spec(None, x.dtype),)
    if axis is None:
        return (Spec(tuple(d for d in x.shape if d != 1), x.dtype),)
    axes = axes_of(axis, len(x.shape))
    if any(x.shape[a] not in (1, None) for a in axes):
        message = f"squeeze drops axes of size 1, got axis {axis} of {show(x.shape)}"
        ones = [i for i, d in enumerate(x.shape) if d == 1]
        of_one = f"of size 1: {', '.join(map(str, ones))}" if ones else "not known to be larger"
        raise SpecError(
            message, hint=f"leave axis out, or name axes {of_one}; af.gather(x, 0, axis) takes a row"
        )
    return (Spec(tuple(d for i, d in enumerate(x.shape) if i not in axes), x.dtype),)


@op("squeeze", spec=_squeeze_spec, gradient=_reshape_gradient, takes_bytes=True, sparse=True)
@api_function
def squeeze(x: Any, axis: Axis = None, *, name: str | None = None) -> Tensor:
    """`x` without the axes `axis`, which have size 1; without all such axes when it is None.

    Shapes:   x (a, 1, b), axis 1 -> (a, b)
    Dtypes:   any
    Gradient: reshaped back.
    Raises:   SpecError when an axis has another size; in the step when that was unknown.
    """
    return build_one("squeeze", [x], {"axis": axis}, name=name)
