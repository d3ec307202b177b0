"""What the spec rules of ops on lists share: lists and tensors told apart, indices, elements, zeros."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.builder import Tensor, as_tensor
from actorflow.graph.node import Attr
from actorflow.ops.array.shape_queries import shape as shape_of
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.values.arrays import as_dtype, name_of
from actorflow.values.spec import Dim, ListSpec, Shape, Spec, spec, unify

Attrs = Mapping[str, Attr]
Specs = Sequence[Spec]


def list_spec(what: str, given: Spec) -> ListSpec:
    """Returns the spec of a list; raises SpecError for that of a tensor."""
    if not isinstance(given, ListSpec):
        message = f"{what} takes a list of tensors, got {given}"
        raise SpecError(message, hint="af.TensorArray makes one")
    return given


def tensor_list(what: str, given: Spec) -> ListSpec:
    """As `list_spec`; its elements are no lists."""
    found = list_spec(what, given)
    if isinstance(found.element, ListSpec):
        message = f"{what} takes a list of tensors, got a {found}"
        raise SpecError(message, hint="read the lists in it, one by one")
    return found


def integers(values: Any) -> Tensor:
    """Returns indices as a tensor: numbers of Python are int32 whatever they stand beside; `[]` is too."""
    # numpy would make floats of an empty list.
    empty = isinstance(values, list | tuple) and not values
    return as_tensor(values, dtype=as_dtype("int32") if empty else None)


def check_index(what: str, index: Spec, rank: int = 0) -> None:
    """Raises SpecError unless it is of an integer, or of a vector of integers when `rank` is 1."""
    check_dtypes(what, DtypeClass.INTEGER, index)
    if index.rank not in (None, rank):
        message = f"{what} takes {'an index' if rank == 0 else 'a vector of integers'}, got {index}"
        raise SpecError(message)


def check_element(what: str, into: ListSpec, element: Spec) -> None:
    """Raises SpecError unless what `element` describes may be in the list."""
    try:
        unify(into.element, element)
    except SpecError:
        message = f"{what} takes elements that fit {into.element}, got {element}"
        raise SpecError(message) from None


def row_of(what: str, x: Spec) -> Spec:
    """What one row of `x` is like."""
    if x.rank == 0:
        message = f"{what} takes a tensor of rows, got {x}"
        raise SpecError(message)
    return Spec(None if x.shape is None else x.shape[1:], x.dtype)


def with_rows(count: Dim, row: Shape) -> Shape:
    """Returns the shape of so many rows."""
    return None if row is None else (count, *row)


def when_empty(of: Spec) -> Attrs:
    """The element of which an empty list is stacked; its shape is None where that is not known."""
    # Zeros of an open size have none to be made of.
    return {"dtype": name_of(of.dtype), "shape": of.shape if of.is_static else None}


def zeros_like_attrs(x: Any) -> tuple[list[Tensor], Attrs]:
    """What a kernel needs to make zeros like `x`: attributes, and the shape where they do not tell it."""
    x = as_tensor(x)
    # The shape as integers: who keeps it for later keeps no values.
    late = [] if x.spec.is_static else [shape_of(x)]
    return late, {"dtype": name_of(x.dtype), "shape": x.shape}


def like_spec(what: str, given: ListSpec, late: Specs, attrs: Attrs) -> Spec:
    """The spec of what `zeros_like_attrs` described, to be made of a list."""
    found = spec(attrs["dtype"], attrs["shape"])
    for shape in late:
        check_index(what, shape, 1)
    if found.dtype != given.dtype:
        message = f"{what} gives {name_of(given.dtype)}, as in the list, got {name_of(found.dtype)}"
        raise SpecError(message)
    # Either the attributes tell it, or an input.
    if found.is_static != (not late):
        message = f"{what} is told a shape once, got {found} and {len(late)} tensors with one"
        raise SpecError(message)
    return found
