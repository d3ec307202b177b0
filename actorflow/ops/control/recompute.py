"""`recompute`: values that a gradient needs are computed again, not kept from the forward pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from actorflow.errors import GradientError, Where
from actorflow.graph.autodiff import Use
from actorflow.graph.body import Body, as_attr, as_spec
from actorflow.graph.builder import Tensor, as_tensor, build
from actorflow.graph.graph import current
from actorflow.graph.inputs_graph import in_graph_of_inputs
from actorflow.graph.node import Attr, NodeId, Port
from actorflow.graph.opdef import Effect, lookup, op
from actorflow.graph.slices import Gradient
from actorflow.ops.control.bodies import (
    building,
    call_in_body,
    check_wanted,
    complete_bodies,
    leaves_of,
    line_of,
    stateful_attrs,
)
from actorflow.ops.control.saved_for_backward import (
    Backward,
    argument_of,
    carries,
    copy_body,
    save_for_backward,
    saved_key,
)
from actorflow.runtime.call_site import source_line
from actorflow.values.pytree import flatten
from actorflow.values.spec import Spec


def recompute(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives what `function` builds a gradient that needs less memory, and computes more.

    The values within are not kept for the gradient: it computes them again from what the function uses,
    once the gradients of its results are there. Random numbers are kept, since they would be others, and
    so is what it asks of state.

    Shapes:   those of the function
    Dtypes:   those of the function
    Gradient: as without it, to the bit, of any order
    Raises:   GradientError when `function` is none.

    >>> with af.Graph() as g:
    ...     x = af.placeholder("float32", name="x")
    ...     y = af.autodiff.recompute(lambda x: af.exp(af.sin(x)))(x)
    ...     print(af.gradients(y, x)[0].spec)
    () float32
    """
    given: Any = function
    if not callable(given):
        message = f"recompute takes a function, got {type(function).__name__} {function!r:.60}"
        raise GradientError(message, where=Where(defined_at=source_line()))
    named = getattr(function, "__name__", "call")
    name = named if named.isidentifier() else "call"

    @in_graph_of_inputs
    @wraps(function)
    def constructor(*args: Any, **settings: Any) -> Any:
        graph = current()
        line = line_of(graph)
        title = graph.unique(name)
        # As in branches: what fails leaves no body behind.
        with building(graph):
            body = Body(graph, f"{title}/body", f"the function {title!r}", line)
            made = call_in_body(body, lambda: function(*args, **settings), ())
            _, whole = flatten(made)
            results = leaves_of(body, made)
            captured, touches = complete_bodies([body], [results]), stateful_attrs(body)
            check_wanted(graph, made, touches, body.what, line)
            attrs: dict[str, Attr] = {
                "body": body.key,
                "outputs": tuple(as_attr(r.spec) for r in results),
                "saved": (),
                "lower": None,
                **touches,
            }
            outputs = build("call", captured, attrs, name=title.removeprefix(graph.scope.name))
        return whole(outputs)

    return constructor


def _gradient(use: Use, *grads: Gradient | None) -> Sequence[Gradient | None]:
    node, graph = use.node, use.graph
    body: Body = graph.bodies[use.attrs["body"]]
    saved = use.attrs["saved"]
    count = len(node.outputs) - len(saved)
    ys, starts = [], []
    for k, grad in enumerate(grads):
        if grad is not None and carries(node.outputs[k]):
            ys.append(
                body.results[k] if k < count else Port(NodeId(saved[k - count][0]), saved[k - count][1])
            )
            starts.append(as_tensor(grad))
    # No gradient for what nobody asks for.
    wanted = [c for c in range(len(node.inputs)) if use.needs[c]]
    draft = Backward(body, ys, [body.arguments[c] for c in wanted], current().unique("call"), node.defined_at)
    try:
        # ORDER: what is computed again waits for the gradients of the results: before them it would only use
        # memory.
        values = iter(_recompute(use, body, [port for port in draft.values if port is not None], starts))
        made = draft.copy(starts, [None if port is None else next(values) for port in draft.values])
    finally:
        draft.forget()
    found: list[Gradient | None] = [None] * len(node.inputs)
    for c, grad in zip(wanted, made, strict=True):
        found[c] = grad
    return found


def _recompute(use: Use, body: Body, ports: Sequence[Port], starts: Sequence[Tensor]) -> list[Tensor]:
    """Values of the forward pass, computed again in the current graph after the `starts` have come."""
    ways: dict[Port, Port] = {}
    again: set[NodeId] = set()
    todo = list(ports)
    while todo:
        port = todo.pop()
        # Each node once, whichever way leads to it.
        if port in ways or port.node in again:
            continue
        node = body.nodes[port.node]
        argument = argument_of(body, port)
        # An argument is an input of the node, which is there anyway.
        if argument is not None:
            ways[port] = as_tensor(use.inputs[argument]).port
        # Drawn numbers and values of state would be others: those are kept.
        elif _is_other_next_time(body, node.id):
            value = save_for_backward(use.graph, use.node.id, saved_key(port), node.outputs[port.index])
            ways[port] = as_tensor(value).port
        # All the rest is computed again, from what it stands on.
        else:
            again.add(port.node)
            todo.extend(node.inputs)
    # Only what the gradient needs of it, and after the gradients have come.
    made = copy_body(body, (), ways=ways, only=again, after=[start.port.node for start in starts])
    return [Tensor(current(), made[port]) for port in ports]


def _is_other_next_time(body: Body, node: NodeId) -> bool:
    """Tells whether a node may give something else when it is asked again."""
    found = body.nodes[node]
    effect = lookup(found.op).effect
    if effect is Effect.FUNCTION:
        # A functional node is asked for what its bodies do.
        return bool(
            found.attrs["random"] or found.attrs["reads"] or found.attrs["writes"] or found.attrs["waits"]
        )
    return effect not in (Effect.PURE, Effect.CONSTANT)


def _outputs(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    """The results, and the values that are kept."""
    return (*map(as_spec, attrs["outputs"]), *(as_spec(spec_attr) for _, _, spec_attr in attrs["saved"]))


op(
    "call",
    spec=_outputs,
    gradient=_gradient,
    effect=Effect.FUNCTION,
    takes_bytes=True,
    takes_lists=True,
)(recompute)
