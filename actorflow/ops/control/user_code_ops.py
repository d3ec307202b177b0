"""Code of the user as nodes: a function that each firing calls, an actor that each firing asks.

The function, the actor and the gradient rule lie in `graph.objects`; a node names them by key. The actors
that run them are in `dataflow.user.user_code_actor`; nothing of a user's code runs while the graph is built,
except a gradient rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from actorflow.errors import GradientError, GraphError, Where
from actorflow.graph import opdef
from actorflow.graph.autodiff import Use, as_list, fits
from actorflow.graph.builder import Tensor, as_tensor, build
from actorflow.graph.custom import NO_RULE_RETURN
from actorflow.graph.graph import current
from actorflow.graph.node import Attr
from actorflow.graph.opdef import Effect, op
from actorflow.graph.slices import Gradient, IndexedSlices
from actorflow.ops.definition import handle_arguments
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.state.handle import can_be_called
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import is_differentiable, name_of
from actorflow.values.pytree import Rebuild, flatten
from actorflow.values.spec import Spec, spec

_DONE = Spec((), "bool")  # type: ignore[arg-type]  # Spec takes names for dtypes
"""What a node gives whose code returns nothing: True, once it has ended."""


@dataclass(frozen=True)
class UserFunction:
    """What `py_actor` runs.

    Attributes:
        method: The function.
        outputs: What it returns: a structure of specs, None for nothing.
        gradient: Its gradient rule, None where it has none.
        concurrency: How many calls may run at once; None is no limit.
    """

    method: Callable[..., Any]
    outputs: Any
    gradient: Callable[..., Any] | None
    concurrency: int | None


@dataclass(frozen=True)
class Question:
    """What `call` asks an actor.

    Attributes:
        method: The name of a method, or what makes the message of the arrays.
        outputs: What is answered: a structure of specs, None for nothing.
        gradient: The gradient rule, None where there is none.
    """

    method: str | Callable[..., Any]
    outputs: Any
    gradient: Callable[..., Any] | None


@dataclass(frozen=True)
class UserActor:
    """What `actor` declares: called with the arguments, it makes the actor, once a session."""

    factory: Callable[..., Any]
    args: tuple[Any, ...]


@dataclass(frozen=True)
class RunningActor:
    """An actor that runs already, by its address."""

    ref: Any


@dataclass(frozen=True)
class ActorHandle:
    """What a program holds of an actor that its graph declares: a target of `call`.

    Attributes:
        key: Under which the graph knows it.
        device: The device scope in which it was declared: where it lives, and all calls of it run.
        definition: What makes it.
    """

    key: str
    device: str
    definition: UserActor

    def __repr__(self) -> str:
        return f"<ActorHandle {self.key}>"


@api_function
def actor(factory: Any, *args: Any, name: str | None = None) -> ActorHandle:
    """Declares an actor of the user's that nodes can `call`; every session has one of its own.

    It is started when a session first needs it, with `factory(*args)`, and stopped with the session; so
    are the actors that it spawns with `self.spawn`.

    Args:
        factory: A subclass of `af.Actor`, or whatever else makes an object: of one that is no actor the
            methods are called, one at a time.
        *args: Its arguments.
        name: What errors and `dump` call it; by default the name of the factory.

    Raises:
        GraphError: for what cannot be called.
    """
    graph = current()
    if not callable(factory):
        message = f"actor takes a class, or a function that makes an actor, got {factory!r:.60}"
        hint = "pass the class and its arguments: af.actor(Counter, 3)"
        raise GraphError(message, where=_here(), hint=hint)
    definition = UserActor(factory, args)
    # The name is unique in the graph, and errors show it.
    key = graph.add_object(f"actor/{graph.scope.name}{_name(name, factory, 'actor')}", definition)
    return ActorHandle(key, graph.scope.device, definition)


@api_function
def py_actor(
    fn: Any,
    inputs: Any,
    outputs: Any,
    *,
    deadline_s: float | None = None,
    gradient: Any = None,
    concurrency: int | None = None,
    name: str | None = None,
) -> Any:
    """Calls `fn` with the values of `inputs`, and gives what it returns.

    Each firing is one call. Calls overlap wherever the graph lets them, within a step and between steps:
    they are in no order. When the step ends before, the call is cancelled.

    Args:
        fn: An `async def`, run on the event loop. A plain `def` is called there as well and holds
            everything up while it runs: it has to be short. It gets arrays, which are read-only.
        inputs: A tensor, or a sequence of them: the arguments of `fn`.
        outputs: An `af.Spec`, or a structure of them that `fn` returns. None: it returns None, and the node
            gives True once it has.
        deadline_s: How long a call may take, from the firing on; None: as long as the step.
        gradient: A rule `(use, *grads) -> grads`, built of ops: the gradient of each output to that of each
            input: a tensor, or a list of them, with None for none. `use.inputs` and `use.outputs` are the
            tensors. Without a rule no gradient goes through.
        concurrency: How many calls of this node may run at once in a session; None is no limit.
        name: The name of the node; by default that of `fn`.

    Returns:
        Tensors in the structure of `outputs`.

    Raises:
        GraphError: when `fn` cannot be called with as many arguments, or `outputs` are no specs.
        SpecError: for a deadline that is no number above 0, or a concurrency that is no integer of at least
            1; in a step, when a value that `fn` returned does not fit.
        KernelError: in a step, when `fn` raised; names its line.
        DeadlinePassed: in a step, when `fn` did not end in time.

    >>> async def double(x):
    ...     return 2 * x
    >>> with af.Graph():
    ...     af.py_actor(double, af.placeholder("float32", (3,)), af.Spec((3,), "float32"))
    <Tensor double:0 (3,) float32>
    """
    tensors = [as_tensor(x) for x in as_list(inputs)]
    # By the signature: nothing of the user's runs while the graph is built.
    if not callable(fn) or not can_be_called(fn, *tensors):
        message = f"py_actor takes a function of its inputs, {len(tensors)} arrays, got {fn!r:.60}"
        raise GraphError(message, where=_here(), hint="give it one parameter for each input")
    limit = handle_arguments.limit(concurrency, "concurrency")
    _check_rule(gradient)
    found = UserFunction(fn, outputs, gradient, limit)
    return _build_question("py_actor", tensors, found, deadline_s, _name(name, fn, "py_actor"))


@api_function
def call(
    target: Any,
    method: Any,
    *args: Any,
    outputs: Any,
    deadline_s: float | None = None,
    gradient: Any = None,
    ordered: bool = True,
    name: str | None = None,
) -> Any:
    """Asks an actor of the user's, and gives what it answers.

    Each firing is one question, which the actor handles when its turn comes. When the step ends before,
    the answer is dropped; a question that the actor has not begun to handle is not handled, one that it
    works on it finishes, since it owns its state.

    Args:
        target: What `af.actor` gave, or the `Ref` of an actor that runs in the session's system.
        method: The name of a method of the actor that `af.actor` declares, called with the arrays as any
            message is handled, plain or `async`; or a function, such as the class of a message, that
            makes of the arrays the message that the actor is asked.
        *args: Tensors; the values that come of them are read-only arrays.
        outputs: As for `py_actor`.
        deadline_s: How long the answer may take, from the firing on; None: as long as the step.
        gradient: As for `py_actor`.
        ordered: Whether the calls of this actor that a step makes happen in the order in which they were
            built, each when the one before has been answered. Those of different steps are in no order.
        name: The name of the node; by default that of the method.

    Returns:
        Tensors in the structure of `outputs`.

    Raises:
        GraphError: for a target that is no actor of this graph, or a method that is none.
        SpecError, KernelError, DeadlinePassed: as for `py_actor`.
        ActorDied: in a step, when the actor has stopped.
        PlacementError: for the `Ref` of an actor that lives elsewhere than the node.
    """
    graph = current()
    tensors = [as_tensor(x) for x in args]
    key, device = _target(target)
    if isinstance(method, str):
        if not isinstance(target, ActorHandle):
            message = (
                f"a method is called by name on what af.actor declares, got {method!r} of {target!r:.60}"
            )
            hint = "pass a function that makes the message of the arrays, such as its class"
            raise GraphError(message, where=_here(), hint=hint)
    elif not callable(method) or not can_be_called(method, *tensors):
        message = f"call takes a name, or what makes a message of {len(tensors)} arrays, got {method!r:.60}"
        raise GraphError(message, where=_here())
    _check_rule(gradient)
    handle_arguments.flag(ordered, "ordered")
    named = _name(name, method if not isinstance(method, str) else None, str(method))
    # Where the actor lives its calls run: the device of the declaration counts.
    scope = graph.scope if device is None else replace(graph.scope, device=device, colocate=None)
    with graph.use_scope(scope):
        found = Question(method, outputs, gradient)
        return _build_question("call_actor", tensors, found, deadline_s, named, actor=key, ordered=ordered)


def _target(target: Any) -> tuple[str, str | None]:
    """Returns the key of an actor, and the device where it lives if that is declared."""
    objects = current().objects
    if isinstance(target, ActorHandle):
        # By identity: another graph may have the same key.
        if objects.get(target.key) is not target.definition:
            message = f"{target!r} belongs to another graph"
            raise GraphError(message, where=_here(), hint="build both inside one `with Graph()`")
        return target.key, target.device
    # Duck-typed: a Ref of the actor system, which this module does not know.
    if not isinstance(target, type) and hasattr(target, "ask") and hasattr(target, "signal"):
        # One entry for each running actor, so that its calls are ordered together.
        for key, found in objects.items():
            if isinstance(found, RunningActor) and found.ref is target:
                return key, None
        return current().add_object(f"running/{getattr(target, 'name', 'actor')}", RunningActor(target)), None
    message = f"call asks what af.actor gave, or the Ref of an actor, got {target!r:.60}"
    raise GraphError(message, where=_here(), hint="declare it: counter = af.actor(Counter)")


def _build_question(
    op_name: str,
    tensors: Sequence[Tensor],
    found: UserFunction | Question,
    deadline_s: float | None,
    name: str,
    **attrs: Attr,
) -> Any:
    """Builds the node, and returns its outputs in the structure that was asked for."""
    specs, rebuild = _specs(found.outputs)
    settings = {
        "object": _object_key(f"{op_name}/{name}", found),
        "outputs": tuple((s.shape, name_of(s.dtype)) for s in specs),
        "deadline_s": _deadline(deadline_s),
        **attrs,
    }
    return rebuild(build(op_name, tensors, settings, name=name))


def _object_key(key: str, found: UserFunction | Question) -> str:
    """Returns the key of the object: for a question that has been asked before, the one that it has.

    A function is kept anew for each node, which has calls of its own to count.
    """
    graph = current()
    n, known = 0, key
    # Functions are never shared: `concurrency` counts the calls of one node.
    while isinstance(found, Question) and known in graph.objects:
        if graph.objects[known] == found:
            return known
        n += 1
        known = f"{key}_{n}"
    return graph.add_object(key, found)


def _specs(outputs: Any) -> tuple[list[Spec], Rebuild]:
    """Returns the specs of what code returns, and how tensors of them take its structure."""
    leaves, rebuild = flatten(outputs)
    for leaf in leaves:
        if not isinstance(leaf, Spec):
            message = f"outputs are specs, or structures of them, got {leaf!r:.60}"
            raise GraphError(message, where=_here(), hint='for instance af.Spec((None, 4), "float32")')
    # Nothing is returned: True, once it has ended, for whoever has to wait for it.
    return (leaves, rebuild) if leaves else ([_DONE], lambda made: made[0])


def _deadline(deadline_s: float | None) -> float | None:
    if deadline_s is not None and not 0 < deadline_s < float("inf"):
        message = f"deadline_s is a number of seconds above 0, got {deadline_s!r}"
        raise handle_arguments.spec_error(message, "None is no limit")
    return None if deadline_s is None else float(deadline_s)


def _check_rule(gradient: Any) -> None:
    if gradient is not None and not callable(gradient):
        message = f"gradient is a rule (use, *grads) -> grads, or None, got {gradient!r:.60}"
        raise GraphError(message, where=_here())


def _name(name: str | None, thing: Any, otherwise: str) -> str:
    """The name that was given, or that of the code."""
    if name is not None:
        if not name:
            message = f"a name is a text and not empty, got {name!r}"
            raise GraphError(message, where=_here())
        return name
    found = getattr(thing, "__name__", otherwise).strip("<>")
    return found or otherwise


def _here() -> Where:
    return Where(defined_at=source_line())


# -- rules -----------------------------------------------------------------------------------------


def _outputs(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    return tuple(spec(dtype, shape) for shape, dtype in attrs["outputs"])


def _gradient(use: Use, *grads: Tensor | None) -> Sequence[Gradient | None]:
    """What the user's rule gives; an error where there is none."""
    node, asked = use.node, use.graph.objects[use.attrs["object"]]
    if asked.gradient is None:
        message = f"no gradient goes through {node.op} {node.name!r}: it was built without a rule"
        hint = "pass gradient=rule, or stop the gradient there with af.stop_gradient"
        raise GradientError(message, where=node.where, hint=hint)
    zeros = opdef.lookup("zeros_like").constructor
    # The rule is the user's: he gets zeros and not None.
    filled = [
        zeros(y) if g is None and is_differentiable(y.dtype) else g
        for y, g in zip(use.outputs, grads, strict=True)
    ]
    given = asked.gradient(use, *filled)
    if given is None:
        message = f"the gradient rule of {node.name!r} gives gradients, got None"
        raise GradientError(message, where=node.where, hint=NO_RULE_RETURN)
    back = as_list(given)
    if len(back) != len(use.inputs):
        message = (
            f"the gradient rule of {node.name!r} gives a gradient for each of {len(use.inputs)} inputs, "
            f"got {len(back)}"
        )
        raise GradientError(message, where=node.where, hint="None is no gradient")
    found: list[Gradient | None] = []
    for i, (x, g) in enumerate(zip(use.inputs, back, strict=True)):
        # Numbers take the dtype of the input.
        made = g if g is None or isinstance(g, IndexedSlices) else as_tensor(g, dtype=x.dtype)
        if made is not None and use.needs[i] and not fits(made.spec, x.spec):
            message = f"the gradient of input {i} of {node.name!r} must fit {x.spec}, got {made.spec}"
            raise GradientError(message, where=node.where)
        found.append(made)
    return found


_ASKED_WITH = ({"outputs": (((), "float32"),)},)

op(
    "py_actor",
    spec=_outputs,
    gradient=_gradient,
    effect=Effect.ASK,
    takes_bytes=True,
    asked_with=_ASKED_WITH,
)(py_actor)
op(
    "call_actor",
    spec=_outputs,
    gradient=_gradient,
    effect=Effect.ASK,
    takes_bytes=True,
    asked_with=_ASKED_WITH,
)(call)
