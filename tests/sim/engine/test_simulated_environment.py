"""What a run hands to actor systems and sessions: turns, time, chance, workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actorflow.actors.actor import Actor
from actorflow.actors.ref import Ref
from actorflow.actors.scheduling import budget, dispatch
from actorflow.actors.system import ActorSystem
from actorflow.errors import Livelock, SessionClosed
from actorflow.runtime.clock import Entropy
from actorflow.runtime.environment import ENVIRONMENT
from actorflow.sim.engine.plan import Plan
from actorflow.sim.engine.schedulers import PCT, Schedule, Seeded
from actorflow.sim.engine.simulate import Limits, attempt
from actorflow.sim.engine.simulated_environment import SimulatedEnvironment, SimWorkers
from actorflow.sim.engine.strands import STRAND
from tests.sim.engine.test_schedulers import schedules
from tests.support.faults import planted


class Hop(Actor):
    """Logs the number that it is told, and sends one less to the next."""

    def __init__(self, log: list[Any], *, slow: bool, reentrant: bool = False) -> None:
        self.log = log
        self.slow = slow
        self.reentrant = reentrant  # type: ignore[misc]
        self.next: list[Ref] = []

    async def on_start(self) -> None:
        await asyncio.sleep(0)

    def receive(self, message: Any) -> Any:
        if isinstance(message, list):
            self.next = message
            return None
        return self._slowly(message) if self.slow else self._go(message)

    def _go(self, n: int) -> None:
        self.log.append((self.ref.name, n))
        if n > 0 and self.next:
            self.next[n % len(self.next)].tell(n - 1)

    async def _slowly(self, n: int) -> int:
        await asyncio.sleep(0)
        self._go(n)
        await asyncio.sleep(0.001 * (n % 3))
        return n


Made = list[tuple[bool, bool]]  # for each actor: slow, reentrant


def system_of(made: list[Made], tells: list[int]) -> Callable[[], Coroutine[Any, Any, list[Any]]]:
    """Returns a program of several systems, each a ring of actors that tell each other."""

    async def one(name: str, kinds: Made, log: list[Any]) -> None:
        async with ActorSystem(name=name) as system:
            refs = [
                system.spawn(lambda s=slow, r=again: Hop(log, slow=s, reentrant=r), name=f"{name}{i}")
                for i, (slow, again) in enumerate(kinds)
            ]
            for i, ref in enumerate(refs):
                ref.tell([refs[i - 1], *refs])
            for k, n in enumerate(tells):
                refs[k % len(refs)].tell(n)
            answers = [ref.ask(n) for ref in refs for n in tells[:2]]
            await asyncio.gather(*answers)
            await asyncio.sleep(1)

    async def main() -> list[Any]:
        log: list[Any] = []
        await asyncio.gather(*(one(name, kinds, log) for name, kinds in zip("xyz", made, strict=False)))
        return log

    return main


kinds = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=4)
worlds = st.builds(
    system_of, st.lists(kinds, min_size=1, max_size=3), st.lists(st.integers(0, 6), max_size=5)
)
TWO_RINGS = system_of([[(False, False)] * 3] * 2, [5, 5, 5])


@given(worlds, schedules)
@example(TWO_RINGS, Seeded(1, 1.0))  # each ring gave way to the other, for ever
@example(TWO_RINGS, PCT(1, 1))
def test_actors_under_any_schedule_are_told_exactly_by_the_plan(main: Any, schedule: Schedule) -> None:
    run = attempt(main, schedule, trace=True)
    again = attempt(main, run.plan, trace=True)

    assert run.error is None
    assert again.trace == run.trace
    assert again.result == run.result
    assert sorted(again.plan.deviations) == sorted(run.plan.deviations)
    assert again.unused == ()


def test_every_system_ends_where_all_stand_aside_whenever_they_are_asked() -> None:
    for seed in range(100):
        outcome = attempt(TWO_RINGS, Seeded(seed, 1.0), limits=Limits(max_steps=3_000))

        assert outcome.error is None, f"seed {seed}"


def knows_that_all_are_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has rings take batches of 16 messages from the first on; else they look at the clock before."""

    @planted(monkeypatch, dispatch.Dispatch, "__init__")
    def begins(begin: Any, self: dispatch.Dispatch, *args: Any, **options: Any) -> None:
        begin(self, *args, **options)
        self._batch = dispatch._FULL

    monkeypatch.setattr(dispatch.Dispatch, "be_careful", lambda self: None)
    monkeypatch.setattr(budget, "after", lambda *_: (budget.MOST, 0))


