"""The calls of nodes to actors that hold state, and how the answer finds back to the node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from actorflow.actors.ref import Ref
from actorflow.dataflow.engine.iteration_state import IterationState
from actorflow.dataflow.engine.node import NodeActor
from actorflow.dataflow.optimizer import gradients
from actorflow.dataflow.state import accumulator, barrier, counter, hash_table, queue, stack, variable
from actorflow.dataflow.state.register import Source
from actorflow.dataflow.user import user_code_actor
from actorflow.errors import InternalError
from actorflow.plan.program import PlanNode

Body = Callable[[Sequence[Any]], Any]
"""The node's inputs -> the message to the resource."""


class Completion:
    """The reply of a call: continues the firing of `node` for the tag `state`.

    Attributes:
        interrupt: Set by a handler that works on the call for long: what the end of the step calls
            instead of sending CancelCall, which such a handler would not see.
        why: Says for whom the call stands in line, for reports.
    """

    __slots__ = ("interrupt", "state", "node", "why")

    def __init__(self, node: NodeActor, live: IterationState) -> None:
        self.node = node
        self.state = live
        self.interrupt: Callable[[], None] | None = None
        self.why: Callable[[], str] | None = None

    def __repr__(self) -> str:
        return f"<Completion of {self.node.plan.name}, {self.state.tag}>"

    def __str__(self) -> str:
        why = None if self.why is None else self.why()
        return f"{self.node.address}, {why}" if why else self.node.address

    @property
    def error(self) -> BaseException | None:
        """Why the step has ended, None while it runs."""
        return self.state.error

    def done(self, value: Any, undo: Any = None) -> None:
        """Sends the answer along the node's edges; the step keeps `undo` until that has been used."""
        step, node = self.state.step, self.node
        # Answered: an abort has no call here any more that it would take back.
        ref = None if step.calls is None else step.calls.pop(self, None)
        if undo is not None and ref is not None:
            # ORDER: noted before the node goes on, so that an abort by whatever it sets off gives it back.
            step.note_take(node, ref, undo, self.state)
        # The actor has written, so what the step took for this write must not be given back.
        if node.uses or node.spends:
            self.wrote()
        try:
            node.complete(self.state, value)
        except Exception as error:  # noqa: BLE001  a broken graph fails its own step, not the resource
            node.fail(self.state, error)

    def failed(self, error: BaseException) -> None:
        """Aborts the step."""
        self.node.fail(self.state, error)

    def wrote(self) -> None:
        """Counts what the step took for this node as used."""
        step, node = self.state.step, self.node
        if node.uses and step.taken:
            step.mark_used(node.uses, self.state)
        if node.spends:
            step.spend(node.spends)

    def note_wait(self, at: Ref, why: Callable[[], str]) -> None:
        """Notes where the call stands in line and why: an abort takes it back."""
        # Called only by a handler that lets the call stand: reports show it, and an abort finds the call
        # there.
        self.why = why
        self.state.step.wait_in(at, self)


def body_of(plan: PlanNode, source: Source, sequence: Iterator[int]) -> Body:
    """Returns how the inputs of a node that asks become a message.

    Args:
        plan: The node.
        source: Who writes, for exactly-once.
        sequence: Gives the numbers of that source's writes, growing.
    """
    fixed = _FIXED.get(plan.op)
    # Such messages carry nothing, so one object serves all steps.
    if fixed is not None:
        return lambda args: fixed
    attrs = plan.attrs
    made = _MADE.get(plan.op)
    if made is not None:
        return lambda args: made(args, attrs)
    written = _WRITTEN.get(plan.op)
    if written is None:
        message = f"no actor answers op {plan.op!r}"
        raise InternalError(message, where=plan.where)
    # The number is drawn as the message is made: a source's numbers grow in the order of its writes.
    return lambda args: written(args, attrs, source, next(sequence))


_FIXED: dict[str, Any] = {
    **variable.FIXED,
    **queue.FIXED,
    **barrier.FIXED,
    **accumulator.FIXED,
    **hash_table.FIXED,
    **counter.FIXED,
    **stack.FIXED,
}
"""Op -> the message that it always is."""

_MADE: dict[str, Callable[[Sequence[Any], Mapping[str, Any]], Any]] = {
    **gradients.MADE,
    **user_code_actor.MADE,
    **queue.MADE,
    **barrier.MADE,
    **accumulator.MADE,
    **hash_table.MADE,
}
"""Op -> its message, from inputs and attributes."""

_WRITTEN: dict[str, Callable[[Sequence[Any], Mapping[str, Any], Source, int], Any]] = {
    **variable.WRITTEN,
    **barrier.WRITTEN,
    **accumulator.WRITTEN,
    **hash_table.WRITTEN,
    **counter.WRITTEN,
    **stack.WRITTEN,
}
"""Op -> its message, from inputs, attributes, and what makes it apply once."""
