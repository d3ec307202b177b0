"""Steps over processes, in every order: the values of one process, queues that keep their elements, no remains."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.dataflow.engine.step import Step
from actorflow.dataflow.remote.part_step import PartStep
from actorflow.dataflow.remote.rendezvous import Rendezvous
from actorflow.dataflow.remote.step_completion import StepCompletion
from actorflow.graph.serial import from_data, to_data
from actorflow.sim.engine.schedulers import Schedule
from tests.graph.programs import Program, programs
from tests.support.faults import planted
from tests.support.spreading import SCOPES, Cluster, spread
from tests.support.strategies import LIMITS, examples, plan_of_the_fault, run_drawn
from tests.support.turns import turns


def in_one_process(graph: af.Graph) -> af.Graph:
    """Returns the graph without its scopes."""
    data, constants = to_data(graph)
    for one in (*data["nodes"], *data["resources"]):
        one["device"] = ""
    return from_data(data, constants, graph.objects)


# -- values do not depend on the placement -------------------------------------------------------------


@settings(max_examples=examples(60), deadline=None)
@given(
    drawn=programs(devices=SCOPES),
    steps=st.integers(1, 3),
    passes=st.sampled_from([(), ("simplify", "fold", "cse", "sweep")]),
    schedule=sim.schedules(),
)
def test_any_graph_over_processes_gives_the_bits_of_a_session_in_one(
    drawn: Program, steps: int, passes: tuple[str, ...], schedule: Schedule
) -> None:
    names = [node.name for node in drawn.graph.nodes if node.outputs and node.op != "placeholder"]
    feeds = [{x.name: value * (k + 1) for x, value in drawn.feeds.items()} for k in range(steps)]
    one = in_one_process(drawn.graph)

    async def local(session: af.Session) -> list[Any]:
        return [await session.run(names, fed) for fed in feeds]

    expected = run_drawn(one, sim.FIFO, local, passes=passes, threads=0)

    async def body(cluster: Cluster) -> None:
        found = await asyncio.gather(*(cluster.session.run(names, fed) for fed in feeds))
        for here, there in zip(found, expected, strict=True):
            assert [np.asarray(v).tobytes() for v in here] == [np.asarray(v).tobytes() for v in there]
        sent = sum(runner.sent_tokens for runner in cluster.runners.values())
        assert sent == cluster.session.stats().transfers

    sim.run(spread(drawn.graph, body, passes=passes), schedule, limits=LIMITS)


class Model:
    """A small network whose layers, variables and noise lie where the scopes say."""

    def __init__(self, places: list[int]) -> None:
        with af.Graph(seed=11) as self.graph:
            x = af.placeholder("float32", (None, 3), name="x")
            losses = []
            for k, place in enumerate(places):
                with af.device(SCOPES[place]):
                    w = af.Variable(af.init.he((3, 3)), name=f"w{k}")
                    x = af.tanh(x @ w + af.random.normal((3,), stddev=0.1))
                    losses.append((af.mean(af.square(x)), w))
            trains = [af.minimize(loss, af.optim.adam(0.1), variables=[w]) for loss, w in losses]
        self.fetches = [train.name for train in trains]

    async def trained(self, session: Any, steps: int) -> bytes:
        for k in range(steps):
            await session.run(self.fetches, {"x": np.full((2, 3), k, "float32")})
        values = [await session.run(f"w{k}") for k in range(len(self.fetches))]
        return b"".join(v.tobytes() for v in values)


@settings(max_examples=examples(25), deadline=None)
@given(
    places=st.lists(st.integers(0, 2), min_size=1, max_size=3),
    steps=st.integers(1, 2),
    schedule=sim.schedules(),
)
def test_training_over_processes_gives_the_bits_of_training_in_one(
    places: list[int], steps: int, schedule: Schedule
) -> None:
    model = Model(places)
    one = in_one_process(model.graph)
    expected = run_drawn(one, sim.FIFO, lambda session: model.trained(session, steps), threads=0)

    async def body(cluster: Cluster) -> None:
        assert await model.trained(cluster.session, steps) == expected

    sim.run(spread(model.graph, body), schedule, limits=LIMITS)


# -- elements of queues --------------------------------------------------------------------------------


class Belt:
    """Elements are put into a queue of one process, moved to one of another, and taken out there.

    Args:
        puts: How many elements; the moves and the takes are as many.
        cancelled: (which of all tasks, at which turn).
    """

    def __init__(self, puts: int, cancelled: frozenset[tuple[int, int]], back: bool = False) -> None:
        self.puts = puts
        self.cancelled = cancelled
        with af.Graph() as self.graph:
            self.x = af.placeholder("int64", (), name="x")
            with af.device(SCOPES[1]):
                a = af.state.FIFOQueue(2, "int64", (), name="a")
            with af.device(SCOPES[1] if back else SCOPES[2]):
                b = af.state.FIFOQueue(2, "int64", (), name="b")
            self.put = a.enqueue(self.x)
            with af.device(SCOPES[2] if back else SCOPES[0]):
                moved = a.dequeue() + np.int64(100)
            self.move = b.enqueue(moved)
            self.takes = [a.dequeue(), b.dequeue()]
            self.sizes = [a.size(), b.size()]

    async def judged(self, cluster: Cluster) -> None:
        session = cluster.session
        await session.run(self.sizes)
        puts = [asyncio.create_task(session.run(self.put, {self.x: np.int64(k)})) for k in range(self.puts)]
        moves = [asyncio.create_task(session.run(self.move)) for _ in range(self.puts)]
        takes = [asyncio.create_task(session.run(self.takes[1])) for _ in range(max(0, self.puts - 1))]
        tasks = [*puts, *moves, *takes]
        for turn in range(40):
            for i, when in sorted(self.cancelled):
                if when == turn and i < len(tasks):
                    tasks[i].cancel()
            await turns(1)
        await turns(200)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(not isinstance(r, Exception) for r in results), results
        await session.wait_settled()
        found = Counter(
            int(r) % 100 for r in results[-len(takes) :] if takes and not isinstance(r, BaseException)
        )
        sizes = [int(n) for n in await session.run(self.sizes)]
        for take, size in zip(self.takes, sizes, strict=True):
            for _ in range(size):
                found[int(await session.run(take)) % 100] += 1
        for k, result in enumerate(results[: self.puts]):
            if isinstance(result, BaseException):
                assert found[k] <= 1, f"{k} was put by a cancelled step, found {found[k]} times"
            else:
                assert found[k] == 1, f"{k} was put, found {found[k]} times"


cancels = st.frozensets(st.tuples(st.integers(0, 8), st.integers(0, 39)), max_size=4)


@settings(max_examples=examples(120), deadline=None)
@given(puts=st.integers(1, 3), cancelled=cancels, back=st.booleans(), schedule=sim.schedules())
def test_elements_that_move_between_processes_are_in_one_place_whoever_is_cancelled(
    puts: int, cancelled: frozenset[tuple[int, int]], back: bool, schedule: Schedule
) -> None:
    belt = Belt(puts, cancelled, back)

    sim.run(spread(belt.graph, belt.judged), schedule, limits=LIMITS)


def test_the_law_finds_a_runner_that_gives_back_what_was_used_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mover is cancelled when its element is in the other queue already."""
    belt = Belt(1, frozenset({(1, 11)}))
    monkeypatch.setattr(PartStep, "give_back", Step.give_back)

    assert plan_of_the_fault(spread(belt.graph, belt.judged), most=2)


