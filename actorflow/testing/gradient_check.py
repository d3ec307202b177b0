"""`check_gradients`: whether `af.gradients` tells what differences measure, and which op does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from actorflow.errors import ConfigError, FeedError, GradientError, GradientMismatch, Where
from actorflow.graph import opdef
from actorflow.graph.autodiff import advice
from actorflow.graph.body import elsewhere, root_of
from actorflow.graph.builder import Tensor, as_tensor
from actorflow.graph.graph import Graph
from actorflow.graph.node import Node, Port
from actorflow.graph.opdef import NOT_DIFFERENTIABLE
from actorflow.ops.state.variable import Variable
from actorflow.plan.fetches import resolve_feed
from actorflow.session.session import Session
from actorflow.testing.measure import Compared, Feeds, Function, Input, SlopePair, Tolerances, compare
from actorflow.values.arrays import is_floating, name_of
from actorflow.values.checks import is_whole, number
from actorflow.values.spec import ListSpec

_LIMITS = {"float64": (1e-5, 1e-5, 1e-7), "float32": (1e-2, 1e-2, 1e-3)}
"""dtype -> step, rtol, atol: a step near the cube root of its precision, where rounding and curvature
disturb a central difference about equally."""

_LOOKED_AT = 64
"""Elements of an op's input that are tried one by one in search of a wrong rule; a few directions else."""


@dataclass(frozen=True, slots=True)
class GradientReport:
    """What `check_gradients` found to agree; its text has a line for every x and order."""

    compared: tuple[Compared, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.compared))


async def check_gradients(
    ys: Any,
    xs: Any,
    feeds: Mapping[Any, Any] | None = None,
    *,
    order: int = 1,
    directions: int | None = None,
    step: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    session: Session | None = None,
) -> GradientReport:
    """Returns what was compared, if `af.gradients` agrees with central differences; else raises.

    The function is the sum of all elements of `ys`, each times a weight of its own, so that errors
    do not cancel. It is computed by a session as it is, so use float64, the dtype of the default
    limits; float32 is compared to two digits. The nodes that this takes stay in the graph.

    Args:
        ys: A floating tensor or variable, or a sequence of them. Equal feeds must give equal values.
        xs: What to differentiate for: tensors and variables. One that is computed is moved by feeding it.
        feeds: Where to look: the values of placeholders, as for `session.run`.
        order: 2 checks the gradient of the gradients as well.
        directions: Measure along so many directions of each x, and not every element: two steps for each.
        step: How far to move; by default 1e-5 for float64, 1e-2 for float32, times |x| where above 1.
        rtol: How far told and measured may be apart, over the measured; by default 1e-5 and 1e-2.
        atol: And beside that; by default 1e-7 and 1e-3. What the sum loses in rounding comes on top.
        session: The one to run in, with the values that its variables have; by default a new one.

    Raises:
        GradientMismatch: names x, element and both values of the worst, the op whose own rule is wrong if
            there is one, and says when the function seems to have a kink there.
        GradientError: from `gradients`, when a path cannot be differentiated.
        ConfigError: for ys or xs that are no tensors or variables of one graph, or of other dtypes; for
            numbers that cannot be, and a session on another graph.
        FeedError: for feeds that are none.
    """
    targets, graph = _targets(ys)
    sources = list(xs) if isinstance(xs, list | tuple) else [xs]
    where = targets[0].node.where
    _check_sources(sources, graph, where)
    try:
        limits = _limits([*targets, *sources], order, directions, (step, rtol, atol))
    except ConfigError as error:
        raise error.at(where) from None
    _check_running(feeds, session, graph, where)
    given: Feeds = {resolve_feed(graph, key): value for key, value in (feeds or {}).items()}
    async with AsyncExitStack() as stack:
        running = Session(graph) if session is None else session
        if session is None:
            await stack.enter_async_context(running)
        inputs = [await _input(running, x, given) for x in sources]
        first = len(graph.nodes)
        function = Function(running, targets, given)
        await function.weigh(1.0)
        if not np.array_equal(await function.at(), await function.at(), equal_nan=True):
            message = "ys must have equal values for equal feeds, but changed between two steps"
            raise GradientMismatch(
                message, where=where, hint="feed what is random, and leave writes out of ys"
            )
        await _check_finite(function)
        compared, wrong = await compare(function, sources, inputs, limits, order, 1)
        if wrong:
            culprit = await _culprit(running, targets, inputs, given, first, limits, wrong[0].order)
            raise _mismatch(wrong, culprit or targets[0].node, culprit is not None)
        return GradientReport(tuple(compared))


