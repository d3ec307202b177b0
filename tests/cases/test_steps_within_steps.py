"""Steps that run steps of their own session go on, however few may run at once; what cannot is a typed error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import sim
from actorflow.actors.system import ActorSystem
from actorflow.errors import AskCycle, QueueStarved
from actorflow.session.distributed import DistributedSession
from tests.support.one_loop import OneLoop

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
        defaults: Any = DistributedSession.__init__.__kwdefaults__
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(defaults, "max_steps", max_steps)
            cluster = await OneLoop(loss, ("ps0",), ("worker0",)).open()
        try:
            spread = cluster.open_session_of()
            assert spread.max_steps == max_steps
            self.session = cluster  # type: ignore[assignment]
            runs = (self.run(self.outer, float(k)) for k in range(count))
            found = await asyncio.wait_for(asyncio.gather(*runs), PATIENCE_S)
            await cluster.settled()
            assert cluster.stats().live == 0
            assert cluster.stats().waiting == 0
            assert await self.run(self.double, 1.0) == 2.0
        finally:
            await cluster.close()
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


# -- what can never end is named ---------------------------------------------------------------------


class Asking(af.Actor):
    """Asked for "step" it runs the step `inner` of `nest`; asked for "leaf" it answers at once."""

    def __init__(self, nest: Any) -> None:
        self.nest = nest

    async def receive(self, message: Any) -> Any:
        what, x = message
        return np.float32(x if what == "leaf" else await self.nest.run(self.nest.inner, x))


class Reentrant(Asking):
    reentrant = True


class RingNest:
    """A step `outer` -> an actor -> a step `inner` -> the same actor, by code or by `af.call`."""

    def __init__(self, system: ActorSystem, kind: type[Asking], *, called: bool, hops: int = 1) -> None:
        self.session: Any = None
        actor = system.spawn(kind, self, name="asked")
        for _ in range(hops - 1):
            actor = system.spawn(Passing, actor)
        with af.Graph() as self.graph:
            self.x = af.placeholder("float32", (), name="x")
            if called:
                by_call = system.actors["asked"]
                self.outer = af.call(by_call, lambda v: ("step", float(v)), self.x, outputs=NUMBER)
                self.inner = af.call(by_call, lambda v: ("leaf", float(v)), self.x, outputs=NUMBER)
            else:

                async def step(v: Any) -> Any:
                    return await actor.ask(("step", float(v)), ENDLESS_S)

                async def leaf(v: Any) -> Any:
                    return await actor.ask(("leaf", float(v)), ENDLESS_S)

                self.outer = af.py_actor(step, [self.x], NUMBER)
                self.inner = af.py_actor(leaf, [self.x], NUMBER)

    async def run(self, fetch: Any, x: float) -> float:
        return float(await self.session.run(fetch, {self.x: x}))


class Passing(af.Actor):
    def __init__(self, to: af.Ref) -> None:
        self.to = to

    async def receive(self, message: Any) -> Any:
        return await self.to.ask(message, ENDLESS_S)


ENDLESS_S = 1e6


async def through_an_actor(kind: type[Asking], max_steps: int, *, called: bool, hops: int = 1) -> Any:
    async with ActorSystem() as system:
        nest = RingNest(system, kind, called=called, hops=hops)
        async with af.Session(nest.graph, system=system, max_steps=max_steps) as nest.session:
            async with asyncio.timeout(PATIENCE_S):
                return await nest.run(nest.outer, 3.0)


@pytest.mark.parametrize("max_steps", [1, 2, 64])
@pytest.mark.parametrize("called", [False, True])
def test_a_step_that_waits_through_an_actor_for_that_very_actor_is_named(
    max_steps: int, called: bool
) -> None:
    with pytest.raises(AskCycle, match="step 2 -> asked -> step 2"):
        af.run(through_an_actor(Asking, max_steps, called=called))


def test_a_ring_through_a_step_and_several_actors_is_named() -> None:
    with pytest.raises(AskCycle, match="step 2 -> passing-3 -> passing-2 -> asked -> step 2|passing-3"):
        af.run(through_an_actor(Asking, 64, called=False, hops=3))


def test_a_ring_through_a_step_and_an_actor_is_named_in_a_simulation() -> None:
    async def body() -> str:
        try:
            await through_an_actor(Asking, 64, called=False)
        except AskCycle as error:
            return error.what
        return ""

    assert "step 2 -> asked -> step 2" in str(sim.run(body).result)


@pytest.mark.parametrize("max_steps", [1, 64])
@pytest.mark.parametrize("called", [False, True])
def test_a_reentrant_actor_goes_on(max_steps: int, called: bool) -> None:
    assert af.run(through_an_actor(Reentrant, max_steps, called=called)) == 3.0


def test_an_actor_that_waits_for_a_place_which_waits_for_the_actor() -> None:
    """The actor works for nobody's step, so that no step lends it a place."""

    async def main() -> float:
        async with ActorSystem() as system:
            nest = RingNest(system, Asking, called=False)
            go = asyncio.Event()
            with nest.graph:

                async def waits(v: Any) -> Any:
                    go.set()
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                    return await system.actors["asked"].ask(("leaf", float(v)), ENDLESS_S)

                holder = af.py_actor(waits, [nest.x], NUMBER)
            session = af.Session(nest.graph, system=system, max_steps=1)
            async with session as nest.session, asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
                group.create_task(nest.session.run(holder, {nest.x: 1.0}))
                await go.wait()
                await system.actors["asked"].ask(("step", 2.0), ENDLESS_S)
        return 0.0

    with pytest.raises(ExceptionGroup) as told:
        af.run(main())
    assert (
        told.group_contains(AskCycle) if hasattr(told, "group_contains") else "AskCycle" in repr(told.value)
    )


