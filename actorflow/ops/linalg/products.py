"""Products of matrices and vectors, and the parts of matrices: transposes, bands, traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, build_one, promote
from actorflow.graph.node import Attr
from actorflow.graph.opdef import Promoting, op
from actorflow.ops.array.broadcast import sum, sum_to, unbroadcast
from actorflow.ops.array.shape import expand_dims
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.ops.linalg.matrix_rules import check_matrix
from actorflow.ops.math.elementwise import multiply
from actorflow.values.spec import Shape, Spec, broadcast, show


def _matmul_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    a, b = inputs
    check_dtypes("matmul", DtypeClass.NUMBER, a, b)
    for spec in inputs:
        if spec.shape is not None and len(spec.shape) < 2:
            message = f"matmul needs at least two axes, got {show(a.shape)} and {show(b.shape)}"
            raise SpecError(message, hint=_of_vectors(a.shape, b.shape))
    if a.shape is None or b.shape is None:
        return (Spec(None, a.dtype),)
    left, right = _swap(a.shape, attrs["transpose_a"]), _swap(b.shape, attrs["transpose_b"])
    (m, k), (k2, n) = left[-2:], right[-2:]
    if k is not None and k2 is not None and k != k2:
        message = f"matmul needs equal inner dimensions, got {show(left)} and {show(right)}"
        if k == n or k2 == m:
            hint = f"transpose input {1 if k == n else 0}"
        else:
            hint = "the last size of input 0 must be the last but one of input 1"
        raise SpecError(message, hint=hint)
    lead = broadcast([left[:-2], right[:-2]])
    assert lead is not None
    return (Spec((*lead, m, n), a.dtype),)


def _of_vectors(a: Shape, b: Shape) -> str:
    """What to try with a vector, or a scalar, for a matrix."""
    ranks = [None if shape is None else len(shape) for shape in (a, b)]
    if 0 in ranks:
        # A scalar is no matrix: the product is elementwise.
        return "write a * b for a product with a scalar"
    if ranks == [1, 1]:
        return "write af.vecdot(a, b) for the number, or af.linalg.outer(a, b) for the matrix"
    if ranks[1] == 1:
        return "write af.tensordot(a, b, 1), or af.expand_dims(b, 1) to make a column of it"
    return "write af.tensordot(a, b, 1), or af.expand_dims(a, 0) to make a row of it"


def _swap(shape: tuple[int | None, ...], transpose: bool) -> tuple[int | None, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if transpose else shape


def _matmul_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    (a, b), ta, tb = use.inputs, use.attrs["transpose_a"], use.attrs["transpose_b"]
    flat = a.spec.rank == b.spec.rank == 2  # nothing was broadcast
    to_a = to_b = None
    if use.needs[0]:
        # Transposed inputs get their gradient transposed, by flags and not by nodes.
        to_a = matmul(b, grad, tb, True) if ta else matmul(grad, b, False, not tb)
        # Broadcast matrices get the sum over what they were repeated for.
        to_a = to_a if flat else sum_to(to_a, a)
    if use.needs[1]:
        to_b = matmul(grad, a, True, ta) if tb else matmul(a, grad, not ta, False)
        to_b = to_b if flat else sum_to(to_b, b)
    return (to_a, to_b)


@op("matmul", spec=Promoting(_matmul_spec), gradient=_matmul_gradient)
@api_function
def matmul(
    a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, *, name: str | None = None
) -> Tensor:
    """The matrix product over the last two axes, which can be swapped first; leading axes broadcast.

    Shapes:   a (..., m, k), b (..., k, n) -> (..., m, n)
    Dtypes:   numbers, the same
    Gradient: g·bᵀ and aᵀ·g, summed over leading axes that were broadcast.
    Raises:   SpecError when inner sizes differ, an input has less than two axes or dtypes differ.

    >>> with af.Graph():
    ...     af.placeholder("float32", (None, 784), name="x") @ af.placeholder("float32", (784, 10), name="w")
    <Tensor matmul:0 (None, 10) float32>
    """
    attrs = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    return build_one("matmul", [a, b], attrs, name=name)


def _matrix_transpose_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    found = check_matrix("matrix_transpose", x, DtypeClass.ANY)
    return (x if found is None else Spec((*found[0], found[2], found[1]), x.dtype),)


def _matrix_transpose_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (matrix_transpose(grad),)


@op("matrix_transpose", spec=_matrix_transpose_spec, gradient=_matrix_transpose_gradient)
@api_function
def matrix_transpose(x: Any, *, name: str | None = None) -> Tensor:
    """`x` with its last two axes swapped; a view, nothing is moved.

    Unlike `transpose` it need not know the rank. `matmul` swaps by flags, without a node.

    Shapes:   (..., m, n) -> (..., n, m)
    Dtypes:   any
    Gradient: swapped back.
    Raises:   SpecError for less than two axes.
    """
    return build_one("matrix_transpose", [x], name=name)


# --------------------------------------------------------------------------------- vectors


def _vecdot_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    a, b = inputs
    check_dtypes("vecdot", DtypeClass.NUMBER, a, b)
    shape = _along("vecdot", a, b, attrs["axis"], None)
    return (Spec(None if shape is None else shape[:-1], a.dtype),)


def _along(op_name: str, a: Spec, b: Spec, axis: int, size: int | None) -> Shape:
    """The broadcast shape of a and b with the sizes of `axis` (counted from the back) put last.

    Raises:
        SpecError: when one lacks the axis, or its sizes differ or are not `size`; they do not broadcast.
    """
    if a.shape is None or b.shape is None:
        return None
    for spec in (a, b):
        assert spec.shape is not None
        if len(spec.shape) < -axis:
            message = f"{op_name} needs axis {axis} in both inputs, got {a} and {b}"
            raise SpecError(message, hint="add one with af.expand_dims")
    # Open sizes may be equal.
    sizes = {d for d in (a.shape[axis], b.shape[axis]) if d is not None}
    if len(sizes) > 1 or (size is not None and sizes - {size}):
        wanted = "equal sizes" if size is None else f"size {size}"
        message = f"{op_name} needs {wanted} along axis {axis}, got {a} and {b}"
        raise SpecError(message)
    # Counted from the back, as leading axes may be fewer in one.
    rest = [(*s[: len(s) + axis], *s[len(s) + axis + 1 :]) for s in (a.shape, b.shape)]
    lead = broadcast(rest)
    assert lead is not None
    return (*lead, sizes.pop() if sizes else None)


def _from_the_back(op_name: str, axis: int) -> int:
    found = axis.__index__()
    # From the front an axis would be another one in either input.
    if found >= 0:
        message = f"{op_name} counts its axis from the back, since leading axes broadcast, got {axis}"
        raise SpecError(message, hint="-1 is the last axis")
    return found


def _vecdot_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    (a, b), axis = use.inputs, use.attrs["axis"]
    spread = expand_dims(grad, axis)
    to_a, to_b = multiply(spread, b), multiply(spread, a)
    return (unbroadcast(to_a, a, b), unbroadcast(to_b, b, a))


@op("vecdot", spec=Promoting(_vecdot_spec), gradient=_vecdot_gradient)
@api_function
def vecdot(a: Any, b: Any, axis: int = -1, *, name: str | None = None) -> Tensor:
    """The sum of conj(a)·b along `axis`, which has the same size in both; the other axes broadcast.

    Shapes:   a (..., n), b (..., n) -> (...); `axis` counts from the back of both
    Dtypes:   numbers, the same; integers wrap around
    Gradient: g·b and g·a, summed over what was broadcast.
    Raises:   SpecError when sizes along `axis` differ, or the others do not broadcast.

    >>> with af.Graph():
    ...     af.vecdot(af.placeholder("float32", (None, 3), name="x"), [1.0, 2.0, 3.0])
    <Tensor vecdot:0 (None,) float32>
    """
    return build_one("vecdot", [a, b], {"axis": _from_the_back("vecdot", axis)}, name=name)


@api_function
def outer(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The products of every element of `a` with every one of `b`.

    Shapes:   a (m,), b (n,) -> (m, n)
    Dtypes:   numbers, the same
    Gradient: g·b and aᵀ·g.
    Raises:   SpecError unless both are known to have one axis.
    """
    a, b = promote(a, b)
    if a.spec.rank != 1 or b.spec.rank != 1:
        message = f"outer takes two vectors, got {a.spec} and {b.spec}"
        raise SpecError(message, hint="multiply broadcasts: af.expand_dims(a, -1) * af.expand_dims(b, -2)")
    return multiply(expand_dims(a, 1), expand_dims(b, 0), name=name)


