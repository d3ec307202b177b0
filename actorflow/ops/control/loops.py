"""Loops: `while_loop`, a node that runs two bodies turn after turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import GraphError, SpecError, Where
from actorflow.graph.body import Body, as_attr, as_spec
from actorflow.graph.builder import Tensor, as_tensor, build
from actorflow.graph.graph import current
from actorflow.graph.node import Attr
from actorflow.graph.opdef import Effect, op
from actorflow.ops.control.bodies import (
    add_arguments,
    building,
    call_in_body,
    check_treedef,
    complete_bodies,
    hint_of_none,
    leaves_of,
    line_of,
    stateful_attrs,
)
from actorflow.ops.control.loop_gradients import gradient_of_loop
from actorflow.ops.definition.arguments import api_function
from actorflow.values.checks import is_whole
from actorflow.values.pytree import flatten, ordered_like
from actorflow.values.spec import ListSpec, Shape, Spec, check_shape, merge, show, spec

TRIPS = spec("int32")


@api_function
def while_loop(
    cond: Any,
    body: Any,
    loop_vars: Any,
    *,
    shapes: Any = None,
    parallel_iterations: int = 10,
    max_iterations: int | None = None,
    lower: bool | None = None,
    name: str | None = None,
) -> Any:
    """Runs `body` as long as `cond` says so; returns the loop variables of the end.

    Both are functions that build: they are called once, with tensors that stand for the loop variables of
    any turn. A tuple or list of variables is handed over as so many arguments, anything else as one. What
    they use from outside is captured, and is the same in all turns; so is a variable that is used as a
    tensor, and that no turn writes. Only what is built inside a body happens every turn.

    Turns follow the order of the program: what touches state in one turn waits for what did so in the turn
    before. Everything else may overlap, up to `parallel_iterations` turns.

    Shapes:   of a loop variable the same in all turns, or as open as `shapes` says: one shape for each
              variable, in order, with None for sizes that change, or None for any rank
    Dtypes:   any; those of the loop variables do not change
    Gradient: for loop variables and for all that is captured, variables too; of any order. Forward values
              that it needs are kept in lists, one value a turn; `af.autodiff.recompute` keeps fewer.
    Raises:   GraphError when a body returns another structure, or a tensor that is known only within it;
              SpecError when `cond` does not give a bool scalar, or a loop variable would change its spec:
              names both, and the lines.

    Args:
        cond: The loop variables -> whether there is another turn.
        body: The loop variables -> those of the next turn, in the same structure.
        loop_vars: Those of the first turn: a tensor, or tuples, lists and dicts of them, and TensorArrays.
        shapes: See above; by default those of `loop_vars`.
        parallel_iterations: How many turns may be under way at once.
        max_iterations: After so many turns the loop ends, whatever `cond` says. None for no limit.
        lower: Whether turns run as nodes of their own, which can overlap, or in one go within their node.
            By default as nodes if they touch state, wait, or are placed on several devices.
        name: Of the node.

    >>> with af.Graph() as g:
    ...     i, total = af.while_loop(lambda i, s: i < 5, lambda i, s: (i + 1, s + i), (0, 0))
    ...     print(total)
    <Tensor while_loop:1 () int32>
    """
    graph = current()
    line = line_of(graph)
    where = Where(defined_at=line)
    _check_counts(parallel_iterations, max_iterations, where)
    # A structure outside, a list of tensors in the node.
    leaves, whole = flatten(loop_vars)
    if not leaves:
        message = f"a loop has one loop variable or more, got {loop_vars!r:.60}"
        raise GraphError(message, where=where)
    # Numbers become tensors whose dtype all turns keep.
    first = [as_tensor(leaf) for leaf in leaves]
    carried = _carry(first, shapes, where)
    title = graph.unique(name or "while_loop")
    with building(graph):
        # ORDER: both bodies before the user's functions are called: names do not depend on them.
        test = Body(graph, f"{title}/cond", f"the condition of {title!r}", line)
        turn = Body(graph, f"{title}/body", f"the body of {title!r}", line)
        tests = add_arguments(test, carried, "loop_var", line)
        turns = add_arguments(turn, carried, "loop_var", line)
        predicate = _predicate(test, call_in_body(test, cond, _arguments(loop_vars, whole(tests))))
        made = call_in_body(turn, body, _arguments(loop_vars, whole(turns)))
        # A body of one variable may return it bare.
        if len(leaves) == 1 and not isinstance(made, tuple | list) and isinstance(loop_vars, tuple | list):
            made = type(loop_vars)([made])
        made = ordered_like(loop_vars, made)
        check_treedef(turn, made, loop_vars, "a body returns what it is given, the loop variables")
        # Numbers take the dtype of their loop variable.
        after = leaves_of(turn, made, [s.dtype for s in carried])
        _check_carried(turn, first, carried, after)
        # Condition and body share one list of captures.
        captured = complete_bodies([test, turn], [[predicate], after])
        attrs: dict[str, Attr] = {
            "cond": test.key,
            "body": turn.key,
            "count": len(first),
            "outputs": tuple(as_attr(s) for s in carried),
            "saved": (),
            "parallel_iterations": parallel_iterations,
            "max_iterations": max_iterations,
            "lower": lower,
            **stateful_attrs(test, turn),
        }
        outputs = build("while_loop", [*first, *captured], attrs, name=title.removeprefix(graph.scope.name))
    # Without the number of turns.
    return whole(outputs[: len(first)])


def _arguments(loop_vars: Any, tensors: Any) -> Sequence[Any]:
    """How the user's functions are called: a tuple or list is so many arguments."""
    several = isinstance(loop_vars, tuple | list) and not hasattr(loop_vars, "_fields")
    return tensors if several else (tensors,)


