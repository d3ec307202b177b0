"""Shows that replay is exact: `python -m actorflow.sim.selftest`.

A **pair** is a program under a schedule, drawn by a seed, with faults where it has a world. Each is

1. run twice in this process, with the heap stirred in between: sets of addresses differ;
2. run again by the plan that it tells, where that has any deviation;
3. run in other processes with other hash seeds, in other orders: sets of strings differ, and what a
   run leaves behind for the next. There the pair that comes last here is the very first.

Two runs are equal when their accounts are: the trace, the plan, the points asked, result and error.
The last line says whether all are, and the exit status is 0 if so, 1 if not, and 2 if nothing could be
compared. Programs of your own: `--programs module:NAME`, where NAME is a dict of coroutine functions
and laws (`sim.world`).

What it cannot show: that the schedules reach what there is to see; and nothing about other machines,
versions of Python or of numpy.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import IO

from actorflow.errors import ConfigError, SimulationError
from actorflow.runtime.clock import SystemClock
from actorflow.sim.engine.simulate import digest
from actorflow.sim.property.pairs import SCHEDULES, Pair, SampleProgram, pairs, programs
from actorflow.sim.property.replay import HASH_SEEDS, Difference, LocalRuns, RemoteRuns, answer, orders

PAIRS = 1_200
_COMMAND = "python -m actorflow.sim.selftest"
_SHOWN = 3  # differences


class Progress:
    """A line that is written over on a terminal; every fifth part a line elsewhere."""

    def __init__(self, out: IO[str], total: int) -> None:
        self._out = out
        self._total = total
        self._live = out.isatty()
        self._shown = 0

    def show(self, done: int) -> None:
        """Says how far it is."""
        text = f"{done:,} of {self._total:,} pairs"
        if self._live:
            self._out.write(f"\r{text} ")
        elif done * 5 // self._total > self._shown:
            self._shown = done * 5 // self._total
            self._out.write(text + "\n")
        self._out.flush()

    def say(self, text: str) -> None:
        """Writes a line of its own."""
        self._out.write(("\r\033[K" if self._live else "") + text + "\n")
        self._out.flush()


def check(known: Mapping[str, SampleProgram], chosen: Sequence[Pair], where: str | None, out: IO[str]) -> int:
    """Compares all runs of these pairs, and says what it found; returns the exit status."""
    clock = SystemClock()
    since = clock.now()
    progress = Progress(out, len(chosen))
    here = LocalRuns(known, chosen)
    others = [RemoteRuns(seed, where, order, chosen) for seed, order in orders(len(chosen)).items()]
    try:
        for done in here.run():
            progress.show(done)
        for other in others:
            other.hear()
            for pair, account in here.accounts.items():
                here.counts.elsewhere += 1
                if digest(account) != other.digests[pair]:
                    how = f"here and in a process with hash seed {other.hash_seed}"
                    here.differences.append(Difference(pair, how, account, other.account(pair)))
    finally:
        for other in others:
            other.close()
    for difference in here.differences[:_SHOWN]:
        progress.say(str(difference))
        progress.say(f"    repeat it: {_COMMAND}{f' --programs {where}' if where else ''} {difference.pair}")
    return _conclude(here, len(chosen), clock.now() - since, progress)


def _conclude(here: LocalRuns, count: int, seconds: float, progress: Progress) -> int:
    counts, differences = here.counts, here.differences
    if len(differences) > _SHOWN:
        progress.say(f"... and {len(differences) - _SHOWN} more differences")
    failed = sum(any(line.startswith("error ") for line in account) for account in here.accounts.values())
    programs_run = len({pair.program for pair in here.accounts})
    whole = digest([digest(account) for account in here.accounts.values()])
    progress.say(
        f"{programs_run} programs, {count:,} pairs, {failed:,} of which end with an error; {seconds:.1f} s\n"
        f"compared: {counts.twice:,} runs with a second one, {counts.planned:,} with one by their plan, "
        f"{counts.elsewhere:,} with one in another process (hash seeds {', '.join(HASH_SEEDS)})"
    )
    bad = len({difference.pair for difference in differences})
    if bad:
        progress.say(f"replay is not exact: {bad:,} of {count:,} pairs differ")
        return 1
    progress.say(
        f"replay is exact: {count:,} pairs, 0 differ, digest {whole} in {1 + len(HASH_SEEDS)} processes"
    )
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog=_COMMAND, description="Shows that a simulated run is repeated exactly."
    )
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"how many are compared (default {PAIRS})")
    parser.add_argument("--programs", metavar="MODULE:NAME", help="a dict of programs of your own")
    parser.add_argument("--program", help="only this one")
    parser.add_argument("--schedule", choices=SCHEDULES, help="only this kind")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.answer:
        said = sys.stdout
        with _quiet(), redirect_stdout(sys.stderr):  # what a program prints is no answer
            answer(sys.stdin, said)
        return 0
    if chosen.pairs < 1:
        parser.error(f"--pairs must be at least 1, got {chosen.pairs}")
    try:
        known = programs(chosen.programs)
    except ConfigError as error:
        parser.error(str(error))
    if chosen.program is not None and chosen.program not in known:
        parser.error(f"no program {chosen.program!r}; there are {', '.join(known)}")
    asked = _choose_pairs(known, chosen)
    if not asked:
        parser.error(f"none of the first {chosen.pairs} pairs is asked for; raise --pairs")
    try:
        with _quiet():
            return check(known, asked, chosen.programs, sys.stdout)
    except SimulationError as error:
        sys.stderr.write(f"{error}\n")
        return 2


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps the log of actors off the terminal: programs fail on purpose."""
    log = logging.getLogger("actorflow")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)


def _choose_pairs(known: Mapping[str, SampleProgram], chosen: argparse.Namespace) -> list[Pair]:
    """Returns the pairs that the arguments ask for."""
    asked = (chosen.program, chosen.schedule, chosen.seed)
    if None not in asked:
        return [Pair(*asked)]
    every = pairs(list(known), chosen.pairs)
    return [
        pair
        for pair in every
        if all(
            want in (None, has)
            for want, has in zip(asked, (pair.program, pair.schedule, pair.seed), strict=True)
        )
    ]


if __name__ == "__main__":
    sys.exit(main())
