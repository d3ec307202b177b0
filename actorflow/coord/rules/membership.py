"""The members of a run: ranks, incarnations and heartbeats. A rule without a clock: it is told the time.

             join   leave  give up
    awaited  alive  .      .
    alive    alive  left   dead
    dead     alive  .      .
    left     alive  .      .

A rank is a place, kept for the run; an incarnation counts how often its process has joined. The processes
that a run was given have the ranks of their order, whoever joins first; others get the next.

INVARIANT: of each rank at most the newest incarnation is alive.

A member that does not reach a shard rests before it may join again, each time longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from actorflow.runtime.story import Story
from actorflow.runtime.validation import validates


class MemberState(StrEnum):
    """Where a rank is: not yet here, alive, gone without a word, or gone in good order."""

    AWAITED = "awaited"
    ALIVE = "alive"
    DEAD = "dead"
    LEFT = "left"


class MemberEvent(StrEnum):
    """What moves a rank from one state to the next."""

    JOIN = "join"
    LEAVE = "leave"
    GIVE_UP = "give up"


TRANSITIONS: Final[Mapping[tuple[MemberState, MemberEvent], MemberState]] = {
    (MemberState.AWAITED, MemberEvent.JOIN): MemberState.ALIVE,
    (MemberState.ALIVE, MemberEvent.JOIN): MemberState.ALIVE,  # its process has begun anew, unheard
    (MemberState.DEAD, MemberEvent.JOIN): MemberState.ALIVE,
    (MemberState.LEFT, MemberEvent.JOIN): MemberState.ALIVE,
    (MemberState.ALIVE, MemberEvent.LEAVE): MemberState.LEFT,
    (MemberState.ALIVE, MemberEvent.GIVE_UP): MemberState.DEAD,
}


@dataclass(slots=True)
class Member:
    """One rank as the coordinator knows it.

    Attributes:
        process: Who has it.
        incarnation: How often it has joined.
        last_heard_s: When it was heard last, while it is alive.
        number: The permit it says it works on; 0 when it is idle.
        waits: For which input it says that it waits, under that permit; empty when it does not.
        why: Why it was given up the latest time.
    """

    process: str
    incarnation: int = 0
    state: MemberState = MemberState.AWAITED
    last_heard_s: float = 0.0
    number: int = 0
    why: str = ""
    waits: str = ""


class Pulse(Enum):
    """What a heartbeat is worth: alive; from one given up, who must be told; or from an old one."""

    ALIVE = "alive"
    FENCED = "fenced"
    OLD = "old"


@validates("join", "heartbeat", "leave", "die", "excuse")
class Membership:
    """Ranks by process, and which are alive.

    INVARIANT: a process has one rank, and a rank one process.
    INVARIANT: who was never here has no incarnation, everybody else has.

    Args:
        processes: Those that are expected.
        heartbeat_s: How often the living send heartbeats.
        missed: Heartbeats in a row that may be missed.
    """

    def __init__(self, processes: Sequence[str], *, heartbeat_s: float, missed: int) -> None:
        self.members = [Member(process) for process in processes]
        self.limit_s = heartbeat_s * missed
        self._alive: tuple[int, ...] | None = None  # until somebody comes or goes
        self._ranks = {process: rank for rank, process in enumerate(processes)}
        self.story = Story()

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        members = self.members
        living = tuple(r for r, m in enumerate(members) if m.state is MemberState.ALIVE)
        self.story.check(
            self,
            {
                "a process has one rank": self._ranks == {m.process: r for r, m in enumerate(members)},
                "who was never here has no incarnation, all others have": all(
                    (m.incarnation == 0) is (m.state is MemberState.AWAITED) for m in members
                ),
                "the living are known": self._alive is None or self._alive == living,
            },
        )

    @property
    def alive(self) -> tuple[int, ...]:
        """Ranks of the living, ascending."""
        if self._alive is None:
            self._alive = tuple(r for r, m in enumerate(self.members) if m.state is MemberState.ALIVE)
        return self._alive

    @property
    def awaited(self) -> tuple[int, ...]:
        """Ranks that were never here."""
        return tuple(r for r, member in enumerate(self.members) if member.state is MemberState.AWAITED)

    def rank(self, process: str) -> int | None:
        """Returns the rank of `process`; None when it has none."""
        return self._ranks.get(process)

    def is_alive(self, rank: int, incarnation: int) -> bool:
        """Whether that incarnation of that rank is alive."""
        known = 0 <= rank < len(self.members)
        return (
            known
            and self.members[rank].incarnation == incarnation
            and self.members[rank].state is MemberState.ALIVE
        )

    def join(self, process: str, now: float) -> tuple[int, int]:
        """Returns rank and incarnation of `process` from now on; what it was before is over."""
        rank = self._ranks.setdefault(process, len(self.members))
        if rank == len(self.members):
            self.members.append(Member(process))
        member = self.members[rank]
        member.incarnation += 1
        if member.state is MemberState.ALIVE:
            member.why = "it has begun anew"
        self._move(rank, MemberEvent.JOIN)
        member.last_heard_s, member.number, member.waits = now, 0, ""
        return rank, member.incarnation

    def heartbeat(self, rank: int, incarnation: int, number: int, now: float, waits: str = "") -> Pulse:
        """Hears that an incarnation of a rank is alive, by its own word."""
        if not 0 <= rank < len(self.members) or incarnation < self.members[rank].incarnation:
            return Pulse.OLD
        member = self.members[rank]
        if incarnation > member.incarnation:  # an earlier coordinator seated it
            return Pulse.FENCED
        if member.state is not MemberState.ALIVE:
            return Pulse.OLD if member.state is MemberState.LEFT else Pulse.FENCED
        member.last_heard_s, member.number, member.waits = now, number, waits
        return Pulse.ALIVE

    def leave(self, rank: int, incarnation: int) -> bool:
        """Hears that an incarnation of a rank goes in good order; returns whether it was alive."""
        return self._end(rank, incarnation, MemberEvent.LEAVE)

    def die(self, rank: int, incarnation: int, why: str = "") -> bool:
        """Gives an incarnation of a rank up; returns whether it was alive."""
        ended = self._end(rank, incarnation, MemberEvent.GIVE_UP)
        if ended:
            self.members[rank].why = why
        return ended

    def _end(self, rank: int, incarnation: int, event: MemberEvent) -> bool:
        if not self.is_alive(rank, incarnation):
            return False
        self._move(rank, event)
        return True

    def _move(self, rank: int, event: MemberEvent) -> None:
        """Takes an event of the table."""
        member = self.members[rank]
        after = TRANSITIONS.get((member.state, event))
        if after is None:
            what = f"{self!r} knows no {event} of rank {rank}"
            raise self.story.broken(what)
        self.story.append((event, member.process, rank, member.incarnation))
        member.state = after
        self._alive = None

    def silent(self, now: float) -> tuple[int, ...]:
        """Returns the living that have missed too many heartbeats."""
        return tuple(r for r in self.alive if now - self.members[r].last_heard_s > self.limit_s)

    def excuse(self, now: float) -> None:
        """Takes the living as heard now: nobody was listening."""
        for rank in self.alive:
            self.members[rank].last_heard_s = now

    def __repr__(self) -> str:
        return f"<Membership {', '.join(f'{m.process} {m.state.value}' for m in self.members)}>"


@dataclass(slots=True)
class _Unreached:
    """How often a rank has complained in a row, until when it rests, and what it said last."""

    count: int
    until: float
    why: str


@validates("complain", "restore", "nobody", "excuse")
class Reachability:
    """What is known of workers that do not reach a shard.

    INVARIANT: time runs against the run only while some do not.

    Args:
        heartbeat_s: How long the first rest is.
        longest_s: The longest rest; and how long the run bears that nobody is left who reaches all shards.
    """

    def __init__(self, heartbeat_s: float, longest_s: float) -> None:
        self._heartbeat_s = heartbeat_s
        self._longest_s = longest_s
        self._unreached: dict[int, _Unreached] = {}
        self._since: float | None = None  # nobody is alive who is not cut
        self.story = Story()

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        cut = self._unreached.values()
        self.story.check(
            self,
            {
                "who does not reach a shard has said so": all(each.count >= 1 for each in cut),
                "time runs only while some do not reach a shard": self._since is None or bool(cut),
            },
        )

    def complain(self, rank: int, why: str, now: float) -> None:
        """Hears that a rank did not reach a shard; it rests from now on."""
        before = self._unreached.get(rank)
        count = 1 if before is None else before.count + 1
        rest_s = min(self._heartbeat_s * 2.0 ** min(count - 1, 60), self._longest_s)
        self.story.append(("complain", rank, count))
        self._unreached[rank] = _Unreached(count, now + rest_s, why)

    def restore(self, rank: int) -> None:
        """Hears that a rank reaches all shards, or is another process from now on."""
        if self._unreached.pop(rank, None) is not None:
            self.story.append(("restore", rank))
        if not self._unreached:
            self._since = None

    @property
    def unreachable(self) -> tuple[int, ...]:
        """Ranks that have complained since their last contribution, ascending."""
        return tuple(sorted(self._unreached))

    def is_resting(self, rank: int | None, now: float) -> float:
        """Returns how long a rank has yet to rest; 0 for one that does not."""
        cut = None if rank is None else self._unreached.get(rank)
        return 0.0 if cut is None else max(0.0, cut.until - now)

    def nobody(self, alive: Iterable[int], now: float) -> str | None:
        """Returns what one of them said last, once for too long nobody alive has reached all shards."""
        if not self._unreached or any(rank not in self._unreached for rank in alive):
            self._since = None
            return None
        self._since = now if self._since is None else self._since
        if now - self._since <= self._longest_s:
            return None
        return self._unreached[min(self._unreached)].why

    def excuse(self, away_s: float) -> None:
        """Takes so much time as not passed: nobody was listening."""
        if self._since is not None:
            self._since += away_s

    def __repr__(self) -> str:
        return f"<Reachability: {sorted(self._unreached)} are cut off from a shard>"
