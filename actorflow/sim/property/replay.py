"""Compares runs that should be equal: in this process, by their plans, and in other processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import IO, Any

from actorflow.errors import SimulationError
from actorflow.runtime.clock import Entropy
from actorflow.sim.engine.simulate import attempt, digest
from actorflow.sim.property.pairs import Pair, SampleProgram, programs

HASH_SEEDS = ("0", "1", "random")
_WIDTH = 60  # of what is shown of a line
_BEFORE, _AFTER = 3, 2  # lines shown around the first that differs


def stir(seed: int) -> list[Any]:
    """Returns what keeps the heap from being as it was: new objects get addresses in another order."""
    chance = Entropy(seed)
    made: list[Any] = [kind() for _ in range(64) for kind in (object, list, dict, set, _Thing)]
    return [thing for thing in made if chance.below(2)]


class _Thing:
    pass


@dataclass(frozen=True, slots=True)
class Difference:
    """Two runs of one pair that should be equal and are not.

    Attributes:
        pair: Which.
        how: What the two have in common, and what not.
        one, other: Their accounts.
    """

    pair: Pair
    how: str
    one: Sequence[str]
    other: Sequence[str]

    def __str__(self) -> str:
        """Shows the first lines that differ, side by side."""
        both = list(zip_longest(self.one, self.other, fillvalue="(over)"))
        first = next((i for i, (a, b) in enumerate(both) if a != b), 0)
        shown = both[max(0, first - _BEFORE) : first + 1 + _AFTER]
        rows = [(a == b, *_around_difference(a, b)) for a, b in shown]
        lines = [f"  {' ' if same else '!'} {a:<{_WIDTH}} | {b}".rstrip() for same, a, b in rows]
        return "\n".join([f"{self.pair}\n  {self.how}: line {first + 1} differs", *lines])


def _around_difference(one: str, other: str) -> tuple[str, str]:
    """Returns the parts of two lines around the first place where they differ."""
    one, other = one.replace("\n", " "), other.replace("\n", " ")
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    since = max(0, at - _WIDTH // 2)
    mark = "..." if since else ""
    until = since + _WIDTH - len(mark)
    return mark + one[since:until], mark + other[since:until]


@dataclass(slots=True)
class RunCounts:
    """How many runs were compared with one another, and those that differ."""

    twice: int = 0
    planned: int = 0
    elsewhere: int = 0


class LocalRuns:
    """The runs of this process.

    Attributes:
        accounts: Of the first run of each pair.
        counts: What was compared.
        differences: What was found.
    """

    def __init__(self, known: Mapping[str, SampleProgram], chosen: Sequence[Pair]) -> None:
        self.accounts: dict[Pair, tuple[str, ...]] = {}
        self.counts = RunCounts()
        self.differences: list[Difference] = []
        self._known = known
        self._chosen = chosen

    def run(self) -> Iterator[int]:
        """Runs every pair twice, and by its plan; gives the number of pairs that are done."""
        for i, pair in enumerate(self._chosen):
            program = self._known[pair.program]
            first = pair.run(program)
            account = self.accounts[pair] = first.account
            stirred = stir(i)
            again = pair.run(program).account
            self.counts.twice += 1
            self._compare(pair, "two runs in one process", account, again)
            if len(first.plan):
                by_plan = attempt(program.main, first.plan, seed=pair.seed, trace=True).account
                self.counts.planned += 1
                self._compare(pair, "a run and one by its plan", account, by_plan)
            del stirred
            yield i + 1

    def _compare(self, pair: Pair, how: str, one: tuple[str, ...], other: tuple[str, ...]) -> None:
        if one != other:
            self.differences.append(Difference(pair, how, one, other))


class RemoteRuns:
    """Another process that runs the same pairs, in another order, with another hash seed.

    Protocol, in lines: the pairs and the order come in as JSON; a digest goes out for each run; then
    numbers of pairs come in, and the account of each goes out as JSON; the end of input ends it.
    """

    def __init__(
        self, hash_seed: str, where: str | None, order: Sequence[int], chosen: Sequence[Pair]
    ) -> None:
        self.hash_seed = hash_seed
        self.digests: dict[Pair, str] = {}
        self._chosen = chosen
        self._order = order
        self._process = subprocess.Popen(
            [sys.executable, "-m", "actorflow.sim.selftest", "--answer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "PYTHONHASHSEED": hash_seed,
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            },
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to: IO[str] = self._process.stdin
        self._from: IO[str] = self._process.stdout
        asked = [[pair.program, pair.schedule, pair.seed] for pair in chosen]
        self._say({"programs": where, "pairs": asked, "order": list(order)})

    def hear(self) -> None:
        """Takes the digests in.

        Raises:
            SimulationError: the process ended before it had run all pairs; what it said is on the terminal.
        """
        for i in self._order:
            line = self._from.readline()
            if not line:
                message = f"the process with hash seed {self.hash_seed} ended early, at '{self._chosen[i]}'"
                raise SimulationError(message)
            self.digests[self._chosen[i]] = line.strip()

    def account(self, pair: Pair) -> tuple[str, ...]:
        """Asks for the account of a pair."""
        self._say(self._chosen.index(pair))
        return tuple(json.loads(self._from.readline()))

    def close(self) -> None:
        """Ends the process."""
        self._to.close()
        self._from.close()
        self._process.wait()

    def _say(self, what: object) -> None:
        self._to.write(json.dumps(what) + "\n")
        self._to.flush()


def answer(asked: IO[str], said: IO[str]) -> None:
    """Is the other process: runs what is asked, and answers as `RemoteRuns` says."""
    task = json.loads(asked.readline())
    known = programs(task["programs"])
    chosen = [Pair(*pair) for pair in task["pairs"]]
    accounts: dict[int, tuple[str, ...]] = {}
    for i in task["order"]:
        accounts[i] = chosen[i].run(known[chosen[i].program]).account
        said.write(digest(accounts[i]) + "\n")
        said.flush()
    for line in asked:
        said.write(json.dumps(accounts[json.loads(line)]) + "\n")
        said.flush()


def orders(count: int) -> dict[str, list[int]]:
    """Returns the order of the pairs for each hash seed: backwards, from the middle, and shuffled."""
    there = list(range(count))
    chance = Entropy(count)
    shuffled = sorted(there, key=lambda _: chance.uniform())
    return dict(
        zip(HASH_SEEDS, (there[::-1], there[count // 2 :] + there[: count // 2], shuffled), strict=True)
    )