@pytest.mark.parametrize("tells", [[2], [1, 1], [3]], ids=str)
def test_first_come_first_served_keeps_the_order_that_the_ring_has_outside_between_two_looks_at_the_clock(
    tells: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    knows_that_all_are_fast(monkeypatch)
    for made in ([[(False, False)] * 3], [[(False, False)] * 2, [(False, False)] * 3]):
        main = system_of(made, tells)

        assert attempt(main).result == asyncio.run(main())


def test_a_ring_of_actors_has_a_lane_for_itself_one_an_actor_and_one_a_suspended_handler() -> None:
    outcome = attempt(system_of([[(True, False), (False, False)]], [2]), trace=True)

    assert outcome.trace is not None
    lanes = {lane for _, lane, _ in outcome.trace}
    assert lanes == {"main", "main-1", "one-1", "ask-1", "ask-2", "x", "x0", "x1", "actor x0", "actor x1"}
    assert {what for _, lane, what in outcome.trace if lane in ("x0", "x1")} == {"turn"}


def test_an_actor_stands_aside_for_others_of_its_ring() -> None:
    async def main() -> list[Any]:
        log: list[Any] = []
        async with ActorSystem() as system:
            for ref in [system.spawn(lambda: Hop(log, slow=False), name=name) for name in "abc"]:
                ref.tell(0)
            await asyncio.sleep(1)
        return [name for name, _ in log]

    asked = {a.label: a.count for a in attempt(main).survey}

    assert attempt(main).result == ["a", "b", "c"]
    results = {
        tuple(attempt(main, Plan(f"a#{n} +{k}")).result) for n in range(1, asked["a"] + 1) for k in (1, 2)
    }
    assert ("b", "a", "c") in results
    assert ("b", "c", "a") in results


def test_what_a_handler_starts_has_a_strand_of_its_own_and_the_fate_of_its_ring() -> None:
    seen: dict[str, Any] = {}

    class Starts(Actor):
        def receive(self, message: Any) -> None:
            seen["handler"] = STRAND.get()
            loop = asyncio.get_running_loop()
            loop.call_soon(lambda: seen.update(callback=STRAND.get()))
            loop.call_later(0.1, lambda: seen.update(timer=STRAND.get()))
            self.kept = asyncio.create_task(self.more(), name="helper")

        async def more(self) -> None:
            seen["task"] = STRAND.get()

    async def main() -> None:
        async with ActorSystem(name="ring") as system:
            system.spawn(Starts).tell(1)
            await asyncio.sleep(1)

    assert attempt(main).error is None
    assert {what: lane.label for what, lane in seen.items()} == {
        "handler": "ring",
        "callback": "ring",
        "timer": "ring",
        "task": "helper",
    }


def test_actors_that_tell_each_other_for_ever_are_a_livelock_that_names_them() -> None:
    class Echo(Actor):
        def receive(self, message: Any) -> None:
            message.tell(self.ref)

    async def main() -> None:
        async with ActorSystem() as system:
            a, b = system.spawn(Echo, name="ping"), system.spawn(Echo, name="pong")
            a.tell(b)
            await asyncio.sleep(1)

    outcome = attempt(main, limits=Limits(max_steps=500))

    assert isinstance(outcome.error, Livelock)
    assert "'ping' 128, 'pong' 128" in str(outcome.error).replace(
        "'pong' 128, 'ping' 128", "'ping' 128, 'pong' 128"
    )


def test_time_and_chance_of_a_system_are_those_of_the_run() -> None:
    async def main() -> Any:
        await asyncio.sleep(3)
        async with ActorSystem() as system:
            return system.now(), system.entropy.below(10**9)

    assert attempt(main, seed=5).result == (3.0, Entropy(5).below(10**9))
    assert attempt(main, seed=6).result != attempt(main, seed=5).result


def workers_in(main: Callable[[SimWorkers], Coroutine[Any, Any, Any]]) -> Callable[[], Any]:
    async def inner() -> Any:
        setting = ENVIRONMENT.get()
        assert isinstance(setting, SimulatedEnvironment)
        return await main(setting.workers("/cpu:0"))

    return inner


def test_a_kernel_runs_at_a_later_step_and_its_error_travels() -> None:
    async def main(workers: SimWorkers) -> Any:
        heard: list[Any] = []
        workers.submit(lambda: "result", lambda *what: heard.append(what))
        workers.submit(lambda: 1 // 0, lambda *what: heard.append(what))
        at_once = list(heard)
        await asyncio.sleep(1)
        return at_once, heard, len(workers)

    at_once, heard, n = attempt(workers_in(main)).result

    assert (at_once, n) == ([], 1)
    assert heard[0] == ("result", None, 0.0)
    assert heard[1][0] is None
    assert isinstance(heard[1][1], ZeroDivisionError)


def test_kernels_come_back_in_another_order_when_one_is_late() -> None:
    async def main(workers: SimWorkers) -> Any:
        heard: list[tuple[int, float]] = []
        for k in range(3):
            workers.submit(
                partial(int, k), lambda k, *_: heard.append((k, asyncio.get_running_loop().time()))
            )
        await asyncio.sleep(1)
        return heard

    program = workers_in(main)

    assert attempt(program).result == [(0, 0.0), (1, 0.0), (2, 0.0)]
    assert attempt(program, Plan("kernel/cpu:0#1 +5")).result == [(1, 0.0), (2, 0.0), (0, 0.005)]


def test_closed_workers_drop_what_waits_and_take_no_more() -> None:
    async def main(workers: SimWorkers) -> Any:
        heard: list[Any] = []
        workers.submit(lambda: heard.append("ran"), lambda *what: heard.append(what))
        await workers.close()
        await workers.close()
        await asyncio.sleep(1)
        with pytest.raises(SessionClosed, match="kernel/cpu:0 is closed"):
            workers.submit(lambda: 1, lambda *_: None)
        return heard

    assert attempt(workers_in(main)).result == []


def test_an_order_that_a_kernel_raises_ends_the_run() -> None:
    class Order(BaseException):
        pass

    def kernel() -> None:
        raise Order

    async def main(workers: SimWorkers) -> None:
        workers.submit(kernel, lambda *_: None)
        await asyncio.sleep(1)

    with pytest.raises(Order):
        attempt(workers_in(main))
