"""`actorflow top`: a table of the processes of a running cluster, again and again."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.live import Live as Screen
from rich.table import Table
from rich.text import Text

from actorflow.cli.arguments import often
from actorflow.cli.display.output import Output
from actorflow.cli.exit_codes import STOPPED
from actorflow.cli.running_cluster import ObservedCluster, Request, add_arguments, list_all
from actorflow.cluster.inspect.poll_all import PollResult, poll_all
from actorflow.cluster.inspect.reports import LookQuestion, ProcessReport
from actorflow.errors import LaunchError

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_ONCE_S = 0.5  # between the two looks of --once
_WIDE = 130  # columns from which a line has room for all
_SPARE = ("pid", "MB/s in", "MB/s out", "in line", "mailbox")  # what is left out below that
_LATE_S = 0.05  # a loop that was so late is shown in yellow
_WAITS_S = 1.0  # a worker that has waited so long for a batch is told with what it waits for
HEAD = (
    "process", "pid", "state", "version", "steps/s", "messages/s", "MB/s in", "MB/s out", "in line",
    "mailbox", "lag ms", "cpu %", "MB",
)  # fmt: skip


def add_to(commands: Commands) -> None:
    """Adds the command and its arguments."""
    about = "Shows what the processes of a running cluster do, until Ctrl-C or the end of the cluster."
    parser = commands.add_parser("top", help="watch the processes of a running cluster", description=about)
    add_arguments(parser)
    parser.add_argument(
        "--every-s", type=often, default=1.0, metavar="S", help="how often to look (default 1)"
    )
    parser.add_argument("--once", action="store_true", help="print one table, and end")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace, ask: Request | None = None) -> int:
    """Looks until the cluster has ended, which returns 0, or until Ctrl-C, which returns 130.

    With --once, or where nobody sees a screen, it looks twice, for the rates, and returns 0; 1 where no
    process has answered.

    Raises:
        LaunchError: no cluster runs here, or several do and none is named.
    """
    if args.list:
        return list_all()
    found = ObservedCluster(args, ask)
    console = Output()
    if not console.is_terminal:
        console.width = max(console.width, _WIDE)
    pause = threading.Event()
    try:
        before = _look(found, args)
        if args.once or not console.is_terminal:
            pause.wait(_ONCE_S)
            now = _look(found, args)
            console.print(table(found.title, now, before, console.width))
            console.check()
            return 0 if now.reports else 1
        with Screen(console=console, auto_refresh=False) as screen:
            over = ""
            while not over:
                pause.wait(args.every_s)
                try:
                    now = _look(found, args)
                except LaunchError as error:  # the last table stays on the screen
                    over = error.what
                else:
                    screen.update(table(found.title, now, before, console.width), refresh=True)
                    console.check()
                    before = now
        console.print(over)
    except KeyboardInterrupt:
        return STOPPED
    return 0


def _look(found: ObservedCluster, args: argparse.Namespace) -> PollResult:
    return poll_all(found.places(), LookQuestion(actors=False), timeout_s=args.timeout_s)


@dataclass(frozen=True, slots=True)
class Rates:
    """What a process has done a second, between two looks.

    Attributes:
        steps: Updates at the chief and at shards, contributions of workers.
        messages: Turns of its actors.
        bytes_in, bytes_out: Of its sockets.
    """

    steps: float
    messages: float
    bytes_in: float
    bytes_out: float


def rates(now: ProcessReport, before: ProcessReport | None) -> Rates | None:
    """Returns the rates of a process; None where there is no earlier look at this incarnation of it."""
    if before is None or (before.incarnation, before.pid) != (now.incarnation, now.pid):
        return None
    seconds = now.at_s - before.at_s
    if seconds <= 0:
        return None

    def rate(after: int, first: int) -> float:
        return max(0, after - first) / seconds

    return Rates(
        rate(steps_done(now), steps_done(before)),
        rate(now.totals.turns, before.totals.turns),
        rate(now.totals.bytes_in, before.totals.bytes_in),
        rate(now.totals.bytes_out, before.totals.bytes_out),
    )


def steps_done(report: ProcessReport) -> int:
    """Returns how many steps a process has done: updates, or contributions of a worker."""
    if report.worker is not None:
        return report.worker.computed
    version = report.run or report.shard
    return 0 if version is None else version.version


def state(report: ProcessReport) -> str:
    """Says in a word or two what a process does."""
    if not report.loop.answers:
        doing = f" by {report.loop.doing}" if report.loop.doing else ""
        return f"held up{doing}"
    if report.worker is not None:
        if report.worker.waits_s > _WAITS_S:
            return "waits for input"
        return "over" if report.worker.over else "at work" if report.worker.number else "idle"
    if report.run is not None:
        alive = sum(member.state == "alive" for member in report.run.members)
        return f"{report.run.phase}, {alive}/{len(report.run.members)} alive"
    return "-" if report.shard is None else report.shard.phase


def table(title: str, now: PollResult, before: PollResult, width: int = _WIDE) -> Table:
    """Returns the table, for lines of `width`: a row a process; below, who is silent or waits for input."""
    why = [str(now.silent[name]) for name in now.names if name in now.silent]
    why += [
        f"{name} waits for {report.worker.waits}, for {report.worker.waits_s:.1f} s"
        for name in now.names
        if (report := now.reports.get(name)) is not None
        and report.worker is not None
        and report.worker.waits_s > _WAITS_S
    ]
    made = Table(
        box=None,
        padding=(0, 2, 0, 0),
        header_style="dim",
        title=title or None,
        title_justify="left",
        caption="\n".join(why) or None,
        caption_justify="left",
    )
    shown = [name for name in HEAD if width >= _WIDE or name not in _SPARE]
    for name in shown:
        made.add_column(name, justify="left" if name in ("process", "state") else "right", no_wrap=True)
    for name in now.names:
        row = dict(zip(HEAD, _row(name, now, before), strict=True))
        made.add_row(*(row[column] for column in shown))
    return made


def _row(name: str, now: PollResult, before: PollResult) -> Sequence[str | Text]:
    cpu, rss = _usage(name, now, before)
    report = now.reports.get(name)
    if report is None:
        pid = now.silent[name].pid
        return [
            Text(name, "red"),
            "" if pid is None else str(pid),
            Text("no answer", "red"),
            *[""] * 8,
            cpu,
            rss,
        ]
    rate = rates(report, before.reports.get(name))
    totals, loop = report.totals, report.loop
    shown = ["-"] * 4
    if rate is not None:
        shown = [f"{rate.steps:,.1f}", f"{rate.messages:,.0f}"]
        shown += [f"{rate.bytes_in / 1e6:,.2f}", f"{rate.bytes_out / 1e6:,.2f}"]
    lag = Text(f"{1e3 * loop.late_s:,.1f}", "yellow" if loop.late_s > _LATE_S else "")
    version = report.run or report.shard
    return [
        name,
        str(report.pid),
        Text(state(report), "" if loop.answers else "red"),
        "" if version is None else f"{version.version:,}",
        *shown,
        f"{totals.in_line:,}",
        f"{totals.mailbox}/{totals.mailbox_limit}",
        lag,
        cpu,
        rss,
    ]


def _usage(name: str, now: PollResult, before: PollResult) -> tuple[str, str]:
    """Cores and memory that a process of this machine uses, as /proc has them."""
    used, earlier = now.used.get(name), before.used.get(name)
    if used is None:
        return "", ""
    rss = f"{used.rss / 1e6:,.0f}"
    seconds = now.at_s - before.at_s
    if earlier is None or seconds <= 0 or used.cpu_s < earlier.cpu_s:
        return "-", rss
    return f"{100 * (used.cpu_s - earlier.cpu_s) / seconds:.0f}", rss
