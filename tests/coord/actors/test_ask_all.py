"""All shards are asked at once, and no ask outlives the matter."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.actors.actor import Actor
from actorflow.coord.actors.contribution_pipeline import ask_all, ask_shard
from actorflow.sim.engine.schedulers import Schedule
from tests.support.strategies import LIMITS, examples


class Answers(Actor):
    """Takes so many seconds, and answers, or raises, what it was given."""

    def __init__(self, seconds: float, answer: Any) -> None:
        self.seconds = seconds
        self.answer = answer

    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(self.seconds)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer, message


def gathered(
    shards: list[tuple[float, Any]],
    schedule: Schedule = sim.FIFO,
    enough: Callable[[Any], bool] = lambda answer: False,
    deadline_s: float = 100.0,
) -> Any:
    async def main() -> Any:
        async with af.ActorSystem(name="system") as system:
            refs = [system.spawn(Answers, *given, name=f"shard{k}") for k, given in enumerate(shards)]
            began = system.now()
            try:
                found: Any = await ask_all(
                    [ask_shard(ref, k, deadline_s) for k, ref in enumerate(refs)], enough
                )
            except errors.ActorflowError as error:
                found = error
            assert system.stats().open_asks == 0
            return found, system.now() - began

    return sim.run(main, schedule, limits=LIMITS).result


@settings(max_examples=examples(40), deadline=None)
@given(times=st.lists(st.sampled_from([0.0, 0.1, 1.0]), max_size=4), schedule=sim.schedules())
def test_answers_come_in_the_order_of_the_shards_after_the_slowest(
    times: list[float], schedule: Schedule
) -> None:
    found, took_s = gathered([(seconds, f"of {k}") for k, seconds in enumerate(times)], schedule)

    assert found == [(f"of {k}", k) for k in range(len(times))]
    assert took_s == pytest.approx(max(times, default=0.0), abs=0.05)


def test_an_answer_that_is_enough_ends_it() -> None:
    found, took_s = gathered([(50.0, "late"), (0.1, "no")], enough=lambda answer: answer[0] == "no")

    assert found == [("no", 1)]
    assert took_s < 1.0


def test_an_error_of_a_shard_is_its_own() -> None:
    found, took_s = gathered([(50.0, "late"), (0.1, errors.StateError("out of memory"))])

    assert isinstance(found, errors.StateError)
    assert "shard1" in str(found)
    assert took_s < 1.0


def test_a_shard_that_does_not_answer_in_time_is_lost() -> None:
    found, took_s = gathered([(0.0, "here"), (50.0, "late")], deadline_s=2.0)

    assert isinstance(found, errors.ShardLost)
    assert "shard 'shard1' gave no answer to int" in str(found)
    assert isinstance(found.__cause__, errors.DeadlinePassed)
    assert took_s == pytest.approx(2.0, abs=0.05)


def test_who_is_cancelled_takes_the_asks_back() -> None:
    async def main() -> None:
        async with af.ActorSystem(name="system") as system:
            refs = [system.spawn(Answers, 50.0, "late", name=f"shard{k}") for k in range(3)]
            task = asyncio.create_task(ask_all([ask_shard(ref, 1, 100.0) for ref in refs]))
            await asyncio.sleep(0.1)
            assert system.stats().open_asks == 3
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert system.stats().cancelled == 3

    sim.run(main, limits=LIMITS)
