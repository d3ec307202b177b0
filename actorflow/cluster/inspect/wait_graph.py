"""The wait-for graph over all processes of a cluster, made of what each tells of itself.

Names are `process/actor`; a process alone stands for somebody in it who is no actor, or for its link. Edges:

ask         for an answer; of another process's actor too
room        for room in a mailbox
credit      for credit of a link; `line` where envelopes stand in its line
permit      coordinator → worker: for the contribution under a permit, while no update is being made
update      worker → coordinator: for the update that will have its contribution, or for the next permit
shard       coordinator → shard: for its word in the commit of an update
input       worker → its input: for a batch
version     shard → coordinator: pulls wait for a version that is not here, and the shard has done what it can

Processes are not looked at in one moment, so an edge may be over when another begins. A ring of edges that
are old is a deadlock, or a wait that a deadline will end; a young one may be none.

Pure: reports go in, edges come out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from actorflow.actors.dump import OUTSIDE, WaitEntry
from actorflow.cluster.inspect.reports import MemberEntry, ProcessReport, RunEntry
from actorflow.cluster.process.messages import SHARD, WORKER


@dataclass(frozen=True, slots=True)
class ReportedWait:
    """One wait.

    Attributes:
        waiter, awaited: `process/actor`, or a process.
        kind: As above.
        what: What it waits for, in words.
        age_s: Since when; 0 where nobody knows.
    """

    waiter: str
    awaited: str
    kind: str
    what: str
    age_s: float = 0.0

    def __str__(self) -> str:
        age = f", for {self.age_s:.3g} s" if self.age_s else ""
        return f"{self.waiter} -> {self.awaited}: {self.what}{age}"


def edges(reports: Mapping[str, ProcessReport], shards: Sequence[str] = ()) -> tuple[ReportedWait, ...]:
    """Returns all waits, the oldest first.

    Args:
        reports: By process, of those that have answered.
        shards: The processes that have parameters, by the number of their shard; by default as they tell.
    """
    shards = shards or _shards(reports)
    chief = next(((name, r.run) for name, r in sorted(reports.items()) if r.run is not None), None)
    found: list[ReportedWait] = []
    for name, report in sorted(reports.items()):
        found += _waits(name, report, reports)
        found += _lines(name, report)
        if report.worker is not None and report.worker.waits:
            worker = report.worker
            found.append(
                ReportedWait(f"{name}/{WORKER}", f"{name}/input", "input", worker.waits, worker.waits_s)
            )
        shard = report.shard
        if chief is not None and shard is not None and shard.waiting and shard.shard not in chief[1].missing:
            what = f"a version beyond {shard.version}"
            found.append(ReportedWait(f"{name}/{SHARD}", f"{chief[0]}/{chief[1].actor}", "version", what))
    if chief is not None:
        found += _run(f"{chief[0]}/{chief[1].actor}", chief[1], shards)
    return tuple(sorted(found, key=lambda edge: (-edge.age_s, edge.waiter, edge.awaited)))


def _shards(reports: Mapping[str, ProcessReport]) -> tuple[str, ...]:
    found = {r.shard.shard: name for name, r in sorted(reports.items()) if r.shard is not None}
    return tuple(found.get(k, f"shard {k}") for k in range(max(found, default=-1) + 1))


def _waits(name: str, report: ProcessReport, reports: Mapping[str, ProcessReport]) -> Iterator[ReportedWait]:
    """The waits of actors. One of another process that has answered tells of it itself."""
    peers = {peer.name for peer in report.peers}
    for wait in report.waits:
        if wait.waiter in peers:
            if wait.waiter not in reports:
                yield ReportedWait(wait.waiter, f"{name}/{wait.awaited}", wait.kind, _what(wait), wait.age_s)
            continue
        waiter = name if wait.waiter == OUTSIDE else f"{name}/{wait.waiter}"
        abroad = wait.awaited.partition("/")[0] in peers
        awaited = wait.awaited if abroad else f"{name}/{wait.awaited}"
        yield ReportedWait(waiter, awaited, wait.kind, _what(wait), wait.age_s)


def _what(wait: WaitEntry) -> str:
    verb = "an answer to" if wait.kind == "ask" else f"{wait.kind} for"
    return f"{verb} {wait.message}"


def _lines(name: str, report: ProcessReport) -> Iterator[ReportedWait]:
    for link in report.links:
        if link.in_line:
            why = "credit" if link.phase == "open" else f"a session, {link.phase}"
            yield ReportedWait(name, link.peer, "line", f"{link.in_line} in line for {why}")


def _run(actor: str, run: RunEntry, shards: Sequence[str]) -> Iterator[ReportedWait]:
    if run.phase == "over":
        return
    for shard in run.missing:
        process = shards[shard] if shard < len(shards) else f"shard {shard}"
        yield ReportedWait(
            actor, f"{process}/{SHARD}", "shard", f"its word, {run.phase} version {run.version + 1}"
        )
    for member in run.members:
        yield from _member(actor, run, member)


def _member(actor: str, run: RunEntry, member: MemberEntry) -> Iterator[ReportedWait]:
    worker = f"{member.process}/{WORKER}"
    if member.number and run.missing:
        pass  # the contribution may be one to the next update: it has to wait for this one, as all do
    elif member.number:
        what = f"the contribution of permit {member.number}"
        yield ReportedWait(actor, worker, "permit", what, member.busy_s)
    elif member.complete:
        yield ReportedWait(worker, actor, "update", f"the update after version {run.version}")
    elif member.state == "alive":
        yield ReportedWait(worker, actor, "update", "its next permit")
    elif run.phase == "gathering":
        yield ReportedWait(actor, member.process, "permit", f"its worker, {member.state}")


def rings(found: Iterable[ReportedWait]) -> tuple[tuple[str, ...], ...]:
    """Returns the rings of the graph: groups of names that all wait for each other, in order of names.

    Strongly connected parts, by Tarjan's algorithm (SIAM J. Computing 1, 1972), without recursion.
    """
    after: dict[str, list[str]] = {}
    for edge in found:
        after.setdefault(edge.waiter, []).append(edge.awaited)
        after.setdefault(edge.awaited, [])
    return tuple(
        sorted(tuple(sorted(part)) for part in _strong(after) if len(part) > 1 or part[0] in after[part[0]])
    )


def _strong(after: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    order: dict[str, int] = {}
    least: dict[str, int] = {}
    stack: list[str] = []
    on: set[str] = set()
    for root in after:
        if root in order:
            continue
        work: list[tuple[str, Iterator[str]]] = []
        _enter(root, order, least, stack, on, work, after)
        while work:
            name, rest = work[-1]
            for other in rest:
                if other not in order:
                    _enter(other, order, least, stack, on, work, after)
                    break
                if other in on:
                    least[name] = min(least[name], order[other])
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    least[above] = min(least[above], least[name])
                if least[name] == order[name]:
                    part = stack[stack.index(name) :]
                    del stack[stack.index(name) :]
                    on.difference_update(part)
                    yield part


def _enter(
    name: str,
    order: dict[str, int],
    least: dict[str, int],
    stack: list[str],
    on: set[str],
    work: list[tuple[str, Iterator[str]]],
    after: Mapping[str, Sequence[str]],
) -> None:
    order[name] = least[name] = len(order)
    stack.append(name)
    on.add(name)
    work.append((name, iter(after[name])))
