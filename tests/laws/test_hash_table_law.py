"""A table under concurrent and cancelled steps: every lookup sees one history of its inserts and removes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import sim
from actorflow.dataflow.state.hash_table import HashTableActor, LookUpKeys
from actorflow.sim.checkers import Call, Refusal
from actorflow.sim.engine.schedulers import Schedule
from tests.support.faults import planted
from tests.support.sessions import assert_no_step_left
from tests.support.strategies import examples, plan_of_the_fault, run_drawn, simulated

KEYS = (0, 1, 2)


@dataclass(frozen=True)
class Map:
    """The model: `insert value` at two keys, `remove` two keys, `lookup` of all; two at once, or none."""

    def key(self, call: Call) -> None:
        return None

    def initial(self, key: Any) -> Any:
        return (0, 0, 0)

    def observes(self, call: Call) -> bool:
        return call.op == "lookup"

    def step(self, state: Any, call: Call) -> Any:
        if call.op == "lookup":
            same = not call.known or call.result == state
            return state if same else Refusal("lookup gave {}, it held {}", call.result, state)
        first, value = call.args
        assert isinstance(first, int)
        at = (first, (first + 1) % 3)
        if call.op == "remove":
            there = sum(state[k] != 0 for k in at)
            if call.known and call.result != there:
                return Refusal("remove told {}, there were {}", call.result, there)
            value = 0
        return tuple(value if k in at else v for k, v in enumerate(state))


class Shared:
    """One table of three keys, and clients with one step after the other."""

    def __init__(self, clients: list[list[tuple[str, int]]], cancelled: frozenset[tuple[int, int]]) -> None:
        self.clients = clients
        self.cancelled = cancelled
        with af.Graph() as self.graph:
            table = af.state.HashTable("int64", "int64", 0, name="t")
            self.keys, self.value = af.placeholder("int64", (2,)), af.placeholder("int64", (2,))
            self.ops = {
                "insert": table.insert(self.keys, self.value),
                "remove": table.remove(self.keys),
                "lookup": table.lookup(KEYS),
            }

    def __repr__(self) -> str:
        return f"Shared({self.clients}, {self.cancelled})"

    async def judged(self, session: af.Session) -> None:
        recorder = sim.history.Recorder(session.system.clock)

        async def client(name: int, verbs: list[tuple[str, int]]) -> None:
            for k, (verb, first) in enumerate(verbs):
                number = 10 * name + k + 1
                args = () if verb == "lookup" else (first, number)

                async def step(*_: Any, verb: str = verb, args: Any = args) -> Any:
                    feeds: dict[Any, Any] = {}
                    if args:
                        feeds[self.keys] = np.array([args[0], (args[0] + 1) % 3])
                    if verb == "insert":
                        feeds[self.value] = np.full(2, args[1])
                    return await session.run(self.ops[verb], feeds)

                def kept(value: Any, verb: str = verb) -> Any:
                    return tuple(value.tolist()) if verb == "lookup" else int(value)

                await recorder.record(name, verb, step, *args, keep=kept)

        tasks = [asyncio.create_task(client(i, verbs)) for i, verbs in enumerate(self.clients)]
        for turn in range(4):
            for i, when in sorted(self.cancelled):
                if when == turn and i < len(tasks):
                    tasks[i].cancel()
            await asyncio.sleep(0)
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result
        await client(len(self.clients), [("lookup", 0)])
        verdict = sim.checkers.linearizable(recorder.history(), Map())
        assert verdict.ok, verdict.explain()
        assert_no_step_left(session)


verbs = st.tuples(st.sampled_from(["insert", "remove", "lookup"]), st.integers(0, 2))


@settings(max_examples=examples(60), deadline=None)
@given(
    clients=st.lists(st.lists(verbs, min_size=1, max_size=4), min_size=1, max_size=3),
    cancelled=st.frozensets(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=2),
    schedule=sim.schedules(),
)
def test_histories_of_concurrent_and_cancelled_steps_are_linearizable(
    clients: list[list[tuple[str, int]]], cancelled: frozenset[tuple[int, int]], schedule: Schedule
) -> None:
    shared = Shared(clients, cancelled)

    run_drawn(shared.graph, schedule, shared.judged)


def test_the_law_finds_a_table_whose_lookups_come_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lookup that finds others waiting behind it is answered with what was there before the last write."""
    shared = Shared([[("insert", 0), ("insert", 1)], [("lookup", 0), ("lookup", 0)]], frozenset())

    @planted(monkeypatch, HashTableActor, "obey")
    def stale(obey: Any, self: Any, body: Any, who: Any) -> Any:
        if type(body) is LookUpKeys and self.ref.data and getattr(self, "before", None) is not None:
            return [type(a)(who, a.value) for a in self.before]
        before = obey(self, LookUpKeys(np.array(KEYS)), who)
        answers = obey(self, body, who)
        if type(body) is not LookUpKeys:
            self.before = before
        return answers

    assert plan_of_the_fault(simulated(shared.graph, shared.judged), most=3)
