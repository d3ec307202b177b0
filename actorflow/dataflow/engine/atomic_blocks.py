"""The questions of nodes of an atomic block: each says for which block of which step it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from actorflow.actors.ref import Ref
from actorflow.dataflow.engine.calls import body_of
from actorflow.dataflow.engine.iteration_state import IterationState
from actorflow.dataflow.engine.node import NodeActor
from actorflow.dataflow.engine.step import Step
from actorflow.dataflow.state.locks import LockOwner
from actorflow.dataflow.state.register import Source
from actorflow.dataflow.state.variable import Inside, Publish, TakeLock
from actorflow.plan.program import PlanNode
from actorflow.values import arrays

BodyInside = Callable[[Step, Sequence[Any]], Any]
"""The step and the node's inputs -> the message to the variable."""


def body_inside(plan: PlanNode, source: Source, sequence: Iterator[int]) -> BodyInside:
    """Returns how the inputs of a node of a block become a message; see `calls.body_of`."""
    block: str = plan.attrs["block"]

    def owner(step: Step) -> LockOwner:
        if step.owners is None:
            step.owners = {}
        # All nodes of the block ask as the same owner, whichever of them comes first in this step.
        if block not in step.owners:
            step.owners[block] = LockOwner(source, next(sequence), block, step.id)
        return step.owners[block]

    if plan.op == "lock_variable":
        return lambda step, args: TakeLock(owner(step))
    # Writes of blocks overtake those of the same session that stand in line: a source of their own keeps its
    # numbers growing in the order in which they are applied.
    body = body_of(plan, Source(f"{source}/atomic"), sequence)
    return lambda step, args: Inside(owner(step), body(args))


def release(
    node: NodeActor, refs: Sequence[Ref], locks: Sequence[NodeActor]
) -> Callable[[IterationState, Sequence[Any]], None]:
    """Returns how a block ends: all its variables are told at once, and nothing comes between.

    Args:
        node: The end.
        refs: The variables.
        locks: The nodes that have locked them: from now on an abort of the step gives nothing back.
    """
    block: str = node.plan.attrs["block"]
    ended = arrays.truth(True)

    def run(live: IterationState, args: Sequence[Any]) -> None:
        step = live.step
        publish = Publish(step.owners[block])
        # Nothing suspends between these signals: no other step finds one variable published and another not.
        for ref in refs:
            ref.signal(publish)
        # From here on an abort gives nothing back: what the block took is in what was published.
        step.mark_used((*locks, *node.uses), live)
        if node.spends:
            step.spend(node.spends)
        node.emit(live, ended)

    return run
