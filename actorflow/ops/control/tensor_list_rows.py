"""Lists as one tensor and back: stacked and unstacked, gathered and scattered, joined and cut.

What ends in `_like` gives the gradient of its opposite: zeros stand for elements that are absent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, op
from actorflow.ops.control.tensor_list import empty_like, list_new
from actorflow.ops.control.tensor_list_rules import (
    Attrs,
    Specs,
    check_element,
    check_index,
    integers,
    like_spec,
    row_of,
    tensor_list,
    when_empty,
    with_rows,
    zeros_like_attrs,
)
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass
from actorflow.values.arrays import as_dtype
from actorflow.values.spec import ListSpec, Shape, Spec, merge

# ------------------------------------------------------------------------------ stack and unstack


def _stack_spec(inputs: Specs, attrs: Attrs) -> Specs:
    given = tensor_list("list_stack", inputs[0])
    return (Spec(with_rows(given.size, given.element.shape), given.dtype),)


def _stack_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    # Into a list that grows: other versions of the list may be longer.
    return (list_unstack(grad, empty_like(use.inputs[0])),)


@op("list_stack", spec=_stack_spec, gradient=_stack_gradient, takes_bytes=True, takes_lists=True)
@api_function
def list_stack(x: Any, *, name: str | None = None) -> Tensor:
    """All elements side by side along a new first axis; every index must have been written.

    Shapes:   a list of n elements (a, b) -> (n, a, b)
    Dtypes:   any
    Gradient: a list of the rows of g.
    Raises:   in the step ListError when an element is missing, when shapes differ, and for an empty list
              whose elements have a shape that is not known.
    """
    x = as_tensor(x)
    element = tensor_list("list_stack", x.spec).element
    return build_one("list_stack", [x], when_empty(element), name=name)


def _unstack_spec(inputs: Specs, attrs: Attrs) -> Specs:
    x, into = inputs[0], tensor_list("list_unstack", inputs[1])
    check_element("list_unstack", into, row_of("list_unstack", x))
    count = None if x.shape is None else x.shape[0]
    if into.size is not None and count is not None and count > into.size:
        message = f"list_unstack takes as many rows as the list has indices, got {x} for a {into}"
        raise SpecError(message)
    return (into,)


def _unstack_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    # That of the list passes on whole: an index is written once, so rows came to places that were empty.
    return (list_stack_like(grad, use.inputs[0]) if use.needs[0] else None, grad)


@op("list_unstack", spec=_unstack_spec, gradient=_unstack_gradient, takes_bytes=True, takes_lists=True)
@api_function
def list_unstack(x: Any, into: Any = None, *, name: str | None = None) -> Tensor:
    """The rows of `x` as the elements of a list, which are views; or written into a list from 0 on.

    Shapes:   x (n, a, b) -> a list of n elements (a, b)
    Dtypes:   any
    Gradient: that of the elements, stacked; zeros for those that nothing uses.
    Raises:   SpecError for a scalar, and for rows that do not fit `into`; in the step ListError as
              `list_write`.
    """
    x = as_tensor(x)
    if into is None:
        # Of known rows a list of that size.
        row = row_of("list_unstack", x.spec)
        into = list_new(row, None if x.shape is None else x.shape[0])
    return build_one("list_unstack", [x, into], name=name)


def _stack_like_spec(inputs: Specs, attrs: Attrs) -> Specs:
    given, *late = inputs
    found = tensor_list("list_stack_like", given)
    wanted = like_spec("list_stack_like", found, late, attrs)
    check_element("list_stack_like", found, row_of("list_stack_like", wanted))
    return (wanted,)


def _stack_like_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    x, *late = use.inputs
    return (list_unstack(grad, empty_like(x)), *(None for _ in late))


@op(
    "list_stack_like",
    spec=_stack_like_spec,
    gradient=_stack_like_gradient,
    takes_lists=True,
    asked_with=({"dtype": "float32", "shape": (2,)},),
)
@api_function
def list_stack_like(x: Any, like: Any, *, name: str | None = None) -> Tensor:
    """The elements stacked in the shape of `like`, with zeros for those that are absent.

    Shapes:   a list and (n, a, b) -> (n, a, b); elements beyond n are left out
    Dtypes:   numbers
    Gradient: a list of the rows of g; none to `like`.
    Raises:   SpecError when rows of `like` do not fit the elements.
    """
    late, attrs = zeros_like_attrs(like)
    return build_one("list_stack_like", [x, *late], attrs, name=name)


# ------------------------------------------------------------------------------ gather and scatter


def _gather_spec(inputs: Specs, attrs: Attrs) -> Specs:
    given, indices = tensor_list("list_gather", inputs[0]), inputs[1]
    check_index("list_gather", indices, 1)
    count = None if indices.shape is None else indices.shape[0]
    return (Spec(with_rows(count, given.element.shape), given.dtype),)


def _scatter(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    x, indices, *late = use.inputs
    return (list_scatter(indices, grad, empty_like(x), add=True), None, *(None for _ in late))


@op("list_gather", spec=_gather_spec, gradient=_scatter, takes_bytes=True, takes_lists=True)
@api_function
def list_gather(x: Any, indices: Any, *, name: str | None = None) -> Tensor:
    """The elements at `indices`, stacked; an index may come several times.

    Shapes:   a list of elements (a, b), and (k,) -> (k, a, b)
    Dtypes:   any; `indices` integers
    Gradient: a list of the rows of g, added up by index.
    Raises:   in the step ListError where nothing was written, and as `list_stack`.
    """
    x = as_tensor(x)
    element = tensor_list("list_gather", x.spec).element
    return build_one("list_gather", [x, integers(indices)], when_empty(element), name=name)


def _scatter_spec(inputs: Specs, attrs: Attrs) -> Specs:
    indices, values, into = inputs[0], inputs[1], tensor_list("list_scatter", inputs[2])
    check_index("list_scatter", indices, 1)
    check_element("list_scatter", into, row_of("list_scatter", values))
    if indices.shape is not None and values.shape is not None:
        # As many indices as rows.
        merge(indices.shape, values.shape[:1])
    if attrs["add"] and not DtypeClass.NUMBER.accepts(values.dtype):
        message = f"list_scatter adds numbers, got {values}"
        raise SpecError(message)
    return (into,)


def _scatter_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    indices, values, _ = use.inputs
    return (None, list_gather_like(grad, indices, values) if use.needs[1] else None, grad)


@op(
    "list_scatter",
    spec=_scatter_spec,
    gradient=_scatter_gradient,
    takes_bytes=True,
    takes_lists=True,
    asked_with=({"add": False},),
)
@api_function
def list_scatter(
    indices: Any, values: Any, into: Any = None, add: bool = False, *, name: str | None = None
) -> Tensor:
    """A list with the rows of `values` at `indices`, in the list `into` or a new one that grows.

    Shapes:   (k,) and (k, a, b) -> a list of elements (a, b)
    Dtypes:   any; `indices` integers; with `add` numbers
    Gradient: g, and the rows that `indices` name in it, zeros for those that are absent.
    Raises:   SpecError for rows that do not fit `into`; in the step ListError as `list_write`, but with
              `add` what comes to one index is added up.
    """
    values = as_tensor(values)
    if into is None:
        into = list_new(row_of("list_scatter", values.spec))
    return build_one("list_scatter", [integers(indices), values, into], {"add": add}, name=name)


def _gather_like_spec(inputs: Specs, attrs: Attrs) -> Specs:
    given, indices, *late = inputs
    found = tensor_list("list_gather_like", given)
    check_index("list_gather_like", indices, 1)
    wanted = like_spec("list_gather_like", found, late, attrs)
    check_element("list_gather_like", found, row_of("list_gather_like", wanted))
    return (wanted,)


@op(
    "list_gather_like",
    spec=_gather_like_spec,
    gradient=_scatter,
    takes_lists=True,
    asked_with=({"dtype": "float32", "shape": (2,)},),
)
@api_function
def list_gather_like(x: Any, indices: Any, like: Any, *, name: str | None = None) -> Tensor:
    """The elements at `indices` stacked in the shape of `like`, with zeros for those that are absent.

    Shapes:   a list, (k,) and (k, a, b) -> (k, a, b)
    Dtypes:   numbers; `indices` integers
    Gradient: a list of the rows of g, added up by index; none to `like`.
    Raises:   SpecError when rows of `like` do not fit the elements.
    """
    late, attrs = zeros_like_attrs(like)
    return build_one("list_gather_like", [x, integers(indices), *late], attrs, name=name)


# -------------------------------------------------------------------------------- concat and split


def _piece(what: str, given: ListSpec) -> Shape:
    """The sizes behind the first axis of what is joined along it."""
    return row_of(what, given.element).shape


def _concat_spec(inputs: Specs, attrs: Attrs) -> Specs:
    given = tensor_list("list_concat", inputs[0])
    return (Spec(with_rows(None, _piece("list_concat", given)), given.dtype),)


def _concat_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    (x,) = use.inputs
    return (list_split(grad, list_lengths(x), empty_like(x)),)


@op("list_concat", spec=_concat_spec, gradient=_concat_gradient, takes_bytes=True, takes_lists=True)
@api_function
def list_concat(x: Any, *, name: str | None = None) -> Tensor:
    """All elements one behind the other along their first axis, whose size may differ.

    Shapes:   a list of elements (n_i, a, b) -> (sum of n_i, a, b)
    Dtypes:   any
    Gradient: a list of the pieces of g.
    Raises:   SpecError for scalars; in the step ListError when an element is missing, when the other
              sizes differ, and for an empty list whose elements have sizes that are not known.
    """
    x = as_tensor(x)
    given = tensor_list("list_concat", x.spec)
    rest = Spec(_piece("list_concat", given), given.dtype)
    return build_one("list_concat", [x], when_empty(rest), name=name)


def _lengths_spec(inputs: Specs, attrs: Attrs) -> Specs:
    given = tensor_list("list_lengths", inputs[0])
    _piece("list_lengths", given)
    return (Spec((given.size,), as_dtype("int64")),)


@op("list_lengths", spec=_lengths_spec, gradient=NOT_DIFFERENTIABLE, takes_bytes=True, takes_lists=True)
@api_function
def list_lengths(x: Any, *, name: str | None = None) -> Tensor:
    """The first size of each element, as `list_split` takes them.

    Shapes:   a list of n elements -> (n,)
    Dtypes:   any -> int64
    Gradient: none.
    Raises:   SpecError for scalars; in the step ListError when an element is missing.
    """
    return build_one("list_lengths", [x], name=name)


def _split_spec(inputs: Specs, attrs: Attrs) -> Specs:
    x, lengths, into = inputs[0], inputs[1], tensor_list("list_split", inputs[2])
    check_index("list_split", lengths, 1)
    row = row_of("list_split", x).shape
    check_element("list_split", into, Spec(with_rows(None, row), x.dtype))
    return (into,)


def _split_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    x, lengths, _ = use.inputs
    return (list_concat_like(grad, lengths, x) if use.needs[0] else None, None, grad)


@op("list_split", spec=_split_spec, gradient=_split_gradient, takes_bytes=True, takes_lists=True)
@api_function
def list_split(x: Any, lengths: Any, into: Any = None, *, name: str | None = None) -> Tensor:
    """`x` cut along its first axis into pieces of these lengths, views, as a list; undoes `list_concat`.

    Shapes:   (n, a, b) and (k,) -> a list of k elements (lengths[i], a, b)
    Dtypes:   any; `lengths` integers
    Gradient: that of the pieces, joined; zeros for those that nothing uses.
    Raises:   SpecError for a scalar, and for pieces that do not fit `into`; in the step ListError when
              the lengths do not add up to n.
    """
    x, lengths = as_tensor(x), integers(lengths)
    if into is None:
        # Pieces differ in their first size.
        row = row_of("list_split", x.spec).shape
        count = None if not lengths.shape else lengths.shape[0]
        into = list_new(Spec(with_rows(None, row), x.dtype), count)
    return build_one("list_split", [x, lengths, into], name=name)


def _concat_like_spec(inputs: Specs, attrs: Attrs) -> Specs:
    given, lengths, *late = inputs
    found = tensor_list("list_concat_like", given)
    check_index("list_concat_like", lengths, 1)
    wanted = like_spec("list_concat_like", found, late, attrs)
    row = row_of("list_concat_like", wanted).shape
    check_element("list_concat_like", found, Spec(with_rows(None, row), wanted.dtype))
    return (wanted,)


def _concat_like_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    x, lengths, *late = use.inputs
    return (list_split(grad, lengths, empty_like(x)), None, *(None for _ in late))


@op(
    "list_concat_like",
    spec=_concat_like_spec,
    gradient=_concat_like_gradient,
    takes_lists=True,
    asked_with=({"dtype": "float32", "shape": (2,)},),
)
@api_function
def list_concat_like(x: Any, lengths: Any, like: Any, *, name: str | None = None) -> Tensor:
    """Pieces of these lengths joined in the shape of `like`, with zeros for those that are absent.

    Shapes:   a list, (k,) and (n, a, b) -> (n, a, b)
    Dtypes:   numbers; `lengths` integers
    Gradient: a list of the pieces of g; none to `like`.
    Raises:   SpecError when `like` does not fit the elements.
    """
    late, attrs = zeros_like_attrs(like)
    return build_one("list_concat_like", [x, integers(lengths), *late], attrs, name=name)
