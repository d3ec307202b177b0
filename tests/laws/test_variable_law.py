"""Variables under concurrent steps: linearizable, in program order, each write once, in every order."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import sim
from actorflow.dataflow.state.register import Register, Source, WriteMode
from actorflow.dataflow.state.variable import Initialise, Read, ReadValue, VariableActor, WriteValue
from actorflow.sim.checkers import Call, Refusal
from actorflow.sim.engine.schedulers import Schedule
from actorflow.sim.engine.simulate import Main
from actorflow.values.spec import spec
from tests.support.faults import planted
from tests.support.strategies import LIMITS, examples, plan_of_the_fault, run_drawn, simulated

NOBODY: frozenset[tuple[int, int]] = frozenset()


@settings(max_examples=examples(60), deadline=None)
@given(
    program=st.lists(st.sampled_from(["read", "add", "assign"]), min_size=1, max_size=8),
    schedule=sim.schedules(),
)
def test_reads_and_writes_of_one_step_follow_program_order(program: list[str], schedule: Schedule) -> None:
    expected, value = [], 1.0
    with af.Graph() as graph:
        w = af.Variable(1.0, name="w")
        fetches = []
        for k, verb in enumerate(program):
            if verb == "read":
                fetches.append(w.read())
            elif verb == "add":
                fetches.append(w.assign_add(float(k + 1)))
                value += k + 1
            else:
                fetches.append(w.assign(float(10 * k)))
                value = 10.0 * k
            expected.append(value)

    async def body(session: af.Session) -> None:
        values = await session.run(fetches)
        assert [float(v) for v in values] == expected

    run_drawn(graph, schedule, body)


@settings(max_examples=examples(60), deadline=None)
@given(
    waves=st.lists(
        st.lists(st.sampled_from(["read", "add"]), min_size=1, max_size=5), min_size=1, max_size=4
    ),
    schedule=sim.schedules(),
)
def test_concurrent_steps_see_one_history(waves: list[list[str]], schedule: Schedule) -> None:
    """Every add is a distinct power of two, so a value tells exactly which adds came before it."""
    with af.Graph() as graph:
        w = af.Variable(np.int64(0), name="w")
        delta = af.placeholder("int64", (), name="delta")
        read, add = w.read(), w.assign_add(delta)

    async def body(session: af.Session) -> None:
        bits, results = 0, []
        for wave in waves:  # the steps of a wave overlap; waves follow each other
            steps = []
            for verb in wave:
                if verb == "read":
                    steps.append(session.run(read))
                else:
                    steps.append(session.run(add, {delta: np.int64(1 << bits)}))
                    bits += 1
            results.append([int(v) for v in await asyncio.gather(*steps)])
        _one_history(waves, results)

    run_drawn(graph, schedule, body)


def _one_history(waves: list[list[str]], results: list[list[int]]) -> None:
    chain = sorted({v for wave in results for v in wave} | {0})
    assert all(small & large == small for small, large in itertools.pairwise(chain))
    written = adds_so_far = 0
    for wave, values in zip(waves, results, strict=True):
        adds = [v for verb, v in zip(wave, values, strict=True) if verb == "add"]
        assert len(set(adds)) == len(adds)
        assert all(v & written == written for v in values), "what ended before a step began is seen by it"
        adds_so_far += len(adds)
        written |= max(adds, default=0)
        assert written == (1 << adds_so_far) - 1, "each add was applied, once"


class Number(sim.checkers.Register):
    """A register that can be added to; a write and an add answer with the new value."""

    def step(self, state: Any, call: Call) -> Any:
        if call.op == "read":
            return super().step(state, call)
        (operand,) = call.args
        new = operand if call.op == "assign" else state + operand
        if not call.known or call.result == new:
            return new
        return Refusal("{} returned {}, the value became {}", call.op, call.result, new)


class Shared:
    """One variable, what can be done to it, and clients that do so, recorded."""

    def __init__(self) -> None:
        with af.Graph() as self.graph:
            w = af.Variable(np.int64(0), name="w")
            self.operand = af.placeholder("int64", (), name="operand")
            self.verbs = {
                "read": w.read(),
                "add": w.assign_add(self.operand),
                "assign": w.assign(self.operand),
            }

    async def serve(
        self, session: af.Session, clients: list[list[str]], cancelled: frozenset[tuple[int, int]] = NOBODY
    ) -> sim.checkers.Verdict:
        """Runs the clients, each with one step after the other, and judges what they saw.

        Args:
            cancelled: (client, turn): that client is cancelled when the loop has come round so often.
        """
        recorder = sim.history.Recorder(session.system.clock)

        async def client(name: int, verbs: list[str]) -> None:
            for k, verb in enumerate(verbs):
                number = 1 << (8 * name + k + 1)  # distinct, and distinct from every sum of the others
                feeds = {} if verb == "read" else {self.operand: np.int64(number)}
                args = () if verb == "read" else (number,)

                async def step(*_args: int, verb: str = verb, feeds: Any = feeds) -> Any:
                    return await session.run(self.verbs[verb], feeds)

                await recorder.record(name, verb, step, *args, keep=int)

        await session.run(self.verbs["read"])
        tasks = [asyncio.create_task(client(i, verbs)) for i, verbs in enumerate(clients)]
        for turn in range(4):
            for i, when in sorted(cancelled):
                if when == turn and i < len(tasks):
                    tasks[i].cancel()
            await asyncio.sleep(0)
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result
        await client(len(clients), ["read"])  # all others may have been cancelled before they asked
        return sim.checkers.linearizable(recorder.history(), Number(0))


@settings(max_examples=examples(60), deadline=None)
@given(
    clients=st.lists(
        st.lists(st.sampled_from(["read", "add", "assign"]), min_size=1, max_size=5), min_size=1, max_size=4
    ),
    cancelled=st.frozensets(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=2),
    schedule=sim.schedules(),
)
def test_histories_of_concurrent_and_cancelled_steps_are_linearizable(
    clients: list[list[str]], cancelled: frozenset[tuple[int, int]], schedule: Schedule
) -> None:
    shared = Shared()

    async def body(session: af.Session) -> None:
        verdict = await shared.serve(session, clients, cancelled)
        assert verdict.ok, verdict.explain()

    run_drawn(shared.graph, schedule, body)


def test_the_law_finds_a_variable_that_reads_a_stale_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that finds others waiting behind it gets the snapshot from before the last write."""
    shared = Shared()

    @planted(monkeypatch, VariableActor, "handle")
    def stale(handle: Any, self: Any, body: Any) -> Any:
        if type(body) is ReadValue and self.ref.data and getattr(self, "before", None) is not None:
            return self.before
        before = self.register.value
        answer = handle(self, body)
        if self.register.value is not before:
            self.before = before
        return answer

    async def body(session: af.Session) -> None:
        verdict = await shared.serve(session, [["assign", "assign"], ["read", "read"]])
        assert verdict.ok, verdict.explain()

    assert plan_of_the_fault(simulated(shared.graph, body), most=2)


