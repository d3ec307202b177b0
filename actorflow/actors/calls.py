"""What a node asks of an actor that holds state, and how the answer finds back to the node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from actorflow.actors import queue, variable
from actorflow.actors.live import Live
from actorflow.actors.node import NodeActor
from actorflow.actors.optimizer import ApplyGradients
from actorflow.actors.register import Source, Write
from actorflow.errors import InternalError
from actorflow.plan.program import PlanNode
from actorflow.rows import How

Body = Callable[[Sequence[Any]], Any]
"""The node's inputs -> the message to the resource."""


class Completion:
    """The reply of a call: continues the firing of `node` for the tag `live`.

    Attributes:
        interrupt: Set by a handler that works on the call for long: what the end of the step calls
            instead of sending CancelCall, which such a handler would not see.
    """

    __slots__ = ("interrupt", "live", "node")

    def __init__(self, node: NodeActor, live: Live) -> None:
        self.node = node
        self.live = live
        self.interrupt: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return f"<Completion of {self.node.plan.name}, {self.live.tag}>"

    def __str__(self) -> str:
        return self.node.address

    @property
    def error(self) -> BaseException | None:
        """Why the step has ended, None while it runs."""
        return self.live.error

    def done(self, value: Any) -> None:
        """Sends the answer along the node's edges."""
        calls = self.live.step.calls
        if calls is not None:
            calls.pop(self, None)
        try:
            self.node.complete(self.live, value)
        except Exception as error:  # noqa: BLE001  a broken graph fails its own step, not the resource
            self.node.fail(self.live, error)

    def failed(self, error: BaseException) -> None:
        """Aborts the step."""
        self.node.fail(self.live, error)


def body_of(plan: PlanNode, source: Source, sequence: Iterator[int]) -> Body:
    """Returns how the inputs of a REQUEST node become a message.

    Args:
        plan: The node.
        source: Who writes, for exactly-once.
        sequence: Gives the numbers of that source's writes, growing.
    """
    fixed = _FIXED.get(plan.op)
    if fixed is not None:
        return lambda args: fixed
    if plan.op in _WRITES:
        kind = _WRITES[plan.op]
        return lambda args: variable.WriteValue(kind, args[0], source, next(sequence))
    if plan.op in _SCATTERS:
        how = _SCATTERS[plan.op]
        return lambda args: variable.WriteRows(how, args[0], args[1], source, next(sequence))
    if plan.op == "count_up_to":
        limit = plan.attrs["limit"]
        return lambda args: variable.CountUpTo(limit, source, next(sequence))
    make = _MADE.get(plan.op)
    if make is None:
        message = f"no actor answers op {plan.op!r}"
        raise InternalError(message, where=plan.where)
    attrs = plan.attrs
    return lambda args: make(args, attrs)


def _gradients(args: Sequence[Any], sparse: Sequence[bool]) -> tuple[Any, ...]:
    """One gradient for each variable: an input, or two for one of some rows."""
    rest = iter(args)
    return tuple((next(rest), next(rest)) if two else next(rest) for two in sparse)


_FIXED: dict[str, Any] = {
    "read_variable": variable.ReadValue(),
    "variable_version": variable.ReadVersion(),
    "is_initialised": variable.IsInitialised(),
    "queue_dequeue": queue.Dequeue(),
    "queue_size": queue.Size(),
}
_WRITES = {write.value: write for write in Write}
_SCATTERS = {f"scatter_{how.value}_variable": how for how in How}
_MADE: dict[str, Callable[[Sequence[Any], Mapping[str, Any]], Any]] = {
    "apply_gradients": lambda args, attrs: ApplyGradients(_gradients(args, attrs["sparse"])),
    "queue_enqueue": lambda args, attrs: queue.Enqueue(tuple(args)),
    "queue_enqueue_many": lambda args, attrs: queue.EnqueueMany(tuple(args)),
    "queue_dequeue_many": lambda args, attrs: queue.DequeueMany(attrs["n"]),
    "queue_dequeue_up_to": lambda args, attrs: queue.DequeueMany(attrs["n"], up_to=True),
    "queue_close": lambda args, attrs: queue.Close(attrs["cancel_pending_enqueues"]),
}