def _check_counts(parallel: Any, most: Any, where: Where) -> None:
    if not is_whole(parallel, 1, plain=True):
        message = f"parallel_iterations is an integer of 1 or more, got {parallel!r:.60}"
        raise SpecError(message, where=where)
    if most is not None and not is_whole(most, 0, plain=True):
        message = f"max_iterations is an integer of 0 or more, or None for no limit, got {most!r:.60}"
        raise SpecError(message, where=where)


def _carry(first: Sequence[Tensor], shapes: Any, where: Where) -> list[Spec]:
    """The specs of the loop variables in all turns."""
    if shapes is None:
        return [tensor.spec for tensor in first]
    if not isinstance(shapes, tuple | list) or len(shapes) != len(first):
        message = f"shapes are one for each of {len(first)} loop variables, got {shapes!r:.60}"
        raise SpecError(message, where=where, hint="None stands for any rank, None in a shape for any size")
    found: list[Spec] = []
    for k, (tensor, wanted) in enumerate(zip(first, shapes, strict=True)):
        try:
            shape = check_shape(wanted)
        except SpecError as error:
            raise error.at(where) from None
        if isinstance(tensor.spec, ListSpec):
            # A list's elements are shaped by its spec.
            found.append(tensor.spec)
            continue
        if not _covers(shape, tensor.shape):
            message = (
                f"the shape of loop variable {k} holds what it begins as, {tensor.spec}, got {show(shape)}"
            )
            raise SpecError(message, where=where, hint=f"it begins at {tensor.node.defined_at}")
        found.append(Spec(shape, tensor.dtype))
    return found


def _covers(wider: Shape, narrower: Shape) -> bool:
    """Tells whether everything of the second shape is of the first."""
    if wider is None:
        return True
    if narrower is None or len(wider) != len(narrower):
        return False
    return all(w is None or w == n for w, n in zip(wider, narrower, strict=True))


def _predicate(test: Body, made: Any) -> Tensor:
    leaves = leaves_of(test, made)
    if len(leaves) != 1 or leaves[0].dtype.kind != "b" or leaves[0].shape not in ((), None):
        got = ", ".join(f"{leaf.spec}" for leaf in leaves) or "nothing"
        line = leaves[0].node.defined_at if leaves else test.defined_at
        message = f"the condition of a loop gives one bool scalar, got {got}"
        hint = hint_of_none(made) or "compare, or reduce with af.all or af.any"
        raise SpecError(message, where=Where(defined_at=line), hint=hint)
    return leaves[0]


def _check_carried(
    turn: Body, first: Sequence[Tensor], carried: Sequence[Spec], after: Sequence[Tensor]
) -> None:
    """Raises SpecError unless every loop variable keeps its spec from turn to turn."""
    for k, (begins, kept, ends) in enumerate(zip(first, carried, after, strict=True)):
        if keeps(kept, ends.spec):
            continue
        message = (
            f"loop variable {k} must keep its spec in all turns, got\n"
            f"  at the beginning {kept}, defined at {begins.node.defined_at}\n"
            f"  after a turn     {ends.spec}, defined at {ends.node.defined_at}"
        )
        if ListSpec in (type(kept), type(ends)):
            hint = "a list stays a list: make it with the dtype and shape of what is written to it"
        elif kept.dtype != ends.dtype:
            hint = "convert it with af.cast"
        else:
            hint = "say with shapes= which sizes change, or fix them with af.arrays.ensure_shape"
        raise SpecError(message, where=Where(node=turn.key, defined_at=turn.defined_at), hint=hint)


def keeps(kept: Spec, ends: Spec) -> bool:
    """Tells whether a loop variable may be of the second spec after a turn."""
    if isinstance(kept, ListSpec) or isinstance(ends, ListSpec):
        both = isinstance(kept, ListSpec) and isinstance(ends, ListSpec)
        # Sizes of lists may change: they grow.
        return both and kept.dtype == ends.dtype and keeps(kept.element, ends.element)  # type: ignore[attr-defined]
    return kept.dtype == ends.dtype and _covers(kept.shape, ends.shape)


def _outputs(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    """Loop variables, turns, and a list for each value that is kept."""
    carried = [as_spec(attr) for attr in attrs["outputs"]]
    for k, (kept, begins) in enumerate(zip(carried, inputs, strict=False)):
        # A dtype that changes, or shapes that cannot be merged; an open rank fits any.
        if kept.dtype != begins.dtype or merge(kept.shape, begins.shape) is None:
            if kept.dtype == begins.dtype and None in (kept.shape, begins.shape):
                continue
            message = f"loop variable {k} must fit {kept}, got {begins}"
            raise SpecError(message)
    # A kept value is one element of a list for each turn.
    return (*carried, TRIPS, *(ListSpec(as_spec(spec_attr)) for _, _, spec_attr in attrs["saved"]))


op(
    "while_loop",
    spec=_outputs,
    gradient=gradient_of_loop,
    effect=Effect.FUNCTION,
    takes_bytes=True,
    takes_lists=True,
    sparse=True,
)(while_loop)
