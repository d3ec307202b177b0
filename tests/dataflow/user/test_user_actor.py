"""Actors of the user that nodes ask: how they are reached, in which order, and how long they live."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.values.spec import spec
from tests.support.sessions import run_simulated
from tests.support.spreading import SCOPES, Cluster

I64 = spec("int64", ())


def simulated(main: Callable[[], Coroutine[Any, Any, Any]], **options: Any) -> Any:
    return sim.run(main, **options).result


@dataclass(frozen=True)
class Add:
    amount: Any


class Total(af.Actor):
    """Adds; slow where it is told so."""

    def __init__(self, start: int = 0, nap_s: float = 0.0) -> None:
        self.total = start
        self.nap_s = nap_s
        self.seen: list[int] = []

    async def receive(self, message: Any) -> int:
        return await self.add(message.amount)

    async def add(self, amount: Any) -> int:
        if self.nap_s:
            await asyncio.sleep(self.nap_s)
        self.seen.append(int(amount))
        self.total += int(amount)
        return self.total

    def history(self) -> Any:
        return np.array(self.seen, "int64")


class Plain:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def times(self, x: Any) -> int:
        return self.factor * int(x)


@pytest.mark.parametrize("method", ["add", Add, lambda x: Add(x)])
def test_an_actor_is_asked_by_a_method_or_by_a_message(method: Any) -> None:
    with af.Graph() as graph:
        x = af.placeholder("int64", ())
        total = af.actor(Total, 10)
        added = af.call(total, method, x, outputs=I64)

    async def body(session: af.Session) -> list[Any]:
        return [int(await session.run(added, {x: k})) for k in (1, 2, 3)]

    assert run_simulated(graph, body) == [11, 13, 16]


def test_the_methods_of_any_object_are_called() -> None:
    with af.Graph() as graph:
        y = af.call(af.actor(Plain, 3), "times", 5, outputs=I64)

    assert run_simulated(graph, lambda s: s.run(y)) == 15


def test_every_session_has_an_actor_of_its_own_for_all_its_calls() -> None:
    with af.Graph() as graph:
        total = af.actor(Total)
        first = af.call(total, "add", 1, outputs=I64)
        second = af.call(total, "add", 1, outputs=I64)

    async def main() -> Any:
        async with af.ActorSystem() as system:
            found = []
            for _ in range(2):
                async with af.Session(graph, system=system) as session:
                    found.append([int(v) for v in await session.run([first, second])])
            return [found, list(system.actors)]

    assert simulated(main) == [[[1, 2], [1, 2]], []]


def test_ordered_calls_of_a_step_happen_in_program_order_and_others_side_by_side() -> None:
    @dataclass(frozen=True)
    class Nap:
        seconds: Any

    class Sleeper(af.Actor):
        reentrant = True

        async def receive(self, message: Nap) -> float:
            await asyncio.sleep(float(message.seconds))
            return asyncio.get_running_loop().time()

    def built(ordered: bool) -> tuple[af.Graph, list[Any]]:
        with af.Graph() as graph:
            sleeper = af.actor(Sleeper)
            at = spec("float64", ())
            naps = [af.call(sleeper, Nap, s, outputs=at, ordered=ordered) for s in (3.0, 1.0, 2.0)]
        return graph, naps

    graph, naps = built(ordered=True)
    assert np.round(run_simulated(graph, lambda s: s.run(naps)), 1).tolist() == [3, 4, 6]
    graph, naps = built(ordered=False)
    assert np.round(run_simulated(graph, lambda s: s.run(naps)), 1).tolist() == [3, 1, 2]


@given(
    schedule=sim.schedules(),
    amounts=st.lists(st.integers(-9, 9), min_size=1, max_size=4),
    steps=st.integers(1, 3),
)
@settings(max_examples=25, deadline=None)
def test_under_any_schedule_a_step_calls_in_order_and_each_once(
    schedule: Any, amounts: list[int], steps: int
) -> None:
    with af.Graph() as graph:
        total = af.actor(Total, 0, 0.001)
        added = [af.call(total, "add", a, outputs=I64) for a in amounts]
        history = af.call(total, "history", outputs=spec("int64", (None,)))

    async def body(session: af.Session) -> Any:
        await asyncio.gather(*(session.run(added) for _ in range(steps)))
        return (await session.run(history)).tolist()

    async def main() -> Any:
        async with af.Session(graph) as session:
            return await body(session)

    seen = simulated(main, schedule=schedule)
    assert sorted(seen) == sorted(amounts * steps)
    if steps == 1:
        assert seen == amounts


# -- failing ---------------------------------------------------------------------------------------


def test_what_a_handler_raises_fails_the_step_and_the_actor_goes_on() -> None:
    class Picky(Total):
        async def add(self, amount: Any) -> int:
            if amount < 0:
                raise ValueError("not that")
            return await super().add(amount)

    with af.Graph() as graph:
        x = af.placeholder("int64", ())
        added = af.call(af.actor(Picky), "add", x, outputs=I64, name="added")

    async def body(session: af.Session) -> int:
        await session.run(added, {x: 1})
        with pytest.raises(
            errors.KernelError, match=r"actor 'Picky' raised ValueError: not that at"
        ) as caught:
            await session.run(added, {x: -1})
        assert caught.value.where is not None and caught.value.where.node == "added"
        assert "test_user_actor.py" in str(caught.value.where.defined_at)
        return int(await session.run(added, {x: 1}))

    assert run_simulated(graph, body) == 2


def test_an_actor_that_cannot_be_made_and_a_method_that_is_not_there_are_named() -> None:
    with af.Graph() as graph:
        unmade = af.call(af.actor(Total, 1, 2, 3), "add", 1, outputs=I64)
        missing = af.call(af.actor(Plain, 1), "divide", 1, outputs=I64)
        message = af.call(af.actor(Plain, 1), Add, 1, outputs=I64)

    async def body(session: af.Session) -> None:
        with pytest.raises(errors.GraphError, match="'actor/Total' could not be made: TypeError") as caught:
            await session.run(unmade)
        assert caught.value.where is not None and "test_user_actor" in str(caught.value.where.defined_at)
        with pytest.raises(errors.GraphError, match="Plain has no method 'divide'"):
            await session.run(missing)
        with pytest.raises(errors.GraphError, match="a Plain is no actor and takes no messages, got Add"):
            await session.run(message)

    run_simulated(graph, body)


def test_a_deadline_passes_although_the_actor_works_on() -> None:
    with af.Graph() as graph:
        x = af.placeholder("int64", ())
        total = af.actor(Total, 0, 3.0)
        added = af.call(total, "add", x, outputs=I64, deadline_s=2.0)
        patient = af.call(total, "add", x, outputs=I64)

    async def body(session: af.Session) -> int:
        with pytest.raises(
            errors.DeadlinePassed, match="actor 'Total' did not end within its deadline of 2 s"
        ):
            await session.run(added, {x: 1})
        return int(await session.run(patient, {x: 1}))

    assert run_simulated(graph, body) == 2  # what it worked on it has finished


def test_a_question_that_was_not_begun_is_not_handled_when_its_step_ends() -> None:
    with af.Graph() as graph:
        x = af.placeholder("int64", ())
        total = af.actor(Total, 0, 1.0)
        added = af.call(total, "add", x, outputs=I64)
        history = af.call(total, "history", outputs=spec("int64", (None,)))

    async def body(session: af.Session) -> Any:
        steps = [asyncio.ensure_future(session.run(added, {x: k})) for k in (1, 2, 3)]
        await asyncio.sleep(0.5)
        steps[1].cancel()
        await asyncio.gather(*steps, return_exceptions=True)
        return (await session.run(history)).tolist()

    assert run_simulated(graph, body) == [1, 3]


# -- actors that run already -----------------------------------------------------------------------


def test_a_running_actor_is_asked_by_its_ref_and_outlives_the_session() -> None:
    async def main() -> Any:
        async with af.ActorSystem() as system:
            ref = system.spawn(Total, 5)
            with af.Graph() as graph:
                added = [af.call(ref, Add, k, outputs=I64) for k in (1, 2)]
            async with af.Session(graph, system=system) as session:
                found = await session.run(added)
            return [*map(int, found), await ref.ask(Add(10))]

    assert simulated(main) == [6, 8, 18]


def test_a_ref_of_another_system_or_a_name_for_a_ref_is_refused() -> None:
    async def main() -> None:
        async with af.ActorSystem() as system, af.ActorSystem() as other:
            ref = other.spawn(Total)
            with af.Graph() as graph:
                added = af.call(ref, Add, 1, outputs=I64)
                with pytest.raises(errors.GraphError, match="by name on what af.actor declares"):
                    af.call(ref, "add", 1, outputs=I64)
            async with af.Session(graph, system=system) as session:
                with pytest.raises(errors.PlacementError, match="which lives elsewhere") as caught:
                    await session.run(added)
            assert caught.value.where is not None and caught.value.where.op == "call_actor"

    simulated(main)


# -- actors that are spawned -----------------------------------------------------------------------


class Worker(af.Actor):
    async def receive(self, message: int) -> int:
        await asyncio.sleep(1.0)
        return message * message


class Team(af.Actor):
    """Gives each number to a worker of its own."""

    async def squares(self, numbers: Any) -> Any:
        workers = [self.spawn(Worker, name=f"worker-{n}") for n in numbers.tolist()]
        return np.array(await asyncio.gather(*(w.ask(int(n)) for w, n in zip(workers, numbers, strict=True))))


def test_actors_spawned_during_a_step_end_with_the_session() -> None:
    with af.Graph() as graph:
        team = af.actor(Team)
        squares = af.call(team, "squares", np.array([2, 3]), outputs=spec("int64", (2,)))

    async def main() -> None:
        async with af.ActorSystem() as system:
            async with af.Session(graph, system=system) as session:
                assert (await session.run(squares)).tolist() == [4, 9]
                assert {"worker-2", "worker-3"} <= set(system.actors)
            assert not system.actors

    simulated(main)


class Parent(af.Actor):
    def __init__(self) -> None:
        self.ends: list[str] = []

    def receive(self, message: str) -> Any:
        if message == "fail":
            raise ValueError
        return self.spawn(Worker, name=message)


def test_a_spawned_actor_ends_before_the_one_that_spawned_it_is_dead() -> None:
    async def main() -> None:
        async with af.ActorSystem() as system:
            parent = system.spawn(Parent)
            child = await parent.ask("child")
            assert await child.ask(3) == 9
            gone = await parent.ask("gone")
            await system.stop(gone)
            working = asyncio.ensure_future(child.ask(4))
            await asyncio.sleep(0.5)
            await system.stop(parent)
            assert not system.actors
            with pytest.raises(errors.ActorDied):
                await working

    simulated(main)


def test_a_restarted_actor_has_lost_those_that_it_spawned() -> None:
    async def main() -> None:
        async with af.ActorSystem() as system:
            group = system.supervisor(af.supervision.Strategy())
            parent = group.spawn(Parent, name="parent")
            child = await parent.ask("child")
            parent.put("fail", system.nobody)
            assert await child.stopped() is None
            assert await (await parent.ask("child")).ask(2) == 4

    simulated(main)


def test_an_actor_that_does_not_end_does_not_hold_up_the_session(caplog: pytest.LogCaptureFixture) -> None:
    class Stubborn(af.Actor):
        async def wait(self) -> int:
            until = asyncio.get_running_loop().time() + 30.0
            while asyncio.get_running_loop().time() < until:
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(30.0)
            return 0

    with af.Graph() as graph:
        waits = af.call(af.actor(Stubborn), "wait", outputs=I64)

    async def main() -> Any:
        async with af.ActorSystem(deadline_s=2.0) as system:
            async with af.Session(graph, system=system) as session:
                step = asyncio.ensure_future(session.run(waits))
                await asyncio.sleep(1.0)
            closed = asyncio.get_running_loop().time()
            await asyncio.gather(step, return_exceptions=True)
            return closed

    with caplog.at_level(logging.WARNING):
        closed = simulated(main)
    assert closed < 5.0
    assert "actor 'Stubborn' was to stop, and goes on after 2 s" in caplog.text


# -- over processes --------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [None, 1])
def test_over_processes_code_runs_where_its_scope_says_and_at_home_by_default(at: int | None) -> None:
    where: list[str] = []

    class Here(af.Actor):
        def add(self, x: Any) -> int:
            where.append(self.ref.name)
            return int(x) + 1

    async def nap(x: Any) -> int:
        await asyncio.sleep(1.0)
        return int(x) * 2

    with af.Graph() as graph:
        scope = None if at is None else SCOPES[at]
        with af.device(scope):
            here = af.actor(Here)
            napped = af.py_actor(nap, af.constant(4), I64)
        added = af.call(here, "add", napped, outputs=I64)
        with af.device(SCOPES[2]):
            result = added * af.constant(10, dtype="int64")

    async def main() -> Any:
        async with Cluster(graph) as cluster:
            return int(await cluster.session.run(result))

    assert simulated(main) == 90
    assert where == [f"p{at or 0}.1/actor/Here"]


def test_over_processes_the_end_of_a_step_cancels_code_elsewhere() -> None:
    ends: list[str] = []

    async def nap(x: Any) -> Any:
        try:
            await asyncio.sleep(60.0)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise
        return x

    with af.Graph() as graph, af.device(SCOPES[1]):
        napped = af.py_actor(nap, af.constant(4), spec("int32", ()))

    async def main() -> None:
        async with Cluster(graph) as cluster:
            with pytest.raises(errors.DeadlinePassed):
                await cluster.session.run(napped, deadline_s=1.0)

    simulated(main)
    assert ends == ["cancelled"]


def test_on_a_cluster_code_runs_with_the_chief_or_where_its_scope_says() -> None:
    where: list[str] = []

    class Here(af.Actor):
        def add(self, x: Any) -> int:
            where.append(self.system.name)
            return int(x) + 1

    with af.Graph() as graph:
        v = af.Variable(1.0, name="v")
        loss = v * v
        one = af.call(af.actor(Here), "add", 1, outputs=I64)
        with af.device("/job:worker/task:1"):
            two = af.call(af.actor(Here), "add", one, outputs=I64)
        train = af.minimize(loss, af.optim.sgd(0.1))
    program = af.Program(graph=graph, loss=loss, train=train, batches=lambda epoch: [{}], epochs=1)

    async def main() -> Any:
        async with af.Cluster.simulated(program, workers=2) as cluster:
            return int(await cluster.run(two.name, {}))

    assert simulated(main) == 3
    assert where == ["chief", "worker1"]