def _cross_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    a, b = inputs
    axis = attrs["axis"]
    check_dtypes("cross", DtypeClass.NUMBER, a, b)
    shape = _along("cross", a, b, axis, 3)
    if shape is None:
        return (Spec(None, a.dtype),)
    at = len(shape) + axis
    return (Spec((*shape[:at], 3, *shape[at:-1]), a.dtype),)


def _cross_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    (a, b), axis = use.inputs, use.attrs["axis"]
    # a×b: the cyclic order of both products.
    to_a, to_b = cross(b, grad, axis), cross(grad, a, axis)
    return (unbroadcast(to_a, a, b), unbroadcast(to_b, b, a))


@op("cross", spec=Promoting(_cross_spec), gradient=_cross_gradient)
@api_function
def cross(a: Any, b: Any, axis: int = -1, *, name: str | None = None) -> Tensor:
    """The vector product a×b of vectors of three elements that lie along `axis`; other axes broadcast.

    Shapes:   a (..., 3), b (..., 3) -> (..., 3); `axis` counts from the back of both
    Dtypes:   numbers, the same; integers wrap around
    Gradient: b×g and g×a, summed over what was broadcast.
    Raises:   SpecError for another size along `axis`, or when the others do not broadcast.
    """
    return build_one("cross", [a, b], {"axis": _from_the_back("cross", axis)}, name=name)


