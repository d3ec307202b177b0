"""An accumulator under workers, takers and steps that end early: each accepted gradient is in one result."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.dataflow.state.accumulator_rule import AccumulatorRule
from actorflow.sim.checkers import Call, Refusal
from actorflow.sim.engine.schedulers import Schedule
from actorflow.sim.history import Recorder
from tests.support.faults import planted
from tests.support.sessions import assert_no_step_left
from tests.support.strategies import examples, plan_of_the_fault, run_drawn, simulated


@dataclass(frozen=True)
class Summed:
    """The model: `bring (gradient, step)` tells whether it counts, `take n` gives the sum of all."""

    def key(self, call: Call) -> None:
        return None

    def initial(self, key: Any) -> Any:
        return (0, 0, 0)

    def observes(self, call: Call) -> bool:
        return False

    def step(self, state: Any, call: Call) -> Any:
        total, count, step = state
        if call.op == "bring":
            grad, local = call.args
            assert isinstance(grad, int) and isinstance(local, int)
            if call.result != (local >= step):
                return Refusal("it told {}, the step was {}", call.result, step)
            return (total + grad, count + 1, step) if call.result else state
        (n,) = call.args
        assert isinstance(n, int)
        if count < n:
            return Refusal("there were {}", count)
        if call.result != total:
            return Refusal("take gave {}, the sum was {}", call.result, total)
        return (0, 0, step + 1)


class Sync:
    """One accumulator of int64, whose gradients are distinct powers of two, so that a sum tells them.

    Args:
        brings: For each worker, the steps of the gradients that it brings one after the other.
        takes: (kind, number) for each taker: it fetches what it takes, moves it into a variable, takes
            and fails, or moves and fails.
        cancelled: (taker, turn): it is cancelled when the loop has come round so often.
    """

    def __init__(
        self,
        brings: list[list[int]],
        takes: list[tuple[str, int]],
        cancelled: frozenset[tuple[int, int]] = frozenset(),
    ) -> None:
        self.brings = brings
        self.takes = takes
        self.cancelled = cancelled
        with af.Graph() as self.graph:
            grads = af.state.ConditionalAccumulator("int64", (), "sum", name="grads")
            total = af.Variable(np.int64(0), name="total")
            self.grad, self.local = af.placeholder("int64", ()), af.placeholder("int64", ())
            self.bring = grads.apply_grad(self.grad, self.local)
            self.ops: dict[tuple[str, int], Any] = {}
            for n in (1, 2, 3):
                taken, moved = grads.take_grad(n), total.assign_add(grads.take_grad(n))
                self.ops["take", n], self.ops["move", n] = taken, moved
                self.ops["fail", n] = af.gather(af.reshape(grads.take_grad(n), (1,)), [9])
                moved = total.assign_add(grads.take_grad(n))
                self.ops["move and fail", n] = af.gather(af.reshape(moved, (1,)), [9])
            self.count, self.rest, self.read = grads.num_accumulated(), grads.take_grad(1), total.read()

    def __repr__(self) -> str:
        return f"Sync({self.brings}, {self.takes}, {self.cancelled})"

    async def judged(self, session: af.Session) -> None:
        """Lets all of them go on, ends the takers that still wait, and judges what they saw."""
        recorder = sim.history.Recorder(session.system.clock)
        await session.run(self.read)
        bringing = [
            asyncio.create_task(self._bring(session, recorder, i, steps))
            for i, steps in enumerate(self.brings)
        ]
        taking = [
            asyncio.create_task(self._take(session, recorder, i, *take)) for i, take in enumerate(self.takes)
        ]
        for turn in range(8):
            for i, when in sorted(self.cancelled):
                if when == turn and i < len(taking):
                    taking[i].cancel()
            await asyncio.sleep(0)
        accepted = sum(await asyncio.gather(*bringing))
        for _ in range(20):
            await asyncio.sleep(0)
        for task in taking:
            task.cancel()
        out = 0
        for result in await asyncio.gather(*taking, return_exceptions=True):
            if isinstance(result, int):
                assert not out & result, "a gradient came out twice"
                out += result
            else:
                assert isinstance(result, asyncio.CancelledError | errors.KernelError), result
        moved = int(await session.run(self.read))
        left = int(await session.run(self.rest)) if int(await session.run(self.count)) else 0

        assert out + moved + left == accepted
        if not self.cancelled and all(kind == "take" for kind, _ in self.takes) and accepted:
            verdict = sim.checkers.linearizable(recorder.history(), Summed())
            assert verdict.ok, verdict.explain()
        assert_no_step_left(session)

    async def _bring(self, session: af.Session, recorder: Recorder, i: int, steps: list[int]) -> int:
        accepted = 0
        for k, step in enumerate(steps):
            grad = 1 << (8 * i + k)

            async def bring(grad: int, step: int) -> Any:
                return await session.run(self.bring, {self.grad: np.int64(grad), self.local: np.int64(step)})

            if await recorder.record(f"worker {i}", "bring", bring, grad, step, keep=bool):
                accepted += grad
        return accepted

    async def _take(self, session: af.Session, recorder: Recorder, i: int, kind: str, n: int) -> int:
        async def take(_: int) -> Any:
            return await session.run(self.ops[kind, n])

        if kind != "take":
            await take(n)
            return 0
        return int(await recorder.record(f"taker {i}", "take", take, n, keep=int))


kinds = st.sampled_from(["take", "take", "take", "move", "fail", "move and fail"])


@settings(max_examples=examples(80), deadline=None)
@given(
    brings=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), min_size=1, max_size=3),
    takes=st.lists(st.tuples(kinds, st.integers(1, 3)), max_size=4),
    cancelled=st.frozensets(st.tuples(st.integers(0, 3), st.integers(0, 7)), max_size=2),
    schedule=sim.schedules(),
)
def test_every_accepted_gradient_is_in_one_result(
    brings: list[list[int]],
    takes: list[tuple[str, int]],
    cancelled: frozenset[tuple[int, int]],
    schedule: Schedule,
) -> None:
    sync = Sync(brings, takes, cancelled)

    run_drawn(sync.graph, schedule, sync.judged)


def test_the_law_finds_an_accumulator_that_forgets_what_came_while_a_take_was_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync = Sync([[0], [1, 1]], [("fail", 1)])

    def forgetting(self: AccumulatorRule, taken: Any) -> Any:
        self.sum, self.step = taken.sum, taken.step
        return self._flush()

    monkeypatch.setattr(AccumulatorRule, "give_back", forgetting)

    plan_of_the_fault(simulated(sync.graph, sync.judged), most=3)


def test_the_law_finds_an_accumulator_that_gives_back_what_has_been_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync = Sync([[0]], [("move and fail", 1)])
    monkeypatch.setattr("actorflow.dataflow.engine.step.Step.mark_used", lambda self, nodes: None)

    plan_of_the_fault(simulated(sync.graph, sync.judged), most=1)


def test_the_law_finds_an_accumulator_that_takes_gradients_from_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync = Sync([[0, 0]], [("take", 1)])

    @planted(monkeypatch, AccumulatorRule, "apply")
    def late(apply: Any, self: AccumulatorRule, who: Any, local_step: int, *grad: Any) -> Any:
        return apply(self, who, local_step + 1, *grad)

    plan_of_the_fault(simulated(sync.graph, sync.judged), most=2)
