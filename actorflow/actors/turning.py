"""How a node runs a routine: on the loop while that is short, else on a thread, and never past its step.

A routine stops after every turn of a loop. On the event loop it goes on for `inline_limit_s` and then on a
thread; without threads it lets others have the loop now and then. Once the step has ended it is dropped at
the next turn, so that a loop without an end holds up neither a deadline nor the end of a session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from actorflow.actors.live import Live
from actorflow.actors.node import NodeActor
from actorflow.actors.routine import Compiled
from actorflow.actors.working import KernelDone
from actorflow.kernels.device import Device
from actorflow.kernels.gpu import Gpu

_TURNS = 256
"""Turns in a row on an event loop without threads."""

Run = Callable[[Live, Sequence[Any]], None]


def turning(node: NodeActor, device: Device | Gpu, compiled: Compiled, *, short: bool) -> Run:
    """Returns how a node runs a routine.

    Args:
        node: The node.
        device: Where it computes.
        compiled: What it computes.
        short: Whether one turn is surely short; a routine without loops is one turn.
    """
    there = _Turning(node, device, compiled)
    here = not isinstance(device, Gpu) and (short or device.inline_only)
    if not compiled.turns:
        return there.at_once if here else there.once_on_thread
    return there.begin if here else there.begin_on_thread


class _Turning:
    """One node that runs a routine."""

    def __init__(self, node: NodeActor, device: Device | Gpu, compiled: Compiled) -> None:
        self.node = node
        self.device = device
        self.compiled = compiled
        self.many = len(node.targets) != 1

    # -- without loops ---------------------------------------------------------------------------------

    def at_once(self, live: Live, args: Sequence[Any]) -> None:
        """Computes it in this firing."""
        self.node.emit(live, self.computed(live, args))

    def once_on_thread(self, live: Live, args: Sequence[Any]) -> None:
        """Has a thread compute it."""
        self.submit(live, lambda: self.computed(live, args))

    def computed(self, live: Live, args: Sequence[Any]) -> Any:
        tag = live.tag
        try:
            return self.compiled.function(tag.step, tag.frame, tag.iteration, *args)
        except Exception as error:  # noqa: BLE001  whatever a kernel raises
            raise self.compiled.placed(error) from error.__cause__

    # -- turn by turn ----------------------------------------------------------------------------------

    def begin(self, live: Live, args: Sequence[Any]) -> None:
        """Takes a firing, and does the first turns."""
        out: list[Any] = []
        self.go_on(live, self.turns(live, args, out), out)

    def begin_on_thread(self, live: Live, args: Sequence[Any]) -> None:
        """Takes a firing, and has a thread do all turns."""
        out: list[Any] = []
        turns = self.turns(live, args, out)
        self.submit(live, lambda: self.to_the_end(live, turns, out))

    def turns(self, live: Live, args: Sequence[Any], out: list[Any]) -> Iterator[None]:
        tag = live.tag
        turns: Iterator[None] = self.compiled.function(out, tag.step, tag.frame, tag.iteration, *args)
        return turns

    def go_on(self, live: Live, turns: Iterator[None], out: list[Any]) -> None:
        """Does some turns on the event loop, and sees to it that the others follow."""
        if not self.some(turns):
            self.node.emit(live, self.result(out))
        elif isinstance(self.device, Device) and self.device.inline_only:
            self.node.owner.dispatch.push(_Further(self, turns, out), live)
        else:
            self.submit(live, lambda: self.to_the_end(live, turns, out))

    def some(self, turns: Iterator[None]) -> bool:
        """Does turns for a while; returns whether there are more."""
        assert isinstance(self.device, Device)
        now, alone, left = self.device.now, self.device.inline_only, _TURNS
        end = now() + self.device.inline_limit_s
        try:
            for _ in turns:
                left -= 1
                if (alone and not left) or (not alone and now() >= end):
                    return True
        except Exception as error:  # noqa: BLE001  whatever a kernel raises
            raise self.compiled.placed(error) from error.__cause__
        return False

    def to_the_end(self, live: Live, turns: Iterator[None], out: list[Any]) -> Any:
        """Does all turns that are left, unless the step ends before."""
        try:
            for _ in turns:
                if live.error is not None:
                    return None
        except Exception as error:  # noqa: BLE001  whatever a kernel raises
            raise self.compiled.placed(error) from error.__cause__
        return self.result(out)

    def result(self, out: list[Any]) -> Any:
        return out[0] if self.many else out[0][0]

    def submit(self, live: Live, job: Callable[[], Any]) -> None:
        node = self.node

        def done(value: Any, error: BaseException | None, seconds: float) -> None:
            live.step.running.remove(node.address)
            node.owner.dispatch.push(KernelDone(node, value, error), live)

        live.step.running.append(node.address)
        self.device.submit(job, done)


class _Further:
    """A routine → its node, through the ring: it is its turn again."""

    __slots__ = ("lane", "out", "turning", "turns")

    def __init__(self, turning: _Turning, turns: Iterator[None], out: list[Any]) -> None:
        self.turning = turning
        self.turns = turns
        self.out = out
        self.lane = turning.node.lane

    def fire(self, live: Live) -> None:
        """Goes on, unless the step has ended."""
        if live.error is None:
            self.turning.go_on(live, self.turns, self.out)

    def fail(self, live: Live, error: BaseException) -> None:
        """Aborts the step of the firing."""
        self.turning.node.fail(live, error)
