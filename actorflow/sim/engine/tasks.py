"""Tasks, futures and callbacks of the simulated loop: each knows its number, or its strand."""

from __future__ import annotations

from asyncio import Future, Handle, Task, TimerHandle
from collections.abc import Callable, Coroutine
from contextvars import Context
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from actorflow.sim.engine.strands import Strand

if TYPE_CHECKING:
    from actorflow.sim.engine.event_loop import SimLoop


class SimFuture(Future[Any]):
    """A future whose hash is its number: sets of futures keep their order from run to run."""

    number: int

    def __hash__(self) -> int:
        return self.number


class SimTask(Task[Any]):
    """A task whose hash is its number, and which ends the run when it ends with a BaseException."""

    def __init__(
        self,
        number: int,
        strand: Strand,
        coro: Coroutine[Any, Any, Any],
        *,
        name: str | None,
        loop: SimLoop,
        context: Context,
    ) -> None:
        self.number = number  # ORDER: the constructor puts the task into a set
        self.strand = strand
        self.failed_alive = False  # it raised while its host lived
        self._born = loop.order.turn, loop.steps
        self._sim = loop
        self._unnamed = name is None
        super().__init__(coro, loop=loop, name=name or strand.label, context=context)

    def set_name(self, value: object) -> None:
        """Names the task; its strand too, as long as nothing has run since it was made.

        Up to Python 3.12 `asyncio.create_task` and `TaskGroup` name a task in this way.
        """
        super().set_name(value)
        # Nothing has run since it was made: it has no history under its first name.
        if self._born == (self._sim.order.turn, self._sim.steps):
            if self._unnamed:
                # Numbers of unnamed tasks must not depend on which way a task got its name.
                self._sim.take_name_back(self.get_coro())
            self._unnamed = False
            self.strand.rename(self._sim.choices.point(str(value)))

    @property
    def dead(self) -> bool:
        """Whether its host has crashed: it will never run again."""
        return self.strand.lifetime is not None and self.strand.lifetime.dead

    def __hash__(self) -> int:
        return self.number


class SimHandle(Handle):
    """A callback and its strand; without the debug source of asyncio's own."""

    __slots__ = ("strand",)

    def __init__(
        self, callback: Callable[..., object], args: Any, loop: SimLoop, context: Context, strand: Strand
    ) -> None:
        # Without `Handle.__init__`, which looks for the place in the source in debug mode.
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = context
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self.strand = strand


class SimTimerHandle(TimerHandle):
    """A callback that comes up at some time, and its strand."""

    __slots__ = ("strand",)

    strand: Strand


STRAND_OF: Callable[[SimHandle | SimTimerHandle], Strand] = attrgetter("strand")
"""Gives the strand of either."""
