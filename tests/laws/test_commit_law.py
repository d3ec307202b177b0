"""A training update is one commit group: whatever fails, all variables and slots stay together."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.dataflow.optimizer.optimizer import OptimizerActor
from actorflow.dataflow.state.variable import CommitUpdate, StageUpdate, VariableActor
from actorflow.sim.engine.schedulers import Schedule
from tests.support.faults import planted
from tests.support.strategies import examples, plan_of_the_fault, run_drawn, simulated

NAMES = ("w1", "b1", "w2")


class Net:
    """A small network under Adam, and what tells its state."""

    def __init__(self, optimizer: Any = None) -> None:
        with af.Graph(seed=3) as self.graph:
            self.x = af.placeholder("float32", (None, 4), name="x")
            w1 = af.Variable(af.init.he((4, 5)), name="w1")
            b1 = af.Variable(af.init.zeros((5,)), name="b1")
            w2 = af.Variable(af.init.he((5, 1)), name="w2")
            self.variables = (w1, b1, w2)
            self.loss = af.mean(af.square(af.tanh(self.x @ w1 + b1) @ w2))
            self.train = af.minimize(self.loss, optimizer or af.optim.adam(1e-2))
            self.versions = [v.version() for v in self.variables]
        self.feeds: Mapping[Any, Any] = {self.x: np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)}

    async def step(self, session: af.Session) -> Any:
        return await session.run([self.loss, self.train], self.feeds)

    async def counts(self, session: af.Session) -> list[int]:
        """Updates that each variable and the optimizer's own state have seen."""
        versions = [int(v) - 1 for v in await session.run(self.versions)]
        optimizer = self.optimizer(session)
        slots = 0 if optimizer.state is None else int(optimizer.state["count"])
        return [*versions, optimizer.count, slots]

    @staticmethod
    def optimizer(session: af.Session) -> OptimizerActor:
        (cell,) = (c for name, c in session.system.actors.items() if "/optimizer/" in name)
        actor = cell.behaviour
        assert isinstance(actor, OptimizerActor)
        return actor


def break_node(session: af.Session, index: int, firing: int | None = None) -> Any:
    """Makes one node of the training plan raise, at each firing or at one; returns how to mend it."""
    plan = max(session._plans.known.values(), key=lambda p: len(p.target.nodes))
    node = plan.target.nodes[index % len(plan.target.nodes)]
    fire = node.fire
    fired = itertools.count(1)

    def broken(live: Any) -> None:
        if firing is None or next(fired) == firing:
            raise ZeroDivisionError(node.plan.name)
        fire(live)

    node.fire = broken

    def mend() -> None:
        node.fire = fire

    return mend


@settings(max_examples=examples(60), deadline=None)
@given(index=st.integers(0, 100), before=st.integers(1, 3), schedule=sim.schedules())
def test_a_kernel_failing_at_any_node_leaves_all_variables_and_slots_at_one_version(
    index: int, before: int, schedule: Schedule
) -> None:
    net = Net()

    async def body(session: af.Session) -> None:
        for _ in range(before):
            await net.step(session)
        mend = break_node(session, index)
        with pytest.raises(errors.KernelError, match="raised ZeroDivisionError"):
            await net.step(session)
        after_failure = await net.counts(session)
        mend()
        await net.step(session)
        assert len(set(after_failure)) == 1, after_failure
        assert after_failure[0] in (before, before + 1)  # it may fail before or after its own commit
        assert await net.counts(session) == [after_failure[0] + 1] * 5

    run_drawn(net.graph, schedule, body)


async def overlap(
    net: Net,
    session: af.Session,
    steps: int,
    cancelled: frozenset[tuple[int, int]],
    broken: tuple[int, int] | None = None,
) -> None:
    """Trains by steps that run at once, some of them cancelled, and looks at all versions afterwards.

    Args:
        cancelled: (step, turn): that step is cancelled when the loop has come round so often.
        broken: (node, firing): that node raises when it fires so often.
    """
    await net.step(session)
    if broken is not None:
        break_node(session, *broken)
    tasks = [asyncio.create_task(net.step(session)) for _ in range(steps)]
    for turn in range(6):
        for k, when in sorted(cancelled):
            if when == turn and k < steps:
                tasks[k].cancel()
        await asyncio.sleep(0)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0.005)  # updates of cancelled steps that were past their last check end
    ended_well = sum(not isinstance(r, BaseException) for r in results)
    failures = [r for r in results if isinstance(r, BaseException)]
    assert all(isinstance(f, asyncio.CancelledError | errors.KernelError) for f in failures), failures
    assert sum(isinstance(f, errors.KernelError) for f in failures) <= (broken is not None)
    counts = await net.counts(session)
    assert len(set(counts)) == 1, counts
    assert 1 + ended_well <= counts[0] <= 1 + steps


@settings(max_examples=examples(40), deadline=None)
@given(
    steps=st.integers(2, 6),
    cancelled=st.frozensets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=3),
    broken=st.none() | st.tuples(st.integers(0, 100), st.integers(1, 6)),
    schedule=sim.schedules(),
)
def test_concurrent_failing_and_cancelled_steps_commit_whole_groups_only(
    steps: int, cancelled: frozenset[tuple[int, int]], broken: tuple[int, int] | None, schedule: Schedule
) -> None:
    net = Net()

    run_drawn(net.graph, schedule, lambda session: overlap(net, session, steps, cancelled, broken))


