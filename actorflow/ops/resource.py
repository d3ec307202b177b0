"""What variables and queues share: names in the graph, and values that have to fit."""

from __future__ import annotations

from inspect import signature
from typing import Any

from actorflow.arrays import DType, converted, name_of
from actorflow.errors import GraphError, SpecError, Where
from actorflow.graph.builder import Tensor, as_tensor, source_line
from actorflow.graph.graph import Graph
from actorflow.spec import Spec, merge


def resource_name(graph: Graph, name: str | None, default: str, where: Where) -> str:
    """Returns the full name; a default gets a number when it is taken, for another it is an error."""
    given: Any = name
    if given is not None and (not isinstance(given, str) or not given):
        message = f"the name of a {default} is a text and not empty, got {name!r:.60}"
        raise GraphError(message, where=where)
    if name is not None:
        full = f"{graph.scope.name}{name}"
        try:
            graph.check_resource(full)
        except GraphError as error:
            raise error.at(where) from None
        return full
    plain = found = f"{graph.scope.name}{default}"
    n = 0
    while found in graph.resources:
        n += 1
        found = f"{plain}_{n}"
    return found


def can_be_called(function: Any, *args: Any) -> bool:
    """Tells whether a function takes these arguments, as far as it says what it takes."""
    try:
        signature(function).bind(*args)
    except TypeError:
        return False
    except ValueError:  # written in C, and does not say; classes like int make no first values
        return not isinstance(function, type)
    return True


def typed(value: Any, dtype: DType, *, convert: bool = False) -> Tensor:
    """Returns `value` as a tensor; numbers and lists of them take `dtype`, and arrays if `convert`.

    Raises:
        SpecError: when numbers would lose their fraction or their imaginary part, or are too large.
    """
    if isinstance(value, Tensor) or hasattr(value, "as_tensor") or (hasattr(value, "dtype") and not convert):
        return as_tensor(value)
    try:
        return as_tensor(converted(value, dtype))
    except (TypeError, ValueError, OverflowError) as error:
        message = f"no {name_of(dtype)} tensor can hold {value!r:.60}: {error}"
        raise SpecError(message, where=Where(defined_at=source_line())) from None


def check_fits(given: Spec, wanted: Spec, what: str) -> None:
    """Raises SpecError when nothing described by `given` can be one of `wanted`."""
    try:
        merge(given.shape, wanted.shape)
    except SpecError:
        fits = False
    else:
        fits = given.dtype == wanted.dtype
    if not fits:
        message = f"{what} must fit {wanted}, got {given}"
        raise SpecError(message)
