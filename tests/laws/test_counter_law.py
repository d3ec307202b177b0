"""A counter with a limit, read and reset by concurrent and cancelled steps, has one history."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.dataflow.state.counter_rule import CounterRule
from actorflow.dataflow.state.replies import Replied
from actorflow.sim.checkers import Call, Refusal
from actorflow.sim.engine.schedulers import Schedule
from tests.support.faults import planted
from tests.support.sessions import assert_no_step_left
from tests.support.strategies import examples, plan_of_the_fault, run_drawn, simulated

START, LIMIT = 3, 5
ENDED = -1
"""What a `next` is recorded with that was told OutOfRange."""


@dataclass(frozen=True)
class Number:
    """The model: a number that `next` gives and makes one more below the limit, and `reset` sets back."""

    def key(self, call: Call) -> str:
        return "counter"

    def initial(self, key: Any) -> int:
        return START

    def observes(self, call: Call) -> bool:
        return call.op == "read"

    def step(self, state: Any, call: Call) -> Any:
        match call.op:
            case "next":
                wanted, after = (state, state + 1) if state < LIMIT else (ENDED, state)
            case "reset":
                wanted, after = START, START
            case _:
                wanted, after = state, state
        if call.known and call.result != wanted:
            return Refusal(f"{call.op} gave {{}}, it was at {{}}", call.result, state)
        return after


class Counted:
    """One counter, and clients with one step after the other; some are cancelled."""

    def __init__(self, clients: list[list[str]], cancelled: frozenset[tuple[int, int]] = frozenset()) -> None:
        self.clients = clients
        self.cancelled = cancelled
        with af.Graph() as self.graph:
            counter = af.state.Counter(START, LIMIT, name="c")
            self.ops = {"next": counter.next(), "read": counter.read(), "reset": counter.reset()}

    def __repr__(self) -> str:
        return f"Counted({self.clients}, {self.cancelled})"

    async def judged(self, session: af.Session) -> None:
        recorder = sim.history.Recorder(session.system.clock)

        async def client(name: int, verbs: list[str]) -> None:
            for verb in verbs:

                async def step(*_: Any, verb: str = verb) -> Any:
                    try:
                        return await session.run(self.ops[verb])
                    except errors.OutOfRange:
                        return ENDED

                await recorder.record(name, verb, step, keep=int)

        tasks = [asyncio.create_task(client(i, verbs)) for i, verbs in enumerate(self.clients)]
        for turn in range(4):
            for i, when in sorted(self.cancelled):
                if when == turn and i < len(tasks):
                    tasks[i].cancel()
            await asyncio.sleep(0)
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result
        await client(len(self.clients), ["read", "next", "reset", "next"])
        verdict = sim.checkers.linearizable(recorder.history(), Number())
        assert verdict.ok, verdict.explain()
        assert_no_step_left(session)


VERBS = st.sampled_from(["next", "next", "read", "reset"])


@settings(max_examples=examples(60), deadline=None)
@given(
    clients=st.lists(st.lists(VERBS, min_size=1, max_size=4), min_size=1, max_size=3),
    cancelled=st.frozensets(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=2),
    schedule=sim.schedules(),
)
def test_numbers_come_once_up_to_the_limit_and_again_after_a_reset(
    clients: list[list[str]], cancelled: frozenset[tuple[int, int]], schedule: Schedule
) -> None:
    counted = Counted(clients, cancelled)

    run_drawn(counted.graph, schedule, counted.judged)


Fault = Callable[[CounterRule, Any], list[Replied]]


def beyond(tally: CounterRule, who: Any) -> list[Replied]:
    """Gives the limit too."""
    tally.value += 1
    return [Replied(who, tally.value - 1)]


def already(tally: CounterRule, who: Any) -> list[Replied]:
    """Gives the last number that was given, not the next."""
    return [Replied(who, max(tally.start, tally.value - 1))]


def late(tally: CounterRule, who: Any) -> list[Replied]:
    """Says that it is back at the start, and is one further."""
    tally.value = tally.start + 1
    return [Replied(who, tally.start)]


@pytest.mark.parametrize(
    ("verb", "fault", "clients"),
    [
        ("next", beyond, [["next", "next"], ["next"]]),
        ("read", already, [["next"], ["read"]]),
        ("reset", late, [["next", "reset"], ["next"]]),
    ],
)
def test_the_law_finds_a_counter_one_of_whose_verbs_is_wrong(
    verb: str, fault: Fault, clients: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CounterRule, verb, fault)
    counted = Counted(clients)

    plan_of_the_fault(simulated(counted.graph, counted.judged), most=2)


def test_the_law_finds_a_number_that_two_steps_get(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a schedule in which a read comes between two that ask shows it: the number goes back then."""

    @planted(monkeypatch, CounterRule, "read")
    def back(read: Any, self: CounterRule, who: Any) -> Any:
        answers = read(self, who)
        if self.value == START + 1:
            self.value = START
        return answers

    counted = Counted([["next"], ["read"], ["next"]])

    plan_of_the_fault(simulated(counted.graph, counted.judged), most=3)
