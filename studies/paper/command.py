"""The figures of `actorflow simulate`: their arguments, and what runs them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from actorflow.cli.arguments import natural, positive, processes, several
from actorflow.cli.display.output import Output
from actorflow.cli.exit_codes import STOPPED
from actorflow.errors import ProgramError
from actorflow.runtime.clock import SystemClock
from studies.paper import figures, numbers, plot, sync_step
from studies.paper.report import Report

_STDOUT = Path("-")
_QUIET_S = 10.0  # in a pipe: say how far it is at least this often


def add_to(parser: argparse.ArgumentParser) -> None:
    """Adds the figures and their arguments to the command."""
    kinds = parser.add_subparsers(title="figures", metavar="FIGURE", required=True)

    backup = kinds.add_parser("backup", help="backup workers against stragglers (figure 8c)")
    add = backup.add_argument
    add("--workers", type=processes, default=50, metavar="M", help="gradients that a step needs (default 50)")
    add("--backups", type=natural, default=5, metavar="B", help="up to B workers more (default 5)")
    add("--auto", action="store_true", help='let Backup("auto", M + 3) choose as well')
    add("--steps", type=several, default=500, metavar="N", help="steps of each point (default 500)")
    backup.set_defaults(simulate=_backup)

    sync = kinds.add_parser("sync-step", help="null steps of synchronous workers (figure 7)")
    names = [curve.name for curve in sync_step.CURVES]
    add = sync.add_argument
    add("--curves", nargs="+", choices=names, default=names, metavar="CURVE", help=f"of {', '.join(names)}")
    add("--workers", nargs="+", type=processes, default=_axis("sync-step", "workers"), metavar="N")
    add("--steps", type=positive, default=12, metavar="N", help="steps of each point (default 12)")
    sync.set_defaults(simulate=_sync)

    scaling = kinds.add_parser("ps-scaling", help="a language model over parameter servers (figure 9)")
    add = scaling.add_argument
    add("--ps", nargs="+", type=processes, default=_axis("ps-scaling", "ps_tasks"), metavar="P")
    add("--workers", nargs="+", type=processes, default=_axis("ps-scaling", "workers"), metavar="N")
    add("--steps", type=positive, default=2, metavar="N", help="steps of each worker (default 2)")
    scaling.set_defaults(simulate=_scaling)

    for kind in (backup, sync, scaling):
        kind.add_argument("--seed", type=natural, default=0, metavar="N", help="of all chance (default 0)")
        kind.add_argument(
            "--json", type=Path, metavar="FILE", help="write the rows there as well; - prints them instead"
        )
        kind.add_argument("--plot", type=Path, metavar="FILE", help="draw them: .svg, .png or .pdf")


def _axis(name: str, axis: str) -> list[int]:
    return list(numbers.figure(name).paper[axis].value)


def run(args: argparse.Namespace) -> int:
    """Simulates, prints, and writes what is asked for; returns 0, or 130 when Ctrl-C stopped it.

    Raises:
        ProgramError: a file that is asked for cannot be written; said before anything is simulated.
    """
    if args.plot is not None:
        plot.check(args.plot)
    for file in filter(None, (args.json, args.plot)):
        if file != _STDOUT:
            _check_writable(file)
    try:
        report: Report = args.simulate(args)
    except KeyboardInterrupt:
        print("stopped by Ctrl-C")
        return STOPPED
    rows = json.dumps(report.as_json(), indent=2) + "\n"
    if args.json == _STDOUT:
        print(rows, end="")
    else:
        print("\n".join(report.lines()))
        if args.json is not None:
            args.json.write_text(rows, "utf-8")
    if args.plot is not None:
        plot.draw(report.panels, report.title, args.plot)
    return 0


def _check_writable(file: Path) -> None:
    there = file.exists()
    try:
        file.open("a").close()
    except OSError as error:
        message = f"{file} must be a file that can be written, got {error.strerror}"
        raise ProgramError(message) from None
    if not there:
        file.unlink()


def _backup(args: argparse.Namespace) -> Report:
    with _Shown(figures.backup_work(args.workers, args.backups, args.steps)) as done:
        return figures.backup_report(
            done,
            workers=args.workers,
            backups=args.backups,
            steps=args.steps,
            seed=args.seed,
            auto=args.auto,
        )


def _sync(args: argparse.Namespace) -> Report:
    curves = [curve for curve in sync_step.CURVES if curve.name in args.curves]
    workers = sorted(set(args.workers))
    with _Shown(figures.sync_work(curves, workers, args.steps)) as done:
        return figures.sync_report(done, curves=curves, workers=workers, steps=args.steps, seed=args.seed)


def _scaling(args: argparse.Namespace) -> Report:
    ps_tasks, workers = sorted(set(args.ps)), sorted(set(args.workers))
    with _Shown(figures.scaling_work(ps_tasks, workers)) as done:
        return figures.scaling_report(
            done, ps_tasks=ps_tasks, workers=workers, steps=args.steps, seed=args.seed
        )


class _Shown:
    """Shows how much of some work is done, on stderr: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, total: float) -> None:
        self._console = Output(stderr=True)
        self._total = total
        self._done = 0.0
        self._said_s = SystemClock.now()
        self._bar = Progress(
            TextColumn("simulating"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("eta"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Callable[[float], None]:
        self._bar.start()
        return self._advance

    def __exit__(self, *exc: object) -> None:
        self._bar.stop()

    def _advance(self, work: float) -> None:
        self._done += work
        self._bar.advance(self._task, work)
        now = SystemClock.now()
        if not self._console.is_terminal and now - self._said_s >= _QUIET_S:
            self._said_s = now
            self._console.print(f"simulated {100 * self._done / self._total:.0f} %")