def test_code_that_runs_one_at_a_time_and_needs_itself_through_an_actor_is_named() -> None:
    class Again(af.Actor):
        async def receive(self, message: Any) -> Any:
            return np.float32(await nest.run(nest.outer, float(message)))

    nest: Any = None

    async def main() -> Any:
        nonlocal nest
        async with ActorSystem() as system:
            again = system.spawn(Again, name="again")

            async def code(_nest: Nest, x: float) -> Any:
                return 0.0 if x == 0 else await again.ask(x - 1, ENDLESS_S)

            nest = Nest(code, concurrency=1)
            async with af.Session(nest.graph, system=system) as nest.session:
                async with asyncio.timeout(PATIENCE_S):
                    return [await nest.run(nest.outer, 1.0)]

    with pytest.raises(AskCycle, match=r"runs 1 at a time, .*step 2 -> step 1 -> again -> step 2"):
        af.run(main())


# -- first values ------------------------------------------------------------------------------------


class Firsts:
    """Variables `a` and `b`, whose first values come of code: what `needs` says of each."""

    def __init__(self, **needs: str) -> None:
        self.session: Any = None
        with af.Graph() as self.graph:
            for name, needed in needs.items():
                value = af.py_actor(partial(self.first, needed), [], NUMBER)
                setattr(self, name, af.Variable(value, name=name))

    async def first(self, needed: str) -> Any:
        for name in needed:
            await self.session.run(getattr(self, name))
        return np.float32(1.0)

    async def run(self, *names: str) -> list[float]:
        async with af.Session(self.graph) as self.session, asyncio.timeout(PATIENCE_S):
            return await self.wanted(names)

    async def wanted(self, names: Sequence[str]) -> list[float]:
        runs = (self.session.run(getattr(self, name)) for name in names)
        return [float(x) for x in await asyncio.gather(*runs)]


class SpreadFirstValues(Firsts):
    """The same where the session is one over processes."""

    async def run(self, *names: str) -> list[float]:
        program = program_of_firsts(self)
        async with OneLoop(program, ("ps0",), ("worker0",)) as self.session, asyncio.timeout(PATIENCE_S):
            return await self.wanted(names)


def program_of_firsts(firsts: Firsts) -> af.Program:
    nest: Any = firsts
    with firsts.graph:
        nest.x = af.placeholder("float32", (), name="x")
    return program_of(nest)


@pytest.mark.parametrize("kind", [Firsts, SpreadFirstValues])
def test_a_first_value_that_needs_itself_is_named(kind: type[Firsts]) -> None:
    with pytest.raises(AskCycle, match=r"first value of 'a'"):
        af.run(kind(a="a").run("a"))


