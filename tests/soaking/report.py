"""What a soak says: a line for each slice, the failures, and a table in the end."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.soaking.falsified import Falsified
from tests.soaking.shares import Share
from tests.soaking.state import Slice


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure of a law: what happened, and the slice that shows it again."""

    law: str
    seed: int
    examples: int
    source: str
    function: str
    what: Falsified


def clock(seconds: float) -> str:
    """Returns minutes and seconds, `12:05`."""
    whole = max(0, round(seconds))
    return f"{whole // 60}:{whole % 60:02}"


def repeat(laws: str, law: str, seed: int, examples: int) -> str:
    """Returns the command that does again what a slice did.

    It loads all the laws, as the soak did: hypothesis draws from the constants of the modules that
    are loaded, so `pytest law --hypothesis-seed` alone would draw other examples.
    """
    where = "" if laws == "tests" else f" --laws {shlex.quote(laws)}"
    return (
        f"{Path(sys.executable).name} -m tests.soak{where} "
        f"--repeat {shlex.quote(law)} --seed {seed} --examples {examples}"
    )


def progress(done: Slice, total: int, left_s: float) -> str:
    """Returns the line for a slice that has ended."""
    return (
        f"left {clock(left_s):>5}  {done.ran:>6,} examples {done.seconds:>6.1f} s  {done.outcome:<7} "
        f"seed {done.seed:<19}  all {total:>9,}  {done.law}"
    )


def failure(found: Failure, laws: str) -> str:
    """Returns the entry of one failure; its first part is the same whatever the seed."""
    return "\n".join(
        [
            _identity(found),
            *([f"but:    {found.what.why_not}"] if found.what.why_not else []),
            f"seed:   {found.seed}",
            f"repeat: {repeat(laws, found.law, found.seed, found.examples)}",
            "error:  " + found.what.error.replace("\n", "\n        "),
            "",
        ]
    )


def _identity(found: Failure) -> str:
    error = found.what.error.partition("\n")[0]
    return f"law:    {found.law}\nraised: {error}\nkeep:   {found.what.example or 'nothing to paste'}"


def append(path: Path, failures: Iterable[Failure], laws: str) -> int:
    """Appends the failures that `path` has no entry of, and returns how many those were."""
    written = 0
    known = path.read_text() if path.exists() else ""
    for each in failures:
        if f"{_identity(each)}\n" in known:
            continue
        entry = failure(each, laws) + "\n"
        with path.open("a") as file:
            file.write(entry)
        known += entry
        written += 1
    return written


def table(shares: Mapping[str, Share], slices: Iterable[Slice], laws: Iterable[str]) -> str:
    """Returns a row for each of `laws`: this run, then all runs; and the totals of both."""
    now: dict[str, list[Slice]] = {law: [] for law in sorted(laws)}
    for each in slices:
        now.setdefault(each.law, []).append(each)
    columns = f"{'rounds':>6} {'examples':>10} {'seconds':>8} {'failures':>8}"
    head = f"{'this run':>35} | {'all runs':>35}\n{columns} | {columns}  law"
    rows = [
        _row(
            (len(mine), sum(s.ran for s in mine), sum(s.seconds for s in mine), sum(map(_failed, mine))),
            (shares[law].rounds, shares[law].examples, shares[law].seconds, shares[law].failures),
            law,
        )
        for law, mine in now.items()
    ]
    ran = [each for mine in now.values() for each in mine]
    everyone = shares.values()
    total = _row(
        (len(ran), sum(s.ran for s in ran), sum(s.seconds for s in ran), sum(map(_failed, ran))),
        (
            sum(s.rounds for s in everyone),
            sum(s.examples for s in everyone),
            sum(s.seconds for s in everyone),
            sum(s.failures for s in everyone),
        ),
        f"in all; {sum(not mine for mine in now.values())} of {len(now)} laws not reached in this run",
    )
    return "\n".join([head, *rows, total])


def _failed(done: Slice) -> bool:
    return done.outcome not in ("passed", "skipped")


def _row(now: tuple[int, int, float, int], ever: tuple[int, int, float, int], law: str) -> str:
    cells = [f"{r:>6,} {e:>10,} {s:>8,.1f} {f:>8,}" for r, e, s, f in (now, ever)]
    return f"{' | '.join(cells)}  {law}"