# ------------------------------------------------------------------------ parts of matrices


def _band_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    check_matrix("matrix_band_part", x, DtypeClass.ANY)
    return (x,)


def _band_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (matrix_band_part(grad, use.attrs["lower"], use.attrs["upper"]),)


@op("matrix_band_part", spec=_band_spec, gradient=_band_gradient)
@api_function
def matrix_band_part(x: Any, lower: int | None, upper: int | None, *, name: str | None = None) -> Tensor:
    """`x` with zeros but in a band of diagonals: from `lower` of them below the main one to `upper` above.

    None keeps all on that side, a negative number leaves the main diagonal out: `(None, 0)` is the
    lower triangle, `(None, -1)` what is strictly below the diagonal, `(-1, 1)` the one diagonal above it.

    Shapes:   (..., m, n), kept
    Dtypes:   any
    Gradient: g in the band, else zero, even where g or x is not finite.
    Raises:   SpecError for less than two axes.

    >>> with af.Graph():
    ...     af.linalg.matrix_band_part(af.placeholder("float32", (None, 3, 3), name="x"), 0, None)
    <Tensor matrix_band_part:0 (None, 3, 3) float32>
    """
    ends = {"lower": lower, "upper": upper}
    attrs = {side: None if end is None else end.__index__() for side, end in ends.items()}
    return build_one("matrix_band_part", [x], attrs, name=name)


@api_function
def matrix_trace(x: Any, offset: int = 0, *, name: str | None = None) -> Tensor:
    """The sum of a diagonal of matrices: of the main one, or of that `offset` places above it.

    Shapes:   (..., m, n) -> (...)
    Dtypes:   numbers, kept: integers wrap around
    Gradient: g along the diagonal, else zero.
    Raises:   SpecError for bool, and for less than two axes.
    """
    # A band of one diagonal, summed: no op of its own.
    return sum(matrix_band_part(x, -offset, offset), (-2, -1), name=name)
