"""The worker: takes permits, and makes a contribution under each of them.

`worker_state` says which permit counts; this obeys. `contribution_pipeline` works under it, in one run of a
handler, which is cancelled when the permit counts no more.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from actorflow.actors.actor import Actor
from actorflow.actors.ref import Ref
from actorflow.actors.timer_wheel import Timer
from actorflow.coord.actors.batch_reader import InputWait
from actorflow.coord.actors.contribution_pipeline import BatchSupply, Computing, ContributionPipeline
from actorflow.coord.rules.messages import (
    Assignment,
    Computed,
    ContributionOutcome,
    Heartbeat,
    Join,
    Missed,
    Permit,
    Refused,
    Rejected,
    RunEnded,
)
from actorflow.coord.rules.worker_state import (
    AbandonWork,
    BeginWork,
    Effect,
    FinishRun,
    TakeAssignment,
    TellCoordinator,
    WorkerState,
)
from actorflow.errors import (
    ActorDied,
    ActorflowError,
    ChannelClosed,
    CoordinatorLost,
    DeadlinePassed,
    PeerLost,
    describe,
)
from actorflow.runtime.messages import Terminated
from actorflow.runtime.validation import validates

_UNREACHED = (ActorDied, PeerLost, ChannelClosed, DeadlinePassed)
_FIRST_WAIT_S = 0.05
_LONGEST_WAIT_S = 2.0


@dataclass(frozen=True, slots=True)
class AwaitEnd:
    """Anyone → worker, asked: answered with WorkerDone when the worker has ended."""


@dataclass(frozen=True, slots=True)
class WorkerDone:
    """Worker → whoever awaited its end.

    Attributes:
        error: Why it ended; None when the run was over.
        computed: How many contributions all shards kept.
        accepted: How many of these it heard to be part of an update.
        missed: How many permits came to nothing.
    """

    error: ActorflowError | None
    computed: int
    accepted: int
    missed: int


@dataclass(frozen=True, slots=True)
class _JoinAgain:
    """Worker → itself: time to ask for an assignment."""


@dataclass(frozen=True, slots=True)
class _Alive:
    """Worker → itself: time for a heartbeat."""


@dataclass(frozen=True, slots=True)
class _Gone:
    """Worker → itself: what the coordinator said before it stopped has been heard by now."""

    reason: BaseException | None


@dataclass(frozen=True, slots=True)
class _Tidy:
    """Worker → itself: it has ended, and needs no more batches."""


@validates("receive")
class Worker(Actor):
    """Makes contributions for a coordinator until the run is over.

    Owns: its state, one run of the replica at a time, the supply of batches.
    Receives: Permit, ContributionOutcome and RunEnded from the coordinator, where a RunEnded with Fenced, or
        Refused "fenced" for a Heartbeat, tells it to join again; AwaitEnd.
    Sends: Join (asked), Heartbeat (control lane), Computed, Missed, Exhausted and Leave to the coordinator;
        Pull and Contribute (asked) to the shards.
    Promise: each permit that it takes up ends in one Computed, Missed or Exhausted, or with the worker.
        Nothing is sent after the end. A batch is told by number alone, so none is lost with a permit.
    Fails: it ends in CoordinatorLost when it gets no assignment in time, or the coordinator stops; whoever
        awaits its end hears. What goes wrong under a permit is told by Missed, and the worker goes on.

    A step whose kernels run on the event loop holds up its heartbeats as everything else there. So the
    coordinator must bear a silence as long as the longest kernel, or the device has threads.

    Args:
        replica: Computes.
        supply: Gives batches.
        coordinator: Whom it works for.
        shards: Who holds the variables.
        process: The name of its process, under which it joins.
        fresh: Whether a contribution is of use only if computed from the version of its permit.
        work: Awaited once a contribution, after the step: stands for time that computing takes.
        join_s: How long it tries to get an assignment.
        answer_s: How long a shard may take to answer.
        apart: Whether shards close updates by themselves.

    Raises:
        ConfigError: there is no shard.
    """

    reentrant = True

    def __init__(
        self,
        replica: Computing,
        supply: BatchSupply,
        coordinator: Ref,
        shards: Sequence[Ref],
        process: str,
        fresh: bool,
        *,
        work: Callable[[], Awaitable[None]] | None = None,
        join_s: float = 30.0,
        answer_s: float = 60.0,
        apart: bool = False,
    ) -> None:
        self._pipeline = ContributionPipeline(
            replica, supply, shards, process, fresh, work, answer_s, apart=apart
        )
        self._batches = supply
        self._coordinator = coordinator
        self._process = process
        self._join_s = join_s
        self._state = WorkerState()
        self._scopes: dict[int, asyncio.Timeout] = {}
        self._computed = self._accepted = self._missed = 0
        self._since = self._wait_s = 0.0
        self._watching = self._stopping = False
        self._timer: Timer | None = None  # of the next heartbeat, or of joining again
        self._end: Future[WorkerDone]

    def __repr__(self) -> str:
        work = self._state.work
        doing = "over" if self._state.over else "idle" if work is None else f"at work on {work.number}"
        return f"<Worker '{self._process}', {doing}>"

    @property
    def over(self) -> bool:
        """Whether it has ended, and does nothing any more."""
        return self._state.over

    @property
    def number(self) -> int:
        """The permit under which it works; 0 while there is none."""
        return 0 if self._state.work is None else self._state.work.number

    @property
    def waits(self) -> InputWait | None:
        """For which batch it waits; None while it does something else."""
        return None if self._state.work is None else self._batches.waits()

    @property
    def so_far(self) -> WorkerDone:
        """What it has done by now."""
        return WorkerDone(None, self._computed, self._accepted, self._missed)

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        state = self._state
        self._state.story.check(
            self,
            {
                "only the work at hand is under way": set(self._scopes) <= {self.number},
                "who has ended sets no timer": not state.over or self._timer is None,
            },
        )

    def on_dump(self) -> tuple[str, ...]:
        """Returns the story of its state."""
        return (str(self._state.story),)

    def on_start(self) -> None:
        """Asks for an assignment."""
        self._end = self.system.create_future()
        self._take_seat()

    async def on_stop(self, reason: BaseException | None) -> None:
        """Takes its leave, and lets go of the batches."""
        self._stopping = True
        self._obey(self._state.leave())
        await self._batches.close()

    def receive(self, message: Any) -> Any:
        """Obeys one message; what takes time comes back as a coroutine."""
        match message:
            case Permit():
                return self._obey(self._state.permit(message))
            case ContributionOutcome():
                self._accepted += message.accepted
                return self._obey(self._state.take_outcome(message))
            case RunEnded():
                return self._obey(self._state.end(message))
            case Refused(reason="fenced"):
                return self._obey(self._state.give_up())
            case Terminated():
                self._terminated(message)
            case AwaitEnd():
                return self._result()
            case _Alive():
                self._heartbeat()
            case _JoinAgain():
                return self._join()
            case _Gone():
                self._lost(message.reason)
            case _Tidy():
                return self._batches.close()
            case _:
                what = f"a worker takes permits, outcomes and the end, got {type(message).__name__}"
                raise self._state.story.broken(what)
        return None

    def _obey(self, effects: Sequence[Effect]) -> Awaitable[None] | None:
        """Does what was decided; returns the work to begin, if there is any."""
        begun: Awaitable[None] | None = None
        for effect in effects:
            match effect:
                case TellCoordinator(message):
                    self._computed += isinstance(message, Computed)
                    self._missed += isinstance(message, Missed)
                    self._coordinator.put(message, self.system.nobody)
                case AbandonWork(number):
                    scope = self._scopes.pop(number, None)
                    if scope is not None:
                        scope.reschedule(0.0)
                case BeginWork(permit):
                    begun = self._under(permit)
                case TakeAssignment():
                    self._take_seat()
                case FinishRun(error):
                    self._finish(error)
        return begun

    def _finish(self, error: ActorflowError | None) -> None:
        self._ring(None)
        self._end.set_result(WorkerDone(error, self._computed, self._accepted, self._missed))
        if not self._stopping:
            self.ref.signal(_Tidy())

    async def _result(self) -> WorkerDone:
        return await asyncio.shield(self._end)

    # -- the assignment ------------------------------------------------------------------------------

    def _take_seat(self) -> None:
        """Begins to ask for an assignment."""
        self._since = self.system.now()
        self._wait_s = _FIRST_WAIT_S
        self._ring(None)
        self.ref.signal(_JoinAgain())

    async def _join(self) -> None:
        """Asks for an assignment once; asks again later when nobody is there to give one."""
        if self._state.over or self._state.assignment is not None:
            return
        left_s = self._since + self._join_s - self.system.now()
        if not self._watching:
            self._watching = True
            self._coordinator.watch(self.ref)
        try:
            seat = await self._coordinator.ask(Join(self._process), max(left_s, _FIRST_WAIT_S))
        except _UNREACHED as error:
            self._knock_later(error)
            return
        except ActorflowError as error:
            self._obey(self._state.fail(error))
            return
        if isinstance(seat, RunEnded):
            self._obey(self._state.end(seat))
            return
        if isinstance(seat, Rejected):
            self._rest(seat.wait_s)
            return
        if not isinstance(seat, Assignment):
            what = f"a coordinator answers Join with Assignment, got {type(seat).__name__}"
            raise self._state.story.broken(what)
        begun = self._obey(self._state.assign(seat))
        self._heartbeat()
        if begun is not None:
            await begun

    def _rest(self, rest_s: float) -> None:
        """Asks again when it has rested; the coordinator is there, so it goes on asking as long as before."""
        if not self._state.over and self._state.assignment is None:
            self._since = self.system.now() + rest_s
            self._ring(self.after(rest_s, _JoinAgain()))

    def _knock_later(self, error: ActorflowError) -> None:
        if self._state.over or self._state.assignment is not None:
            return
        left_s = self._since + self._join_s - self.system.now()
        if left_s <= 0:
            message = f"'{self._process}' got no seat from the coordinator within {self._join_s:g} s"
            lost = CoordinatorLost(message, hint="raise join_s if the coordinator starts late")
            lost.__cause__ = error
            self._obey(self._state.fail(lost))
            return
        self._ring(self.after(min(self._wait_s, left_s), _JoinAgain()))
        self._wait_s = min(2 * self._wait_s, _LONGEST_WAIT_S)

    def _heartbeat(self) -> None:
        seat, work = self._state.assignment, self._state.work
        if seat is None:
            return
        waits = self.waits
        told = "" if waits is None or self.system.now() - waits.since < seat.heartbeat_s else waits.what
        self._coordinator.signal(
            Heartbeat(seat.rank, seat.incarnation, 0 if work is None else work.number, told)
        )
        self._ring(self.after(seat.heartbeat_s, _Alive()))

    def _ring(self, timer: Timer | None) -> None:
        """Replaces the timer: of the next heartbeat or of joining again, never of both."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer

    def _terminated(self, notice: Terminated) -> None:
        """The coordinator is gone, or this process was cut off from it and may come back."""
        self._watching = False
        seat = self._state.assignment
        if seat is None:
            return  # whoever asks for an assignment finds out
        if isinstance(notice.reason, PeerLost):
            self._obey(self._state.give_up())
        else:
            self.after(seat.heartbeat_s, _Gone(notice.reason))  # its RunEnded may still be on the way

    def _lost(self, reason: BaseException | None) -> None:
        why = "it was stopped" if reason is None else describe(reason).splitlines()[0]
        lost = CoordinatorLost(f"the coordinator of '{self._process}' is gone: {why}")
        lost.__cause__ = reason
        self._obey(self._state.fail(lost))

    # -- work under a permit ---------------------------------------------------------------------------

    async def _under(self, permit: Permit) -> None:
        """Makes a contribution, unless the permit comes to count no more."""
        if self._state.work is not permit:
            return
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._scopes[permit.number] = scope
                conclusion = await self._pipeline.conclusion(permit)
        except TimeoutError:
            if not scope.expired():
                raise
            return
        finally:
            self._scopes.pop(permit.number, None)
        self._obey(self._state.conclude(conclusion))
        if not self._state.over:
            self._batches.read_ahead()
