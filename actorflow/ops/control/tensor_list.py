"""Lists of tensors: made, written, read, stacked and cut; what `TensorArray` and loops are built of.

A list is a value like any other: an op that writes gives a new list, and the one that it was given stays.
The gradient of a list is a list of the same elements, in which what is absent is zero. Such lists grow
as they need to, since several versions of one list may have different lengths.

Where a gradient needs the shape of a value and not the value, it takes what the spec knows, and else
`shape` of it: who keeps that for later keeps a few integers, and nothing where the shape is static.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, op
from actorflow.ops.control.tensor_list_rules import (
    Attrs,
    Specs,
    check_element,
    check_index,
    integers,
    like_spec,
    list_spec,
    zeros_like_attrs,
)
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.values.arrays import name_of
from actorflow.values.spec import Dim, ListSpec, Spec, spec, unify


def empty_like(x: Tensor) -> Tensor:
    """Returns an empty list of the elements of list `x`, which grows: zero, as gradients have it."""
    return list_new(list_spec("empty_like", x.spec).element)


# ---------------------------------------------------------------------------------- new and size


def _new_spec(inputs: Specs, attrs: Attrs) -> Specs:
    element = spec(attrs["dtype"], attrs["shape"])
    # From the innermost outwards, undoing what `list_new` took apart.
    for size in reversed(attrs["within"]):
        element = ListSpec(element, size)
    return (ListSpec(element, attrs["size"]),)


@op(
    "list_new",
    spec=_new_spec,
    gradient=NOT_DIFFERENTIABLE,
    takes_bytes=True,
    takes_lists=True,
    asked_with=({"dtype": "float32", "shape": None, "within": (), "size": None},),
)
@api_function
def list_new(element: Spec, size: int | None = None, *, name: str | None = None) -> Tensor:
    """An empty list, of elements that fit the spec `element`; of `size` indices, or one that grows.

    Shapes:   -> a list of `element`, which may be a list itself
    Dtypes:   any
    Gradient: none.
    Raises:   SpecError for a negative size.
    """
    within: list[Dim] = []
    # Attributes are plain data: a list of lists is told by its sizes and the element.
    while isinstance(element, ListSpec):
        within.append(element.size)
        element = element.element
    attrs = {"dtype": name_of(element.dtype), "shape": element.shape, "within": tuple(within), "size": size}
    return build_one("list_new", [], attrs, name=name)


def _size_spec(inputs: Specs, attrs: Attrs) -> Specs:
    list_spec("list_size", inputs[0])
    return (spec("int32"),)


@op("list_size", spec=_size_spec, gradient=NOT_DIFFERENTIABLE, takes_bytes=True, takes_lists=True)
@api_function
def list_size(x: Any, *, name: str | None = None) -> Tensor:
    """How many indices a list has, as an int32 scalar; in one that grows, one more than the last.

    Shapes:   a list -> ()
    Dtypes:   any -> int32
    Gradient: none.
    """
    return build_one("list_size", [x], name=name)


# --------------------------------------------------------------------------------- one element


def _write_spec(inputs: Specs, attrs: Attrs) -> Specs:
    into, index, value = list_spec("list_write", inputs[0]), inputs[1], inputs[2]
    check_index("list_write", index)
    check_element("list_write", into, value)
    return (into,)


def _write_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    _, index, value = use.inputs
    # The gradient of the list passes on whole: what was written adds to nothing there.
    return (grad, None, list_read_or_zeros(grad, index, value) if use.needs[2] else None)


@op("list_write", spec=_write_spec, gradient=_write_gradient, takes_bytes=True, takes_lists=True)
@api_function
def list_write(x: Any, index: Any, value: Any, *, name: str | None = None) -> Tensor:
    """The list with `value` at `index`, where nothing may be yet; O(1) for the newest of its versions.

    Shapes:   a list, (), and what fits its elements -> the list
    Dtypes:   any; `index` integers
    Gradient: g, and what is at `index` in it, zeros where nothing is.
    Raises:   SpecError for another element; in the step ListError for an index that was written or that
              the size excludes.
    """
    return build_one("list_write", [x, integers(index), value], name=name)


def _push_spec(inputs: Specs, attrs: Attrs) -> Specs:
    into, value = list_spec("list_push", inputs[0]), inputs[1]
    check_element("list_push", into, value)
    if into.size is not None:
        message = f"list_push takes a list that grows, got a {into}"
        raise SpecError(message, hint="make it without a size")
    return (into,)


def _push_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    x, value = use.inputs
    return (grad, list_read_or_zeros(grad, list_size(x), value) if use.needs[1] else None)


@op("list_push", spec=_push_spec, gradient=_push_gradient, takes_bytes=True, takes_lists=True)
@api_function
def list_push(x: Any, value: Any, *, name: str | None = None) -> Tensor:
    """The list with `value` behind its end.

    Shapes:   a list that grows, and what fits its elements -> the list
    Dtypes:   any
    Gradient: g, and what is at that index in it, zeros where nothing is.
    Raises:   SpecError for another element, and for a list of a fixed size.
    """
    return build_one("list_push", [x, value], name=name)


def _read_spec(inputs: Specs, attrs: Attrs) -> Specs:
    given, index = list_spec("list_read", inputs[0]), inputs[1]
    check_index("list_read", index)
    return (given.element,)


def _read_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    x, index = use.inputs
    # Zero everywhere else: an empty list but for this element.
    return (list_one(index, grad, x), None)


@op("list_read", spec=_read_spec, gradient=_read_gradient, takes_bytes=True, takes_lists=True)
@api_function
def list_read(x: Any, index: Any, *, name: str | None = None) -> Tensor:
    """The element at `index`.

    Shapes:   a list and () -> an element
    Dtypes:   any; `index` integers
    Gradient: a list with g at `index` and nothing else.
    Raises:   in the step ListError where nothing was written.
    """
    return build_one("list_read", [x, integers(index)], name=name)


def list_one(index: Any, value: Any, like: Tensor) -> Tensor:
    """Returns a list with `value` at `index` and nothing else, of the elements of list `like`."""
    return list_write(empty_like(like), index, value)


def _or_zeros_spec(inputs: Specs, attrs: Attrs) -> Specs:
    given, index, *late = inputs
    found = list_spec("list_read_or_zeros", given)
    check_index("list_read_or_zeros", index)
    if isinstance(found.element, ListSpec):
        return (found.element,)
    wanted = like_spec("list_read_or_zeros", found, late, attrs)
    check_element("list_read_or_zeros", found, wanted)
    return (wanted,)


def _or_zeros_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    x, index, *late = use.inputs
    return (list_one(index, grad, x), None, *(None for _ in late))


@op(
    "list_read_or_zeros",
    spec=_or_zeros_spec,
    gradient=_or_zeros_gradient,
    takes_lists=True,
    asked_with=({"dtype": "float32", "shape": ()},),
)
@api_function
def list_read_or_zeros(x: Any, index: Any, like: Any, *, name: str | None = None) -> Tensor:
    """The element at `index`, and zeros in the shape of `like` where nothing was written.

    Shapes:   a list, () and what fits its elements -> that of `like`; where elements are lists, an
              empty one stands for zeros
    Dtypes:   numbers; `index` integers
    Gradient: a list with g at `index` and nothing else; none to `like`.
    Raises:   SpecError when `like` does not fit the elements.
    """
    x = as_tensor(x)
    element = list_spec("list_read_or_zeros", x.spec).element
    # An empty list stands for zeros: no shape is needed.
    if isinstance(element, ListSpec):
        attrs: Attrs = {"dtype": "list", "shape": None}
        return build_one("list_read_or_zeros", [x, integers(index)], attrs, name=name)
    late, attrs = zeros_like_attrs(like)
    return build_one("list_read_or_zeros", [x, integers(index), *late], attrs, name=name)


# -------------------------------------------------------------------------------------------- sum


def _add_spec(inputs: Specs, attrs: Attrs) -> Specs:
    a, b = (list_spec("list_add", given) for given in inputs)
    check_dtypes("list_add", DtypeClass.NUMBER, a, b)
    return (unify(a, b),)


def _add_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (grad, grad)


@op("list_add", spec=_add_spec, gradient=_add_gradient, takes_lists=True)
@api_function
def list_add(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The sum of two lists, element by element; what is absent counts as zero.

    Shapes:   two lists of one size and of elements that agree -> the same; O(elements of the smaller)
    Dtypes:   numbers
    Gradient: g to both.
    Raises:   SpecError when they do not agree; in the step ListError.
    """
    return build_one("list_add", [a, b], name=name)
