"""Functions of the user as nodes: what a step gets of them, and how they fail, end and overlap."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors, sim
from actorflow.values.spec import spec
from tests.support.sessions import run_simulated

F32 = spec("float32", ())


def simulated(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return sim.run(main).result


async def nap(x: Any, seconds: float = 1.0) -> Any:
    await asyncio.sleep(seconds)
    return x


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_node_gives_what_a_coroutine_returns() -> None:
    async def double(x: Any) -> Any:
        await asyncio.sleep(3.0)
        return 2 * x

    with af.Graph() as graph:
        x = af.placeholder("float32", (None,))
        y = af.py_actor(double, x, spec("float32", (None,))) + 1.0

    assert run_simulated(graph, lambda s: s.run(y, {x: [1.0, 2.0]})).tolist() == [3, 5]


def test_a_plain_function_is_called_as_well() -> None:
    with af.Graph() as graph:
        y = af.py_actor(lambda a, b: a - b, [af.constant(5.0), af.constant(3.0)], F32)

    assert run_simulated(graph, lambda s: s.run(y)) == 2


def test_outputs_have_the_structure_that_was_asked_for() -> None:
    async def parted(x: Any) -> Any:
        return {"sum": x.sum(), "pair": (x[0], int(x[1]))}

    specs = {"pair": (F32, spec("int64", ())), "sum": F32}
    with af.Graph() as graph:
        made = af.py_actor(parted, af.constant([1.0, 2.0]), specs)

    assert run_simulated(graph, lambda s: s.run(made)) == {"pair": (1, 2), "sum": 3}


def test_a_function_that_returns_nothing_gives_true_once_it_has_ended() -> None:
    seen: list[float] = []

    async def note(x: Any) -> None:
        await asyncio.sleep(1.0)
        seen.append(float(x))

    with af.Graph() as graph:
        noted = af.py_actor(note, af.constant(4.0), None)

    assert run_simulated(graph, lambda s: s.run(noted)).tolist() is True
    assert seen == [4.0]


@pytest.mark.parametrize("k", [1, 8, 32])
def test_bodies_that_sleep_overlap_within_a_step(k: int) -> None:
    with af.Graph() as graph:
        naps = [af.py_actor(nap, af.constant(1.0), F32) for _ in range(k)]

    async def body(session: af.Session) -> float:
        since = now()
        await session.run(naps)
        return now() - since

    assert run_simulated(graph, body) < 1.1


def test_calls_of_different_steps_overlap_up_to_the_concurrency_of_the_node() -> None:
    running, peak = 0, 0

    async def counted(x: Any) -> Any:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(1.0)
        running -= 1
        return x

    def built(limit: int | None) -> tuple[af.Graph, af.Tensor]:
        with af.Graph() as graph:
            return graph, af.py_actor(counted, af.constant(1.0), F32, concurrency=limit)

    async def ten(node: af.Tensor, session: af.Session) -> float:
        since = now()
        await asyncio.gather(*(session.run(node) for _ in range(10)))
        return now() - since

    graph, node = built(None)
    assert run_simulated(graph, partial(ten, node)) < 1.1
    assert peak == 10
    peak = 0
    graph, node = built(3)
    assert 4.0 <= run_simulated(graph, partial(ten, node)) < 4.2
    assert peak == 3


def test_inputs_are_read_only_and_outputs_are_copies() -> None:
    buffer = np.zeros(2, "float32")

    async def fill(x: Any) -> Any:
        assert not x.flags.writeable
        buffer[:] = x
        return buffer

    pair = spec("float32", (2,))
    with af.Graph() as graph:
        x = af.placeholder("float32", (2,))
        y = af.py_actor(fill, x + 0.0, pair)

    async def body(session: af.Session) -> list[Any]:
        first = await session.run(y, {x: [1, 2]})
        second = await session.run(y, {x: [3, 4]})
        return [first.tolist(), second.tolist()]

    assert run_simulated(graph, body) == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("outputs", "returned", "told"),
    [
        (spec("float32", (2,)), np.zeros(3, "float32"), r"output 0 must fit \(2,\) float32, got \(3,\)"),
        (spec("float32", (2,)), np.zeros(2), r"output 0 must fit \(2,\) float32, got \(2,\) float64"),
        ((F32, F32), (1.0,), "2 values in a tuple, got 1"),
        ((F32, F32), 1.0, "2 values in a tuple, got float"),
        ({"a": F32}, {"b": 1.0}, r"a dict with the keys \['a'\], got \['b'\]"),
        (None, 1.0, "nothing was to be returned, got float"),
        (F32, None, "output 0 must fit"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_users_line(outputs: Any, returned: Any, told: str) -> None:
    async def wrong() -> Any:
        return returned

    with af.Graph() as graph:
        made = af.py_actor(wrong, [], outputs)

    with pytest.raises(errors.SpecError, match=told) as caught:
        run_simulated(graph, lambda s: s.run(made))
    assert "py_actor 'wrong' must return what its outputs say" in caught.value.what
    assert caught.value.where is not None
    assert re.fullmatch(r".*test_user_code_actor\.py:\d+", str(caught.value.where.defined_at))
    assert caught.value.where.node == "wrong"


@pytest.mark.parametrize("plain", [True, False])
def test_what_code_raises_names_its_line_and_is_the_cause(plain: bool) -> None:
    def broken(x: Any) -> Any:
        raise ValueError("no such thing")

    async def broken_later(x: Any) -> Any:
        await asyncio.sleep(1.0)
        return broken(x)

    with af.Graph() as graph:
        y = af.py_actor(broken if plain else broken_later, af.constant(1.0), F32, name="bad")

    with pytest.raises(errors.KernelError) as caught:
        run_simulated(graph, lambda s: s.run(y))
    line = broken.__code__.co_firstlineno + 1
    assert re.search(
        rf"'bad' raised ValueError: no such thing at \S*test_user_code_actor.py:{line}", caught.value.what
    )
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.where is not None and caught.value.where.node == "bad"


def test_our_own_errors_pass_as_they_are_and_other_steps_go_on() -> None:
    async def picky(x: Any) -> Any:
        await asyncio.sleep(1.0)
        if x < 0:
            raise errors.OutOfRange("the data has ended")
        return x

    with af.Graph() as graph:
        x = af.placeholder("float32", ())
        y = af.py_actor(picky, x, F32)

    async def body(session: af.Session) -> Any:
        bad, good = session.run(y, {x: -1.0}), session.run(y, {x: 1.0})
        return await asyncio.gather(bad, good, return_exceptions=True)

    bad, good = run_simulated(graph, body)
    assert isinstance(bad, errors.OutOfRange)
    assert good == 1


class Odd:
    """What raises when it is looked at."""

    def __array__(self, *args: Any, **named: Any) -> Any:
        raise RuntimeError("look away")


def test_what_cannot_be_looked_at_fails_its_step() -> None:
    async def odd() -> Any:
        return Odd()

    with af.Graph() as graph:
        y = af.py_actor(odd, [], F32)

    with pytest.raises(errors.KernelError, match="look away"):
        run_simulated(graph, lambda s: s.run(y))


def test_code_may_run_steps_of_its_session() -> None:
    sessions: list[af.Session] = []

    async def inner(x: Any) -> Any:
        return await sessions[0].run(square, {z: x})

    with af.Graph() as graph:
        z = af.placeholder("float32", ())
        square = z * z
        y = af.py_actor(inner, af.constant(3.0), F32)

    async def body(session: af.Session) -> Any:
        sessions.append(session)
        return await session.run(y)

    assert run_simulated(graph, body) == 9


def test_code_that_cancels_itself_fails_its_step() -> None:
    async def gives_up() -> Any:
        raise asyncio.CancelledError

    with af.Graph() as graph:
        y = af.py_actor(gives_up, [], F32)

    with pytest.raises(errors.KernelError, match="raised CancelledError"):
        run_simulated(graph, lambda s: s.run(y))


# -- the end ---------------------------------------------------------------------------------------


class Heard:
    """Code that sleeps, and how its sleeps ended."""

    def __init__(self) -> None:
        self.ends: list[str] = []

    async def nap(self, seconds: Any) -> Any:
        try:
            await asyncio.sleep(float(seconds))
        except asyncio.CancelledError:
            self.ends.append(f"cancelled at {now():.1f}")
            raise
        self.ends.append("slept")
        return seconds


def test_the_deadline_of_a_node_names_it_and_cancels_the_code() -> None:
    heard = Heard()
    with af.Graph() as graph:
        x = af.placeholder("float32", ())
        y = af.py_actor(heard.nap, x, F32, deadline_s=2.0, name="sleepy")

    async def body(session: af.Session) -> None:
        assert await session.run(y, {x: 1.0}) == 1
        with pytest.raises(
            errors.DeadlinePassed, match=r"py_actor 'sleepy' did not end within .* 2 s"
        ) as caught:
            await session.run(y, {x: 5.0})
        assert caught.value.where is not None and caught.value.where.node == "sleepy"
        await asyncio.sleep(0)

    run_simulated(graph, body)
    assert heard.ends == ["slept", "cancelled at 3.0"]


def test_a_call_that_waits_for_its_turn_has_the_same_deadline() -> None:
    heard = Heard()
    with af.Graph() as graph:
        x = af.placeholder("float32", ())
        y = af.py_actor(heard.nap, x, F32, deadline_s=2.0, concurrency=1)

    async def body(session: af.Session) -> list[Any]:
        steps = [session.run(y, {x: 1.5}), session.run(y, {x: 1.5}), session.run(y, {x: 0.1})]
        return await asyncio.gather(*steps, return_exceptions=True)

    first, second, third = run_simulated(graph, body)
    assert first == np.float32(1.5)
    assert isinstance(second, errors.DeadlinePassed) and "did not end" in second.what
    assert isinstance(third, errors.DeadlinePassed) and "did not begin" in third.what


@pytest.mark.parametrize("how", ["cancelled", "expired", "failed", "closed"])
def test_the_end_of_a_step_cancels_what_runs_and_forgets_what_waits(how: str) -> None:
    heard = Heard()

    async def fails() -> Any:
        await asyncio.sleep(1.0)
        raise ValueError

    with af.Graph() as graph:
        x = af.constant(60.0)
        waits = [af.py_actor(heard.nap, x, F32, concurrency=1), af.py_actor(heard.nap, x, F32)]
        bad = af.py_actor(fails, [], F32)

    async def body(session: af.Session) -> None:
        fetches = [*waits, bad] if how == "failed" else waits
        deadline_s = 1.0 if how == "expired" else None
        steps = [asyncio.ensure_future(session.run(fetches, deadline_s=deadline_s)) for _ in range(2)]
        await asyncio.sleep(1.0)
        if how == "cancelled":
            for step in steps:
                step.cancel()
        if how == "closed":
            await session.close()
        ends = await asyncio.gather(*steps, return_exceptions=True)
        assert all(isinstance(e, BaseException) for e in ends)
        await asyncio.sleep(0.1)
        assert [end[:9] for end in heard.ends] == ["cancelled"] * 3  # of 4: one never began

    run_simulated(graph, body)


def test_a_call_that_waits_is_forgotten_with_its_step() -> None:
    with af.Graph() as graph:
        y = af.py_actor(nap, af.constant(1.0), F32, concurrency=1, deadline_s=50.0)

    async def main() -> Any:
        async with af.ActorSystem() as system, af.Session(graph, system=system) as session:
            steps = [asyncio.ensure_future(session.run(y)) for _ in range(3)]
            await asyncio.sleep(0.5)
            (cell,) = system.actors.values()
            before = repr(cell.behaviour)
            steps[1].cancel()
            await asyncio.sleep(0.1)
            after = repr(cell.behaviour)
            await asyncio.gather(*steps, return_exceptions=True)
            return before, after, repr(cell.behaviour), len(system.timer_wheel)

    *shown, timers = simulated(main)
    told = "<UserCodeActor of py_actor 'nap', {} of at most 1 run, {} wait>"
    assert shown == [told.format(1, 2), told.format(1, 1), told.format(0, 0)]
    assert timers == 0


def test_code_that_swallows_its_cancellation_is_dropped_and_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def stubborn(x: Any) -> Any:
        until = now() + 30.0
        while now() < until:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(30.0)
        return x

    with af.Graph() as graph:
        y = af.py_actor(stubborn, af.constant(1.0), F32, concurrency=1, deadline_s=1.0)

    async def main() -> Any:
        async with af.ActorSystem() as system:
            async with af.Session(graph, system=system) as session:
                for _ in range(2):  # the second gets the place of the first
                    with pytest.raises(errors.DeadlinePassed):
                        await session.run(y, deadline_s=4.0)
                    await asyncio.sleep(2.0)
                step = asyncio.ensure_future(session.run(y))
                await asyncio.sleep(0.5)
                since = now()
            closing = now() - since
            with pytest.raises(errors.StepAborted):
                await step
            since = now()
        await asyncio.sleep(60.0)  # it ends at last, and nobody minds
        return closing, since

    with caplog.at_level(logging.WARNING):
        closing, _ = simulated(main)
    assert 0.9 < closing < 1.5
    assert caplog.text.count("py_actor 'stubborn' was cancelled and goes on after 1 s") == 3


# -- simulated, deterministic ----------------------------------------------------------------------


def test_a_simulated_run_repeats_itself() -> None:
    def once(seed: int) -> list[float]:
        order: list[float] = []

        async def note(x: Any) -> None:
            await asyncio.sleep(0.001 * float(x % 2))
            order.append(float(x))

        with af.Graph() as graph:
            notes = [af.py_actor(note, af.constant(float(i)), None) for i in range(8)]

        async def main() -> None:
            async with af.Session(graph) as session:
                await session.run(notes)

        sim.run(main, seed=seed)
        return order

    assert once(1) == once(1)
    assert sorted(once(2)) == [float(i) for i in range(8)]


def test_a_taken_element_comes_back_when_the_code_fails_and_is_used_when_it_has_ended() -> None:
    async def picky(x: Any) -> Any:
        await asyncio.sleep(1.0)
        raise ValueError

    with af.Graph() as graph:
        queue = af.state.FIFOQueue(4, "float32", ())
        put, size = queue.enqueue(af.constant(1.0)), queue.size()
        made = af.py_actor(picky, queue.dequeue(), F32)
        used = af.py_actor(picky, af.py_actor(nap, queue.dequeue(), F32), F32)

    async def body(session: af.Session) -> list[int]:
        await session.run(put)
        sizes = []
        for fetch in (made, used):
            with pytest.raises(errors.KernelError):
                await session.run(fetch)
            sizes.append(int(await session.run(size)))
        return sizes

    assert run_simulated(graph, body) == [1, 0]
