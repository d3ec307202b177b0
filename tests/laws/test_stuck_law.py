"""Steps that move elements between queues: none waits for ever, and none starves that could have gone on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.dataflow.state.progress_check import STILL, ProgressVerdict
from actorflow.dataflow.state.starvation_detector import Producers, StarvationDetector
from actorflow.sim.engine.schedulers import Schedule
from tests.support.strategies import examples, plan_of_the_fault, run_drawn, simulated

GRACE_S = 5.0
NAMES = ("a", "b", "c")

Move = tuple[str | None, str | None]
"""A step: from where it takes an element, and where it puts one; None for nowhere."""


@dataclass(frozen=True)
class Game:
    """Elements in queues, and the steps that all begin at once."""

    inside: tuple[int, ...]
    moves: tuple[Move, ...]
    max_steps: int


def ends(game: Game) -> set[int]:
    """How many steps may end well when all go on as long as they can, whoever is served first."""

    @cache
    def play(inside: tuple[int, ...], live: tuple[Move, ...], line: tuple[Move, ...]) -> frozenset[int]:
        if line and len(live) < game.max_steps:
            return play(inside, (*live, line[0]), line[1:])
        found: set[int] = set()
        for k, (source, target) in enumerate(live):
            at = [inside[NAMES.index(name)] for name in NAMES]
            if source is not None:
                if not at[NAMES.index(source)]:
                    continue
                at[NAMES.index(source)] -= 1
            if target is not None:
                at[NAMES.index(target)] += 1
            found |= {1 + n for n in play(tuple(at), live[:k] + live[k + 1 :], line)}
        return frozenset(found or {0})

    return set(play(game.inside, (), game.moves))


class Played:
    """A game as a graph."""

    def __init__(self, game: Game) -> None:
        self.game = game
        with af.Graph() as self.graph:
            queues = {name: af.state.FIFOQueue(None, "int64", (), name=name) for name in NAMES}
            one = np.int64(1)
            self.first = [
                queues[n].enqueue(one) for n, k in zip(NAMES, game.inside, strict=True) for _ in range(k)
            ]
            self.sizes = [queue.size() for queue in queues.values()]
            self.ops = []
            for source, target in game.moves:
                taken = one if source is None else queues[source].dequeue()
                self.ops.append(taken if target is None else queues[target].enqueue(taken))

    async def judged(self, session: af.Session) -> None:
        """Runs all steps, and judges how they ended."""
        now = session.system.now
        for put in self.first:
            await session.run(put)
        begun = now()

        came: list[int] = []  # the order in which they stand in line is the schedule's

        async def step(k: int) -> float | None:
            came.append(k)
            try:
                await session.run(self.ops[k])
            except errors.QueueStarved:
                return now()
            return None

        starved = await asyncio.gather(*map(step, range(len(self.ops))))
        told = [at for at in starved if at is not None]
        moves = self.game.moves
        may_end = ends(replace(self.game, moves=tuple(moves[k] for k in came)))
        assert all(at >= begun + GRACE_S for at in told), "told too early"
        if may_end == {len(moves)}:
            assert not told, "it could have gone on"
        if len(moves) not in may_end and self.game.max_steps >= len(moves):
            assert told, "somebody cannot have been served"
        left = sum(self.game.inside) + sum(
            (target is not None) - (source is not None)
            for (source, target), at in zip(moves, starved, strict=True)
            if at is None
        )
        assert sum(map(int, await session.run(self.sizes))) == left


def moves_of(pairs: Sequence[tuple[str | None, str | None]]) -> tuple[Move, ...]:
    """Those that do anything."""
    return tuple((source, target) for source, target in pairs if source or target)


places = st.none() | st.sampled_from(NAMES)
games = st.builds(
    Game,
    inside=st.tuples(*[st.integers(0, 1)] * 3),
    moves=st.lists(st.tuples(places, places), min_size=1, max_size=5).map(moves_of),
    max_steps=st.integers(1, 5),
)


@settings(max_examples=examples(80), deadline=None)
@given(game=games, schedule=sim.schedules())
def test_every_step_ends_and_none_starves_that_could_have_gone_on(game: Game, schedule: Schedule) -> None:
    played = Played(game)

    run_drawn(played.graph, schedule, played.judged, starvation_s=GRACE_S, max_steps=game.max_steps)


RING = Game((0, 0, 0), (("a", "b"), ("b", "a")), 2)


def test_the_law_finds_steps_that_are_taken_for_able_because_they_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def there(self: Producers, resource: str) -> ProgressVerdict:
        return ProgressVerdict(STILL, declared=True) if self._counts.get(resource) else ProgressVerdict()

    monkeypatch.setattr(Producers, "verdict", there)
    played = Played(RING)

    plan_of_the_fault(simulated(played.graph, played.judged, starvation_s=GRACE_S), errors.Deadlock)


def test_the_law_finds_an_alarm_that_does_not_wait_for_the_grace_period(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(StarvationDetector, "_still_s", lambda self: 0.0)
    ask = StarvationDetector.ask
    monkeypatch.setattr(StarvationDetector, "ask", lambda self, in_s=None: ask(self, 1.0))
    played = Played(RING)

    plan_of_the_fault(simulated(played.graph, played.judged, starvation_s=GRACE_S))
