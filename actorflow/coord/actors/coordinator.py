"""The coordinator: the actor that obeys `coordinator_state`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from actorflow.actors.actor import Actor
from actorflow.actors.ref import Ref
from actorflow.actors.timer_wheel import Timer
from actorflow.coord.rules.coordinator_state import CoordinatorEvent, CoordinatorState
from actorflow.coord.rules.messages import Assignment, Fence, Join, Rejected, RunEnded, ShardStatus
from actorflow.coord.rules.outbox import Send, ToObserver, ToShard, ToWorker
from actorflow.coord.rules.per_shard_state import PerShardState
from actorflow.coord.rules.policy import Policy
from actorflow.coord.rules.run_settings import RunSettings
from actorflow.errors import ActorflowError, CoordinationError
from actorflow.runtime.messages import Terminated
from actorflow.runtime.validation import validates


@dataclass(frozen=True, slots=True)
class _Tick:
    """Timer → coordinator, every heartbeat: who is silent, what has expired."""


@dataclass(frozen=True, slots=True)
class _Wake:
    """Timer → coordinator: the policy wanted to be asked again."""


@validates("receive")
class Coordinator(Actor):
    """Decides, by a policy, who computes and what makes the next update; and commits it on all shards.

    It owns nothing of the model: lost, it can be replaced by one of a higher term, which goes on from where
    the shards stand.

    **Receives** Join (answered with Assignment, Rejected, or with RunEnded when the run is over), Heartbeat,
    Leave, Computed, Missed, Exhausted from workers; Staged, Unstaged, Committed, Dropped from shards;
    RunEnded from whoever trains, to end the run after the update that is being committed; Terminated of a
    worker, which is out until it joins again, and of a shard, which ends the run.
    **Sends**, all on the control lane, so that nobody who is slow holds it up: Permit, ContributionOutcome,
    RunEnded to workers; Fence, PrepareUpdate, Commit, Discard, DropContributions, Enough, RunEnded to shards.
    To the observer it tells each Updated and then one RunEnded; there it waits for room.
    **Promise** Every update is made on all shards or on none, of the same contributions; under
    agreement="per_shard" each shard makes it of its own, and the coordinator records which. A permit ends in
    one ContributionOutcome, unless its worker is gone or the run ends. That may come before the worker has
    said anything, which means that it can stop, and another Permit may follow at once: a newer one replaces
    an older one. A worker that was given up hears RunEnded with Fenced, and may join again. The run ends in
    one RunEnded to everybody, in good order or with what went wrong; when no update is made for long, with
    who waits for what.
    **Fails** when a rule of ours breaks: workers and shards see its Terminated.

    Args:
        find: Gives the ref of an actor by its address, as in "worker0/worker".
        shards: The shards, in their order.
        workers: Processes that are expected to join.
        policy: Who may start, and what makes an update.
        settings: Limits and times.
        term: Higher than that of any coordinator before.
        observer: Who hears of updates and the end.
    """

    def __init__(
        self,
        find: Callable[[str], Ref],
        shards: Sequence[Ref],
        workers: Sequence[str],
        policy: Policy,
        settings: RunSettings | None = None,
        term: int = 1,
        observer: Ref | None = None,
    ) -> None:
        self._find = find
        self._shards = tuple(shards)
        self._settings = RunSettings() if settings is None else settings
        self._observer = observer
        rules = CoordinatorState if self._settings.agreement == "all" else PerShardState
        self._state = rules(policy, workers, len(self._shards), self._settings, term=term)
        self._processes: dict[str, str] = {}  # by address of their worker
        self._wake: tuple[float, Timer] | None = None

    @property
    def policy(self) -> Policy:
        """The policy for the next update: what the last one has made of itself."""
        return self._state.policy

    @property
    def state(self) -> CoordinatorState:
        """The rules and their state, for whoever looks on and changes nothing."""
        return self._state

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        state = self._state
        wished = None if state.ended is not None else state.alarm
        timer = None if self._wake is None else self._wake[0]
        state.story.check(self, {"the policy is asked when it wishes": timer == wished})

    def on_dump(self) -> tuple[str, ...]:
        """Returns the stories of the run, its rules and its commit."""
        state = self._state
        stories = {
            "run": state.story,
            "life cycle": state.lifecycle.story,
            "members": state.members.story,
            "permits": state.permits.story,
            "contributions": state.contributions.story,
            "commit": state.commitment.story,
        }
        return tuple(f"{name}: {story}" for name, story in stories.items())

    async def on_start(self) -> None:
        """Fences all shards and begins from where they stand."""
        for shard in self._shards:
            shard.watch(self.ref)
        fence = Fence(self._state.term)
        asks = [shard.ask(fence, self._settings.fence_s) for shard in self._shards]
        answers = await asyncio.gather(*asks, return_exceptions=True)
        now = self.system.now()
        standings: dict[int, ShardStatus] = {}
        for number, answer in enumerate(answers):
            if isinstance(answer, ShardStatus):
                standings[number] = answer
            elif isinstance(answer, ActorflowError):
                self._shard_lost(number, answer, now)
            elif isinstance(answer, BaseException):
                raise answer
        if len(standings) == len(self._shards):
            self._send(self._state.open(standings, now))
            self.after(self._settings.heartbeat_s, _Tick())

    def receive(self, message: Any) -> Assignment | Rejected | RunEnded | None:
        """Tells the rules what came, and sends what they say."""
        now = self.system.now()
        match message:
            case Join(process):
                return self._join(process, now)
            case RunEnded(error=error):
                self._send(self._state.stop(now, error))
            case Terminated(actor, reason):
                self._lost(actor, reason, now)
            case _Tick():
                self._send(self._state.tick(now))
                if self._state.ended is None:
                    self.after(self._settings.heartbeat_s, message)
            case _Wake():
                self._wake = None
                self._send(self._state.tick(now))
            case _ if isinstance(message, CoordinatorEvent):
                self._send(self._state.hear(message, now))
            case _:
                what = f"a coordinator takes what coord.messages says, got {type(message).__name__}"
                raise CoordinationError(what)
        return None

    def _join(self, process: str, now: float) -> Assignment | Rejected | RunEnded:
        worker = self._worker(process)  # ORDER: an address that is none changes nothing
        seat, sends = self._state.join(process, now)
        if not isinstance(seat, Assignment):
            return seat
        self._processes[worker.name] = process
        worker.watch(self.ref)
        self._send(sends)
        return seat

    def _lost(self, actor: str, reason: BaseException | None, now: float) -> None:
        process = self._processes.get(actor)
        if process is not None:
            self._send(self._state.gone(process, now))
            return
        for number, shard in enumerate(self._shards):
            if shard.name == actor:
                self._shard_lost(number, reason, now)

    def _shard_lost(self, number: int, reason: BaseException | None, now: float) -> None:
        process, of, _ = self._shards[number].name.partition("/")
        self._send(self._state.shard_lost(number, reason, now, at=process if of else None))

    def _send(self, sends: Sequence[Send]) -> None:
        for send in sends:
            match send:
                case ToShard(shard, message):
                    self._shards[shard].signal(message)
                case ToWorker(process, message):
                    self._worker(process).signal(message)
                case ToObserver(message):
                    if self._observer is not None:
                        self.tell(self._observer, message)
        self._set_timer()

    def _worker(self, process: str) -> Ref:
        return self._find(f"{process}/worker")

    def _set_timer(self) -> None:
        """Sets the timer that the policy wishes for."""
        at = None if self._state.ended is not None else self._state.alarm
        if self._wake is not None:
            if self._wake[0] == at:
                return
            self._wake[1].cancel()
            self._wake = None
        if at is not None:
            self._wake = (at, self.after(max(0.0, at - self.system.now()), _Wake()))

    def __repr__(self) -> str:
        return f"<Coordinator of {len(self._shards)} shards, {self._state.commitment!r}>"
