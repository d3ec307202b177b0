"""The command line: `python -m benchmarks --list`, `python -m benchmarks NAME [--json FILE]`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from actorflow.runtime.event_loop import run
from benchmarks import machine, registry, report
from benchmarks.harness import QUICK, Row, Size, measure
from benchmarks.peers import OPTIONAL
from benchmarks.registry import Benchmark, UnknownBenchmark


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """Returns the parsed command line; ends the process with a message when it is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="?", help="which benchmark to run")
    parser.add_argument("--list", action="store_true", help="say which benchmarks there are")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there as well")
    parser.add_argument("--rounds", type=_positive, metavar="N", help="how many rounds to take the median of")
    parser.add_argument("--quick", action="store_true", help="few short rounds: to see that it runs")
    options = parser.parse_args(given)
    if options.name is None and not options.list:
        parser.error("name a benchmark, or --list them")
    return options


def main(given: Sequence[str] | None = None) -> int:
    """Runs what the command line asks for and returns the exit status."""
    options = arguments(given)
    console = Console()
    if options.list:
        for found in registry.table().values():
            console.print(f"{found.name:12} {found.about}", highlight=False, soft_wrap=True)
        for name, why in registry.absent().items():
            console.print(f"{name:12} not here: {why}", highlight=False, soft_wrap=True)
        return 0
    try:
        chosen = registry.find(options.name)
    except UnknownBenchmark as error:
        print(error, file=sys.stderr)
        return 2
    size = QUICK if options.quick else Size()
    if options.rounds is not None:
        size = replace(size, rounds=options.rounds)
    try:
        if options.json is not None:
            options.json.open("a").close()  # before minutes of measuring
        where, rows = run(compete(chosen, size))
        show(console, size, where, rows)
        if options.json is not None:
            options.json.write_text(json.dumps(report.as_json(chosen.name, where, rows), indent=2) + "\n")
    except OSError as error:
        if options.json is None or error.filename != str(options.json):
            raise
        print(f"{options.json} must be a file that can be written, got {error.strerror}", file=sys.stderr)
        return 2
    return 0


async def compete(chosen: Benchmark, size: Size) -> tuple[machine.Machine, list[Row]]:
    """Measures every contest of a benchmark, one after the other."""
    company = machine.Company()
    rows: list[Row] = []
    async with aclosing(chosen.contests(size)) as contests:
        async for contest in contests:
            print(f"measuring {contest.metric} ...", file=sys.stderr)  # a live display would cost time
            rows += await measure(contest, size)
    return machine.describe(OPTIONAL, company), rows


def show(console: Console, size: Size, where: machine.Machine, rows: Sequence[Row]) -> None:
    """Prints where it ran, the table and its notes; a line that is too long runs over."""
    table = report.as_table(rows)
    console.width = max(console.width, report.natural_width(table, console))
    versions = ", ".join(f"{name} {version}" for name, version in where["peers"].items() if version)
    console.print(
        f"{where['python']}, {where['loop']}, numpy {where['numpy']}; {where['cpus']} x {where['cpu']}, "
        f"of which others used {where['cores_of_others']}"
    )
    console.print(
        f"peers: {versions}; medians of {size.rounds} rounds taken in turns, ± half the quartile distance"
    )
    console.print(table)
    for note in report.notes(rows):
        console.print(f"  {note}", style="dim", highlight=False, markup=False)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        message = f"needs a positive number, got {text!r}"
        raise argparse.ArgumentTypeError(message)
    return int(text)


if __name__ == "__main__":
    machine.shed_slowing_variables()
    sys.exit(main())
