"""The life cycle of a run, from the gathering of its workers to its end, and the quorum that it needs.

               open       enough   too few  close    end
    starting   gathering  .        .        .        ended
    gathering  .          running  holding  closing  ended
    running    .          .        holding  closing  ended
    holding    .          running  .        closing  ended
    closing    .          .        .        .        ended
    ended      .          .        .        .        .

Nobody starts while it is gathering, or holding: workers are too few, at first or later. Closing, it commits
what is being committed, and begins nothing else. Where a shard is lost it ends at once.

Pure: it is told the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from actorflow.coord.rules.membership import Member, Membership, MemberState
from actorflow.coord.rules.policy import Policy
from actorflow.coord.rules.policy_checks import workers_needed
from actorflow.errors import ActorflowError, QuorumLost, pluralise
from actorflow.runtime.story import Story
from actorflow.runtime.validation import validates


class RunPhase(StrEnum):
    """How far a run is."""

    STARTING = "starting"
    GATHERING = "gathering"
    RUNNING = "running"
    HOLDING = "holding"
    CLOSING = "closing"
    ENDED = "ended"


class RunEvent(StrEnum):
    """What moves it from one phase to the next."""

    OPEN = "open"
    ENOUGH = "enough"
    TOO_FEW = "too few"
    CLOSE = "close"
    END = "end"


TRANSITIONS: Final[Mapping[tuple[RunPhase, RunEvent], RunPhase]] = {
    (RunPhase.STARTING, RunEvent.OPEN): RunPhase.GATHERING,
    (RunPhase.GATHERING, RunEvent.ENOUGH): RunPhase.RUNNING,
    (RunPhase.GATHERING, RunEvent.TOO_FEW): RunPhase.HOLDING,
    (RunPhase.RUNNING, RunEvent.TOO_FEW): RunPhase.HOLDING,
    (RunPhase.HOLDING, RunEvent.ENOUGH): RunPhase.RUNNING,
    **{
        (phase, RunEvent.CLOSE): RunPhase.CLOSING
        for phase in (RunPhase.GATHERING, RunPhase.RUNNING, RunPhase.HOLDING)
    },
    **{(phase, RunEvent.END): RunPhase.ENDED for phase in RunPhase if phase is not RunPhase.ENDED},
}


@validates("open", "follow", "close", "end", "fail", "stop")
class Lifecycle:
    """How far a run is, and why it will end.

    INVARIANT: it closes and ends, and never goes back.

    Attributes:
        phase: Where in the table.
        failure: What it will end with, if that is known: the first thing that went wrong.
        patient: Whether the failure may be one of the next version: what is being made is made before.
        stopping: Whether it was stopped from outside.
        story: Its last transitions.
    """

    def __init__(self) -> None:
        self.phase = RunPhase.STARTING
        self.failure: ActorflowError | None = None
        self.patient = self.stopping = False
        self.story = Story()

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        over = [event for event, *_ in self.story if event in (RunEvent.CLOSE, RunEvent.END)]
        self.story.check(
            self,
            {
                "what closes or ends goes on no more": not over or self.over,
                "patience is for a failure": self.failure is not None or not self.patient,
            },
        )

    def __repr__(self) -> str:
        return f"<Lifecycle {self.phase.value}>"

    @property
    def over(self) -> bool:
        """Whether nothing begins any more."""
        return self.phase is RunPhase.CLOSING or self.phase is RunPhase.ENDED

    @property
    def ends(self) -> bool:
        """Whether there is a reason to end."""
        return self.failure is not None or self.stopping

    def open(self) -> None:
        """Begins: where all shards stand is known."""
        self._move(RunEvent.OPEN)

    def follow(self, quorum: Quorum) -> None:
        """Goes on, or holds, as the quorum has decided."""
        if not quorum.holds:
            if self.phase is not RunPhase.RUNNING:
                self._move(RunEvent.ENOUGH)
        elif quorum.gathered and self.phase is not RunPhase.HOLDING:
            self._move(RunEvent.TOO_FEW)

    def fail(self, error: ActorflowError, *, patient: bool = False) -> None:
        """Hears what went wrong; what is heard first it ends with."""
        self.story.append(("fail", type(error).__name__))
        self.failure = self.failure or error
        self.patient = self.patient or patient

    def stop(self) -> None:
        """Hears that it is to end in good order."""
        self.story.append(("stop",))
        self.stopping = True

    def close(self) -> None:
        """Begins nothing any more."""
        if not self.over:
            self._move(RunEvent.CLOSE)

    def end(self) -> None:
        """Is over."""
        self._move(RunEvent.END)

    def _move(self, event: RunEvent) -> None:
        """Takes an event of the table."""
        after = TRANSITIONS.get((self.phase, event))
        if after is None:
            what = f"{self!r} knows no {event}"
            raise self.story.broken(what)
        self.story.append((event,))
        self.phase = after


@validates("open", "short")
class Quorum:
    """Counts the living against what the policy needs.

    INVARIANT: it holds until all were here, or were waited for long enough; later while it waits for some.

    Attributes:
        holds: Whether nothing may go on just now.
        gathered: Whether all workers were here once, or were waited for as long as is said.
        seats: How many workers the run was given.
    """

    def __init__(self, seats: int, gather_s: float) -> None:
        self.holds = True
        self.gathered = False
        self.seats = seats
        self._gather_s = gather_s
        self._since: float | None = None
        self.story = Story()

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        waits = self._since is not None
        self.story.check(
            self,
            {
                "nothing goes on before all are gathered": self.holds or self.gathered,
                "it holds exactly while it waits": not self.gathered or self.holds is waits,
            },
        )

    def open(self, now: float) -> None:
        """Begins to wait for the workers."""
        self.story.append(("open",))
        self._since = now

    def short(self, policy: Policy, members: Membership, now: float, *, more: bool) -> QuorumLost | None:
        """Decides, as `holds`, whether the run goes on; returns the error when it cannot any more.

        Args:
            policy: What it needs, and what it does with fewer.
            members: Who is alive.
            now: The time.
            more: Whether anything is left to compute; what is complete needs nobody.

        Raises:
            PolicyError: it names no number.
        """
        alive = len(members.alive)
        if not self.gathered:
            self.gathered = not members.awaited or self._waited_s(now) > self._gather_s
            if not self.gathered:
                return None
            self.story.append(("gathered", alive))
            self._since = None
        needs = 1 if policy.short == "lower" else workers_needed(policy, self.seats)
        if alive >= needs or not more:
            if self.holds:
                self.story.append(("go on", alive, needs))
            self.holds, self._since = False, None
            return None
        if not self.holds:
            self.story.append(("hold", alive, needs))
        self.holds = True
        self._since = now if self._since is None else self._since
        if policy.short != "fail" and self._waited_s(now) <= policy.wait_s:
            return None
        waited = "" if policy.short == "fail" else f" for {self._waited_s(now):.1f} s"
        missing = [_missing(member) for member in members.members if member.state is not MemberState.ALIVE]
        living = f"{alive} of {self.seats} are alive{waited}"
        what = f"{policy} needs {pluralise(needs, 'worker')}, {living}: {', '.join(missing)}"
        return QuorumLost(what, hint=_HINT)

    def _waited_s(self, now: float) -> float:
        return 0.0 if self._since is None else now - self._since


_HINT = (
    "short='lower' goes on with fewer, 'wait' gives them wait_s to return; as a text: "
    "--policy sync,short=wait,wait_s=30"
)


def _missing(member: Member) -> str:
    why = f" ({member.why})" if member.state is MemberState.DEAD and member.why else ""
    return f"{member.process} {member.state.value}{why}"
