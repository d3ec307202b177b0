"""Order: sort, argsort, topk, in_top_k, searchsorted. NaN counts as the largest number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, Promoting, op
from actorflow.ops.array.constants import zeros_like
from actorflow.ops.array.indexing import take_along_axis
from actorflow.ops.array.scatter import put_along_axis
from actorflow.ops.array.slicing import gather
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.values.arrays import as_dtype
from actorflow.values.spec import Dim, Shape, Spec, axis_of, merge, show

Grads = Sequence[Tensor | None]

# --------------------------------------------------------------------------------------- sorting


def _along(op_name: str, x: Spec, axis: int) -> None:
    check_dtypes(op_name, DtypeClass.REAL, x)
    if x.shape is not None:
        axis_of(axis, len(x.shape))


def _sort_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    _along("sort", x, attrs["axis"])
    return (x,)


def _sort_gradient(use: Use, grad: Tensor) -> Grads:
    (x,), axis = use.inputs, use.attrs["axis"]
    place = argsort(argsort(x, axis, descending=use.attrs["descending"]), axis)  # where each went
    return (take_along_axis(grad, place, axis),)


@op("sort", spec=_sort_spec, gradient=_sort_gradient)
@api_function
def sort(x: Any, axis: int = -1, *, descending: bool = False, name: str | None = None) -> Tensor:
    """The elements in order along `axis`, the smallest first, or the largest when `descending`.

    NaN counts as the largest: the last, or the first when `descending`.

    Shapes:   kept
    Dtypes:   real numbers, kept
    Gradient: g back to where each element came from, on ties in their order.
    Raises:   SpecError for bool and complex, and for an axis that does not exist.

    >>> with af.Graph():
    ...     af.sort(af.placeholder("float32", (None, 3), name="x"), descending=True)
    <Tensor sort:0 (None, 3) float32>
    """
    attrs = {"axis": axis, "descending": descending}
    return build_one("sort", [x], attrs, name=name)


def _argsort_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    _along("argsort", x, attrs["axis"])
    return (Spec(x.shape, as_dtype("int64")),)


@op("argsort", spec=_argsort_spec, gradient=NOT_DIFFERENTIABLE)
@api_function
def argsort(x: Any, axis: int = -1, *, descending: bool = False, name: str | None = None) -> Tensor:
    """The indices that would sort `x` along `axis`, as int64; equals stay in their order either way.

    Its gradient is none. Else like `sort`.
    """
    attrs = {"axis": axis, "descending": descending}
    return build_one("argsort", [x], attrs, name=name)


def _topk_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,), k = inputs, attrs["k"]
    _along("topk", x, attrs["axis"])
    shape = x.shape
    if k < 0:
        message = f"topk takes k of at least 0, got {k}"
        raise SpecError(message)
    if shape is not None:
        at = axis_of(attrs["axis"], len(shape))
        size = shape[at]
        if size is not None and size < k:
            message = f"topk needs k elements along axis {attrs['axis']}, got {show(shape)} and k={k}"
            raise SpecError(message, hint=f"k can be {size} at most")
        shape = (*shape[:at], k, *shape[at + 1 :])
    return Spec(shape, x.dtype), Spec(shape, as_dtype("int64"))


def _topk_gradient(use: Use, grad: Tensor | None, _: Tensor | None) -> Grads:
    if grad is None:
        return (None,)
    (x,), (_, place) = use.inputs, use.outputs
    return (put_along_axis(zeros_like(x), place, grad, use.attrs["axis"], "add"),)


@op("topk", spec=_topk_spec, gradient=_topk_gradient)
@api_function
def topk(
    x: Any, k: int, axis: int = -1, *, largest: bool = True, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """The `k` largest elements along `axis`, the largest first, and where they lie: (values, indices).

    The smallest, the smallest first, when not `largest`. Of equals the first come first. NaN
    counts as the largest.

    Shapes:   (…, n, …) -> (…, k, …) twice
    Dtypes:   real numbers -> values kept, indices int64
    Gradient: g of the values to the chosen elements.
    Raises:   SpecError for bool and complex, for an axis that does not exist or has fewer than k
              elements; in the step when its size was unknown.

    >>> with af.Graph():
    ...     af.arrays.topk(af.placeholder("float32", (None, 10), name="x"), 3)[0]
    <Tensor topk:0 (None, 3) float32>
    """
    attrs = {"k": k, "axis": axis, "largest": largest}
    values, indices = build("topk", [x], attrs, name=name)
    return values, indices


# ------------------------------------------------------------------------------------- searching


def _rows(predictions: Spec, targets: Spec) -> Shape:
    if predictions.shape is None:
        return targets.shape
    if predictions.shape:
        with suppress(SpecError):
            return merge(predictions.shape[:-1], targets.shape)
    message = f"in_top_k needs a target for each row, got predictions {predictions} and targets {targets}"
    raise SpecError(message, hint="targets are class numbers, not one-hot rows")


def _in_top_k_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    predictions, targets = inputs
    check_dtypes("in_top_k", DtypeClass.REAL, predictions)
    check_dtypes("the targets of in_top_k", DtypeClass.INTEGER, targets)
    return (Spec(_rows(predictions, targets), as_dtype("bool")),)


@op("in_top_k", spec=_in_top_k_spec, gradient=NOT_DIFFERENTIABLE)
@api_function
def in_top_k(predictions: Any, targets: Any, k: int, *, name: str | None = None) -> Tensor:
    """Whether fewer than `k` predictions of a row are larger than that of its target.

    So all classes that tie across the border are in. False for a target outside [0, classes) and
    for one whose prediction is not finite.

    Shapes:   predictions (…, classes), targets (…) -> (…)
    Dtypes:   predictions real, targets integers -> bool
    Gradient: none.
    Raises:   SpecError when the shapes do not fit.
    """
    inputs = [as_tensor(predictions), as_tensor(targets)]
    return build_one("in_top_k", inputs, {"k": k}, name=name)


def _searchsorted_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x1, x2 = inputs
    check_dtypes("searchsorted", DtypeClass.REAL, x1, x2)
    if x1.shape is not None and len(x1.shape) != 1:
        message = f"searchsorted looks in one sorted axis, got {x1} to look for {x2}"
        raise SpecError(message, hint="the sorted tensor comes first")
    if attrs["side"] not in ("left", "right"):
        message = f"the side of searchsorted is 'left' or 'right', got {attrs['side']!r}"
        raise SpecError(message)
    return (Spec(x2.shape, as_dtype("int64")),)


@op("searchsorted", spec=Promoting(_searchsorted_spec), gradient=NOT_DIFFERENTIABLE)
@api_function
def searchsorted(
    x1: Any, x2: Any, *, side: str = "left", sorter: Any = None, name: str | None = None
) -> Tensor:
    """Where the elements of `x2` would go into the sorted `x1`: before its equals, or behind on the "right".

    Shapes:   x1 (n,), x2 any -> that of x2; `sorter` (n,) sorts x1, as `argsort` says
    Dtypes:   real numbers, the same -> int64
    Gradient: none.
    Raises:   SpecError for other shapes or dtypes. An x1 that is not sorted is not noticed.
    """
    x1 = as_tensor(x1)
    if sorter is not None:
        x1 = gather(x1, sorter)
    return build_one("searchsorted", [x1, x2], {"side": side}, name=name)


def one_dimensional(op_name: str, what: str, *specs: Spec) -> Dim:
    """The size that one-dimensional tensors share; raises SpecError when one is not such, or they differ."""
    shape: Shape = (None,)
    try:
        for spec in specs:
            shape = merge(shape, spec.shape)
    except SpecError:
        message = f"{op_name} needs {what}, got {' and '.join(map(str, specs))}"
        raise SpecError(message, hint="flatten with af.reshape(x, (-1,))") from None
    assert shape is not None
    return shape[0]
