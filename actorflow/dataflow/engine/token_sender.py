"""The sender of tokens to other processes: a value leaves at once, and nobody changes it any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from actorflow.dataflow.engine.iteration_state import IterationState
from actorflow.dataflow.engine.node import NodeActor
from actorflow.dataflow.engine.step import Step
from actorflow.runtime.messages import DEAD
from actorflow.values import arrays

_FIRED = arrays.truth(True)
"""What goes along a control edge to another process."""


class TokenSender(Protocol):
    """What brings tokens to other processes."""

    def send(self, step: Step, key: int, value: Any, destination: str, turns: tuple[int, ...]) -> None:
        """Sends the token of a step that has the number `key` in the partitioning; never waits.

        Args:
            step: Whose.
            key: Which transfer of the partitioning it is.
            value: An array that nobody changes any more, or DEAD.
            destination: The process.
            turns: In which turn of each loop around it, the outermost first.
        """
        ...


def send_later(node: NodeActor, exchange: TokenSender) -> Callable[[IterationState], None]:
    """Returns how a value leaves: at once."""
    slot, n_in, i = node.slot, node.n_in, node.i
    key, to = node.plan.attrs["key"], node.plan.attrs["destination"]

    def fire(live: IterationState) -> None:
        step = live.step
        # A control edge has no value: it sends a truth, or DEAD.
        value = live.slots[slot] if n_in else _FIRED
        # OWNS: the link from here on; the slot lets go of it.
        live.slots[slot : slot + n_in] = [None] * n_in
        if live.controls_dead is not None and i in live.controls_dead:
            value = DEAD
        if live.frame is None:
            exchange.send(step, key, value, to, ())
            # It has left: of a value outside of loops the step needs to know no more.
            step.count_sent()
        else:
            exchange.send(step, key, value, to, live.turns)
            # Within a loop the turn counts the firing, and the step is done with it when the loop has ended.
            node.finish(live, ())

    return fire