def retried(clients: list[list[int]], capacity: int) -> Main:
    """Returns a program whose clients send each of their writes so many times, and count what came of it.

    They wait for the last answer to a write before they send the next.
    """

    async def main() -> None:
        async with af.ActorSystem(name="system") as system:
            ref = system.spawn(VariableActor, "w", spec("int64", ()), name="w", max_messages=capacity)
            await ref.ask(Initialise(np.array(0)))

            async def client(source: Source, times: list[int]) -> None:
                asks = []
                for sequence, count in enumerate(times, 1):
                    for _ in range(count):
                        write = WriteValue(WriteMode.ADD, np.array(1), source, sequence)
                        asks.append(asyncio.create_task(ref.ask(write)))
                        await asyncio.sleep(0)
                    await asks[-1]
                await asyncio.gather(*asks)

            await asyncio.gather(*(client(Source(f"c{i}"), times) for i, times in enumerate(clients)))
            value, version = await ref.ask(Read())
            assert (int(value), version - 1) == (sum(map(len, clients)),) * 2

    return main


@settings(max_examples=examples(40), deadline=None)
@given(
    clients=st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=4), min_size=1, max_size=3),
    capacity=st.integers(1, 2),
    schedule=sim.schedules(),
)
def test_a_write_that_is_sent_again_is_applied_once(
    clients: list[list[int]], capacity: int, schedule: Schedule
) -> None:
    sim.run(retried(clients, capacity), schedule, limits=LIMITS)


def test_the_law_finds_a_variable_that_knows_its_last_write_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An old write that comes late is taken for a new one."""

    @planted(monkeypatch, Register, "write")
    def forgetful(
        write: Any, self: Register, kind: WriteMode, value: Any, source: Source, sequence: int
    ) -> Any:
        last = self.last.get(source)
        if last is not None and sequence < last[0]:
            del self.last[source]
        return write(self, kind, value, source, sequence)

    assert plan_of_the_fault(retried([[2, 1]], 2), most=2)


def test_the_law_finds_a_retried_write_that_is_applied_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that finds others waiting behind it is sent again, and nobody looks at its number."""
    shared = Shared()

    @planted(monkeypatch, VariableActor, "handle")
    def twice(handle: Any, self: Any, body: Any) -> Any:
        if type(body) is WriteValue and self.ref.data:
            handle(self, body)
            body = replace(body, sequence=body.sequence + 1_000)
        return handle(self, body)

    async def body(session: af.Session) -> None:
        verdict = await shared.serve(session, [["add"], ["read", "add"]])
        assert verdict.ok, verdict.explain()

    plan_of_the_fault(simulated(shared.graph, body), most=2)


def test_a_step_that_fails_before_a_write_never_writes() -> None:
    with af.Graph() as graph:
        w = af.Variable(1.0, name="w")
        x = af.placeholder("float32", (None,), name="x")
        bad = af.reshape(x, (2, 2))
        with af.control_dependencies([bad]):
            write = w.assign_add(1.0)
        read = w.read()

    async def main() -> Any:
        async with af.Session(graph) as session:
            for _ in range(3):
                with pytest.raises(af.errors.KernelError):
                    await session.run([write, bad], {x: np.ones(3, "float32")})
            return await session.run(read)

    assert af.run(main()) == 1
