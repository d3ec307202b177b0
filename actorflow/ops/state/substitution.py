"""Other values for variables while a function builds ops: a read of one gives the tensor that stands for it.

So a layer is called with weights that are computed, and knows nothing of it. Nothing is written, and when
the function is done the variables are read again. What it would write to a variable that another value
stands for is refused, since there would be two right values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from actorflow.errors import GraphError, Where
from actorflow.graph.builder import Tensor, as_tensor
from actorflow.graph.graph import Graph
from actorflow.runtime.call_site import source_line

Owner = tuple[Graph, str]
"""The graph of a variable, and its name."""

_values: ContextVar[Mapping[Owner, Tensor] | None] = ContextVar("actorflow_replaced", default=None)


@contextmanager
def substitute(values: Mapping[Owner, Tensor]) -> Iterator[None]:
    """Makes these stand for variables inside; those of a block around stay, where none is given here."""
    # Inner blocks add to outer ones.
    token = _values.set({**(_values.get() or {}), **values})
    try:
        yield
    finally:
        _values.reset(token)


def stands_for(graph: Graph, name: str) -> Tensor | None:
    """Returns what stands for the variable, in the current graph; None for the variable itself."""
    values = _values.get()
    # A function that is built inside a body captures it.
    found = None if values is None else values.get((graph, name))
    return None if found is None else as_tensor(found)


def check_itself(graph: Graph, name: str) -> None:
    """Raises GraphError when something stands for the variable, which is about to be written."""
    values = _values.get()
    # There would be two right values: the one written and the one that stands for it.
    if values is not None and (graph, name) in values:
        message = f"a variable that is replaced cannot be written, got a write to {name!r}"
        hint = "leave it out of the weights; BatchNorm(..., training=True) writes its moving averages"
        raise GraphError(message, where=Where(defined_at=source_line()), hint=hint)
