"""The state of a running system as data and as text: who is where, and who waits for whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from actorflow.actors.ask import Accounts, Ask, HoldingReplySink
from actorflow.actors.outbox import WaitingMessage
from actorflow.actors.tombstones import Tombstone
from actorflow.errors import pluralise
from actorflow.transport.codec.registry import travels

if TYPE_CHECKING:
    from actorflow.actors.cell import Cell
    from actorflow.actors.dead_letters import DeadLetters
    from actorflow.actors.timer_wheel import TimerWheel
    from actorflow.actors.tombstones import Tombstones
    from actorflow.runtime.clock import Clock

OUTSIDE = "(outside)"
"""Stands for a task that is no actor's."""


@travels("actors.dump.actor")
@dataclass(frozen=True, slots=True)
class ActorEntry:
    """One actor. `state` is idle, ready, running, suspended, blocked (by its outbox) or a phase of life.

    `told` is what the actor says of itself: see `Actor.on_dump`.
    """

    name: str
    state: str
    incarnation: int
    messages: int
    max_messages: int
    peak_messages: int
    nbytes: int
    max_bytes: int
    peak_bytes: int
    waiting: int
    told: tuple[str, ...] = ()

    def __str__(self) -> str:
        line = f", {self.waiting} wait for room" if self.waiting else ""
        life = f", incarnation {self.incarnation}" if self.incarnation > 1 else ""
        return (
            f"{self.name}: {self.state}, "
            f"{self.messages}/{self.max_messages} messages (peak {self.peak_messages}), "
            f"{self.nbytes}/{self.max_bytes} bytes (peak {self.peak_bytes}){line}{life}"
        )


@travels("actors.dump.wait")
@dataclass(frozen=True, slots=True)
class WaitEntry:
    """One edge of the wait-for graph. `kind` is ask, room or credit; `message` is a type's name."""

    waiter: str
    awaited: str
    kind: str
    message: str
    age_s: float

    def __str__(self) -> str:
        what = "an answer to" if self.kind == "ask" else f"{self.kind} for"
        return f"{self.waiter} -> {self.awaited}: {what} {self.message}, for {self.age_s:.3g} s"


@travels("actors.dump.peer")
@dataclass(frozen=True, slots=True)
class PeerEntry:
    """One other process.

    Attributes:
        name: That of the process.
        up: Whether it is there, as far as is known.
        asks: Questions to it that have not ended.
        waiting: Messages and questions to it that wait for credit.
        serving: Questions of it that have not ended here.
        watched: Its actors that somebody here watches.
        why: Why it was lost, and how long ago; empty while it is up.
        story: What the link to it went through last; empty where it keeps no story.
        cancelled_early: Questions of it whose cancellation came before them.
        large: Large answers to it that wait, since `large_bytes` of others are on their way.
    """

    name: str
    up: bool
    asks: int
    waiting: int
    serving: int
    watched: int
    why: str = ""
    story: str = ""
    cancelled_early: int = 0
    large: int = 0
    large_bytes: int = 0

    def __str__(self) -> str:
        asks, asked = pluralise(self.asks, "open ask"), pluralise(self.serving, "ask")
        state = "up" if self.up else "lost" + (f" ({self.why})" if self.why else "")
        large = (
            f", {pluralise(self.large, 'large answer')} waiting for it to take others" if self.large else ""
        )
        return (
            f"process {self.name}: {state}, {asks} to it, {self.waiting} waiting for credit, "
            f"{asked} of its served here, {pluralise(self.watched, 'actor')} watched{large}"
        )


class Outside(Protocol):
    """What connects the system with others."""

    def peers_now(self) -> Sequence[PeerEntry]:
        """Returns the other processes."""
        ...

    def waits_now(self) -> Sequence[Any]:
        """Returns the messages, and asks, that stand in line for credit."""
        ...


class DumpedSystem(Protocol):
    """What is read of an actor system."""

    name: str
    clock: Clock
    timer_wheel: TimerWheel
    accounts: Accounts
    dead_letters: DeadLetters
    tombstones: Tombstones
    outside: Outside | None

    @property
    def actors(self) -> Mapping[str, Cell]:
        """Its actors by name."""
        ...


