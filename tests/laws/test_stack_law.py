"""A stack and a counter under concurrent and cancelled steps have one history each."""

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
from actorflow.dataflow.state.counter_rule import CounterRule
from actorflow.dataflow.state.stack_rule import StackRule
from actorflow.sim.checkers import Call, Refusal
from actorflow.sim.engine.schedulers import Schedule
from tests.support.faults import planted
from tests.support.sessions import assert_no_step_left
from tests.support.strategies import examples, plan_of_the_fault, run_drawn, simulated


@dataclass(frozen=True)
class Both:
    """The model: a list that is pushed to and popped from, -1 when it is empty; and a number that grows."""

    def key(self, call: Call) -> str:
        return "counter" if call.op == "next" else "stack"

    def initial(self, key: Any) -> Any:
        return 0 if key == "counter" else ()

    def observes(self, call: Call) -> bool:
        return False

    def step(self, state: Any, call: Call) -> Any:
        if call.op == "push":
            return (*state, *call.args)
        if call.op == "next":
            if call.known and call.result != state:
                return Refusal("next gave {}, it was at {}", call.result, state)
            return state + 1
        top = state[-1] if state else -1
        if call.known and call.result != top:
            return Refusal("pop gave {}, on top was {}", call.result, top)
        return state[:-1]


class Shared:
    """One stack and one counter, and clients with one step after the other."""

    def __init__(self, clients: list[list[str]], cancelled: frozenset[tuple[int, int]]) -> None:
        self.clients = clients
        self.cancelled = cancelled
        with af.Graph() as self.graph:
            stack, counter = af.state.Stack("int64", (), name="s"), af.state.Counter(name="c")
            self.x = af.placeholder("int64", ())
            self.ops = {"push": stack.push(self.x), "pop": stack.pop(), "next": counter.next()}

    def __repr__(self) -> str:
        return f"Shared({self.clients}, {self.cancelled})"

    async def judged(self, session: af.Session) -> None:
        recorder = sim.history.Recorder(session.system.clock)

        async def client(name: int, verbs: list[str]) -> None:
            for k, verb in enumerate(verbs):
                args = (10 * name + k,) if verb == "push" else ()

                async def step(*_: Any, verb: str = verb, args: Any = args) -> Any:
                    try:
                        return await session.run(self.ops[verb], {self.x: np.int64(args[0])} if args else {})
                    except errors.OutOfRange:
                        return -1

                await recorder.record(name, verb, step, *args, keep=int)

        tasks = [asyncio.create_task(client(i, verbs)) for i, verbs in enumerate(self.clients)]
        for turn in range(4):
            for i, when in sorted(self.cancelled):
                if when == turn and i < len(tasks):
                    tasks[i].cancel()
            await asyncio.sleep(0)
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result
        await client(len(self.clients), ["pop", "next"])
        verdict = sim.checkers.linearizable(recorder.history(), Both())
        assert verdict.ok, verdict.explain()
        assert_no_step_left(session)


@settings(max_examples=examples(60), deadline=None)
@given(
    clients=st.lists(
        st.lists(st.sampled_from(["push", "pop", "next"]), min_size=1, max_size=4), min_size=1, max_size=3
    ),
    cancelled=st.frozensets(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=2),
    schedule=sim.schedules(),
)
def test_what_is_popped_and_counted_has_one_history(
    clients: list[list[str]], cancelled: frozenset[tuple[int, int]], schedule: Schedule
) -> None:
    shared = Shared(clients, cancelled)

    run_drawn(shared.graph, schedule, shared.judged)


def test_the_law_finds_a_stack_that_gives_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = Shared([["push", "push", "pop"]], frozenset())

    @planted(monkeypatch, StackRule, "pop")
    def first(pop: Any, self: StackRule, who: Any) -> Any:
        self.elements.reverse()
        return pop(self, who)

    plan_of_the_fault(simulated(shared.graph, shared.judged), most=1)


def test_the_law_finds_a_counter_that_gives_a_number_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second number is not counted, so a third who asks gets it again."""
    shared = Shared([["next"], ["next"]], frozenset())

    @planted(monkeypatch, CounterRule, "next")
    def twice(following: Any, self: CounterRule, who: Any) -> Any:
        answers = following(self, who)
        if self.value == 2:
            self.value = 1
        return answers

    plan_of_the_fault(simulated(shared.graph, shared.judged), most=1)