def test_the_law_finds_a_runner_that_keeps_what_a_cancelled_step_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    belt = Belt(2, frozenset({(4, 11)}))
    monkeypatch.setattr(PartStep, "settle", lambda self, spent: None)

    plan_of_the_fault(spread(belt.graph, belt.judged), most=2)


# -- nothing is left over ------------------------------------------------------------------------------


class Busy:
    """A step that crosses often and may fail in either process, and a variable whose value it sends."""

    def __init__(self) -> None:
        with af.Graph() as self.graph:
            self.x = af.placeholder("float32", (4,), name="x")
            with af.device(SCOPES[1]):
                v = af.Variable(np.ones(4, "float32"), name="v")
                checked = af.math.check_numerics(af.log(self.x), "log x")
            with af.device(SCOPES[2]):
                there = af.math.check_numerics(af.sqrt(2.0 - self.x), "sqrt") + v.read()
            with af.device(SCOPES[1]):
                again = checked * there
            self.y = again + v.read()
            self.write = v.assign_add(np.zeros(4, "float32"))

    async def judged(self, cluster: Cluster, values: list[int], cancelled: list[int | None]) -> None:
        session = cluster.session
        await session.run(self.write)
        await self.ended(session, values, cancelled)
        await cluster.check_empty()
        await session.run(self.write)
        tally = cluster.runners["p1"].executor.resources.write_counts
        before = tally.in_place
        await session.run(self.write)
        assert tally.in_place == before + 1, "nobody holds the value any more"

    async def ended(self, session: Any, values: list[int], cancelled: list[int | None]) -> None:
        """Runs a step for each value, and judges how it ended; holds nothing of it afterwards."""
        feeds = [{self.x: np.full(4, v, "float32")} for v in values]
        tasks = [asyncio.create_task(session.run(self.y, fed)) for fed in feeds]
        for turn in range(30):
            for task, when in zip(tasks, cancelled, strict=False):
                if when == turn:
                    task.cancel()
            await turns(1)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for value, result in zip(values, results, strict=True):
            if isinstance(result, np.ndarray):
                assert value in (1, 2)
            else:
                assert isinstance(result, errors.NumericError | asyncio.CancelledError), result


drawn_ends = {
    "values": st.lists(st.sampled_from([-1, 1, 2, 3]), min_size=1, max_size=4),
    "cancelled": st.lists(st.none() | st.integers(0, 29), max_size=4),
    "schedule": sim.schedules(),
}


@settings(max_examples=examples(80), deadline=None)
@given(**drawn_ends)
def test_steps_that_fail_or_are_cancelled_leave_no_token_no_step_and_no_lease(
    values: list[int], cancelled: list[int | None], schedule: Schedule
) -> None:
    busy = Busy()

    sim.run(
        spread(busy.graph, lambda cluster: busy.judged(cluster, values, cancelled)), schedule, limits=LIMITS
    )


def test_the_law_finds_an_abort_that_reaches_one_process_only(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = Busy()

    @planted(monkeypatch, StepCompletion, "fail")
    def forgetful(fail: Any, self: StepCompletion, error: Any) -> tuple[str, ...]:
        fail(self, error)
        self.aborting = set(sorted(self.aborting)[:1])
        return tuple(self.aborting)

    main = spread(busy.graph, lambda cluster: busy.judged(cluster, [-1], []))

    plan_of_the_fault(main, most=2)


def test_the_law_finds_a_rendezvous_that_keeps_late_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = Busy()
    monkeypatch.setattr(Rendezvous, "end", lambda self, session, number: None)
    main = spread(busy.graph, lambda cluster: busy.judged(cluster, [1], []))

    plan_of_the_fault(main, (AssertionError, KeyError, errors.ActorflowError), most=2)
