"""Of a cancellable actor those handlers are cancelled whose asker has gone, at once, and no others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import sim
from actorflow.actors.address import Address
from actorflow.actors.ask import Ask
from actorflow.actors.turns import Turns
from actorflow.errors import DeadlinePassed
from actorflow.sim.engine.schedulers import Schedule
from tests.support.strategies import examples

Question = tuple[int, int, bool]
"""For how many tenths of a second its handler works, and its asker waits, and whether that is cancelled then."""

QUESTIONS = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 6), st.booleans()), min_size=1, max_size=5)
SLACK_S = 0.09  # of clocks and deadlines, which are at most a tick late


class Works(af.Actor):
    cancellable = True

    def __init__(self, ended: dict[int, tuple[str, float]]) -> None:
        self.ended = ended
        self.begun: set[int] = set()

    async def receive(self, message: tuple[int, int]) -> int:
        number, tenths = message
        self.begun.add(number)
        end = "cancelled"
        try:
            await asyncio.sleep(tenths / 10)
            end = "answered"
        finally:
            self.ended[number] = end, self.system.now()
        return number


class WorksOnMany(Works):
    reentrant = True


class Passes(af.Actor):
    cancellable = True
    reentrant = True

    def __init__(self, to: Any) -> None:
        self.to = to

    async def receive(self, message: Any) -> Any:
        return await self.to.ask(message)


async def asks(questions: list[Question], kind: type[Works], hops: int) -> None:
    ended: dict[int, tuple[str, float]] = {}
    made: list[Works] = []

    def factory() -> Works:
        made.append(kind(ended))
        return made[-1]

    async with af.ActorSystem() as system:
        first = system.spawn(factory)
        for _ in range(hops):
            first = system.spawn(Passes, first)

        async def one(number: int, question: Question) -> tuple[str, float]:
            tenths, patience, cancels = question
            asking = first.ask((number, tenths), deadline_s=60 if cancels else patience / 10)
            try:
                if cancels:
                    async with asyncio.timeout(patience / 10):
                        await asking
                else:
                    await asking
            except (TimeoutError, DeadlinePassed):
                return "gone", system.now()
            return "answered", system.now()

        fates = await asyncio.gather(*(one(*each) for each in enumerate(questions)))
        await asyncio.sleep(SLACK_S)
        for number, (fate, at_s) in enumerate(fates):
            if number not in made[0].begun:
                assert fate == "gone", f"{number} has an answer and no handler"
                continue
            end, end_s = ended.get(number, ("going on", 0.0))
            if fate == "answered":
                assert end == "answered", f"{number} was answered, and its handler {end}"
            elif end == "answered":
                assert abs(at_s - end_s) < SLACK_S, f"{number} went on without its asker"
            else:
                assert end == "cancelled", f"{number} is {end} without its asker"
                assert abs(at_s - end_s) < SLACK_S, f"{number} was cancelled at {end_s}, {at_s} is right"
        assert (system.accounts.open, system.stats().died) == (0, 0)


KINDS = st.sampled_from([Works, WorksOnMany])


@given(schedule=sim.schedules(), questions=QUESTIONS, kind=KINDS, hops=st.integers(0, 2))
@settings(max_examples=examples(150), deadline=None)
def test_a_handler_ends_with_its_asker_and_no_other_does(
    schedule: Schedule, questions: list[Question], kind: type[Works], hops: int
) -> None:
    sim.run(lambda: asks(questions, kind, hops), schedule)


def nobody(actor: Turns, entry: Any) -> bool:
    return Address.withdraw(actor, entry)


def whoever(actor: Turns, entry: Any) -> bool:
    """Cancels the newest handler, whatever it works on."""
    if type(entry) is Ask and actor.busy:
        list(actor.busy)[-1].call_off()
    return Address.withdraw(actor, entry)


@pytest.mark.parametrize("fault", [nobody, whoever])
def test_the_law_finds_who_cancels_nobody_or_another(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Turns, "withdraw", fault)

    @given(questions=QUESTIONS)
    @settings(max_examples=200, deadline=None, database=None, derandomize=True, report_multiple_bugs=False)
    def broken(questions: list[Question]) -> None:
        sim.run(lambda: asks(questions, WorksOnMany, 0))

    with pytest.raises((AssertionError, af.errors.SimulationError)):
        broken()
