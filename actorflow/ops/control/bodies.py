"""Building functional nodes: their bodies, what these take from outside, and what they touch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import iscoroutinefunction, signature
from typing import Any

from actorflow.errors import GraphError, Where
from actorflow.graph.body import Body, as_spec
from actorflow.graph.builder import NO_RETURN, Tensor, as_tensor
from actorflow.graph.graph import Graph
from actorflow.graph.node import Attr, NodeId, Port
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, Effect, lookup, op
from actorflow.ops.state.handle import can_be_called
from actorflow.ops.state.variable import Variable
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import DType
from actorflow.values.pytree import flatten, ordered_like, treedef
from actorflow.values.spec import Spec


@contextmanager
def building(graph: Graph) -> Iterator[None]:
    """Forgets the bodies that were begun inside when it fails."""
    before = set(graph.bodies)
    try:
        yield
    # A body is in the graph's table from its first node on: one that failed must not stay there.
    except BaseException:
        for key in graph.bodies.keys() - before:
            del graph.bodies[key]
        raise


def add_arguments(body: Body, specs: Sequence[Spec], name: str, line: str) -> list[Tensor]:
    """Adds the arguments that a node gives its body each time."""
    ports = [body.add_argument(spec, f"{name}_{k}", line) for k, spec in enumerate(specs)]
    return [Tensor(body, port) for port in ports]


def call_in_body(body: Body, function: Any, args: Sequence[Any]) -> Any:
    """Returns what the user's function builds in a body.

    Raises:
        GraphError: when it is no function, takes other arguments, or is an `async def`.
    """
    where = Where(defined_at=body.defined_at)
    if not callable(function):
        message = f"{body.what} is built by a function, got {type(function).__name__} {function!r:.60}"
        raise GraphError(message, where=where)
    # Before it is called: an `async def` would give a coroutine, and build nothing.
    check_not_async(function, body.what, where)
    if not can_be_called(function, *args):
        message = (
            f"{body.what} is built by a function that is called with "
            f"{_describe_arguments(args)}, got {function!r:.60}, which takes {_parameters_of(function)}"
        )
        raise GraphError(message, where=where, hint=_HANDED_OVER if args else None)
    # The body is current only while the function builds in it.
    with body:
        return function(*args)


_HANDED_OVER = "a tuple or list is handed over as so many arguments, anything else (named tuples, too) as one"


def _describe_arguments(args: Sequence[Any]) -> str:
    """What a function is called with, in words."""
    if not args:
        return "no arguments"
    if len(args) == 1:
        return f"one argument ({describe_structure(args[0])})"
    return f"{len(args)} arguments"


def describe_structure(tree: Any) -> str:
    """Returns a structure as an error shows it."""
    return treedef(tree, "tensor")


def _parameters_of(function: Any) -> str:
    """The parameters of a function, as it is written."""
    names = ", ".join(
        str(each.replace(annotation=each.empty)) for each in signature(function).parameters.values()
    )
    return f"({names})"


def check_not_async(function: Any, what: str, where: Where) -> None:
    """Raises GraphError for an `async def`, which builds nothing."""
    if iscoroutinefunction(function):
        message = (
            f"{what} is built by a plain function, which is called once, got the async def {function!r:.60}"
        )
        hint = "to await something in the step, use af.py_actor within a plain function"
        raise GraphError(message, where=where, hint=hint)


def leaves_of(body: Body, made: Any, dtypes: Sequence[DType | None] | None = None) -> list[Tensor]:
    """Returns the leaves of what was built as tensors of the body; numbers take these dtypes."""
    # Numbers that the function returned take the dtype of what they stand beside.
    leaves, _ = flatten(made)
    wanted = dtypes if dtypes is not None else [None] * len(leaves)
    with body:
        return [as_tensor(leaf, dtype=dtype) for leaf, dtype in zip(leaves, wanted, strict=True)]


def check_treedef(body: Body, made: Any, wanted: Any, rule: str) -> None:
    """Raises GraphError unless `made` is built of tuples, lists and dicts as `wanted` is."""
    got, asked = treedef(made), treedef(wanted)
    if got != asked:
        message = f"{rule}, got {describe_structure(made)} from {body.what}, and {describe_structure(wanted)}"
        raise GraphError(message, where=Where(defined_at=body.defined_at), hint=hint_of_none(made, wanted))


def hint_of_none(*trees: Any) -> str | None:
    """What to try when one of the structures is None, which Python returns by itself."""
    return NO_RETURN if any(tree is None for tree in trees) else None


def state_like(before: Any, after: Any, rule: str, where: Where) -> Any:
    """Returns the state that a function made of the one before, its mappings in the same order.

    Raises:
        GraphError: beginning with `rule`, when it has another structure.
    """
    # Dicts are alike whatever the order of their keys.
    after = ordered_like(before, after)
    if treedef(after) != treedef(before):
        message = f"{rule}, got {describe_structure(after)}, and {describe_structure(before)}"
        raise GraphError(message, where=where, hint=hint_of_none(after))
    return after


def check_wanted(outer: Graph, made: Any, touches: Mapping[str, Attr], what: str, line: str) -> None:
    """Raises GraphError for a node without results that could not make a difference.

    A step asks for results; without them a node runs only within a body, and does something there only if it
    has an effect.

    Args:
        outer: Where the node stands.
        made: What the functions of the user returned.
        touches: What their bodies touch, as `stateful_attrs` tells it.
        what: What errors call the functions.
        line: The user's.
    """
    # In a body a node without results may run for what it does; a step would never ask for it.
    has_effect = bool(touches["writes"] or touches["waits"] or touches["asks"])
    if flatten(made)[0] or (has_effect and isinstance(outer, Body)):
        return
    message = f"{what} returns a tensor, or a structure of some, got {describe_structure(made)}"
    hint = hint_of_none(made)
    if has_effect:
        hint = "nobody could ask a step for what happens in it: let it return what that gives"
    raise GraphError(message, where=Where(defined_at=line), hint=hint)


def complete_bodies(bodies: Sequence[Body], results: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """Completes the bodies of one node, and returns what they capture, one list for all of them.

    A variable that was used as a tensor, and that nothing in them writes, is read once, outside: so
    gradients reach it, and bodies that only compute stay such.
    """
    outer = bodies[0].outer
    # What any body writes differs from turn to turn, or by branch: it is read where it stands.
    written = {name for body in bodies for name in stateful_attrs(body)["writes"]}
    with outer:
        for body in bodies:
            for read in sorted(body.implicit):
                # Implicit reads alone: one that was asked for with `read` stays in its place.
                name = body.nodes[read].attrs["resource"]
                if name not in written:
                    body.stand_for(read, Variable.existing(outer, name).as_tensor().port)
    # ORDER: the same captures for all bodies of a node, in the order in which they were first used.
    captured = list(dict.fromkeys(port for body in bodies for port in body.captured))
    for body, found in zip(bodies, results, strict=True):
        body.finish([tensor.port for tensor in found], captured)
    return [Tensor(outer, port) for port in captured]


def stateful_attrs(*bodies: Body) -> dict[str, Attr]:
    """Returns what bodies touch beside their arguments, as attributes of their node.

    `reads`, `writes` and `waits` name the state that they read, change and wait at, and actors that they call
    in order; `random` tells whether they draw, `asks` whether they call code of the user.
    """
    reads: set[str] = set()
    writes: set[str] = set()
    waits: set[str] = set()
    draws = asks = False
    for body in bodies:
        for node in body.nodes:
            match lookup(node.op).effect:
                case Effect.READ:
                    reads.add(node.attrs["resource"])
                case Effect.WRITE:
                    writes.add(node.attrs["resource"])
                case Effect.WAIT:
                    waits.add(node.attrs["resource"])
                # Commits and locks of several variables count as writes to each.
                case Effect.COMMIT | Effect.LOCK | Effect.UNLOCK:
                    writes.update(node.attrs["resources"])
                case Effect.ASK:
                    asks = True
                    # An actor that is called in order is like state that calls write; the zero byte keeps it
                    # off names of variables.
                    if node.attrs.get("ordered"):
                        writes.add(f"\0{node.attrs['actor']}")
                case Effect.RANDOM:
                    draws = True
                # A functional node has told what its own bodies touch.
                case Effect.FUNCTION:
                    reads.update(node.attrs["reads"])
                    writes.update(node.attrs["writes"])
                    waits.update(node.attrs["waits"])
                    draws = draws or node.attrs["random"]
                    asks = asks or node.attrs["asks"]
                case _:
                    pass
    return {
        "reads": tuple(sorted(reads)),
        "writes": tuple(sorted(writes)),
        "waits": tuple(sorted(waits)),
        "random": draws,
        "asks": asks,
    }


def is_pure(attrs: Mapping[str, Attr]) -> bool:
    """Tells whether the bodies of a functional node only compute."""
    return not (attrs["reads"] or attrs["writes"] or attrs["waits"] or attrs["asks"])


def line_of(graph: Graph) -> str:
    """Returns the user's line that asks for a functional node."""
    return graph.scope.defined_at or source_line()


def as_port(attr: Attr) -> Port:
    """Returns the port that an entry of `saved` begins with."""
    return Port(NodeId(attr[0]), attr[1])


def _argument_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    return (as_spec(attrs["spec"]),)


@op(
    "argument",
    spec=_argument_spec,
    gradient=NOT_DIFFERENTIABLE,
    effect=Effect.ARGUMENT,
    takes_bytes=True,
    takes_lists=True,
    asked_with=({"spec": ("float32", ())},),
)
def argument(x: Tensor) -> Tensor:
    """What a body is given by the node that runs it: `x` of the graph around; its gradient is that of `x`."""
    return as_tensor(x)
