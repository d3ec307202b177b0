"""Atomic blocks: which variables one locks, in which order, and what may be built inside.

A block is a chain of `lock_variable` nodes, one a variable; then its own nodes, which all wait for the
last of them; then one `unlock_variables`. They have ids in a row: what lies between the first lock and
the end is the block. Reads and writes inside carry its name in `attrs["block"]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from actorflow.errors import GraphError
from actorflow.graph.node import Attr, Node
from actorflow.graph.opdef import Effect, OpDef, lookup
from actorflow.graph.resource import ResourceDef, VariableDef


@dataclass(frozen=True, slots=True)
class Block:
    """A block that is being built.

    Attributes:
        name: Unique in the graph.
        resources: The variables, in the order of their locks.
        defined_at: The user's line.
    """

    name: str
    resources: tuple[str, ...]
    defined_at: str = ""


def in_order(names: Iterable[str], resources: Mapping[str, ResourceDef]) -> tuple[str, ...]:
    """Returns the names of variables in the order in which everybody locks them."""

    # One order for every graph and session of a system: first what is shared, by container and shared name,
    # then what is the session's own, by name. So nobody who holds a lock waits for one that comes before it:
    # there is no ring of waits.
    def key(name: str) -> tuple[bool, str, str]:
        found = resources[name]
        if found.shared_name is None:
            return True, "", name
        return False, found.container, found.shared_name

    return tuple(sorted(names, key=key))


def marks(
    block: Block, op: OpDef, attrs: Mapping[str, Attr], resources: Mapping[str, ResourceDef]
) -> Mapping[str, Attr]:
    """Returns the attributes by which a node inside a block says so.

    Args:
        block: The block.
        op: What the node does.
        attrs: With which attributes.
        resources: Of the graph, by name.

    Raises:
        GraphError: when the op may not be used there; says why.
    """
    effect = op.effect
    if effect in (Effect.READ, Effect.WRITE):
        # That there is no ring asks for more: inside, nothing may wait for anything but the locks.
        resource = attrs["resource"]
        found = resources.get(resource)
        if found is not None and not isinstance(found, VariableDef):
            kind = found.kind.replace("_", " ")
            message = f"an atomic block locks variables only, got {op.name} of {kind} {resource!r}"
            raise GraphError(message, hint="build it before the block or after it")
        if resource not in block.resources:
            message = (
                f"an atomic block touches what it has locked, {_list(block.resources)}, "
                f"got {op.name} of {resource!r}"
            )
            raise GraphError(message, hint="lock it as well, or build this before the block or after it")
        return {"block": block.name}
    if effect is Effect.FUNCTION and (attrs["reads"] or attrs["writes"] or attrs["waits"]):
        message = f"what touches state inside an atomic block stands in no loop or branch, got {op.name}"
        raise GraphError(message, hint="build it before the block or after it")
    why = _REFUSED.get(effect)
    if why is not None:
        message = f"{why}, got {op.name} inside {block.name!r} of {block.defined_at}"
        raise GraphError(message, hint="build it before the block or after it")
    return {}


_REFUSED: Mapping[Effect, str] = {
    Effect.WAIT: "nothing may wait inside an atomic block, since others wait for its end",
    Effect.ASK: "no code of the user is asked inside an atomic block, since others wait for its end",
    Effect.COMMIT: "no training update stands inside an atomic block, since it waits for its end",
    Effect.LOCK: "atomic blocks do not nest, since all locks are taken in one order",
    Effect.UNLOCK: "an atomic block ends once",
}


def end_of(nodes: Sequence[Node], lock: Node) -> Node:
    """Returns the end of the block that `lock` belongs to; GraphError while it is being built."""
    # The end has a larger id than any of its locks.
    for node in nodes[lock.id :]:
        if node.op == "unlock_variables" and node.attrs["block"] == lock.attrs["block"]:
            return node
    message = f"the atomic block {lock.attrs['block']!r} is still being built"
    raise GraphError(message, where=lock.where, hint="leave its `with` before running a step")


# ---------------------------------------------------------------------------------- reading back


def check_blocks(nodes: Sequence[Node], resources: Mapping[str, ResourceDef]) -> None:
    """Raises GraphError unless every block of a graph that was read is one that `af.atomic` makes."""
    locks: list[Node] = []
    ended: set[str] = set()
    # What locks in another order, or waits inside, could make steps wait for each other for ever: a graph
    # that was read is not believed to have been built by `af.atomic`.
    for node in nodes:
        op = lookup(node.op)
        if op.effect is Effect.LOCK:
            _check_lock(node, locks, ended, resources)
            locks.append(node)
        elif op.effect is Effect.UNLOCK:
            _check_end(node, locks)
            ended.add(node.attrs["block"])
            locks = []
        elif locks:
            _check_inside(node, op, locks, resources)
        elif "block" in node.attrs and op.effect in (Effect.READ, Effect.WRITE):
            raise _wrong(node, "stands outside of its atomic block")
    if locks:
        raise _wrong(locks[-1], "belongs to an atomic block that does not end")


def _check_lock(
    node: Node, locks: Sequence[Node], ended: set[str], resources: Mapping[str, ResourceDef]
) -> None:
    names, block = node.attrs.get("resources"), node.attrs.get("block")
    if not isinstance(block, str) or block in ended or not isinstance(names, tuple) or not names:
        raise _wrong(node, "names no atomic block and its variables")
    known = all(isinstance(name, str) and name in resources for name in names)
    if not known or len(set(names)) < len(names) or names != in_order(names, resources):
        raise _wrong(node, f"locks in another order than all others do: {names}")
    if locks and (block, names) != (locks[0].attrs["block"], locks[0].attrs["resources"]):
        raise _wrong(node, "stands inside another atomic block")
    if len(locks) == len(names) or node.attrs.get("resource") != names[len(locks)]:
        raise _wrong(node, "locks out of turn")
    # By the chain of controls the locks are taken in order.
    if locks and locks[-1].id not in node.controls:
        raise _wrong(node, "does not wait for the lock before it")


def _check_end(node: Node, locks: Sequence[Node]) -> None:
    if not locks or any(node.attrs.get(k) != locks[0].attrs[k] for k in ("block", "resources")):
        raise _wrong(node, "ends no atomic block that it stands in")
    if len(locks) < len(node.attrs["resources"]) or locks[-1].id not in node.controls:
        raise _wrong(node, "does not wait for all locks of its atomic block")


def _check_inside(node: Node, op: OpDef, locks: Sequence[Node], resources: Mapping[str, ResourceDef]) -> None:
    # A constant waits for nobody: it may lie anywhere.
    if op.effect is Effect.CONSTANT:
        return
    names: tuple[str, ...] = locks[0].attrs["resources"]
    block = Block(locks[0].attrs["block"], names, locks[0].defined_at)
    # The same rule as while building.
    try:
        marked = marks(block, op, node.attrs, resources)
    except GraphError as error:
        raise error.at(node.where) from None
    if len(locks) < len(names) or locks[-1].id not in node.controls:
        raise _wrong(node, "does not wait for the locks of its atomic block")
    if any(node.attrs.get(key) != value for key, value in marked.items()):
        raise _wrong(node, f"does not say that it stands in the atomic block {block.name!r}")


def _wrong(node: Node, why: str) -> GraphError:
    return GraphError(f"node {node.name!r} {why}", where=node.where)


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
