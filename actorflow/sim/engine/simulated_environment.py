"""What a simulated run hands to the actor systems and sessions in it: turns, time, chance, workers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from actorflow.errors import SessionClosed
from actorflow.runtime.clock import Clock, Entropy
from actorflow.sim.engine.choice import Choices
from actorflow.sim.engine.event_loop import SimLoop
from actorflow.sim.engine.strands import Strand

_IN_A_ROW = 64
"""Turns of actors while the loop has other work; the real pump stops when its time is up."""


class SimulatedEnvironment:
    """The setting of one host, or of a whole run without hosts.

    Args:
        loop: The run's.
        clock: The host's own, which may be wrong; by default the loop's.
        entropy: Its source of chance.
        prefix: Put before the names of its actors in plans and reports, such as `ps0/`.
    """

    def __init__(
        self, loop: SimLoop, *, entropy: Entropy, clock: Clock | None = None, prefix: str = ""
    ) -> None:
        self.loop = loop
        self.clock: Clock = loop if clock is None else clock
        self.entropy = entropy
        self.prefix = prefix

    def slot(self, system: Any) -> RingSlot:
        """Returns the place of an actor system's ring."""
        self.loop.systems.append(system)
        return RingSlot(self.loop, f"{self.prefix}{system.name}", self.prefix)

    def workers(self, name: str) -> SimWorkers:
        """Returns the workers of a device."""
        return SimWorkers(self.loop, f"{self.prefix}kernel{name}")


class RingSlot:
    """The ring of one actor system: a strand for the ring as a whole, and one for each actor in it."""

    def __init__(self, loop: SimLoop, label: str, prefix: str) -> None:
        self._loop = loop
        self._label = label
        self._prefix = prefix
        self._order = loop.order
        self._choices: Choices = loop.choices
        self._strands: dict[str, Strand] = {}
        self._in_a_row = 0
        self._gave_way = False

    def enter(self) -> None:
        """Makes the present context the ring's strand."""
        self._strand = self._loop.enter_strand(self._label)
        self._strand.ring = True

    def pick(self, ring: deque[tuple[Any, Any]]) -> tuple[Any, Any] | None:
        """Removes and returns the entry whose turn it is; None gives the event loop back."""
        loop = self._loop
        life = self._strand.lifetime
        # The run ends, or its host does nothing just now: the ring stands still.
        if loop.ending or (life is not None and (life.dead or life.paused)):
            return None
        # Something outside the ring is ready as well, so somebody could go first.
        others = bool(loop._ready)
        # Who gave way takes a turn before it may do so again: two rings could otherwise do it for ever.
        if others and not self._gave_way and self._gives_way():
            self._in_a_row = 0
            self._gave_way = True
            return None
        entry = self._order.take(ring, self._strand_of, others=others)
        self._gave_way = entry is None
        if entry is not None:
            # A turn of an actor counts as a step, as the loop's own do.
            loop.count_turn(self._strand_of(entry))
        return entry

    def _gives_way(self) -> bool:
        self._in_a_row += 1
        # As the real pump does when its time is up: the others have the loop now and then.
        if self._in_a_row >= _IN_A_ROW:
            return True
        return self._order.delays(self._strand, self._loop._ready, attrgetter("strand"))

    def _strand_of(self, entry: tuple[Any, Any]) -> Strand:
        name: str = entry[0].strand
        strand = self._strands.get(name)
        if strand is None:
            # Of the host that the ring belongs to: with it the actor stands still, or dies.
            strand = self._strands[name] = Strand(
                self._choices.point(self._prefix + name), self._strand.lifetime
            )
        return strand


class SimWorkers:
    """Workers without threads: a job runs on the loop, and its result comes at a chosen step."""

    def __init__(self, loop: SimLoop, label: str) -> None:
        self._loop = loop
        self._label = label
        self._closed = False

    def __len__(self) -> int:
        return 1

    def submit(
        self, job: Callable[[], Any], done: Callable[[Any, BaseException | None, float], None]
    ) -> None:
        """Runs `job` at a later step, and hands in what it returned or raised."""
        if self._closed:
            message = f"{self._label} is closed"
            raise SessionClosed(message)

        def run() -> None:
            # closed meanwhile: what waits is dropped
            if self._closed:
                return
            try:
                result, error = job(), None
            except Exception as caught:  # noqa: BLE001  it travels to the step
                result, error = None, caught
            # It took no time: how long kernels take is no part of a run.
            done(result, error, 0.0)

        self._loop.run_at_a_step(self._label, run)

    async def close(self) -> None:
        """Drops what waits."""
        self._closed = True
