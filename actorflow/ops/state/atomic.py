"""Atomic blocks: reads and writes of several variables that happen as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from actorflow.errors import GraphError, Where
from actorflow.graph.atomic_block import Block, in_order
from actorflow.graph.builder import Tensor, build
from actorflow.graph.graph import Graph, current
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, Effect, lookup, op
from actorflow.ops.state.partitioned import PartitionedVariable, parts_of
from actorflow.ops.state.variable import Variable, check_variables
from actorflow.runtime.call_site import source_line
from actorflow.values.spec import Spec, spec


class Atomic:
    """What `with af.atomic(…) as block` gives.

    Attributes:
        name: Of the block, unique in its graph.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._done: Tensor | None = None

    def __repr__(self) -> str:
        return f"<Atomic {self.name}>"

    @property
    def done(self) -> Tensor:
        """True once the block has ended: fetch it to run the block for its writes alone."""
        if self._done is None:
            message = f"the atomic block {self.name!r} is still being built"
            hint = "leave its `with` first"
            raise GraphError(message, where=Where(defined_at=source_line()), hint=hint)
        return self._done


def atomic(
    *variables: Variable | PartitionedVariable, name: str = "atomic"
) -> AbstractContextManager[Atomic]:
    """Makes the reads and writes built inside happen as one: no write of another step comes between.

    All or nothing: when the step fails or is cancelled before the block has ended, every variable is as
    it was. When it ends, all that was written inside becomes visible, in one moment for each variable.
    Meanwhile others read what was there before, and their writes and blocks wait in line. Whatever a step
    needs of a block, it does all of its writes.

    What the block uses from outside is computed before the first lock is taken. Inside there may be
    reads and writes of these variables and anything that computes; nothing that can wait, such as a
    queue, no training update, and no other block. So steps never wait for each other in a ring.

    Args:
        variables: What the block may touch, each once; of partitioned ones it locks all parts.
        name: Of the block; numbered when it is taken.

    Raises:
        GraphError: for no variable, one that comes twice or belongs to another graph, a name that is no
            text; inside, at the line of what may not be there.

    >>> with af.Graph():
    ...     a, b = af.Variable(10.0, name="a"), af.Variable(0.0, name="b")
    ...     with af.atomic(a, b, name="transfer") as transfer:
    ...         a.assign_sub(4.0)
    ...         b.assign_add(4.0)
    ...     print(transfer.done)
    <Tensor a/assign_sub:0 () float32>
    <Tensor b/assign_add:0 () float32>
    <Tensor transfer/end:0 () bool>
    """
    graph, line = current(), source_line()
    names = _check(graph, variables, name, Where(defined_at=line))
    local = _free(graph, name)
    # ORDER: `in_order` sorts the locks: all blocks take them in one order, so no ring of waits can form.
    block = Block(f"{graph.scope.name}{local}", in_order(names, graph.resources), line)
    return _building(graph, local, block)


@contextmanager
def _building(graph: Graph, local: str, block: Block) -> Iterator[Atomic]:
    """Builds the locks, then what the user does inside, then the end; `local` is the name in the scope."""
    outer = graph.scope
    attrs: dict[str, Attr] = {"resources": block.resources, "block": block.name}
    # Locks one after the other, each waiting for the one before.
    controls = outer.controls
    for resource in block.resources:
        with graph.use_scope(replace(outer, controls=controls)):
            lock = f"{local}/lock/{resource.removeprefix(outer.name)}"
            (locked,) = build("lock_variable", [], {"resource": resource, **attrs}, name=lock)
        # What is built inside waits for the last lock.
        controls = (*outer.controls, locked.port.node)
    # Nodes from here on are those of the block.
    handle, first = Atomic(block.name), len(graph)
    try:
        with graph.use_scope(replace(outer, controls=controls, block=block)):
            yield handle
    # Also where building failed: locks without an end would stay.
    finally:
        # ORDER: the end waits for every write, so the block commits all of them.
        writes = [n.id for n in graph.nodes[first:] if lookup(n.op).effect is Effect.WRITE]
        with graph.use_scope(replace(outer, controls=(*controls, *writes))):
            (handle._done,) = build("unlock_variables", [], attrs, name=f"{local}/end")


def _check(graph: Graph, variables: Sequence[Any], name: str, where: Where) -> list[str]:
    """Returns the names of the variables of a block; GraphError when there can be no such block."""
    # Nested blocks would take their locks out of order.
    if graph.scope.block is not None:
        outer = graph.scope.block
        message = (
            f"atomic blocks do not nest, since all locks are taken in one order; {outer.name!r} "
            f"of {outer.defined_at} is open"
        )
        raise GraphError(message, where=where, hint="lock all variables in one block")
    given: Any = name
    if not isinstance(given, str) or not given:
        message = f"the name of an atomic block is a text and not empty, got {name!r:.60}"
        raise GraphError(message, where=where)
    # A partitioned variable is locked by all of its parts.
    locked = parts_of(variables)
    check_variables("an atomic block locks", locked)
    names = [variable.name for variable in locked]
    if not names or len(set(names)) < len(names):
        message = f"an atomic block locks distinct variables, at least one, got {names}"
        raise GraphError(message, where=where, hint="list all that is touched inside")
    return names


def _free(graph: Graph, name: str) -> str:
    """Returns the name, numbered when another block of the graph has it."""
    # Ends carry the name of their block, so the nodes tell which are taken.
    taken = {node.attrs["block"] for node in graph.nodes if node.op == "unlock_variables"}
    free, n = name, 0
    while f"{graph.scope.name}{free}" in taken:
        n += 1
        free = f"{name}_{n}"
    return free


def _true(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    return (spec("bool"),)


@op("lock_variable", spec=_true, gradient=NOT_DIFFERENTIABLE, effect=Effect.LOCK)
def lock_variable(variable: Variable) -> Tensor:
    """What `af.atomic` begins with: the lock of one variable, for one step. No gradient."""
    with atomic(variable) as block:
        pass
    return block.done


@op("unlock_variables", spec=_true, gradient=NOT_DIFFERENTIABLE, effect=Effect.UNLOCK)
def unlock_variables(variables: Sequence[Variable]) -> Tensor:
    """What `af.atomic` ends with: what was written becomes visible. No gradient."""
    with atomic(*variables) as block:
        pass
    return block.done