@pytest.mark.parametrize("kind", [Firsts, SpreadFirstValues])
@pytest.mark.parametrize("wanted", ["a", "ab", "ba"])
def test_first_values_that_need_each_other_are_named(kind: type[Firsts], wanted: str) -> None:
    with pytest.raises(AskCycle, match=r"first value of '[ab]' -> .*first value of '[ab]'"):
        af.run(kind(a="b", b="a").run(*wanted))


@pytest.mark.parametrize("kind", [Firsts, SpreadFirstValues])
def test_first_values_that_need_others_through_steps_are_given(kind: type[Firsts]) -> None:
    assert af.run(kind(a="bc", b="c", c="").run(*"abcabc")) == [1.0] * 6


def test_a_first_value_that_needs_itself_through_an_actor_is_named() -> None:
    class Reader(af.Actor):
        async def receive(self, message: Any) -> Any:
            return np.float32(await session.run(w))

    session: Any = None
    w: Any = None

    async def main() -> Any:
        nonlocal session, w
        async with ActorSystem() as system:
            reader = system.spawn(Reader, name="reader")
            with af.Graph() as graph:

                async def first() -> Any:
                    return await reader.ask("read", ENDLESS_S)

                w = af.Variable(af.py_actor(first, [], NUMBER), name="w")
            async with af.Session(graph, system=system) as session, asyncio.timeout(PATIENCE_S):
                return await session.run(w)

    with pytest.raises(AskCycle, match=r"reader -> first value of 'w'"):
        af.run(main())


# -- queues ------------------------------------------------------------------------------------------


class Queued:
    """Steps that put into a queue and take out of it, and code that runs them within a step."""

    def __init__(self, code: Callable[[Any], Awaitable[Any]], capacity: int = 1) -> None:
        self.session: Any = None
        with af.Graph() as self.graph:
            self.queue = af.state.FIFOQueue(capacity, ["float32"], [()], name="lines")
            self.back = af.state.FIFOQueue(capacity, ["float32"], [()], name="back")
            self.put = self.queue.enqueue(af.constant(1.0))
            self.take = self.queue.dequeue()
            self.across = self.queue.enqueue(self.back.dequeue())

            async def inner() -> Any:
                return np.float32(await code(self))

            self.outer = af.py_actor(inner, [], NUMBER)
            self.fill = self.queue.enqueue(self.outer)

    async def main(self, fetch: Any, max_steps: int = 64) -> Any:
        async with af.Session(self.graph, max_steps=max_steps, starvation_s=5.0) as self.session:
            return await self.session.run(fetch)


def queued(nest: Queued, fetch: Any, max_steps: int = 64) -> Any:
    return sim.run(lambda: nest.main(fetch, max_steps)).result


def test_a_step_takes_within_itself_what_only_it_would_put_in() -> None:
    nest = Queued(lambda nest: nest.session.run(nest.take))

    with pytest.raises(QueueStarved, match=r"can go on: 1 step waits for step 2; it is filled by 'lines"):
        queued(nest, nest.fill)


def test_a_step_takes_three_steps_deep_what_only_it_would_put_in() -> None:
    async def deeper(nest: Any) -> Any:
        return await nest.session.run(next(way))

    nest = Queued(deeper)
    way = iter([nest.outer, nest.outer, nest.take])

    with pytest.raises(QueueStarved, match="1 step waits for step 2"):
        queued(nest, nest.fill)


def test_a_step_takes_within_itself_what_another_one_puts_in() -> None:
    async def code(nest: Any) -> Any:
        async with asyncio.TaskGroup() as group:
            taken = group.create_task(nest.session.run(nest.take))
            await asyncio.sleep(60)  # far beyond the grace, and it is known of nobody that he will
            group.create_task(nest.session.run(nest.put))
        return taken.result()

    async def main(nest: Any) -> Any:
        async with af.Session(nest.graph, starvation_s=5.0) as nest.session:
            with af.state.producing(nest.session, nest.queue):
                return await nest.session.run(nest.outer)

    nest = Queued(code)
    assert sim.run(lambda: main(nest)).result == 1.0


