"""Snapshots of what the actors of a process do: plain looks that change nothing and send nothing.

Each is for the thread of the event loop. From beside it a look may meet a structure that changes under it,
and raise RuntimeError: whoever looks from there looks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actorflow.cluster.inspect.reports import (
    LinkEntry,
    MemberEntry,
    RunEntry,
    ShardEntry,
    Totals,
    WorkerEntry,
)
from actorflow.cluster.process.messages import COORDINATOR, SHARD, WORKER
from actorflow.coord.actors.coordinator import Coordinator
from actorflow.coord.actors.shard import ShardActor
from actorflow.coord.actors.worker import Worker
from actorflow.coord.rules.commit import CommitPhase
from actorflow.coord.rules.membership import MemberState
from actorflow.coord.rules.run_health import describe_work
from actorflow.transport.links.link import Link

if TYPE_CHECKING:
    from actorflow.actors.remote.hub import RemoteHub
    from actorflow.actors.system import ActorSystem
    from actorflow.coord.rules.coordinator_state import CoordinatorState


def run_now(system: ActorSystem) -> RunEntry | None:
    """Returns the run that the newest coordinator here conducts; None where there is none."""
    found = [
        (cell.name, decides)
        for cell in tuple(system.actors.values())
        if cell.name.startswith(COORDINATOR) and isinstance(decides := cell.behaviour, Coordinator)
    ]
    if not found:
        return None
    name, coordinator = max(found, key=lambda each: each[1].state.term)
    return _run(name, coordinator.state, system.now())


def _run(name: str, state: CoordinatorState, now: float) -> RunEntry:
    phase = state.commitment.phase.value
    if state.ended is not None:
        phase = "over"
    elif state.quorum.holds:
        phase = "gathering"
    missing = state.commitment.missing if state.commitment.phase is not CommitPhase.IDLE else ()
    return RunEntry(
        actor=name,
        term=state.term,
        version=state.version,
        policy=str(state.policy),
        phase=phase,
        missing=tuple(sorted(missing)),
        waits="" if phase in ("over", "gathering") else describe_work(state, now),
        heartbeat_s=state.settings.heartbeat_s,
        members=members(state, now),
    )


def members(state: CoordinatorState, now: float) -> tuple[MemberEntry, ...]:
    """Returns who takes part in a run, by rank."""
    out, complete = dict(state.permits.out), dict(state.contributions.complete)
    entries = []
    for rank, member in enumerate(tuple(state.members.members)):
        lease = out.get(rank)
        entries.append(
            MemberEntry(
                process=member.process,
                rank=rank,
                incarnation=member.incarnation,
                state=member.state.value,
                heard_s=now - member.last_heard_s if member.state is MemberState.ALIVE else 0.0,
                number=0 if lease is None else lease.number,
                busy_s=0.0 if lease is None else now - lease.since,
                complete=rank in complete,
                why=member.why if member.state is MemberState.DEAD else "",
                waits=member.waits if lease is not None and member.number == lease.number else "",
            )
        )
    return tuple(entries)


def _behaviour(system: ActorSystem, name: str) -> Any:
    cell = system.actors.get(name)
    return None if cell is None else cell.behaviour


def shard_now(system: ActorSystem) -> ShardEntry | None:
    """Returns the shard of this process; None where there is none."""
    shard = _behaviour(system, SHARD)
    if not isinstance(shard, ShardActor):
        return None
    return ShardEntry(
        shard=shard.shard,
        phase=shard.participant.phase.value,
        version=shard.version,
        open=tuple(sorted(shard.contributions.open)),
        waiting=shard.pulls,
        refused=dict(sorted((reason.value, n) for reason, n in shard.contributions.refused.items())),
        staleness=(shard.staleness.mean, shard.staleness.largest),
    )


def worker_now(system: ActorSystem) -> WorkerEntry | None:
    """Returns the worker of this process; None where there is none."""
    worker = _behaviour(system, WORKER)
    if not isinstance(worker, Worker):
        return None
    done = worker.so_far
    waits = worker.waits
    what, waits_s = ("", 0.0) if waits is None else (waits.what, system.now() - waits.since)
    return WorkerEntry(worker.number, done.computed, done.accepted, done.missed, worker.over, what, waits_s)


def links_now(hub: RemoteHub) -> tuple[LinkEntry, ...]:
    """Returns the links of this process, by the name of the other end; other channels are left out."""
    return tuple(_link(link) for link in hub.channels().values() if isinstance(link, Link))


def _link(link: Link) -> LinkEntry:
    stats = link.stats()
    return LinkEntry(
        peer=link.peer,
        phase=stats.phase,
        contact=link.contact.value,
        sessions=stats.sessions,
        sent=stats.sent,
        received=stats.received,
        in_line=stats.in_line,
        credit=stats.credit.messages,
        unacknowledged=stats.unacknowledged,
        resent=stats.resent,
        refused=stats.refused,
        malformed=stats.malformed,
    )


def totals_now(system: ActorSystem, links: tuple[LinkEntry, ...], moved: tuple[int, int] = (0, 0)) -> Totals:
    """Returns the counts of this process.

    Args:
        system: Its actors.
        links: Its links.
        moved: Bytes that left it and that came.
    """
    cells = tuple(system.actors.values())
    fullest = max(cells, key=lambda cell: len(cell.data) / cell.max_messages, default=None)
    return Totals(
        turns=system.dispatch.turns,
        asks=system.accounts.issued,
        dead_letters=system.dead_letters.count,
        sent=sum(link.sent for link in links),
        received=sum(link.received for link in links),
        bytes_out=moved[0],
        bytes_in=moved[1],
        resent=sum(link.resent for link in links),
        open_asks=system.accounts.open,
        in_line=sum(link.in_line for link in links),
        mailbox=0 if fullest is None else len(fullest.data),
        mailbox_limit=0 if fullest is None else fullest.max_messages,
        fullest="" if fullest is None else fullest.name,
    )