def _targets(ys: Any) -> tuple[list[Tensor], Graph]:
    found = list(ys) if isinstance(ys, list | tuple) else [ys]
    if not found or not all(isinstance(y, Tensor | Variable) for y in found):
        message = f"ys must be tensors or variables of a graph, got {type(ys).__name__} {ys!r:.80}"
        raise ConfigError(message, hint="pass what af.gradients takes: a loss, or a list of tensors")
    graph = root_of(found[0].graph)
    with graph:
        return [as_tensor(y) for y in found], graph


def _check_sources(xs: Sequence[Any], graph: Graph, where: Where) -> None:
    for x in xs:
        if not isinstance(x, Tensor | Variable):
            message = f"xs must be tensors or variables, got {type(x).__name__} {x!r:.80}"
            raise ConfigError(message, where=where, hint=advice(x))
        if x.graph is not graph:
            why, hint = elsewhere(x.graph, graph)
            message = f"xs must be of the graph of ys, {x!r} {why}"
            raise ConfigError(message, where=where, hint=hint)


def _check_running(feeds: Any, session: Any, graph: Graph, where: Where) -> None:
    if not isinstance(feeds, Mapping | None):
        message = f"feeds are a mapping from tensors to values, got {type(feeds).__name__} {feeds!r:.60}"
        raise FeedError(message, where=where, hint="pass {x: array}")
    if session is not None and (not isinstance(session, Session) or session.graph is not graph):
        message = f"the session is one on the graph of ys, got {type(session).__name__} {session!r:.60}"
        raise ConfigError(message, where=where, hint="leave it out for a new one")


async def _check_finite(function: Function) -> None:
    """Raises GradientMismatch for a y with NaN or infinity: nothing can be measured there."""
    for y, value in zip(function.ys, await function.values(), strict=True):
        wrong = np.argwhere(~np.isfinite(np.asarray(value, np.float64)))
        if len(wrong):
            place = f" at index {tuple(map(int, wrong[0]))}" if np.ndim(value) else ""
            message = f"ys must be finite where their gradients are measured, got {y.name} with "
            message += f"{np.asarray(value, np.float64)[tuple(wrong[0])]:.6g}{place} ({len(wrong)} such)"
            raise GradientMismatch(message, where=y.node.where, hint="feed other values, or look elsewhere")


def _limits(tensors: Sequence[Any], order: Any, directions: Any, given: tuple[Any, ...]) -> Tolerances:
    if not is_whole(order, 1, 2):
        message = f"order must be 1 or 2, got {order!r}"
        raise ConfigError(message)
    if directions is not None and not is_whole(directions, 1):
        message = f"directions must be at least 1, or None for every element, got {directions!r}"
        raise ConfigError(message)
    for t in tensors:
        if t.dtype.name not in _LIMITS:
            message = f"gradients are checked in {' or '.join(_LIMITS)}, got {t.name} {name_of(t.dtype)}"
            raise ConfigError(message, hint="build what is checked in float64")
    coarsest = max((t.dtype for t in tensors), key=lambda d: float(np.finfo(d).eps))
    chosen = [_LIMITS[coarsest.name][i] if g is None else g for i, g in enumerate(given)]
    if not all(_is_amount(c) for c in chosen) or chosen[0] == 0:
        message = f"step must be above 0, rtol and atol at least 0, got {', '.join(map(repr, chosen))}"
        raise ConfigError(message)
    how_far, relative, absolute = chosen
    return Tolerances(
        how_far,
        relative,
        absolute,
        float(np.finfo(coarsest).eps),
        None if directions is None else int(directions),
    )


def _is_amount(value: Any) -> bool:
    return 0 <= number(value) < np.inf


