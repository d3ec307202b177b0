"""`actorflow dump`: what every process of a running cluster does, and who waits for whom."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from actorflow.cli.display.text_table import columns
from actorflow.cli.running_cluster import ObservedCluster, Request, add_arguments, list_all
from actorflow.cluster.inspect.poll_all import PollResult, poll_all
from actorflow.cluster.inspect.reports import LookQuestion, ProcessReport
from actorflow.cluster.inspect.wait_graph import ReportedWait, edges, rings

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_to(commands: Commands) -> None:
    """Adds the command and its arguments."""
    about = "Asks every process of a running cluster what it does, and prints who waits for whom."
    parser = commands.add_parser("dump", help="who waits for whom in a running cluster", description=about)
    add_arguments(parser)
    parser.add_argument("--actors", action="store_true", help="list all actors, not only those that are busy")
    parser.add_argument("--json", action="store_true", help="print all that was told, as JSON")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace, ask: Request | None = None) -> int:
    """Asks once and prints; returns 0, or 1 where no process has answered.

    Raises:
        LaunchError: no cluster runs here, or several do and none is named.
    """
    if args.list:
        return list_all()
    found = ObservedCluster(args, ask)
    told = poll_all(found.places(), LookQuestion(), timeout_s=args.timeout_s)
    if args.json:
        print(json.dumps(as_json(found.title, told), indent=2))
    else:
        print("\n".join(lines(found.title, told, every=args.actors)))
    return 0 if told.reports else 1


def as_json(title: str, told: PollResult) -> dict[str, Any]:
    """Returns everything as plain data."""
    waits = edges(told.reports)
    return {
        "run": title.removeprefix("run "),
        "processes": {name: asdict(report) for name, report in sorted(told.reports.items())},
        "silent": {name: asdict(silent) for name, silent in sorted(told.silent.items())},
        "kernel": {name: asdict(used) for name, used in sorted(told.used.items())},
        "waits": [asdict(edge) for edge in waits],
        "rings": [list(ring) for ring in rings(waits)],
    }


def lines(title: str, told: PollResult, *, every: bool = False) -> Iterator[str]:
    """Yields the report.

    Args:
        title: What the cluster is called.
        told: What its processes have told.
        every: Whether all actors are listed; else those that are not idle, or have messages, and of the dead
            those that failed.
    """
    answers = f"{len(told.reports)} of {len(told.names)} processes answer"
    yield f"{title}: {answers}" if title else answers
    yield ""
    yield from _processes(told)
    waits = edges(told.reports)
    yield from _section("who waits for whom", [_wait(edge, told) for edge in waits])
    yield from _section("rings of waits", [" -> ".join((*ring, ring[0])) for ring in rings(waits)])
    yield from _section("links", list(_links(told)))
    yield from _section("actors" if every else "busy actors", list(_actors(told, every=every)))
    if stories := list(_told(told)):
        yield from _section("what they did last", stories)
    if dead := list(_dead(told, every=every)):
        yield from _section("dead actors", dead)
    for name, report in sorted(told.reports.items()):
        if not report.loop.answers:
            yield from _describe_held(name, report)
    if told.silent:
        yield from _section(
            "no answer", [str(told.silent[name]) for name in told.names if name in told.silent]
        )


def _section(title: str, entries: list[str]) -> Iterator[str]:
    yield ""
    yield title
    yield from (f"  {entry}" for entry in entries or ["none"])


def _processes(told: PollResult) -> Iterator[str]:
    rows = [["process", "pid", "up", "loop", "mailbox", "in line", "does"]]
    for name in told.names:
        report = told.reports.get(name)
        if report is None:
            pid = told.silent[name].pid
            rows.append([name, "" if pid is None else str(pid), "", "no answer", "", "", ""])
            continue
        totals = report.totals
        fill = f"{totals.mailbox}/{totals.mailbox_limit}"
        row = [name, str(report.pid), f"{report.up_s:.1f} s", _loop(report), fill, str(totals.in_line)]
        rows.append([*row, "; ".join(does(report)) or "-"])
    return columns(rows)


def _loop(report: ProcessReport) -> str:
    loop = report.loop
    if not loop.answers:
        return f"held up for {loop.late_s:.1f} s"
    return f"{1e3 * loop.late_s:.1f} ms late"


def does(report: ProcessReport) -> Iterator[str]:
    """Says what a process has to do with the training run."""
    if report.run is not None:
        run = report.run
        yield f"{run.actor} at version {run.version}, {run.phase}" + (f": {run.waits}" if run.waits else "")
    if report.shard is not None:
        shard = report.shard
        kept = f", keeps those of ranks {', '.join(map(str, shard.open))}" if shard.open else ""
        refused = f", refused {', '.join(f'{n} {why}' for why, n in shard.refused.items())}"
        yield f"shard {shard.shard} at version {shard.version}, {shard.phase}{kept}" + (
            refused if shard.refused else ""
        )
    if report.worker is not None:
        worker = report.worker
        doing = "over" if worker.over else f"permit {worker.number}" if worker.number else "idle"
        if worker.waits:
            doing += f", waits for {worker.waits}, for {worker.waits_s:.1f} s"
        yield f"{doing}; {worker.computed} computed, {worker.accepted} used, {worker.missed} missed"


def _wait(edge: ReportedWait, told: PollResult) -> str:
    silent = edge.awaited.partition("/")[0] in told.silent
    return f"{edge} [no answer from there]" if silent else str(edge)


def _links(told: PollResult) -> Iterator[str]:
    """The links that are worth a word: not open, in contact, and empty."""
    for name in told.names:
        stories = {peer.name: peer.story for peer in told.reports[name].peers} if name in told.reports else {}
        for link in told.reports[name].links if name in told.reports else ():
            well = link.phase == "open" and link.contact != "broken"
            if well and not (link.in_line or link.refused or link.malformed):
                continue
            yield (
                f"{name} -> {link.peer}: {link.phase}, contact {link.contact}, session {link.sessions}, "
                f"{link.in_line} in line, credit {link.credit}, {link.unacknowledged} unacknowledged, "
                f"{link.resent} resent, {link.refused} refused, {link.malformed} malformed"
            )
            if story := stories.get(link.peer):
                yield f"  {story}"


def _actors(told: PollResult, *, every: bool) -> Iterator[str]:
    for name in told.names:
        for actor in told.reports[name].actors if name in told.reports else ():
            if every or actor.state != "idle" or actor.messages or actor.waiting:
                yield f"{name}/{actor}"


def _told(told: PollResult) -> Iterator[str]:
    """What actors say of themselves, those too that are idle: a run that hangs waits for one of them."""
    for name in told.names:
        for actor in told.reports[name].actors if name in told.reports else ():
            yield from (f"{name}/{actor.name}: {line}" for line in actor.told)


def _dead(told: PollResult, *, every: bool) -> Iterator[str]:
    for name in told.names:
        report = told.reports.get(name)
        if report is not None:
            for stone in report.dead:
                if every or stone.error:
                    yield f"{name}/{stone.name}: {stone.describe(report.at_s)}"


def _describe_held(name: str, report: ProcessReport) -> Iterator[str]:
    loop = report.loop
    whose = f" in a turn of {loop.doing}" if loop.doing else ""
    yield from _section(f"the loop of {name} is held up for {loop.late_s:.1f} s{whose}", list(loop.stack))
    yield from (f"  could not be read: {unread}" for unread in report.unread)
