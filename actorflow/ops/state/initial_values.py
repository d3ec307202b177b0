"""First values of variables: what they may be given as, and the nodes that compute them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Protocol

from actorflow.errors import SpecError, Where
from actorflow.graph.body import root_of
from actorflow.graph.builder import Tensor, as_tensor, name_scope
from actorflow.graph.graph import Graph
from actorflow.graph.node import Port
from actorflow.ops.state.handle import as_typed_tensor, can_be_called
from actorflow.values.arrays import DType, as_dtype
from actorflow.values.spec import Dim, ListSpec, Spec, check_shape, merge


class Builder(Protocol):
    """What makes a first value out of ops, for example an initialiser of `af.init`."""

    def build(self) -> Tensor:
        """Builds the value in the current graph."""
        ...


Initial = Builder | Callable[[], Tensor] | Tensor | Any
"""A builder, a function that builds a tensor, a tensor, an array or a number."""


def _check_no_bytes(local: str, held: Spec, where: Where) -> None:
    if held.dtype.kind == "O":
        message = f"a variable holds numbers or bool, got {held} for {local!r}"
        raise SpecError(
            message,
            where=where,
            hint="bytes are fed, or wait in a queue; af.strings.to_number makes numbers of them",
        )


def spec_and_initial(
    graph: Graph, local: str, initial: Initial, dtype: Any, shape: Iterable[Dim] | None, where: Where
) -> tuple[Spec, Port | None]:
    """Returns what a variable holds and where its first value comes from."""
    try:
        wanted = None if dtype is None else as_dtype(dtype)
        sizes = check_shape(shape)
    except TypeError as error:
        raise SpecError(str(error), where=where) from None
    except SpecError as error:
        raise error.at(where) from None
    # Nothing to begin with: the first assign gives the value.
    if initial is None:
        if wanted is None or shape is None:
            message = "a variable without an initial value needs dtype and shape"
            raise SpecError(message, where=where)
        _check_no_bytes(local, Spec(sizes, wanted), where)
        return Spec(sizes, wanted), None
    # Before the first value is built, whose error would be about a conversion.
    if wanted is not None:
        _check_no_bytes(local, Spec(sizes, wanted), where)
    value = _build_initial(graph, local, initial, wanted, where)
    # And after it, where no dtype was given.
    _check_no_bytes(local, value.spec, where)
    if isinstance(value.spec, ListSpec):
        message = f"a variable holds one tensor, got a {value.spec} for {local!r}"
        raise SpecError(message, where=where, hint="make it of what the list is stacked to")
    if wanted is not None and value.dtype != wanted:
        message = f"variable {local!r} of dtype {wanted.name} cannot begin as {value.spec}"
        raise SpecError(message, where=where, hint="convert it with af.cast")
    if sizes is not None:
        try:
            merge(sizes, value.shape)
        except SpecError:
            message = f"variable {local!r} of shape {sizes} cannot begin as {value.spec}"
            raise SpecError(message, where=where) from None
    # `shape` may be more open than the first value: assigns may change those sizes.
    return Spec(value.shape if sizes is None else sizes, value.dtype), value.port


def _build_initial(graph: Graph, local: str, initial: Initial, dtype: DType | None, where: Where) -> Tensor:
    """Builds the first value outside of bodies and control dependencies: in a step of its own."""
    # First values are computed by a step of initialisation: nothing of this scope's order may hold them up.
    scope, root = replace(graph.scope, controls=(), colocate=None), root_of(graph)
    with root, root.use_scope(scope), name_scope(f"{local}/initial"):
        # An initialiser of af.init, which has the shape already.
        if hasattr(initial, "build"):
            initial = initial.build()
        elif callable(initial):
            # af.init.he instead of af.init.he((64, 10)).
            if not can_be_called(initial):
                called = getattr(initial, "__qualname__", repr(initial))
                rule = "a variable begins as a value, or calls a function of no arguments"
                message = f"{rule}, got {called} for {local!r}"
                hint = "an initialiser is given the shape first, as in af.init.he((64, 10))"
                raise SpecError(message, where=where, hint=hint)
            initial = initial()
        # Numbers take the dtype that was asked for, arrays too.
        return as_tensor(initial) if dtype is None else as_typed_tensor(initial, dtype, convert=True)
