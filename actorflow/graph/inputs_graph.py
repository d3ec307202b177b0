"""Which graph an API function builds into where no `with g:` is open: that of its inputs.

A notebook builds over many cells, and a script adds one more tensor at its end. What they write has inputs,
and these belong to a graph, so nothing has to be said again. Where there are none (a constant, a placeholder,
a variable) nobody can know, and `graph.current` says what to write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from inspect import isfunction
from typing import Any, ParamSpec, TypeVar

from actorflow.graph.body import root_of
from actorflow.graph.graph import Graph, current_or_none

P = ParamSpec("P")
R = TypeVar("R")

_DEEPEST = 4  # lists within lists that arguments of API functions are; a longer way is none


def graph_of(values: Iterable[Any], depth: int = _DEEPEST) -> Graph | None:
    """Returns the outermost graph that the first of the values belongs to which belongs to any; else None."""
    for value in values:
        if isinstance(value, list | tuple | Mapping):
            inner = value.values() if isinstance(value, Mapping) else value
            # A longer way is none of an argument: a list may even hold itself.
            found = graph_of(inner, depth - 1) if depth else None
            if found is not None:
                return found
        elif isinstance(graph := getattr(value, "graph", None), Graph):
            # The outermost: bodies are open only while they are built.
            return root_of(graph)
    return None


_OPEN: AbstractContextManager[object] = nullcontext()


def graph_for(args: tuple[Any, ...], named: Mapping[str, Any]) -> AbstractContextManager[object]:
    """Returns what to build a call in: the graph of its arguments where none is open and one has any.

    Raises:
        GraphError: that graph is being built in another thread or task.
    """
    # A graph that is open counts, whatever the inputs say: a wrong one is refused when they meet.
    if current_or_none() is not None:
        return _OPEN
    graph = graph_of((*args, *named.values()))
    if graph is None:
        return _OPEN
    graph.check_free()
    return graph


def in_graph_of_inputs(function: Callable[P, R]) -> Callable[P, R]:
    """Returns the function, which opens the graph of its arguments where none is open."""

    @wraps(function)
    def called(*args: P.args, **named: P.kwargs) -> R:
        with graph_for(args, named):
            return function(*args, **named)

    return called


Class = TypeVar("Class", bound=type)


def methods_in_own_graph(cls: Class) -> Class:
    """Has the public methods of a class whose instances have a `graph` open it where none is open.

    A call of an instance is one of them.
    """
    for name, method in list(vars(cls).items()):
        if isfunction(method) and (name == "__call__" or not name.startswith("_")):
            setattr(cls, name, in_graph_of_inputs(method))
    return cls