def test_a_runner_that_waits_for_the_place_of_who_takes_what_it_fills() -> None:
    async def main(nest: Any) -> Any:
        async with af.Session(nest.graph, max_steps=1, starvation_s=5.0) as nest.session:
            taken = asyncio.ensure_future(nest.session.run(nest.take))
            await asyncio.sleep(0.1)
            async with af.state.QueueRunner(nest.session) as feeder:
                feeder.run(nest.put)
                return await taken

    nest = Queued(lambda nest: nest.session.run(nest.take))
    with pytest.raises(QueueStarved, match="1 step waits for admission, max_steps is 1"):
        sim.run(lambda: main(nest))


async def by_a_runner(nest: Any) -> Any:
    """Code of a step that opens a queue runner, and takes what it puts in."""
    async with af.state.QueueRunner(nest.session) as feeder:
        feeder.run(nest.put)
        await asyncio.sleep(1)
        return await nest.session.run(nest.take)


def test_a_runner_within_a_step_keeps_the_place_that_it_was_lent() -> None:
    nest = Queued(by_a_runner)

    with pytest.raises(QueueStarved, match=r"step 4 waits for admission, .*step 3 waits for .*lines/enqueue"):
        queued(nest, nest.outer, max_steps=1)


def test_a_runner_within_a_step_goes_on_where_there_is_room() -> None:
    nest = Queued(by_a_runner)

    assert queued(nest, nest.outer, max_steps=3) == 1.0


def test_who_waits_for_room_holds_all_places() -> None:
    async def main(nest: Any) -> Any:
        async with af.Session(nest.graph, max_steps=2, starvation_s=5.0) as nest.session:
            puts = [asyncio.ensure_future(nest.session.run(nest.put)) for _ in range(3)]
            try:
                await asyncio.sleep(1)
                return await nest.session.run(nest.take)
            finally:
                for put in puts:
                    put.cancel()

    nest = Queued(lambda nest: nest.session.run(nest.take))
    with pytest.raises(
        QueueStarved, match="waits for admission, and for 7.5 s none of those that run could go on"
    ):
        sim.run(lambda: main(nest))


def test_who_waits_for_admission_behind_code_that_takes_its_time_waits_on() -> None:
    async def slow(nest: Any) -> Any:
        await asyncio.sleep(1000)
        return 1.0

    async def main(nest: Any) -> Any:
        async with af.Session(nest.graph, max_steps=1, starvation_s=5.0) as nest.session:
            first = asyncio.ensure_future(nest.session.run(nest.outer))
            await asyncio.sleep(1)
            return [await nest.session.run(nest.outer), await first]

    nest = Queued(slow)
    assert sim.run(lambda: main(nest)).result == [1.0, 1.0]


def test_what_feeds_a_queue_from_what_only_that_queue_would_fill() -> None:
    async def main(nest: Any) -> Any:
        with nest.graph:
            around = nest.back.enqueue(nest.take)
            from_back = nest.back.dequeue()

        async def elements() -> Any:
            while True:
                yield await nest.session.run(from_back)

        async with (
            af.Session(nest.graph, starvation_s=5.0) as nest.session,
            af.state.QueueRunner(nest.session) as feeder,
        ):
            feeder.feed(nest.queue, elements())
            return await nest.session.run(around)

    nest = Queued(lambda nest: nest.session.run(nest.take))
    with pytest.raises((QueueStarved, ExceptionGroup), match="can go on|what filled"):
        sim.run(lambda: main(nest))


def test_what_feeds_a_queue_slowly_is_waited_for() -> None:
    async def main(nest: Any) -> Any:
        async def elements() -> Any:
            await asyncio.sleep(1000)
            yield 7.0

        async with (
            af.Session(nest.graph, max_steps=1, starvation_s=5.0) as nest.session,
            af.state.QueueRunner(nest.session) as feeder,
        ):
            feeder.feed(nest.queue, elements())
            taken = asyncio.ensure_future(nest.session.run(nest.take))
            await asyncio.sleep(1)
            again = asyncio.ensure_future(nest.session.run(nest.outer))
            return [await taken, await again]

    async def at_once(nest: Any) -> Any:
        return 1.0

    nest = Queued(at_once)
    assert sim.run(lambda: main(nest)).result == [7.0, 1.0]