def test_the_law_finds_an_update_that_is_applied_before_all_have_staged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The variables apply their part when they stage it; a step that is cancelled then tears the group."""
    net = Net()

    @planted(monkeypatch, VariableActor, "handle")
    def early(handle: Any, self: Any, body: Any) -> Any:
        if type(body) is CommitUpdate:
            return None
        answer = handle(self, body)
        if type(body) is StageUpdate:
            handle(self, CommitUpdate(body.group))
        return answer

    main = simulated(net.graph, lambda session: overlap(net, session, 1, frozenset({(0, 5)})))

    assert plan_of_the_fault(main, most=2)


@settings(max_examples=examples(25), deadline=None)
@given(steps=st.integers(1, 8), schedule=sim.schedules())
def test_mailboxes_of_one_message_hold_up_nothing_for_ever(steps: int, schedule: Schedule) -> None:
    net = Net()

    async def body(session: af.Session) -> None:
        await asyncio.gather(*(net.step(session) for _ in range(steps)))
        assert await net.counts(session) == [steps] * 5

    run_drawn(net.graph, schedule, body, max_messages=1, max_steps=4)


@pytest.mark.parametrize("fault", ["raise", "missing", "shape", "dtype"])
def test_a_bad_optimizer_changes_nothing_and_says_so(fault: str) -> None:
    def update(grads: Any, state: Any, params: Any) -> Any:
        deltas = {name: -0.1 * g for name, g in grads.items()}
        if fault == "raise":
            raise ZeroDivisionError("lr")
        if fault == "missing":
            del deltas["b1"]
        elif fault == "shape":
            deltas["b1"] = deltas["b1"][:2]
        else:
            deltas["b1"] = deltas["b1"].astype("float64")
        return deltas, {"count": state["count"] + 1}

    rule = af.optim.Transform(name="bad", init=lambda params: {"count": np.int64(0)}, update=update)
    net = Net(rule)
    texts = {
        "raise": "handler of '.*optimizer/train' raised ZeroDivisionError: lr",
        "missing": r"bad must return one delta for each of \['b1', 'w1', 'w2'\], got \['w1', 'w2'\]",
        "shape": r"bad's delta for 'b1' must be \(5,\) float32, got \(2,\) float32",
        "dtype": r"bad's delta for 'b1' must be \(5,\) float32, got \(5,\) float64",
    }

    async def main() -> list[int]:
        async with af.Session(net.graph) as session:
            with pytest.raises(errors.ActorflowError, match=texts[fault]) as caught:
                await net.step(session)
            assert "node train/apply_gradients, op apply_gradients, step 1" in str(caught.value)
            return await net.counts(session)

    assert af.run(main()) == [0, 0, 0, 0, 0]


def test_one_variable_that_refuses_its_stage_discards_the_whole_group() -> None:
    begun, reached = asyncio.Event(), asyncio.Event()

    class Slow(af.OptimizerActor):
        """Lets another step change the shape of a variable between its read and its stage."""

        async def on_gradients(self, grads: Any, ctx: Any) -> Any:
            update = await super().on_gradients(grads, ctx)
            begun.set()
            await reached.wait()
            return update

    with af.Graph() as graph:
        a = af.Variable(np.ones(2, "float32"), name="a")
        b = af.Variable(np.ones(2, "float32"), name="b", shape=(None,))
        train = af.minimize(af.sum(a * 2.0) + af.sum(b * 3.0), lambda: Slow(af.optim.sgd(0.1)))
        grow = b.assign(np.ones(3, "float32"))

    async def main() -> Any:
        async with af.Session(graph) as session:
            step = asyncio.create_task(session.run(train))
            await begun.wait()
            await session.run(grow)
            reached.set()
            with pytest.raises(errors.SpecError, match=r"an update of variable 'b' must be \(3,\) float32"):
                await step
            return await session.run({"a": a, "va": a.name + "/read:0"})

    assert af.run(main())["a"].tolist() == [1, 1]


@settings(max_examples=examples(40), deadline=None)
@given(schedule=sim.schedules(), sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_an_assign_that_changes_the_shape_waits_for_the_update_that_is_staged(
    schedule: Schedule, sizes: list[int]
) -> None:
    with af.Graph() as graph:
        v = af.placeholder("float32", (None,), name="v")
        w = af.Variable(np.zeros(3, "float32"), name="w", shape=(None,))
        others = [af.Variable(0.0, name=f"b{i}") for i in range(3)]
        loss = af.sum(w)
        for b in others:
            loss = loss + b
        train, assign = af.minimize(loss, af.optim.sgd(1.0)), w.assign(v)
        values = [w.read(), *(b.read() for b in others)]

    async def body(session: af.Session) -> None:
        await session.run(values)
        steps = [session.run(train), *(session.run(assign, {v: np.zeros(n, "float32")}) for n in sizes)]
        trained, *assigned = await asyncio.gather(*steps, return_exceptions=True)
        end, *moved = await session.run(values)
        assert all(isinstance(a, np.ndarray) for a in assigned), assigned
        assert end.shape[0] in {3, *sizes}
        if isinstance(trained, BaseException):
            assert isinstance(trained, errors.SpecError | errors.StateError), trained
            assert [float(b) for b in moved] == [0, 0, 0]
            assert set(end.tolist()) == {0}
        else:
            assert [float(b) for b in moved] == [-1, -1, -1]
            assert set(end.tolist()) in ({-1}, {0})  # the update before or after the last assign

    run_drawn(graph, schedule, body)
