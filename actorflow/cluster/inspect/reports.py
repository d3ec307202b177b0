"""The reports of a process on itself to whoever looks on: records that travel, and that JSON can show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from actorflow.actors.dump import ActorEntry, PeerEntry, WaitEntry
from actorflow.actors.tombstones import Tombstone
from actorflow.transport.codec.registry import travels


@travels("cluster.look")
@dataclass(frozen=True, slots=True)
class LookQuestion:
    """Whoever looks on → process: what do you do? Answered with a ProcessReport.

    Attributes:
        actors: Whether actors, waits, peers and links are told one by one; else only in totals.
    """

    actors: bool = True


@travels("cluster.loop_entry")
@dataclass(frozen=True, slots=True)
class LoopEntry:
    """The event loop of a process.

    Attributes:
        answers: Whether it answered the question itself; else this was read from beside it.
        late_s: How late its last turn came; while it is held up, for how long it has been.
        worst_s: The most that it was late in the last ten seconds or so.
        ready: Turns of actors that stand in its ring.
        doing: Whose turn it is, while it is held up.
        stack: Where its thread is then, the innermost call last.
    """

    answers: bool
    late_s: float
    worst_s: float
    ready: int
    doing: str = ""
    stack: tuple[str, ...] = ()


@travels("cluster.totals")
@dataclass(frozen=True, slots=True)
class Totals:
    """Counts since the process started, but for the last five, which are of now.

    Attributes:
        turns: Messages that its actors have handled, and turns of nodes.
        asks: Questions of its actors.
        dead_letters: Messages that reached nobody.
        sent, received: Envelopes, of all links.
        bytes_out, bytes_in: Of all sockets; 0 where nobody counts them.
        resent: Chunks that were sent again.
        open_asks: Questions that have not ended.
        in_line: Envelopes that wait for credit or for a session.
        mailbox, mailbox_limit: Messages in the mailbox that is fullest, and how many it may hold.
        fullest: Whose that is.
    """

    turns: int = 0
    asks: int = 0
    dead_letters: int = 0
    sent: int = 0
    received: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    resent: int = 0
    open_asks: int = 0
    in_line: int = 0
    mailbox: int = 0
    mailbox_limit: int = 0
    fullest: str = ""


@travels("cluster.link_entry")
@dataclass(frozen=True, slots=True)
class LinkEntry:
    """The link to one other process; see `transport.rules.link_stats.LinkStats`.

    Attributes:
        contact: Whether the process at the other end answers below the link: unknown, connected or broken.
        credit: Messages that may be sent now.
        unacknowledged: Envelopes that were sent, or stand in line, and are not acknowledged.
    """

    peer: str
    phase: str
    contact: str
    sessions: int
    sent: int
    received: int
    in_line: int
    credit: int
    unacknowledged: int
    resent: int
    refused: int
    malformed: int


@travels("cluster.shard_entry")
@dataclass(frozen=True, slots=True)
class ShardEntry:
    """The shard of a process.

    Attributes:
        phase: How far its next update is: idle, preparing, ready, failed or committing.
        version: Updates applied.
        open: Ranks whose contribution is kept and not used yet.
        waiting: Pulls that wait for a version which is not here yet.
        refused: Contributions that were refused, by reason.
        staleness: The mean of those that updates were made of, and the greatest.
    """

    shard: int
    phase: str
    version: int
    open: tuple[int, ...]
    waiting: int
    refused: Mapping[str, int]
    staleness: tuple[float, int]


@travels("cluster.worker_entry")
@dataclass(frozen=True, slots=True)
class WorkerEntry:
    """The worker of a process.

    Attributes:
        number: The permit under which it computes; 0 while it is idle.
        computed: Contributions that all shards kept.
        accepted: How many of them it heard to be part of an update.
        missed: Permits that came to nothing.
        over: Whether it has ended.
        waits: For which batch of what it waits; empty while it does something else.
        waits_s: For how long it has.
    """

    number: int
    computed: int
    accepted: int
    missed: int
    over: bool
    waits: str = ""
    waits_s: float = 0.0


@travels("cluster.seat_entry")
@dataclass(frozen=True, slots=True)
class MemberEntry:
    """A member as the coordinator knows it.

    Attributes:
        state: awaited, alive, dead or left.
        heard_s: How long ago it was heard; 0 while it is not alive.
        number: The permit that it has out; 0 without one.
        busy_s: For how long it has had that.
        complete: Whether a contribution of it waits for the next update.
        why: Why it was given up, while it is dead.
        waits: For which batch of what it says that it waits, under that permit.
    """

    process: str
    rank: int
    incarnation: int
    state: str
    heard_s: float
    number: int
    busy_s: float
    complete: bool
    why: str
    waits: str = ""


@travels("cluster.run_entry")
@dataclass(frozen=True, slots=True)
class RunEntry:
    """The run that a coordinator conducts.

    Attributes:
        actor: The coordinator, as its process calls it.
        term: Its term: another run has another.
        phase: How far the next update is: idle, staging or committing; gathering before the first; over.
        missing: Processes of shards that have not answered, while an update is made.
        waits: For whom, or what, the next update waits, in words.
        heartbeat_s: How often workers send heartbeats.
        members: By rank.
    """

    actor: str
    term: int
    version: int
    policy: str
    phase: str
    missing: tuple[int, ...]
    waits: str
    heartbeat_s: float
    members: tuple[MemberEntry, ...]


@travels("cluster.report")
@dataclass(frozen=True, slots=True)
class ProcessReport:
    """A process at one moment.

    Attributes:
        up_s: How long it has been there.
        at_s: When this was told, by the clock of the process.
        unread: What could not be read, with why; only of a process whose loop is held up.
        dead: Its last actors that died, in this order.
    """

    name: str
    incarnation: int
    pid: int
    up_s: float
    at_s: float
    loop: LoopEntry
    totals: Totals
    actors: tuple[ActorEntry, ...] = ()
    waits: tuple[WaitEntry, ...] = ()
    peers: tuple[PeerEntry, ...] = ()
    links: tuple[LinkEntry, ...] = ()
    shard: ShardEntry | None = None
    worker: WorkerEntry | None = None
    run: RunEntry | None = None
    unread: tuple[str, ...] = ()
    dead: tuple[Tombstone, ...] = ()
