"""How a node is built that runs one of several bodies, for `ops.control.branches` and for its gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from actorflow.errors import GraphError, SpecError, Where
from actorflow.graph.body import Body, as_attr
from actorflow.graph.builder import Tensor, build
from actorflow.graph.graph import Graph
from actorflow.graph.node import Attr, Node, NodeId, Port
from actorflow.graph.opdef import Effect, lookup
from actorflow.ops.control.bodies import (
    building,
    call_in_body,
    check_treedef,
    check_wanted,
    complete_bodies,
    leaves_of,
    stateful_attrs,
)
from actorflow.values.arrays import DType
from actorflow.values.pytree import flatten, ordered_like
from actorflow.values.spec import ListSpec, Shape, Spec

_KEEPS = frozenset({Effect.WRITE, Effect.COMMIT, Effect.WAIT, Effect.ASK})
_NUMBERS = (bool, int, float, complex)


def build_branch(
    graph: Graph,
    verb: str,
    index: Tensor,
    functions: Sequence[Callable[[], Any]],
    names: Sequence[str],
    lower: bool | None,
    name: str | None,
    line: str,
) -> Any:
    """Builds a node that runs one of the functions' bodies; see `ops.control.branches`.

    Args:
        graph: The current graph.
        verb: What errors and names call it.
        index: A bool scalar, or an integer one.
        functions: What builds each branch, that for False or 0 first.
        names: What each branch is called.
        lower: Whether it runs as nodes of its own.
        name: Of the node.
        line: The user's.
    """
    title = graph.unique(name or verb)
    with building(graph):
        # All bodies before any is built, so that names do not depend on what the functions do.
        bodies = [
            Body(graph, f"{title}/{branch}", f"branch {branch!r} of {title!r}", line) for branch in names
        ]
        made = [call_in_body(body, function, ()) for body, function in zip(bodies, functions, strict=True)]
        # The structure of the first is that of the node.
        made = [made[0], *(ordered_like(made[0], found) for found in made[1:])]
        for body, found in zip(bodies[1:], made[1:], strict=True):
            check_treedef(body, found, made[0], "all branches return the same structure")
        # ORDER: dtypes before results: a number in one branch takes the dtype of a tensor in another.
        dtypes = _dtypes(made)
        results = [leaves_of(body, found, dtypes) for body, found in zip(bodies, made, strict=True)]
        specs = [_agree(bodies, k, [r[k] for r in results]) for k in range(len(dtypes))]
        # After all are built: whether a branch alone uses something shows in the others' captures.
        _check_captures(graph, index.port, bodies)
        captured, touches = complete_bodies(bodies, results), stateful_attrs(*bodies)
        check_wanted(graph, made[0], touches, f"a branch of {title!r}", line)
        attrs: dict[str, Attr] = {
            "branches": tuple(body.key for body in bodies),
            "outputs": tuple(as_attr(s) for s in specs),
            "saved": (),
            "lower": lower,
            **touches,
        }
        outputs = build("case", [index, *captured], attrs, name=title.removeprefix(graph.scope.name))
    _, whole = flatten(made[0])
    return whole(outputs)


def _dtypes(made: Sequence[Any]) -> list[DType | None]:
    """For each leaf the dtype that numbers take: that of a tensor which another branch returns there."""
    rows = [flatten(found)[0] for found in made]
    found: list[DType | None] = []
    for leaves in zip(*rows, strict=True):
        # Tensors agree by themselves or are refused; numbers alone take a dtype here.
        typed = [leaf for leaf in leaves if hasattr(leaf, "dtype")]
        numbers = any(isinstance(leaf, _NUMBERS) for leaf in leaves)
        found.append(typed[0].dtype if typed and numbers else None)
    return found


def _agree(bodies: Sequence[Body], k: int, results: Sequence[Tensor]) -> Spec:
    """What the branches have in common at result `k`; SpecError when they do not agree."""
    first = results[0].spec
    shape: Shape = first.shape
    for body, result in zip(bodies[1:], results[1:], strict=True):
        # A list and a tensor may have one dtype.
        lists = isinstance(first, ListSpec), isinstance(result.spec, ListSpec)
        if result.dtype != first.dtype or len(set(lists)) > 1:
            message = (
                f"result {k} has one spec in all branches, got\n"
                f"  {results[0].spec} from {bodies[0].what}, defined at {results[0].node.defined_at}\n"
                f"  {result.spec} from {body.what}, defined at {result.node.defined_at}"
            )
            where = Where(node=body.key, defined_at=body.defined_at)
            raise SpecError(message, where=where, hint="convert one with af.cast")
        # A size in which branches differ is open.
        shape = common_shape(shape, result.shape)
    return first if isinstance(first, ListSpec) else Spec(shape, first.dtype)


def common_shape(a: Shape, b: Shape) -> Shape:
    """Returns what two shapes have in common: None for sizes that differ, and for ranks that do."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))


def _check_captures(graph: Graph, index: Port, bodies: Sequence[Body]) -> None:
    """Raises GraphError when what has an effect is built outside of the only branch that asks for it.

    What lies between them counts too, if it is for this branch alone; not what lies behind an `identity`.
    """
    for body in bodies:
        # What several branches use is not for one of them.
        others = {port.node for other in bodies if other is not body for port in other.captured}
        # The index is computed for the choice itself.
        ways = _ways_up(graph, {port.node for port in body.captured} - others - {index.node})
        # Most branches capture nothing that has an effect.
        if not any(_has_effect(graph.nodes[i]) for i in ways):
            continue
        # Whoever takes a value of these nodes, of the whole graph.
        takers: dict[NodeId, set[NodeId]] = {i: set() for i in ways}
        for taker in graph.nodes:
            for i in (*(port.node for port in taker.inputs), *taker.controls):
                if i in takers:
                    takers[i].add(taker.id)
        alone: set[NodeId] = set()
        for i in sorted(ways, reverse=True):  # takers first
            # For this branch alone, if everything that takes it is; the branch itself stands for no node
            # here.
            if i in others or i == index.node or not takers[i] <= alone:
                continue
            alone.add(i)
            node = graph.nodes[i]
            if _has_effect(node):
                message = (
                    f"what is built outside of a branch happens whichever is taken, got {node.name!r} "
                    f"({node.op} of {node.defined_at}), which only {body.what} uses"
                )
                hint = (
                    "build it inside the branch; or, if it is to happen always, pass af.arrays.identity of it"
                )
                raise GraphError(message, where=Where(defined_at=body.defined_at), hint=hint)


def _ways_up(graph: Graph, begin: set[NodeId]) -> set[NodeId]:
    """The nodes from which these come, with them, up to each `identity`."""
    found, left = set(begin), list(begin)
    while left:
        node = graph.nodes[left.pop()]
        # An `identity` says that what lies behind it is to happen always.
        if node.op != "identity":
            more = {port.node for port in node.inputs} - found
            found |= more
            left += more
    return found


def _has_effect(node: Node) -> bool:
    effect = lookup(node.op).effect
    if effect is Effect.FUNCTION:
        return bool(node.attrs["writes"] or node.attrs["waits"] or node.attrs["asks"])
    return effect in _KEEPS
