"""Six defects of the classic protocol of synchronous replicas: it shows each of them, and ours none.

The same happens to both, and the same question is asked of both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from actorflow.coord.rules.policy import Backup
from tests.coord.naive import Naive
from tests.coord.world import CHIEF, World


class Ours(World):
    """Our protocol, held and released as the classic one is."""

    def __init__(
        self, n: int, m: int, shards: int = 2, *, tokens: int | None = None, batches: list[int]
    ) -> None:
        super().__init__(Backup(m, n), n, shards, size=sum(batches), epochs=1)
        self.held: set[tuple[str, str]] = set()
        self.run_until_permits()

    def hold(self, worker: int, *shards: int) -> None:
        self.held |= {(f"worker{worker}", f"shard{s}") for s in shards or range(len(self.shards))}

    def release(self) -> None:
        self.held.clear()

    def die(self, worker: int) -> None:
        self.crash(f"worker{worker}")

    def run(self, updates: int = 8) -> None:
        while len(self.updates) < updates:
            busy = [key for key in self.busy() if key not in self.held]
            if not busy:
                return
            self.deliver(busy[0])
        for key in self.busy():  # what workers were told of all this
            while key[0] == CHIEF and key[1].startswith("worker") and self.links[key]:
                self.deliver(key)

    @property
    def made(self) -> list[list[tuple[int, ...]]]:
        return [[tuple(rank for rank, _ in stage.chosen) for stage in shard.history] for shard in self.shards]

    @property
    def computed(self) -> list[tuple[int, int]]:
        return [(permit.rank, permit.version) for permit in self.permits]

    @property
    def untold(self) -> set[int]:
        dropped = {number for update in self.updates for number, _ in update.dropped}
        return {n for n in dropped if [o.accepted for o in self.outcomes.get(n, [])] != [False]}

    @property
    def finished(self) -> bool:
        return self.rounds.ended is not None and self.rounds.ended.error is None


Run = Naive | Ours
Make = Callable[..., Run]


def counted_twice(make: Make) -> bool:
    """A worker is slow; whether a fast one counts twice in one update. Tokens have no owner."""
    run = make(2, 2, batches=[4, 4])
    run.hold(1)
    run.run(updates=2)
    run.release()
    run.run(updates=2)

    assert run.made[0], "an update is made at last"
    return any(len(set(update)) < len(update) for update in run.made[0])


def hangs_when_one_dies(make: Make) -> bool:
    """A worker dies with the permit to compute, and no backup is there; whether the others wait for ever."""
    run = make(2, 2, tokens=0, batches=[9, 9])
    run.run(updates=2)
    run.die(1)
    before = len(run.made[0])
    run.run(updates=before + 3)

    return len(run.made[0]) < before + 3


def begins_out_of_step(make: Make) -> bool:
    """All is well; whether a worker computes twice from the first version."""
    run = make(2, 2, batches=[4, 4])
    run.run(updates=3)

    return any(count > 1 for count in Counter(run.computed).values())


def drops_in_silence(make: Make) -> bool:
    """The slowest of three comes too late; whether it never hears that its work is not used."""
    run = make(3, 2, batches=[4, 4, 4])
    run.hold(2)
    run.run(updates=1)
    run.release()
    run.run(updates=3)

    return bool(run.untold)


def tears_an_update(make: Make) -> bool:
    """One is late at the first shard, another at the second; whether the shards apply different gradients."""
    run = make(3, 2, tokens=0, batches=[4, 4, 4])
    run.hold(1, 0)
    run.hold(2, 1)
    run.run(updates=1)
    run.release()
    run.run(updates=2)

    first, second = run.made
    assert first, "an update is made at last"
    return first[:1] != second[:1]


def hangs_when_data_runs_out(make: Make) -> bool:
    """There is an odd number of batches for two workers; whether the last of them is waited for, for ever."""
    run = make(2, 2, tokens=0, batches=[3, 2])
    run.run()

    return not run.finished


DEFECTS = [
    counted_twice,
    hangs_when_one_dies,
    begins_out_of_step,
    drops_in_silence,
    tears_an_update,
    hangs_when_data_runs_out,
]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: str(defect.__name__))
def test_the_classic_protocol_shows_the_defect(defect: Callable[[Any], bool]) -> None:
    assert defect(Naive)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: str(defect.__name__))
def test_ours_does_not(defect: Callable[[Any], bool]) -> None:
    assert not defect(Ours)


def test_where_nothing_goes_wrong_both_do_the_same() -> None:
    ours, classic = Ours(2, 2, batches=[2, 2]), Naive(2, 2, tokens=0, batches=[2, 2])

    ours.run()
    classic.run()

    assert ours.made == [[(0, 1)] * 2] * 2
    assert [[tuple(sorted(update)) for update in shard] for shard in classic.made] == ours.made
    assert ours.finished
    assert classic.finished
