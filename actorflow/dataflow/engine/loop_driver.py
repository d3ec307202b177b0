"""The driver of a node that runs a routine: on the loop while short, else on a thread, never past its step.

A routine stops after every turn of a loop. On the event loop it goes on for `inline_limit_s` and then on a
thread; without threads it lets others have the loop now and then. In virtual time, which does not move while
something is computed, some turns in a row are given a little of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial
from typing import Any

from actorflow.dataflow.engine.compiled_body import CompiledBody
from actorflow.dataflow.engine.iteration_state import IterationState
from actorflow.dataflow.engine.kernel_calls import KernelDone
from actorflow.dataflow.engine.node import NodeActor
from actorflow.kernels.device.device import Device
from actorflow.kernels.device.gpu import Gpu

TURNS = 256
"""Turns in a row at most, before others have the loop, or a thread looks at the clock."""

TURN_S = 10e-6
"""What a turn takes at least on a clock that stands still meanwhile, as virtual time does."""

_SECONDS_A_UNIT = 1e-9
"""The same for the cost of its kernels."""


class _LoopProgress(Enum):
    """What some turns have left."""

    NONE = "none"
    SOME = "some"  # and time has passed
    NO_TIME = "no time"  # and the clock stands still


Run = Callable[[IterationState, Sequence[Any]], None]


def drive_loop(node: NodeActor, device: Device | Gpu, compiled: CompiledBody, *, units: float | None) -> Run:
    """Returns how a node runs a routine.

    Args:
        node: The node.
        device: Where it computes.
        compiled: What it computes.
        units: What one turn costs, None where nobody knows; a routine without loops is one turn.
    """
    it = LoopDriver(node, device, compiled, units or 0.0)
    if isinstance(device, Gpu):
        return it.begin_on_thread if compiled.turns else it.once_on_thread
    if device.inline_only or (units is not None and device.surely_inline(units)):
        # Surely short, or nowhere else to go: then no firing is measured.
        return it.begin if compiled.turns else it.at_once
    return partial(it.measure, device)


class LoopDriver:
    """One node that runs a routine.

    Attributes:
        in_a_row: How many turns it does before it looks up.
        pause_s: What these take in virtual time.
        turn_s: What a turn is expected to take, learnt from those before; a thread may say so, too.
    """

    def __init__(self, node: NodeActor, device: Device | Gpu, compiled: CompiledBody, units: float) -> None:
        turn_s = max(TURN_S, units * _SECONDS_A_UNIT)
        # Turns that are known to cost more look up sooner: so many in a row cost about as much as 256 cheap
        # ones.
        self.in_a_row = max(1, min(TURNS, int(TURNS * TURN_S / turn_s)))
        self.pause_s = self.in_a_row * turn_s
        # What is known before anything was measured.
        self.turn_s = units * _SECONDS_A_UNIT
        self.node = node
        self.device = device
        self.compiled = compiled
        self.many = len(node.targets) != 1

    def measure(self, device: Device, live: IterationState, args: Sequence[Any]) -> None:
        """Takes a firing whose turns may be short: on the loop while they are, else on a thread."""
        # Asked anew at each firing: a routine that has become short comes back from its thread.
        short = self.turn_s <= device.inline_limit_s
        if self.compiled.turns:
            # A few turns over a small batch of unknown size: 17 to 22 µs a step, against 55 to 63 µs on a
            # thread.
            (self.begin if short else self.begin_on_thread)(live, args)
        elif short:
            start = device.now()
            value = self.compute(live, args)
            self.learn(device.now() - start)
            self.node.emit(live, value)
        else:
            self.once_on_thread(live, args)

    def learn(self, seconds: float) -> None:
        """Takes what a turn took into account; believes a fast one sooner, as `Estimate.learn` does."""
        if seconds > 0.0:
            self.turn_s += (0.5 if seconds < self.turn_s else 0.1) * (seconds - self.turn_s)

    # -- without loops ---------------------------------------------------------------------------------

    def at_once(self, live: IterationState, args: Sequence[Any]) -> None:
        """Computes it in this firing."""
        self.node.emit(live, self.compute(live, args))

    def once_on_thread(self, live: IterationState, args: Sequence[Any]) -> None:
        """Has a thread compute it."""
        self.submit(live, lambda: self.compute(live, args))

    def compute(self, live: IterationState, args: Sequence[Any]) -> Any:
        """Does all turns of a firing, in whichever thread it is; returns what they give."""
        tag = live.tag
        try:
            return self.compiled.function(tag.step, tag.frame, tag.iteration, *args)
        except Exception as error:  # noqa: BLE001  whatever a kernel raises
            # Placed at the node inside the routine that failed, of which the pump knows nothing.
            raise self.compiled.locate(error, tag) from error.__cause__

    # -- turn by turn ----------------------------------------------------------------------------------

    def begin(self, live: IterationState, args: Sequence[Any]) -> None:
        """Takes a firing, and does the first turns."""
        # A generator gives its outputs into this list: the `for` over its turns would lose what it returns.
        out: list[Any] = []
        self.go_on(live, self.turns(live, args, out), out)

    def begin_on_thread(self, live: IterationState, args: Sequence[Any]) -> None:
        """Takes a firing, and has a thread do all turns."""
        out: list[Any] = []
        self.on_thread(live, self.turns(live, args, out), out)

    def turns(self, live: IterationState, args: Sequence[Any], out: list[Any]) -> Iterator[int]:
        """Returns what does a turn each time that it is asked; the last one fills `out`."""
        tag = live.tag
        turns: Iterator[int] = self.compiled.function(out, tag.step, tag.frame, tag.iteration, *args)
        return turns

    def go_on(self, live: IterationState, turns: Iterator[int], out: list[Any]) -> None:
        """Does some turns on the event loop, and sees to it that the others follow."""
        assert isinstance(self.device, Device)
        left, done = self.some(live, turns, self.device)
        match left:
            case _LoopProgress.NONE:
                self.node.emit(live, self.result(out))
            case _LoopProgress.NO_TIME:
                # Further turns in the same instant would never let a deadline come.
                self.later(live, _ResumeLoop(self, turns, out, done))
            # Without threads the rest goes on in the ring, behind what has come meanwhile.
            case _ if self.device.inline_only:
                further = _ResumeLoop(self, turns, out, done)
                live.step.running.append(further)
                self.node.owner.dispatch.push(further, live)
            case _:
                self.on_thread(live, turns, out)

    def some(self, live: IterationState, turns: Iterator[int], device: Device) -> tuple[_LoopProgress, int]:
        """Does turns for a while; returns whether there are more, and what the generator said last."""
        now, left = device.now, self.in_a_row
        start = now()
        # With threads it is worth no more of the event loop than any kernel; without them, as much as the
        # pump's own share.
        end = start + (self.node.owner.dispatch.budget_s if device.inline_only else device.inline_limit_s)
        try:
            for done in turns:
                left -= 1
                if not left or now() >= end:
                    here = now()
                    self.learn((here - start) / (self.in_a_row - left))
                    # No time has passed in all these turns: the clock is virtual.
                    return _LoopProgress.NO_TIME if here == start else _LoopProgress.SOME, done
        except Exception as error:  # noqa: BLE001  whatever a kernel raises
            raise self.compiled.locate(error, live.tag) from error.__cause__
        return _LoopProgress.NONE, 0

    def on_thread(self, live: IterationState, turns: Iterator[int], out: list[Any]) -> None:
        """Has a thread do all turns that are left."""
        self.submit(live, lambda: self.to_the_end(live, turns, out))

    def to_the_end(self, live: IterationState, turns: Iterator[int], out: list[Any]) -> Any:
        """Does all turns that are left, unless the step ends before."""
        now, left = self.device.now, self.in_a_row
        start = now()
        try:
            for done in turns:
                # The step has ended: a loop without an end holds up neither a deadline nor the end of a
                # session.
                if live.error is not None:
                    return None
                left -= 1
                if not left:
                    left = self.in_a_row
                    here = now()
                    self.learn((here - start) / left)
                    # A thread cannot wait for virtual time: the event loop has it go on when some has passed.
                    if here == start:
                        return _ResumeLoop(self, turns, out, done)
                    start = here
        except Exception as error:  # noqa: BLE001  whatever a kernel raises
            raise self.compiled.locate(error, live.tag) from error.__cause__
        # the turns since the last look
        if left < self.in_a_row:
            self.learn((now() - start) / (self.in_a_row - left))
        return self.result(out)

    def later(self, live: IterationState, further: _ResumeLoop) -> None:
        """Goes on when time has passed: else, on a clock that stands still, no deadline would ever come."""
        # Listed meanwhile: `dump` says in which turn of which loop the step stands.
        live.step.running.append(further)
        self.node.owner.dispatch.push_later(self.pause_s, further, live)

    def result(self, out: list[Any]) -> Any:
        """Returns what the node emits of what the turns have left."""
        # One output as it is, several as a sequence: see `NodeActor.emit`.
        return out[0] if self.many else out[0][0]

    def submit(self, live: IterationState, job: Callable[[], Any]) -> None:
        """Has a thread do a job of a firing, and emits what it gives."""
        node = self.node

        def done(value: Any, error: BaseException | None, seconds: float) -> None:
            live.step.running.remove(node.address)
            # Turns have said themselves what they take.
            if not self.compiled.turns:
                self.learn(seconds)
            if type(value) is _ResumeLoop:
                # `later` counts it as waiting, so the thread's result does not enter the ring.
                value.driver.later(live, value)
                return
            node.owner.dispatch.push(KernelDone(node, value, error), live)

        live.step.running.append(node.address)
        self.device.submit(job, done)


class _ResumeLoop:
    """A routine → its node, through the ring: it is its turn again.

    Attributes:
        done: How many turns of its loop there have been, of that in which it stands.
    """

    __slots__ = ("done", "strand", "out", "driver", "turns")

    def __init__(self, turning: LoopDriver, turns: Iterator[int], out: list[Any], done: int) -> None:
        self.driver = turning
        self.turns = turns
        self.out = out
        self.done = done
        self.strand = turning.node.strand

    def __str__(self) -> str:
        """What a step waits for meanwhile."""
        return self.driver.compiled.between(self.turns, self.done) or f"turns of {self.driver.node.address}"

    def fire(self, live: IterationState) -> None:
        """Goes on, unless the step has ended."""
        live.step.running.remove(self)
        # Dropped at the next turn; what it was computing goes with the generator.
        if live.error is None:
            self.driver.go_on(live, self.turns, self.out)

    def fail(self, live: IterationState, error: BaseException) -> None:
        """Aborts the step of the firing."""
        self.driver.node.fail(live, error)