async def _input(session: Session, x: Any, feeds: Feeds) -> Input:
    ports = tuple(r.port for r in x.reads()) if isinstance(x, Variable) else (x.port,)
    name = x.name if isinstance(x, Variable) or x.port.index else x.node.name
    value = await session.run(x, {Tensor(session.graph, port): v for port, v in feeds.items()})
    return Input(name, ports, np.array(value))


async def _culprit(
    session: Session,
    ys: Sequence[Tensor],
    inputs: Sequence[Input],
    feeds: Feeds,
    first: int,
    limits: Tolerances,
    order: int,
) -> Node | None:
    """Returns the first node between xs and ys whose own gradient differs, None when none does alone."""
    graph = session.graph
    for node in _between(graph.nodes[:first], [y.port for y in ys], [p for x in inputs for p in x.ports]):
        if opdef.lookup(node.op).gradient in (None, NOT_DIFFERENTIABLE):
            continue
        arguments = node.inputs[node.attrs["outputs"] :] if node.op == "custom_gradient" else node.inputs
        tensors = [Tensor(graph, port) for port in dict.fromkeys(arguments)]
        outputs = [
            Tensor(graph, Port(node.id, i)) for i, spec in enumerate(node.outputs) if is_floating(spec.dtype)
        ]
        moved = [t for t in tensors if is_floating(t.dtype)]
        if not moved or not outputs or any(isinstance(t.spec, ListSpec) for t in (*tensors, *outputs)):
            continue  # a list is neither fed nor fetched
        values = await Function(session, tensors, feeds).values()
        at = feeds | {t.port: v for t, v in zip(tensors, values, strict=True)}
        function = Function(session, outputs, at)
        await function.weigh(1.0)
        local = [Input(t.name, (t.port,), np.array(at[t.port])) for t in moved]
        many = any(x.value.size > _LOOKED_AT for x in local)
        narrow = replace(limits, directions=4 if many else None)
        try:
            _, wrong = await compare(function, moved, local, narrow, order, stop=moved)
        except GradientError:
            continue  # it has no gradient for one of its inputs, which lies on no path from xs
        if wrong:
            return node
    return None


def _between(nodes: Sequence[Node], ys: Sequence[Port], xs: Sequence[Port]) -> list[Node]:
    """Returns the nodes that an x leads to and that lead to a y, in the order of the program."""
    reached = set(xs)
    for node in nodes:
        if reached.intersection(node.inputs):
            reached.update(Port(node.id, i) for i in range(len(node.outputs)))
    needed, found = {port.node for port in ys}, []
    for node in reversed(nodes):
        if node.id in needed:
            needed.update(port.node for port in node.inputs)
            if reached.intersection(node.inputs):
                found.append(node)
    return found[::-1]


def _mismatch(wrong: Sequence[SlopePair], node: Node, located: bool) -> GradientMismatch:
    worst = max(wrong, key=lambda f: np.nan_to_num(abs(f.told - f.measured), nan=np.inf))
    where = f"[{', '.join(map(str, worst.probe.index))}]" if worst.probe.index else ""
    place = (
        f"{worst.x}{where}"
        if worst.probe.way is None
        else f"{worst.x} along direction {worst.probe.index[0]}"
    )
    told = "None, so 0," if worst.absent else f"{worst.told:.6g}"
    message = (
        f"the gradient for {place} must be the slope that differences measure, "
        f"got {told} and measured {worst.measured:.6g} (order {worst.order}; {len(wrong)} such)"
    )
    if not np.isfinite(worst.measured):
        hint = "look elsewhere: near there ys are not finite, so that no slope can be measured"
    elif worst.kink is not None:
        left, right = worst.kink
        hint = f"look elsewhere: this seems to be a kink, with slopes {left:.6g} and {right:.6g} on its sides"
    elif located:
        hint = f"correct the gradient rule of this {node.op}: alone, with its own inputs, it differs too"
    else:
        hint = (
            "no op differs alone: is a gradient stopped on the way, or the step too large for the curvature?"
        )
    return GradientMismatch(message, where=node.where, hint=hint)
