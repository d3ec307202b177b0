"""State under a shared name: one for all sessions of a system, by explicit word only, until a reset."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from tests.support.systems import in_system

Body = Callable[[af.ActorSystem], Awaitable[Any]]


class Counter:
    """A graph of its own that counts in a shared variable."""

    def __init__(self, initial: Any = 0, container: str | None = None, shared_name: str | None = "n") -> None:
        with af.Graph() as self.graph:
            if container is None:
                self.n = af.Variable(np.int64(initial), name="mine", shared_name=shared_name)
            else:
                with af.state.container(container):
                    self.n = af.Variable(np.int64(initial), name="mine", shared_name=shared_name)
            self.read, self.add = self.n.read(), self.n.assign_add(np.int64(1))
            self.version = self.n.version()


def test_two_graphs_share_a_variable_of_one_shared_name() -> None:
    async def body(system: af.ActorSystem) -> Any:
        a, b = Counter(), Counter()
        async with af.Session(a.graph, system=system) as s, af.Session(b.graph, system=system) as t:
            await asyncio.gather(*(s.run(a.add) for _ in range(5)), *(t.run(b.add) for _ in range(5)))
            return [int(await s.run(a.read)), int(await t.run(b.read))]

    assert in_system(body) == [10, 10]


def test_equal_names_share_nothing_without_a_shared_name() -> None:
    async def body(system: af.ActorSystem) -> Any:
        a, b = Counter(shared_name=None), Counter(shared_name=None)
        async with af.Session(a.graph, system=system) as s, af.Session(b.graph, system=system) as t:
            await s.run(a.add)
            return int(await t.run(b.read))

    assert in_system(body) == 0


def test_shared_state_outlives_the_session_that_made_it_and_not_the_system() -> None:
    counter = Counter()

    async def body(system: af.ActorSystem) -> Any:
        seen = []
        for _ in range(3):
            async with af.Session(counter.graph, system=system) as session:
                seen.append(int(await session.run(counter.add)))
        return seen

    assert in_system(body) == [1, 2, 3]
    assert in_system(body) == [1, 2, 3]


def test_a_shared_variable_gets_one_first_value_whoever_comes_first() -> None:
    async def body(system: af.ActorSystem) -> Any:
        counters = [Counter(initial=10 * k) for k in range(1, 4)]
        sessions = [af.Session(c.graph, system=system) for c in counters]
        for session in sessions:
            await session.__aenter__()
        runs = [s.run((c.read, c.version)) for s, c in zip(sessions, counters, strict=True)]
        found = await asyncio.gather(*runs)
        for session in sessions:
            await session.close()
        return found

    found = in_system(body)
    assert len({int(value) for value, _ in found}) == 1
    assert [int(version) for _, version in found] == [1, 1, 1]


def test_a_session_without_a_first_value_leaves_that_to_one_that_has_it() -> None:
    async def body(system: af.ActorSystem) -> Any:
        with af.Graph() as bare:
            n = af.Variable(dtype="int64", shape=(), shared_name="n")
            known = n.is_initialised()
        counter = Counter(initial=7)
        async with (
            af.Session(bare, system=system) as s,
            af.Session(counter.graph, system=system) as t,
        ):
            before = bool(await s.run(known))
            return before, int(await t.run(counter.read)), int(await s.run(n))

    assert in_system(body) == (False, 7, 7)


def test_containers_part_equal_shared_names() -> None:
    async def body(system: af.ActorSystem) -> Any:
        a, b = Counter(container="a"), Counter(container="b")
        async with af.Session(a.graph, system=system) as s, af.Session(b.graph, system=system) as t:
            await s.run(a.add)
            return int(await s.run(a.read)), int(await t.run(b.read))

    assert in_system(body) == (1, 0)


def test_a_queue_is_shared_with_its_elements() -> None:
    def built() -> tuple[af.Graph, Any, Any]:
        with af.Graph() as graph:
            queue = af.state.FIFOQueue(4, "int32", (), name="q", shared_name="jobs")
            return graph, queue.enqueue(7), queue.dequeue()

    async def body(system: af.ActorSystem) -> Any:
        (a, put, _), (b, _, take) = built(), built()
        async with af.Session(b, system=system) as consumer:
            waiting = asyncio.create_task(consumer.run(take))
            async with af.Session(a, system=system) as producer:
                await producer.run(put)
            return int(await waiting)

    assert in_system(body) == 7


def test_other_state_under_a_shared_name_is_refused_at_the_users_line() -> None:
    async def body(system: af.ActorSystem) -> Any:
        a = Counter()
        with af.Graph() as other:
            af.state.FIFOQueue(1, "int64", (), shared_name="n").size()
        with af.Graph() as wider:
            w = af.Variable(np.zeros(2), shared_name="n")
        async with af.Session(a.graph, system=system) as s:
            await s.run(a.add)
            async with af.Session(wider, system=system) as t:
                with pytest.raises(
                    errors.StateError, match=r"of spec \(\) int64 .*got spec \(2,\)"
                ) as caught:
                    await t.run(w)
                assert "test_sharing.py" in str(caught.value.where)
            async with af.Session(other, system=system) as t:
                with pytest.raises(errors.StateError, match="stands for a variable .*got a queue"):
                    await t.run(other.nodes[-1].name)

    in_system(body)


def test_a_graph_declares_shared_state_once() -> None:
    with af.Graph():
        af.Variable(1.0, name="a", shared_name="n")
        with af.state.container("c"):
            af.Variable(1.0, name="b", shared_name="n")
        with pytest.raises(errors.GraphError, match="declares shared state once, 'n' is 'a'"):
            af.Variable(1.0, name="c", shared_name="n")
        with pytest.raises(errors.GraphError, match="declares shared state once, 'n' is 'a'"):
            af.state.FIFOQueue(1, "int32", (), shared_name="n")


@pytest.mark.parametrize("name", ["", 3, b"n"])
def test_names_of_sharing_are_texts(name: Any) -> None:
    with af.Graph():
        with pytest.raises(errors.GraphError, match="the shared name of a variable is a text"):
            af.Variable(1.0, shared_name=name)
        with (
            pytest.raises(errors.GraphError, match="a container is named by a text"),
            af.state.container(name),
        ):
            pass


def test_a_graph_that_is_read_back_shares_the_same_state() -> None:
    counter = Counter(container="c")
    read_back = af.io.from_data(*af.io.to_data(counter.graph))

    async def body(system: af.ActorSystem) -> Any:
        async with (
            af.Session(counter.graph, system=system) as s,
            af.Session(read_back, system=system) as t,
        ):
            await s.run(counter.add)
            return int(await t.run("mine"))

    assert in_system(body) == 1


# -- reset -----------------------------------------------------------------------------------------


def test_a_reset_makes_the_state_of_one_container_anew_for_sessions_that_are_open() -> None:
    async def body(system: af.ActorSystem) -> Any:
        a, b = Counter(container="a", initial=100), Counter(container="b")
        async with af.Session(a.graph, system=system) as s, af.Session(b.graph, system=system) as t:
            call = s.make_callable(a.read)
            await s.run(a.add)
            await t.run(b.add)
            await af.state.reset(system, "a")
            return int(await call()), int(await s.run(a.add)), int(await t.run(b.read))

    assert in_system(body) == (100, 101, 1)


def test_a_reset_of_all_containers_leaves_private_state_alone() -> None:
    async def body(system: af.ActorSystem) -> Any:
        a, b, private = Counter(container="a"), Counter(), Counter(shared_name=None)
        async with (
            af.Session(a.graph, system=system) as s,
            af.Session(b.graph, system=system) as t,
            af.Session(private.graph, system=system) as u,
        ):
            await asyncio.gather(s.run(a.add), t.run(b.add), u.run(private.add))
            await af.state.reset(system)
            return [int(await x.run(c.read)) for x, c in ((s, a), (t, b), (u, private))]

    assert in_system(body) == [0, 0, 1]


def test_who_waits_for_state_that_is_reset_is_told() -> None:
    async def body(system: af.ActorSystem) -> None:
        with af.Graph() as graph:
            take = af.state.FIFOQueue(1, "int32", (), shared_name="jobs").dequeue()
        async with af.Session(graph, system=system) as session:
            waiting = asyncio.create_task(session.run(take))
            for _ in range(5):
                await asyncio.sleep(0)
            await af.state.reset(system, "")
            with pytest.raises(errors.ActorDied, match="queue 'queue' was stopped before it could answer"):
                await waiting

    in_system(body)


def test_a_feeder_whose_queue_is_reset_fails_and_does_not_end_well() -> None:
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(2, "int64", (), name="jobs", shared_name="jobs")

    async def fed(session: af.Session, system: af.ActorSystem) -> None:
        async with af.state.QueueRunner(session) as feeder:
            feeder.feed(queue, range(10))
            await asyncio.sleep(0.005)
            await af.state.reset(system)
            await feeder.join()

    async def body(system: af.ActorSystem) -> None:
        async with af.Session(graph, system=system) as session:
            with pytest.raises(ExceptionGroup) as caught:
                await fed(session, system)
            (error,) = caught.value.exceptions
            assert isinstance(error, errors.ActorDied)
            assert "queue 'jobs' was stopped before it could answer" in str(error)

    in_system(body)


def test_who_waits_for_a_shared_queue_when_the_system_is_left_is_told() -> None:
    with af.Graph() as graph:
        take = af.state.FIFOQueue(2, "int64", (), shared_name="jobs").dequeue()

    async def main() -> None:
        async with af.ActorSystem() as system:
            session = await af.Session(graph, system=system).__aenter__()
            waiting = asyncio.create_task(session.run(take))
            await asyncio.sleep(0.005)
        with pytest.raises(errors.ActorDied, match="was stopped before it could answer"):
            await waiting

    asyncio.run(main())


def test_a_reset_of_a_container_in_which_nothing_is_shared_does_nothing() -> None:
    async def body(system: af.ActorSystem) -> Any:
        counter = Counter(container="a")
        async with af.Session(counter.graph, system=system) as session:
            await session.run(counter.add)
            await af.state.reset(system, "nosuch")
            return int(await session.run(counter.read))

    assert in_system(body) == 1


def test_an_optimizer_begins_anew_with_the_variables_that_a_reset_dropped() -> None:
    async def body(system: af.ActorSystem) -> Any:
        with af.Graph() as graph:
            w = af.Variable(4.0, name="w", shared_name="w")
            update = af.minimize(w * w, af.optim.momentum(0.25, 0.5))
        async with af.Session(graph, system=system) as session:
            first = [int(await session.run(update)) for _ in range(3)], float(await session.run(w))
            await af.state.reset(system)
            again = [int(await session.run(update)) for _ in range(3)], float(await session.run(w))
            return first, again

    first, again = in_system(body)
    assert first == again
    assert first[0] == [1, 2, 3]


def test_reset_refuses_what_is_no_system_or_no_name() -> None:
    async def body(system: af.ActorSystem) -> None:
        with pytest.raises(errors.ConfigError, match="reset takes an actor system, got str 'c'"):
            await af.state.reset("c")  # type: ignore[arg-type]
        with pytest.raises(errors.ConfigError, match="reset takes the name of a container, or None"):
            await af.state.reset(system, 3)  # type: ignore[arg-type]

    in_system(body)
