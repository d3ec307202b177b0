"""The loop is asyncio's first come, first served, and keeps the order inside a strand under any schedule."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from threading import get_ident
from typing import Any

import pytest
from hypothesis import example, given

from actorflow.errors import Deadlock, Escape, Livelock
from actorflow.runtime.environment import ENVIRONMENT
from actorflow.sim.engine.event_loop import SimLoop
from actorflow.sim.engine.plan import Plan
from actorflow.sim.engine.schedulers import PCT, Seeded
from actorflow.sim.engine.simulate import Limits, attempt
from actorflow.sim.engine.strands import STRAND, Lifetime, Strand
from tests.sim.drawn import Script, program, programs
from tests.support.faults import planted
from tests.support.virtual_loop import VirtualLoop


class Stable(VirtualLoop):
    """asyncio's loop in virtual time; timers that are due at one moment come in order of setting.

    asyncio's heap leaves their order open: of four the last may come second.
    """

    made = 0

    def time(self) -> float:
        return round(super().time() * 8) / 8

    def call_at(  # type: ignore[override]
        self, when: float, *args: Any, **kwargs: Any
    ) -> asyncio.TimerHandle:
        self.made += 1
        return super().call_at(when + self.made * 1e-13, *args, **kwargs)


def on_asyncio(scripts: list[Script]) -> list[tuple[Any, ...]]:
    with asyncio.Runner(loop_factory=Stable) as runner:
        return runner.run(program(scripts)())


@given(programs)
@example([[("later", 0), ("soon", 1)], [("soon", 1)]])  # a timer that is due comes after what is ready
@example([[("later", 1)] * 5, [("later", 1)] * 2])
def test_first_come_first_served_is_what_asyncio_does(scripts: list[Script]) -> None:
    outcome = attempt(program(scripts))

    assert outcome.error is None
    assert outcome.result == on_asyncio(scripts)


def test_a_loop_that_looks_at_its_timers_before_every_step_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    scripts: list[Script] = [[("later", 0), ("soon", 1)], [("soon", 1)]]

    @planted(monkeypatch, SimLoop, "_collect_due")
    def always(collect: Any, loop: SimLoop) -> int:
        collect(loop)
        return 0

    assert attempt(program(scripts)).result != on_asyncio(scripts)


# -- strands ---------------------------------------------------------------------------------------


def lanes_of(main: Callable[[dict[str, Strand | None]], Any]) -> dict[str, str]:
    """Returns the labels of the strands that the program notes."""
    seen: dict[str, Strand | None] = {}
    outcome = attempt(lambda: main(seen))
    assert outcome.error is None
    return {what: lane.label for what, lane in seen.items() if lane is not None}


def test_callbacks_timers_and_futures_run_in_the_lane_that_asked_for_them() -> None:
    async def main(seen: dict[str, Strand | None]) -> None:
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def note(what: str, *_: Any) -> None:
            seen[what] = STRAND.get()

        async def asks() -> None:
            loop.call_soon(note, "soon")
            loop.call_later(1, note, "later")
            loop.call_soon_threadsafe(note, "threadsafe")
            future.add_done_callback(lambda _: note("heard"))
            loop.call_later(1, lambda: loop.call_soon(note, "inherited"))

        async def resolves() -> None:
            future.set_result(None)

        await asyncio.create_task(asks(), name="asks")
        await asyncio.create_task(resolves(), name="resolves")
        await asyncio.sleep(2)

    assert set(lanes_of(main).values()) == {"asks"}


def test_a_task_has_a_strand_of_its_own_wherever_it_is_made() -> None:
    async def main(seen: dict[str, Strand | None]) -> None:
        async def note(what: str) -> None:
            seen[what] = STRAND.get()

        async with asyncio.TaskGroup() as group:
            group.create_task(note("group"), name="in a group")
            group.create_task(note("unnamed"))
        await asyncio.gather(note("gathered"), note("gathered too"))
        asyncio.get_running_loop().call_soon(
            lambda: asyncio.create_task(note("callback"), name="of a callback")
        )
        await asyncio.create_task(note("empty context"), name="empty", context=Context())
        await asyncio.sleep(1)

    assert lanes_of(main) == {
        "group": "in a group",
        "unnamed": "note-1",
        "gathered": "note-2",
        "gathered too": "note-3",
        "callback": "of a callback",
        "empty context": "empty",
    }


def test_a_context_that_the_program_made_is_still_of_this_run() -> None:
    async def main() -> Any:
        life = Lifetime()

        async def inner() -> Any:
            return STRAND.get(), ENVIRONMENT.get(), asyncio.create_task(asyncio.sleep(0))

        async def outer() -> Any:
            loop: Any = asyncio.get_running_loop()
            loop.enter_strand("host", life)
            return await asyncio.create_task(inner(), context=Context())

        lane, setting, _ = await asyncio.create_task(outer())
        return lane.lifetime is life, setting is ENVIRONMENT.get()

    assert attempt(main).result == (True, True)


def test_a_context_that_the_program_hands_in_is_carried_on() -> None:
    colour: ContextVar[str] = ContextVar("colour", default="none")

    async def main() -> list[str]:
        context = copy_context()
        context.run(colour.set, "red")
        seen: list[str] = []

        async def note() -> None:
            seen.append(colour.get())
            colour.set("blue")

        await asyncio.create_task(note(), context=context)
        await asyncio.create_task(note(), context=context)
        asyncio.get_running_loop().call_soon(lambda: seen.append(colour.get()), context=context)
        await asyncio.sleep(0)
        return seen

    assert attempt(main).result == ["red", "blue", "blue"]


def test_names_of_tasks_are_made_by_the_loop_and_the_same_however_they_are_given() -> None:
    async def client() -> str:
        task = asyncio.current_task()
        assert task is not None
        return task.get_name()

    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        first = asyncio.create_task(client())
        named = asyncio.create_task(client(), name="the second")  # up to 3.12 named after it was made
        direct = loop.create_task(client(), name="the third")
        last = asyncio.create_task(client())
        return list(await asyncio.gather(first, named, direct, last))

    for _ in range(2):
        assert attempt(main).result == ["client-1", "the second", "the third", "client-2"]


def test_a_task_that_is_renamed_later_keeps_its_lane() -> None:
    async def main() -> None:
        async def client() -> None:
            await asyncio.sleep(0)
            await asyncio.sleep(0)

        task = asyncio.create_task(client(), name="early")
        await asyncio.sleep(0)
        task.set_name("late")
        await task
        assert task.get_name() == "late"

    outcome = attempt(main, trace=True)

    assert outcome.error is None
    assert {"early"} == {lane for _, lane, _ in outcome.trace or ()} - {"main", "main-1"}


def test_sets_of_tasks_and_futures_are_iterated_in_the_order_of_their_making() -> None:
    async def main() -> Any:
        async def ends(k: int) -> int:
            await asyncio.sleep(1)
            return k

        junk = [object() for _ in range(len(heap) * 7)]
        heap.append(junk)
        tasks = [asyncio.create_task(ends(k)) for k in range(12)]
        done, _ = await asyncio.wait(tasks)
        futures = {asyncio.get_running_loop().create_future(): k for k in range(12)}
        return [task.result() for task in done], [futures[f] for f in set(futures)]

    heap: list[Any] = []

    results = [attempt(main).result for _ in range(5)]

    assert all(result == results[0] for result in results)


# -- what is refused, and what runs inline ----------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda loop: loop.add_reader(0, print),
        lambda loop: loop.add_signal_handler(2, print),
        lambda loop: loop.getaddrinfo("localhost", 80),
        lambda loop: loop.create_connection(asyncio.Protocol, "localhost", 80),
        lambda loop: loop.create_server(asyncio.Protocol, "localhost", 0),
        lambda loop: loop.subprocess_shell(asyncio.SubprocessProtocol, "true"),
        lambda loop: loop.sock_recv(None, 1),
        lambda _: asyncio.open_connection("localhost", 1),
        lambda _: asyncio.create_subprocess_exec("true"),
    ],
)
def test_what_leaves_the_process_is_refused(call: Callable[[Any], Any]) -> None:
    async def main() -> None:
        result = call(asyncio.get_running_loop())
        if asyncio.iscoroutine(result):
            await result

    error = attempt(main).error

    assert isinstance(error, Escape)
    assert "a simulated program cannot use the real world, got" in str(error)


def test_work_for_threads_runs_here_at_a_later_step_that_is_chosen() -> None:
    async def main() -> Any:
        log: list[Any] = []
        loop = asyncio.get_running_loop()

        def work(k: int) -> int:
            log.append((k, loop.time(), get_ident() == here))
            return k

        here = get_ident()
        jobs = [asyncio.to_thread(work, 1), loop.run_in_executor(None, work, 2)]
        before = list(log)
        assert await asyncio.gather(*jobs) == [1, 2]
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)
        return before, log

    assert attempt(main).result == ([], [(2, 0.0, True), (1, 0.0, True)])
    late = attempt(main, Plan("executor work#1 +7")).result[1]
    assert sorted(late) == [(1, 0.0, True), (2, 0.007, True)]


def test_work_whose_future_was_cancelled_does_not_run() -> None:
    async def main() -> list[int]:
        ran: list[int] = []
        asyncio.get_running_loop().run_in_executor(None, ran.append, 1).cancel()
        await asyncio.sleep(1)
        return ran

    assert attempt(main).result == []


# -- time ------------------------------------------------------------------------------------------


def test_no_time_passes_while_anything_can_run_however_long_lanes_stand_aside() -> None:
    async def main() -> float:
        async def busy() -> None:
            for _ in range(50):
                await asyncio.sleep(0)

        async with asyncio.timeout(0.001):
            await asyncio.gather(*(busy() for _ in range(4)))
        return asyncio.get_running_loop().time()

    for seed in range(50):
        assert attempt(main, Seeded(seed, 1.0)).result == 0.0
        assert attempt(main, PCT(seed)).result == 0.0


def test_a_day_of_sleep_takes_a_step_or_two() -> None:
    async def main() -> None:
        await asyncio.sleep(86_000)

    outcome = attempt(main)

    assert (outcome.seconds, outcome.error) == (86_000.0, None)
    assert outcome.steps < 10


def test_cancelled_timers_leave_nothing_behind() -> None:
    async def main() -> int:
        loop: Any = asyncio.get_running_loop()
        for _ in range(1_000):
            loop.call_later(10, print).cancel()
        return len(loop._timers)

    assert attempt(main).result < 250


def test_a_program_with_only_cancelled_timers_is_a_deadlock() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(5, print).cancel()
        await loop.create_future()

    assert isinstance(attempt(main).error, Deadlock)


# -- limits ----------------------------------------------------------------------------------------


async def _by_call_soon() -> None:
    loop = asyncio.get_running_loop()

    def again() -> None:
        loop.call_soon(again)

    again()
    await loop.create_future()


async def _by_yielding() -> None:
    while True:  # noqa: ASYNC110  it polls for ever
        await asyncio.sleep(0)


async def _by_timers() -> None:
    while True:  # noqa: ASYNC110
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("main", [_by_call_soon, _by_yielding, _by_timers])
def test_a_program_that_never_ends_is_a_livelock_that_names_the_busiest(main: Callable[[], Any]) -> None:
    outcome = attempt(main, limits=Limits(max_steps=1_000))

    assert isinstance(outcome.error, Livelock)
    assert "more than 1000 steps were taken and the program has not ended" in str(outcome.error)
    assert f"of the next 256 steps: '{main.__name__}-1' " in str(outcome.error)
    assert "raise max_steps" in str(outcome.error)
    assert outcome.steps <= 1_300


def test_a_program_that_polls_for_ever_is_a_livelock_by_time() -> None:
    async def main() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(60)

    outcome = attempt(main, limits=Limits(max_seconds=3_600))

    assert isinstance(outcome.error, Livelock)
    assert "virtual time reached 3660 s, limit 3600 s" in str(outcome.error)
    assert "raise max_seconds" in str(outcome.error)


def test_a_program_may_take_as_many_steps_as_the_limit_says() -> None:
    async def main() -> None:
        for _ in range(990):
            await asyncio.sleep(0)

    assert attempt(main, limits=Limits(max_steps=1_000)).error is None
