"""Faults of the simulator that somebody met: each stays buried."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from actorflow import sim
from actorflow.actors.actor import Actor
from actorflow.actors.system import ActorSystem
from actorflow.errors import SimulationError
from actorflow.sim.engine.schedulers import PCT, DelayBounded, Drawn, Seeded
from actorflow.sim.engine.simulate import attempt
from actorflow.sim.world.world import World

QUIET = settings(max_examples=100, database=None, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("number", range(40))
def test_a_reentrant_actor_begins_the_messages_of_one_sender_in_order(number: int) -> None:
    begun: list[int] = []

    class Sink(Actor):
        reentrant = True

        async def receive(self, message: int) -> None:
            begun.append(message)
            await asyncio.sleep(0.001)

    async def main() -> None:
        begun.clear()
        async with ActorSystem() as system:
            sink = system.spawn(Sink, name="sink")
            for n in range(6):
                await sink.tell(n)
            await asyncio.sleep(1)

    for schedule in (Seeded(number, 0.5), PCT(number), DelayBounded(number, 3)):
        assert attempt(main, schedule).error is None
        assert begun == list(range(6))


@pytest.mark.parametrize("number", range(8))
def test_two_assertions_of_one_program_do_not_make_it_flaky(number: int) -> None:
    async def main() -> None:
        told: list[str] = []

        async def client(name: str) -> None:
            for _ in range(3):
                told.append(name)
                await asyncio.sleep(0)

        await asyncio.gather(client("a"), client("b"))
        assert told[:2] != ["b", "a"]
        assert told[2:4] != ["b", "a"]
        assert told == list("ababab")

    @seed(number)
    @QUIET
    @given(schedule=sim.schedules())
    def law(schedule: Any) -> None:
        sim.run(main, schedule)

    with pytest.raises((AssertionError, ExceptionGroup)):  # what hypothesis raises of several failures
        law()


@pytest.mark.parametrize("schedule", [Drawn(((0, 0, 0),)), PCT(1), Seeded(1)], ids=repr)
def test_every_run_gets_its_inputs_fresh(schedule: Any) -> None:
    seen: list[int] = []

    @settings(max_examples=3, database=None, deadline=None)
    @given(items=st.just([1, 2, 3]), schedule=st.just(schedule))
    @sim.world("a")
    async def law(world: World, items: list[int]) -> None:
        await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))
        seen.append(len(items))
        while items:
            items.pop()

    law()

    assert set(seen) == {3}


def test_what_an_actor_raised_before_its_host_crashed_fails_the_run() -> None:
    class Picky(Actor):
        def receive(self, message: int) -> None:
            assert message < 3, f"got {message}"

    @sim.world("s", "c")
    async def program(world: World) -> None:
        world["s"].spawn(Picky, name="picky")
        ref = world["c"].ref("s/picky")
        for n in range(6):
            ref.tell(n)
        await world.sleep(0.1)
        world.crash(world["s"])

    with pytest.raises(Exception, match="got 3"):
        program()


def test_what_a_cancelled_program_raises_fails_the_run() -> None:
    async def stubborn() -> None:
        try:
            await asyncio.sleep(9)
        finally:
            raise AssertionError("not saved")

    @sim.world("a")
    async def program(world: World) -> None:
        running = world["a"].run(stubborn())
        await world.sleep(0.01)
        running.cancel()
        await world.sleep(0.01)

    with pytest.raises(SimulationError, match="raised when it was cancelled: AssertionError: not saved"):
        program()


def test_a_program_that_ends_cancelled_has_failed_and_has_a_plan() -> None:
    async def main() -> None:
        task = asyncio.create_task(asyncio.sleep(9))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(SimulationError, match="ended with CancelledError") as raised:
        sim.run(main)

    assert "@example" in str(raised.value.__notes__) or "schedule=" in str(raised.value.__notes__)


def test_a_timer_for_no_time_is_refused() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_later(float("nan"), list)  # asyncio.sleep looks itself from 3.13 on

    with pytest.raises(ValueError, match="a timer is set for a time, got nan"):
        sim.run(main)


def test_a_task_called_as_a_link_takes_no_harm_from_it() -> None:
    dropped = []

    class Sink(Actor):
        def receive(self, message: int) -> None:
            dropped.append(message)

    @sim.world("a", "b")
    async def program(world: World) -> None:
        dropped.clear()
        await asyncio.create_task(asyncio.sleep(0), name="a>b")
        world["b"].spawn(Sink, name="sink")
        world["a"].ref("b/sink").tell(1)
        await world.sleep(0.1)

    program(faults=sim.Faults((("drop", 0, 0),)))

    assert dropped == []


def test_an_error_in_a_finaliser_fails_the_run() -> None:
    class Bad:
        def __del__(self) -> None:
            raise ValueError("in __del__")

    async def main() -> None:
        Bad()

    usual = sys.unraisablehook
    with pytest.raises(SimulationError, match="__del__.*ValueError: in __del__"):
        sim.run(main)
    assert sys.unraisablehook is usual


async def in_a_loop() -> None:
    with pytest.raises(SimulationError, match="was begun inside a running one"):
        sim.run(lambda: asyncio.sleep(0))


def test_a_run_inside_a_running_loop_is_refused_and_says_what_to_do() -> None:
    asyncio.run(in_a_loop())


def test_sleeping_tasks_of_one_loop_may_wake_in_another_order() -> None:
    async def main() -> None:
        order: list[str] = []

        async def late(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            order.append(name)

        await asyncio.gather(late("first", 0.001), late("second", 0.002))
        assert order == ["first", "second"]

    assert attempt(main).error is None
    failing = next(n for n in range(50) if attempt(main, Seeded(n, 0.3)).error is not None)
    with pytest.raises(AssertionError) as raised:
        sim.run(main, Seeded(failing, 0.3))
    assert "it takes one deviation: timer of late-1#1 +2" in raised.value.__notes__


def test_draws_inside_the_body_are_reduced_like_drawn_inputs() -> None:
    @sim.world("a")
    async def law(world: World, data: st.DataObject) -> None:
        k = data.draw(st.integers(1, 3))
        state = {"n": 0}

        async def add() -> None:
            read = state["n"]
            await asyncio.sleep(0)
            state["n"] = read + k

        first = asyncio.create_task(add(), name="one")
        await first
        for _ in range(2):
            await asyncio.sleep(0)
        both = [asyncio.create_task(add(), name="two")]
        for _ in range(3):
            await asyncio.sleep(0)
        both.append(asyncio.create_task(add(), name="three"))
        await asyncio.gather(*both)
        assert state["n"] == 3 * k

    test = seed(1)(QUIET(given(schedule=sim.schedules(), data=st.data())(law)))
    with pytest.raises(AssertionError) as raised:
        test()

    assert any(note.startswith("it takes one deviation") for note in raised.value.__notes__)