@dataclass(frozen=True, slots=True)
class Dump:
    """A system at one moment.

    Attributes:
        dead: The last actors that died, in this order: 64 that failed and 64 that were asked to stop.
        at_s: The moment, by the clock of the system.
    """

    system: str
    actors: tuple[ActorEntry, ...]
    waits: tuple[WaitEntry, ...]
    asks: str
    dead_letters: int
    peers: tuple[PeerEntry, ...] = ()
    dead: tuple[Tombstone, ...] = ()
    at_s: float = 0.0

    def __str__(self) -> str:
        counts = [
            pluralise(len(self.actors), "actor"),
            pluralise(len(self.waits), "wait"),
            pluralise(self.dead_letters, "dead letter"),
        ]
        lines = [f"{self.system}: {', '.join(counts)}"]
        for actor in self.actors:
            lines += [f"  {actor}", *(f"    {line}" for line in actor.told)]
        for peer in self.peers:
            lines += [f"  {peer}", *([f"    link: {peer.story}"] if peer.story else ())]
        lines += [f"  {wait}" for wait in self.waits]
        lines += [f"  {stone}" for stone in describe_dead(self.dead, self.at_s)]
        return "\n".join([*lines, f"  asks: {self.asks}"])


_STOPPED = 8
"""Of those that were asked to stop, how many of the last a text names."""


def describe_dead(dead: Sequence[Tombstone], now: float) -> list[str]:
    """Returns a line for each of the dead that failed, and for the last of those that were asked to stop."""
    # The last ones are the news: of those that were asked to stop the first are left out.
    skipped = left_out = max(0, sum(not stone.error for stone in dead) - _STOPPED)
    lines = []
    for stone in dead:
        # One that failed is always named.
        if skipped and not stone.error:
            skipped -= 1
            continue
        lines.append(f"{stone.name}: {stone.describe(now)}")
    if left_out:
        lines.append(f"and {left_out} that were stopped before the last {_STOPPED} of these")
    return lines


def take(system: DumpedSystem) -> Dump:
    """Returns the state of `system`; changes nothing."""
    cells = tuple(system.actors.values())
    now = system.clock.now()
    # The wheel holds every open ask, wherever it stands.
    asks = [
        _wait(edge, now) for edge in system.timer_wheel.entries() if isinstance(edge, Ask) and not edge.void
    ]
    rooms = [
        _wait(edge, now)
        for cell in cells
        for edge in tuple(cell.waiters)
        # asks in line are among those above
        if not isinstance(edge, Ask) and not edge.void
    ]
    outside = system.outside
    credit = (
        ()
        if outside is None
        else [
            _wait(edge, now, "credit")
            for edge in outside.waits_now()
            if not isinstance(edge, Ask) and not edge.void
        ]
    )
    return Dump(
        system.name,
        tuple(_actor(cell) for cell in cells),
        tuple(sorted((*asks, *rooms, *credit), key=lambda wait: -wait.age_s)),
        repr(system.accounts),
        system.dead_letters.count,
        () if outside is None else tuple(outside.peers_now()),
        system.tombstones.all(),
        now,
    )


def _actor(cell: Cell) -> ActorEntry:
    return ActorEntry(
        cell.name,
        cell.state(),
        cell.incarnation,
        len(cell.data),
        cell.max_messages,
        # A message that entered below `mark` has not been counted as a peak.
        max(cell.peak, len(cell.data)),
        cell.bytes,
        cell.max_bytes,
        cell.peak_bytes,
        len(cell.waiters),
        () if cell.behaviour is None else tuple(cell.behaviour.on_dump()),
    )


def _wait(edge: Any, now: float, kind: str = "room") -> WaitEntry:
    waiter = edge.sender if isinstance(edge, WaitingMessage) else edge.waiter
    # a run of a re-entrant actor: named after the actor
    if type(waiter) is tuple:
        waiter = waiter[0]
    # Asked from another process: its name is that of who holds credit for it.
    if waiter is None and isinstance(edge, Ask) and isinstance(edge.future, HoldingReplySink):
        waiter = edge.future
    name = OUTSIDE if waiter is None else getattr(waiter, "name", type(waiter).__name__)
    return WaitEntry(
        name, edge.target.name, "ask" if edge.asks else kind, type(edge.message).__name__, now - edge.since
    )
