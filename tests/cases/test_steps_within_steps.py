"""Steps that run steps of their own session go on, however few may run at once; what cannot is a typed error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import sim
from actorflow.actors.system import ActorSystem
from actorflow.errors import AskCycle
from tests.one_loop import OneLoop

PATIENCE_S = 20.0
"""How long a test waits for what used to wait for ever."""

NUMBER = af.Spec((), np.dtype("float32"))


class Nest:
    """A graph whose op `outer` runs what `code(session, double, x)` does."""

    def __init__(self, code: Callable[..., Awaitable[Any]], *, concurrency: int | None = None) -> None:
        self.session: af.Session
        with af.Graph() as self.graph:
            self.x = af.placeholder("float32", (), name="x")
            self.double = self.x * 2.0

            async def inner(x: Any) -> Any:
                return np.float32(await code(self, float(x)))

            self.outer = af.py_actor(inner, [self.x], NUMBER, concurrency=concurrency)

    async def run(self, fetch: Any, x: float) -> float:
        return float(await self.session.run(fetch, {self.x: x}))

    async def together(self, count: int, max_steps: int) -> list[float]:
        async with af.Session(self.graph, max_steps=max_steps) as self.session:
            runs = (self.run(self.outer, float(k)) for k in range(count))
            found = await asyncio.wait_for(asyncio.gather(*runs), PATIENCE_S)
            assert self.session.stats().live == 0
            assert await self.run(self.double, 1.0) == 2.0
        return list(found)


def test_as_many_steps_as_may_run_each_run_one_more() -> None:
    nest = Nest(lambda nest, x: nest.run(nest.double, x))

    assert af.run(nest.together(4, 4)) == [0.0, 2.0, 4.0, 6.0]


@pytest.mark.parametrize("max_steps", [1, 2])
def test_more_steps_than_may_run_each_run_several_side_by_side(max_steps: int) -> None:
    async def several(nest: Nest, x: float) -> float:
        return sum(await asyncio.gather(*(nest.run(nest.double, x) for _ in range(3))))

    assert af.run(Nest(several).together(3, max_steps)) == [0.0, 6.0, 12.0]


def test_steps_within_steps_within_steps() -> None:
    async def down(nest: Nest, x: float) -> float:
        return 0.0 if x == 0 else 1.0 + await nest.run(nest.outer, x - 1)

    assert af.run(Nest(down).together(9, 1))[-1] == 8.0


def test_steps_that_run_themselves_without_end_are_named() -> None:
    async def forever(nest: Nest, x: float) -> float:
        return await nest.run(nest.outer, x)

    with pytest.raises(AskCycle, match="64 deep, got step 1 -> ... -> step 62 -> step 63 -> step 64"):
        af.run(Nest(forever).together(1, 2))


def test_code_that_runs_one_at_a_time_and_needs_itself_is_named() -> None:
    async def again(nest: Nest, x: float) -> float:
        return 0.0 if x == 0 else await nest.run(nest.outer, x - 1)

    with pytest.raises(AskCycle, match=r"runs 1 at a time, .* step \d+ -> step \d+"):
        af.run(Nest(again, concurrency=1).together(2, 64))


def test_a_step_in_a_task_and_in_a_thread_that_the_code_began() -> None:
    async def beside(nest: Nest, x: float) -> float:
        loop = asyncio.get_running_loop()

        def foreign() -> float:
            return asyncio.run_coroutine_threadsafe(nest.run(nest.double, x), loop).result(PATIENCE_S)

        async with asyncio.TaskGroup() as group:
            task = group.create_task(nest.run(nest.double, x))
        return task.result() + await asyncio.to_thread(foreign)

    assert af.run(Nest(beside).together(2, 1)) == [0.0, 4.0]


def test_a_callable_within_a_step() -> None:
    async def called(nest: Nest, x: float) -> float:
        call = nest.session.make_callable(nest.double, (nest.x,))
        return float(await call(x))

    assert af.run(Nest(called).together(3, 2)) == [0.0, 2.0, 4.0]


def test_steps_within_steps_in_a_simulation() -> None:
    nest = Nest(lambda nest, x: nest.run(nest.double, x))

    assert sim.run(lambda: nest.together(4, 2)).result == [0.0, 2.0, 4.0, 6.0]


def test_a_step_within_a_step_that_is_cancelled_gives_its_place_back() -> None:
    async def gives_up(nest: Any, x: float) -> float:
        try:
            await asyncio.wait_for(nest.run(nest.slow, x), 0.01)
        except TimeoutError:
            return float(await nest.run(nest.double, x))
        raise AssertionError

    nest: Any = Nest(gives_up)
    with nest.graph:

        async def sleep(x: Any) -> Any:
            await asyncio.sleep(PATIENCE_S)

        nest.slow = af.py_actor(sleep, [nest.x], NUMBER)

    assert af.run(nest.together(3, 1)) == [0.0, 2.0, 4.0]


def test_a_step_that_an_actor_runs_for_a_step() -> None:
    """The actor has no context of the step: who asked whom tells it."""

    class Doubling(af.Actor):
        reentrant = True

        async def receive(self, message: Any) -> Any:
            return np.float32(await session.run(double, {x: float(message)}))

    class Passing(af.Actor):
        reentrant = True

        def __init__(self, to: af.Ref) -> None:
            self.to = to

        async def receive(self, message: Any) -> Any:
            return await self.to.ask(message, PATIENCE_S)

    x: Any = None
    double: Any = None
    session: Any = None

    async def main() -> Any:
        nonlocal session, x, double
        async with ActorSystem() as system:
            passing = system.spawn(Passing, system.spawn(Doubling))
            with af.Graph() as graph:
                x = af.placeholder("float32", (), name="x")
                double = x * 2.0

                async def ask(value: Any) -> Any:
                    return await passing.ask(value, PATIENCE_S)

                outer = af.py_actor(ask, [x], NUMBER)
            async with af.Session(graph, system=system, max_steps=2) as session:
                runs = (session.run(outer, {x: float(k)}) for k in range(4))
                return await asyncio.wait_for(asyncio.gather(*runs), PATIENCE_S)

    assert af.run(main()) == [0.0, 2.0, 4.0, 6.0]


class SpreadNest(Nest):
    """The same over the processes of a cluster, or of none: the session is one of several processes."""

    async def together(self, count: int, max_steps: int) -> list[float]:
        loss = program_of(self)
        async with OneLoop(loss, ("ps0",), ("worker0",)) as cluster:
            spread = cluster.opened()
            spread.max_steps = max_steps
            self.session = cluster  # type: ignore[assignment]
            runs = (self.run(self.outer, float(k)) for k in range(count))
            found = await asyncio.wait_for(asyncio.gather(*runs), PATIENCE_S)
            await cluster.settled()
            assert cluster.stats().live == 0
            assert cluster.stats().waiting == 0
            assert await self.run(self.double, 1.0) == 2.0
        return list(found)


def program_of(nest: Nest) -> af.Program:
    with nest.graph:
        w = af.Variable(0.0, name="w")
        loss = af.square(nest.x - w)
        train = af.minimize(loss, af.optim.sgd(0.1))
    return af.Program(graph=nest.graph, loss=loss, train=train, batches=lambda _epoch: [], epochs=1)


@pytest.mark.parametrize("max_steps", [1, 2, 4])
def test_steps_of_a_cluster_within_steps_of_it(max_steps: int) -> None:
    nest = SpreadNest(lambda nest, x: nest.run(nest.double, x))

    assert af.run(nest.together(4, max_steps)) == [0.0, 2.0, 4.0, 6.0]


def test_several_steps_of_a_cluster_within_each_step_of_it() -> None:
    async def several(nest: Nest, x: float) -> float:
        return sum(await asyncio.gather(*(nest.run(nest.double, x) for _ in range(3))))

    assert af.run(SpreadNest(several).together(3, 2)) == [0.0, 6.0, 12.0]


def test_steps_of_a_cluster_that_run_themselves_without_end_are_named() -> None:
    async def forever(nest: Nest, x: float) -> float:
        return await nest.run(nest.outer, x)

    with pytest.raises(AskCycle, match="64 deep"):
        af.run(SpreadNest(forever).together(1, 2))
