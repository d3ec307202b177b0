"""The state of a session from outside: leases through steps, first values in order, and who has none."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.sim.engine.schedulers import Schedule
from tests.support.holding import SPOIL, arrays_of, spoil
from tests.support.sessions import run
from tests.support.strategies import examples, run_drawn


def since(before: Any, after: Any) -> tuple[int, int]:
    """Writes in place, and writes that copied."""
    return after.in_place - before.in_place, after.copied - before.copied


# ---------------------------------------------------------------------------------------- leases


@pytest.mark.parametrize("made", [False, True])
def test_writes_of_a_client_that_holds_nothing_go_in_place(made: bool) -> None:
    """Not only after a garbage collection, and also when each write comes right behind the last."""
    with af.Graph() as graph:
        w = af.Variable(np.zeros(8, "float32"), name="w")
        x = af.placeholder("float32", (8,), name="x")
        writes = [w.assign(x), w.assign_add(x), w.assign_sub(x), w.scatter_add([1], 1.0)]
        several = [w.read(), w.assign_add(x), w.read() + 1.0]

    async def body(session: af.Session) -> Any:
        await session.run(w.name)
        before = session.stats()
        fed = np.ones(8, "float32")
        for _ in range(20):
            for write in (*writes, several):
                if made:
                    await session.make_callable(write, [x])(fed)
                else:
                    await session.run(write, {x: fed})
        return since(before, session.stats())

    in_place, copied = run(graph, body)

    assert (in_place, copied) == (80, 20), "a step that fetches a value from before its own write holds it"


def test_a_fetched_value_stays_and_costs_one_copy() -> None:
    with af.Graph() as graph:
        w = af.Variable(np.zeros(4), name="w")
        read, add = w.read(), w.assign_add(np.ones(4))

    async def body(session: af.Session) -> Any:
        held = (await session.run(read))[1:]
        before = session.stats()
        for _ in range(3):
            await session.run(add)
        found = since(before, session.stats())
        again = await session.run(read)
        return held.tolist(), again.tolist(), found

    assert run(graph, body) == ([0] * 3, [3] * 4, (2, 1))


def test_training_leaves_what_can_be_written_in_place() -> None:
    with af.Graph() as graph:
        w = af.Variable(np.ones(4, "float32"), name="w")
        train = af.minimize(af.sum(w * w), af.optim.momentum(0.1))
        add = w.assign_add(np.ones(4, "float32"))

    async def body(session: af.Session) -> Any:
        await session.run(train)
        before = session.stats()
        for _ in range(3):
            await session.run(train)
            await asyncio.sleep(0)  # the commit is a message
            await session.run(add)
        return since(before, session.stats())

    assert run(graph, body) == (3, 0)


def test_a_step_that_failed_holds_no_value() -> None:
    with af.Graph() as graph:
        w = af.Variable(np.zeros(4), name="w")
        bad = af.reshape(w.read(), af.placeholder("int64", (1,), name="shape"))
        add = w.assign_add(np.ones(4))

    async def body(session: af.Session) -> Any:
        with pytest.raises(errors.ActorflowError):
            await session.run(bad, {"shape": np.array([3])})
        before = session.stats()
        await session.run(add)
        await session.run(add)
        return since(before, session.stats())

    in_place, copied = run(graph, body)

    assert in_place >= 1
    assert in_place + copied == 2


def test_a_kernel_on_a_thread_sees_one_value_from_its_begin_to_its_end() -> None:
    n = 400_000
    with af.Graph() as graph:
        w = af.Variable(np.zeros(n, "int64"), name="w")
        uses = af.sum(af.abs(w.read() * 3 - 1))
        add = w.assign_add(np.ones(n, "int64"))
        version = w.version()

    async def body(session: af.Session) -> list[int]:
        await session.run(version)
        sums = []
        for _ in range(8):
            using = [asyncio.create_task(session.run(uses)) for _ in range(2)]
            for _ in range(4):
                await session.run(add)
            sums += [int(s) for s in await asyncio.gather(*using)]
        assert session.stats().offloaded > 0
        return sums

    sums = run(graph, body, threads=2)

    assert all(s % n == 0 for s in sums), "every element was of the same version"
    assert len(set(sums)) > 1


def test_what_a_constant_gives_cannot_be_written() -> None:
    """It is the array that the graph keeps for all steps to come."""
    with af.Graph() as graph:
        plain = af.constant([1.0, 2.0])
        folded = plain * 2.0

    async def body(session: af.Session) -> Any:
        for tensor in (plain, folded):
            array = await session.run(tensor)
            for reached in arrays_of(array):
                with pytest.raises(ValueError, match="cannot set WRITEABLE"):
                    reached.flags.writeable = True
        return (await session.run([plain, folded]))[1].tolist()

    assert run(graph, body) == [2, 4]


@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("how", SPOIL)
def test_what_is_fetched_is_the_callers_own_to_see_in_another_way(how: str, made: bool) -> None:
    """numpy lets whoever holds an array set its shape, be it read-only."""
    with af.Graph() as graph:
        w = af.Variable(np.ones((2, 2)), name="w")
        k = af.constant(np.full((2, 2), 2.0))
        add, train = w.assign_add(k), af.minimize(af.sum(w * w), af.optim.sgd(0.5))
        fetches = [w.read(), add, k, k * 2.0, [w, k]]

    async def body(session: af.Session) -> Any:
        for fetch in fetches:
            got = await (session.make_callable(fetch)() if made else session.run(fetch))
            for array in got if isinstance(got, list) else [got]:
                spoil(how, array)
        got = array = None
        await session.run(train)
        before = session.stats()
        await session.run(add)
        values = await session.run([w, k, k * 2.0])
        return [v.tolist() for v in values], since(before, session.stats())

    with graph:
        found = run(graph, body)

    assert found == ([[[2.0] * 2] * 2, [[2.0] * 2] * 2, [[4.0] * 2] * 2], (1, 0))


def test_a_feed_that_is_fetched_again_is_a_view_of_the_callers_buffer() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (4,), name="x")
        fetches = [x, af.reshape(x, (2, 2)), x[1:], af.stop_gradient(x)]

    async def body(session: af.Session) -> Any:
        buffer = np.zeros(4, "float32")
        found = await session.run(fetches, {x: buffer})
        buffer[:] = 3
        return [(float(value.max()), value.flags.writeable) for value in found]

    assert run(graph, body) == [(3.0, False)] * 4


@pytest.mark.parametrize("how", SPOIL)
def test_a_rule_of_ones_own_gets_arrays_of_its_own(how: str) -> None:
    """The gradient of `v` is the value of `w` itself."""

    class Spoils(af.OptimizerActor):
        sparse = True

        def init(self, params: Any) -> Any:
            for param in params.values():
                spoil(how, param)
            return ()

        async def on_gradients(self, grads: Any, ctx: Any) -> Any:
            deltas = {"v": -0.5 * grads["v"], "t": af.optim.as_rows(-grads["t"].values, grads["t"])}
            for array in (*ctx.params.values(), grads["v"]):
                assert not array.flags.writeable
                spoil(how, array)
            return deltas, ()

    with af.Graph() as graph:
        w, v = (af.Variable(np.ones((2, 2)), name=name) for name in "wv")
        t, ones = af.Variable(np.zeros((3, 1)), name="t"), af.constant(np.ones((2, 1)))
        grads = [w.read(), af.IndexedSlices(ones, np.array([1, 2]), (3, 1))]
        train = af.apply_gradients(grads, [v, t], lambda: Spoils())
        values = [w + 0.0, v + 0.0, t + 0.0, ones]

    async def body(session: af.Session) -> Any:
        await session.run(train)
        await session.run(train)
        return [value.tolist() for value in await session.run(values)]

    expected = [[[1.0] * 2] * 2, [[0.0] * 2] * 2, [[0.0], [-2.0], [-2.0]], [[1.0], [1.0]]]
    assert run(graph, body) == expected


# --------------------------------------------------------------------------------- first values


@st.composite
def dependencies(draw: st.DrawFn) -> list[list[int]]:
    """For each variable, which earlier ones its first value reads."""
    count = draw(st.integers(1, 7))
    return [draw(st.lists(st.integers(0, i - 1), max_size=3, unique=True)) if i else [] for i in range(count)]


@settings(max_examples=examples(80), deadline=None)
@given(
    reads=dependencies(),
    steps=st.lists(st.sets(st.integers(0, 6), min_size=1), min_size=1, max_size=4),
    schedule=sim.schedules(),
)
def test_first_values_are_computed_in_an_order_that_works_and_once(
    reads: list[list[int]], steps: list[set[int]], schedule: Schedule
) -> None:
    """Chains, diamonds, and steps at once that need different parts of them first."""
    expected: list[float] = []
    with af.Graph() as graph:
        started = af.Variable(0, name="started")
        variables: list[af.Variable] = []
        for i, before in enumerate(reads):

            def first(before: list[int] = before) -> Any:
                with af.control_dependencies([started.assign_add(1)]):
                    value = af.constant(1.0) * 1.0
                for k in before:
                    value = value + variables[k] * 2.0
                return value

            variables.append(af.Variable(first, name=f"v{i}"))
            expected.append(1.0 + sum(2.0 * expected[k] for k in before))
        fetches = [[variables[i % len(reads)].read() for i in sorted(step)] for step in steps]
        count = started.read()

    needed: set[int] = set()
    todo = [i % len(reads) for step in steps for i in step]
    while todo:
        i = todo.pop()
        if i not in needed:
            needed.add(i)
            todo.extend(reads[i])

    async def body(session: af.Session) -> None:
        found = await asyncio.gather(*(session.run(fetch) for fetch in fetches))
        for step, values in zip(steps, found, strict=True):
            assert [float(v) for v in values] == [expected[i % len(reads)] for i in sorted(step)]
        missing = await session.uninitialised()
        assert missing == [v.name for i, v in enumerate(variables) if i not in needed]
        assert int(await session.run(count)) == len(needed)

    run_drawn(graph, schedule, body)


def test_a_first_value_that_fails_is_left_to_the_next_step() -> None:
    with af.Graph() as graph:
        base = af.Variable(dtype="float32", shape=(2,), name="base")
        middle = af.Variable(base * 2.0, name="middle")
        last = af.Variable(middle + 1.0, name="last")
        other = af.Variable(5.0, name="other")
        assign = base.assign([1.0, 2.0])
        read = last.read()

    async def body(session: af.Session) -> Any:
        for _ in range(2):
            with pytest.raises(errors.UninitialisedError, match="variable 'base' was read before"):
                await session.run([read, other])
            assert await session.uninitialised() == ["base", "middle", "last", "other"]
        await session.run(assign)
        value = await session.run(read)
        return value.tolist(), await session.uninitialised()

    assert run(graph, body) == ([3, 5], ["other"])


def test_variables_without_a_value_are_named_in_the_order_of_the_graph() -> None:
    with af.Graph() as graph:
        names = ["z", "a", "m"]
        z, a, m = (af.Variable(float(i), name=n) for i, n in enumerate(names))
        af.state.FIFOQueue(2, "float32", (), name="q")
        bare = af.Variable(dtype="float32", shape=(), name="bare")
        told = [v.is_initialised() for v in (z, a, m, bare)]
        rest = [z.read(), m.read(), bare.assign(1.0)]

    async def body(session: af.Session) -> Any:
        found = [await session.uninitialised()]
        await session.run(a.name)
        found.append(await session.uninitialised())
        await session.run(rest)
        found.append(await session.uninitialised())
        return found, [bool(t) for t in await session.run(told)]

    assert run(graph, body) == ([["z", "a", "m", "bare"], ["z", "m", "bare"], []], [True] * 4)


def test_asking_a_session_that_is_not_open_is_refused() -> None:
    with af.Graph() as graph:
        af.Variable(1.0)

    async def main() -> None:
        async with af.Session(graph) as session:
            pass
        with pytest.raises(errors.SessionClosed):
            await session.uninitialised()

    af.run(main())
