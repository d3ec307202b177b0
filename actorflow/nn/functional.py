"""Layers as functions of their weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from actorflow.errors import GraphError, SpecError, Where
from actorflow.graph.body import root_of
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph, current
from actorflow.ops.state.handle import as_typed_tensor, check_fits
from actorflow.ops.state.substitution import substitute
from actorflow.ops.state.variable import Variable
from actorflow.runtime.call_site import source_line

Weights = Mapping[Any, Any] | Sequence[Any]
"""Values by variable, or by its name; or a list of them, one for each of `layer.trainable`."""


def apply(layer: Any, weights: Weights, *args: Any, **named: Any) -> Any:
    """Returns what `layer` makes of the arguments with other weights in place of its own.

    Nothing is written: inside this one call, reads of these variables give the values. The others are read as
    they are. Gradients flow to the values, and through them to what they are computed from.

    Args:
        layer: A layer, or any function that reads variables.
        weights: What stands for variables: a dict, from variables or their names to values; or a list, one
            for each of `layer.trainable`.
        *args: What the layer is called with.
        **named: The same, as `training=True`.

    Shapes:   each value that of its variable
    Dtypes:   those of the variables
    Gradient: to the values.
    Raises:   SpecError when a value does not fit; GraphError for what is no variable of the layer, for
              another number of values, and when the call writes to a variable that is replaced.

    >>> with af.Graph():
    ...     layer = af.nn.Dense(3, 2, name="layer")
    ...     x = af.placeholder("float32", (None, 3), name="x")
    ...     af.nn.apply(layer, {v: 0.9 * v for v in layer.variables}, x)
    <Tensor layer/add:0 (None, 2) float32>
    """
    if not callable(layer):
        what = f"takes a layer or a function, got {layer!r:.60}"
        raise _refusal(what)
    # Variables belong to the graph outside of loops and branches.
    graph = root_of(current())
    values: dict[tuple[Graph, str], Tensor] = {}
    for variable, value in _pairs(layer, weights):
        if (graph, variable.name) in values:
            # Two values for one variable would leave open which counts.
            what = f"takes one value for a variable, got two for {variable.name!r}"
            raise _refusal(what)
        values[graph, variable.name] = _fitting(variable, value)
    # INVARIANT: the substitution ends with the call, whatever that raises.
    with substitute(values):
        return layer(*args, **named)


def _pairs(layer: Any, weights: Any) -> Iterator[tuple[Variable, Any]]:
    if isinstance(weights, Mapping):
        for key, value in weights.items():
            yield _variable(layer, key), value
        return
    if not isinstance(weights, list | tuple):
        message = f"takes weights as a dict or a list, got {type(weights).__name__} {weights!r:.60}"
        raise _refusal(message)
    # A list counts on the order of `trainable`.
    own = getattr(layer, "trainable", None)
    if own is None:
        message = f"takes a list of weights for a layer, got {layer!r:.60}"
        raise _refusal(message, "give a dict, from variables to values")
    if len(own) != len(weights):
        names = ", ".join(v.name for v in own)
        message = f"takes a value for each of {len(own)} trainable variables, got {len(weights)}"
        raise _refusal(message, f"they are {names}")
    yield from zip(own, weights, strict=True)


def _variable(layer: Any, key: Any) -> Variable:
    graph = root_of(current())
    own = getattr(layer, "variables", None)
    # A function has no list of variables: any of the graph may be meant.
    names = [v.name for v in own] if isinstance(own, list) else None
    name = key.name if isinstance(key, Variable) else key
    # Names alone would find one of the same name in the wrong graph.
    if isinstance(key, Variable) and key.graph is not graph:
        what = f"takes weights for variables of the current graph, got {key!r} of another one"
        raise _refusal(what)
    if not isinstance(name, str):
        what = f"takes weights by variable or name, got {key!r:.60}"
        raise _refusal(what)
    if names is not None and name not in names:
        what = f"takes weights of the layer, got {name!r}"
        raise _refusal(what, f"it has {', '.join(names) or 'none'}")
    return Variable.existing(graph, name)


def _fitting(variable: Variable, value: Any) -> Tensor:
    """The value as a tensor; SpecError unless it fits the variable."""
    if value is None:
        hint = "af.gradients gives None where no path leads to a variable: leave it out"
        what = f"takes a tensor or an array as {variable.name!r}, got None"
        raise _refusal(what, hint)
    # At the line of the call: the check knows no place.
    try:
        tensor = as_typed_tensor(value, variable.dtype)
        check_fits(tensor.spec, variable.spec, f"a weight for {variable.name!r}")
    except SpecError as error:
        raise error.at(Where(op="nn.apply", defined_at=source_line())) from None
    return tensor


def _refusal(what: str, hint: str | None = None) -> GraphError:
    return GraphError(f"af.nn.apply {what}", where=Where(defined_at=source_line()), hint=hint)
