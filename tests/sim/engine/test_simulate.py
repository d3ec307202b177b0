"""One run: its outcome, what comes through, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.errors import StopTest, Unsatisfiable, UnsatisfiedAssumption

from actorflow.actors.actor import Actor
from actorflow.actors.system import ActorSystem
from actorflow.errors import Deadlock, Livelock, SimulationError
from actorflow.runtime.environment import ENVIRONMENT
from actorflow.runtime.validation import is_validating, no_validation
from actorflow.sim.engine.plan import Plan
from actorflow.sim.engine.schedulers import PCT, Drawn, Seeded
from actorflow.sim.engine.simulate import Limits, Outcome, attempt
from actorflow.sim.engine.strands import STRAND
from tests.support.python import run_python


class Raiser(Actor):
    """Raises what it is told to call, at once or after a while."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def receive(self, message: Any) -> Any:
        return message() if self.kind == "plain" else self.later(message)

    async def later(self, message: Any) -> Any:
        if self.kind == "suspended":
            await asyncio.sleep(0.001)
        return message()


async def _boom(call: Callable[[], Any]) -> None:
    call()


async def in_main(call: Callable[[], Any]) -> None:
    call()


async def in_an_awaited_task(call: Callable[[], Any]) -> None:
    await asyncio.create_task(_boom(call))


async def in_a_task(call: Callable[[], Any]) -> None:
    _kept = [asyncio.create_task(_boom(call))]
    await asyncio.sleep(5)


async def in_gather(call: Callable[[], Any]) -> None:
    await asyncio.gather(_boom(call), asyncio.sleep(5), return_exceptions=True)
    await asyncio.sleep(5)


async def in_the_body_of_a_group(call: Callable[[], Any]) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(5))
        call()


async def in_a_task_of_a_group(call: Callable[[], Any]) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(_boom(call))
        await asyncio.sleep(5)


async def in_a_callback(call: Callable[[], Any]) -> None:
    asyncio.get_running_loop().call_soon(call)
    await asyncio.sleep(5)


async def in_a_timer(call: Callable[[], Any]) -> None:
    asyncio.get_running_loop().call_later(1, call)
    await asyncio.sleep(5)


async def in_an_executor(call: Callable[[], Any]) -> None:
    await asyncio.to_thread(call)


async def in_a_plain_handler(call: Callable[[], Any]) -> None:
    await _tell("plain", call)


async def in_an_async_handler(call: Callable[[], Any]) -> None:
    await _tell("async", call)


async def in_a_suspended_handler(call: Callable[[], Any]) -> None:
    await _tell("suspended", call)


async def _tell(kind: str, call: Callable[[], Any]) -> None:
    async with ActorSystem() as system:
        system.spawn(Raiser, kind).tell(call)
        await asyncio.sleep(5)


async def in_a_handler_that_was_asked(call: Callable[[], Any]) -> None:
    async with ActorSystem() as system:
        await system.spawn(Raiser, "plain").ask(call)


async def in_the_body_of_a_system(call: Callable[[], Any]) -> None:
    async with ActorSystem() as system:
        system.spawn(Raiser, "plain")
        call()


PLACES = [
    in_main, in_an_awaited_task, in_a_task, in_gather, in_the_body_of_a_group, in_a_task_of_a_group,
    in_a_callback, in_a_timer, in_an_executor, in_a_plain_handler, in_an_async_handler,
    in_a_suspended_handler, in_a_handler_that_was_asked, in_the_body_of_a_system,
]  # fmt: skip

Place = Callable[[Callable[[], Any]], Any]


class Order(BaseException):
    """What is no Exception."""


def raising(error: BaseException) -> Callable[[], Any]:
    def call() -> None:
        raise error

    return call


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "error", [Order(), KeyboardInterrupt(), SystemExit(3), GeneratorExit(), pytest.skip.Exception("skipped")],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_an_order_comes_through_from_wherever_it_is_raised(place: Place, error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        attempt(lambda: place(raising(error)))

    assert caught.value is error


@pytest.mark.parametrize("place", PLACES)
def test_pytest_fail_is_a_failure_from_wherever_it_is_raised(place: Place) -> None:
    outcome = attempt(lambda: place(lambda: pytest.fail("not so")))

    assert repr(outcome.error) == repr(pytest.fail.Exception("not so"))


@pytest.mark.parametrize("place", [place for place in PLACES if place is not in_gather])
@pytest.mark.filterwarnings("ignore")
def test_an_assumption_that_fails_discards_the_example_from_wherever_it_fails(place: Place) -> None:
    with pytest.raises(UnsatisfiedAssumption):
        attempt(lambda: place(lambda: assume(False)))


def test_an_order_stops_the_run_at_once() -> None:
    steps: list[int] = []

    async def main() -> None:
        async def others() -> None:
            while True:
                steps.append(len(steps))
                await asyncio.sleep(1)

        _kept = [asyncio.create_task(others())]
        await asyncio.sleep(10.5)
        await in_a_task(raising(Order()))

    with pytest.raises(Order):
        attempt(main)

    assert len(steps) == 11


@pytest.mark.slow
def test_hypothesis_stops_an_example_from_wherever_it_draws() -> None:
    """Without the loop's care 459 of 459 were swallowed by the tasks in which they were raised."""
    stopped: Counter[str] = Counter()
    swallowed: Counter[str] = Counter()

    @settings(database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(PLACES), st.data())
    def law(place: Place, data: st.DataObject) -> None:
        stops: list[BaseException] = []

        def draw() -> None:
            try:
                while True:
                    data.draw(st.binary(min_size=500, max_size=500))
            except StopTest as error:
                stops.append(error)
                raise

        try:
            attempt(lambda: place(draw))
        except StopTest as error:
            stopped[place.__name__] += error in stops
            raise
        finally:
            swallowed[place.__name__] += bool(stops) and not isinstance(sys.exc_info()[1], StopTest)

    with pytest.raises(Unsatisfiable):  # no example was ever whole
        law()

    assert swallowed.total() == 0
    assert set(stopped) == {place.__name__ for place in PLACES}
    assert stopped.total() > 400


@settings(max_examples=30)
@given(st.data())
def test_a_program_draws_while_it_runs(data: st.DataObject) -> None:
    async def main() -> int:
        async def client() -> int:
            await asyncio.sleep(0)
            return data.draw(st.integers(0, 9))

        return sum(await asyncio.gather(*(client() for _ in range(5))))

    outcome = attempt(main)

    assert outcome.error is None
    assert 0 <= outcome.result <= 45


# -- the outcome -----------------------------------------------------------------------------------


def test_what_the_program_raises_is_its_outcome() -> None:
    async def main() -> None:
        await asyncio.sleep(2)
        raise ValueError("wrong")

    outcome = attempt(main)

    assert (repr(outcome.error), outcome.result, outcome.seconds) == ("ValueError('wrong')", None, 2.0)
    assert outcome.trace is None


def test_an_outcome_is_told_by_one_digest_in_every_process() -> None:
    program = (
        "import asyncio\n"
        "from actorflow.sim.engine.schedulers import Seeded\n"
        "from actorflow.sim.engine.simulate import attempt\n"
        "async def client(names):\n"
        "    for name in names: await asyncio.sleep(len(name) / 8)\n"
        "async def main():\n"
        "    tasks = [asyncio.create_task(client('a' * k)) for k in range(6)]\n"
        "    done, _ = await asyncio.wait(tasks)\n"
        "    return [task.get_name() for task in done]\n"
        "print([attempt(main, Seeded(s, 0.5), seed=s, trace=True).digest for s in range(20)])\n"
    )

    told = {
        run_python("-c", program, env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."}, check=True).stdout
        for seed in ("0", "1", "random")
    }

    assert len(told) == 1
    assert len(set(eval(told.pop()))) > 10


def test_a_program_that_fails_first_come_first_served_is_not_run_again() -> None:
    runs: list[int] = []

    async def main() -> None:
        runs.append(1)
        raise ValueError

    outcome = attempt(main, PCT(1))

    assert (len(runs), type(outcome.error), outcome.plan) == (1, ValueError, Plan())


def test_a_schedule_that_needs_to_know_the_program_runs_it_twice() -> None:
    runs: list[int] = []

    async def main() -> None:
        runs.append(1)

    for schedule, n in ((Seeded(1), 1), (Plan(), 1), (Drawn(), 1), (Drawn(((0, 0, 0),)), 2), (PCT(1), 2)):
        runs.clear()
        attempt(main, schedule)
        assert len(runs) == n


# -- the end ---------------------------------------------------------------------------------------


def left_behind(main: Callable[[], Any], **how: Any) -> Outcome:
    """Runs a program; nothing of it may be left, and nothing may complain afterwards."""
    clock = time.monotonic
    hooks = sys.get_asyncgen_hooks()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcome = attempt(main, **how)
        gc.collect()
    assert (STRAND.get(), ENVIRONMENT.get()) == (None, None)
    assert time.monotonic is clock
    assert sys.get_asyncgen_hooks() == hooks
    assert gc.isenabled()
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
    return outcome


class Household:
    """A program with something of everything that has to be put away, and a way to end."""

    def __init__(self, end: Callable[[], Any]) -> None:
        self.end = end
        self.closed: list[str] = []

    async def main(self) -> None:
        async def generates() -> AsyncIterator[int]:
            try:
                while True:
                    yield 1
            finally:
                await asyncio.sleep(0)
                self.closed.append("generator")

        async def background() -> None:
            try:
                await asyncio.sleep(10**4)
            finally:
                await asyncio.sleep(1)
                self.closed.append("task")

        self.generator = generates()
        await anext(self.generator)
        self.task = asyncio.create_task(background())
        async with ActorSystem() as self.system:
            self.ref = self.system.spawn(Raiser, "plain")
            await asyncio.sleep(0.001)
            await self.end()

    def check(self) -> None:
        assert sorted(self.closed) == ["generator", "task"]
        assert self.task.done()
        assert not self.system.actors
        assert not self.system.tasks
        self.system.accounts.check()


async def _returns() -> None:
    pass


async def _fails() -> None:
    raise ValueError


async def _waits() -> None:
    await asyncio.get_running_loop().create_future()


async def _turns() -> None:
    while True:  # noqa: ASYNC110  it polls for ever
        await asyncio.sleep(0)


async def _polls() -> None:
    while True:  # noqa: ASYNC110
        await asyncio.sleep(3_000)


@pytest.mark.parametrize(
    ("end", "kind"),
    [(_returns, None), (_fails, ValueError), (_turns, Livelock), (_polls, Livelock)],
)
def test_nothing_is_left_however_a_run_ends(end: Any, kind: type[Exception] | None) -> None:
    house = Household(end)

    outcome = left_behind(house.main, limits=Limits(max_steps=2_000, max_seconds=8_000))

    assert outcome.error is None if kind is None else type(outcome.error) is kind
    house.check()


def test_nothing_is_left_of_a_deadlock() -> None:
    house = Household(_waits)
    house.task = None  # type: ignore[assignment]

    async def main() -> None:
        lock = asyncio.Lock()
        async with ActorSystem() as house.system, lock:
            house.ref = house.system.spawn(Raiser, "plain")
            await asyncio.sleep(0.001)
            await lock.acquire()

    outcome = left_behind(main)

    assert isinstance(outcome.error, Deadlock)
    assert not house.system.actors
    assert not house.system.tasks


def test_nothing_is_left_of_a_run_that_an_order_stops() -> None:
    async def orders() -> None:
        await in_a_task(raising(Order()))

    house = Household(orders)

    with pytest.raises(Order):
        left_behind(house.main)

    house.check()
    assert (STRAND.get(), ENVIRONMENT.get()) == (None, None)
    assert attempt(Household(_returns).main).error is None  # the next run finds a clean house


def test_a_second_order_while_the_run_is_put_away_does_not_take_the_place_of_the_first() -> None:
    first, closed = Order("first"), []

    async def main() -> None:
        async def stubborn() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                raise Order("second")

        async def polite() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                closed.append("polite")

        _kept = [asyncio.create_task(stubborn()), asyncio.create_task(polite())]
        await asyncio.sleep(1)
        raise first

    with pytest.raises(Order) as caught:
        attempt(main)

    assert caught.value is first
    assert closed == ["polite"]


def test_an_order_while_a_good_run_is_put_away_comes_through() -> None:
    async def main() -> None:
        async def stubborn() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                raise Order

        _kept = [asyncio.create_task(stubborn())]
        await asyncio.sleep(1)

    with pytest.raises(Order):
        attempt(main)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_program_that_refuses_to_be_cancelled_fails() -> None:
    async def main() -> None:
        async def refuses() -> None:
            while not given_up:
                try:
                    await asyncio.sleep(1)
                except asyncio.CancelledError:
                    continue

        _kept = [asyncio.create_task(refuses())]
        await asyncio.sleep(1)

    given_up: list[int] = []

    outcome = attempt(main)
    given_up.append(1)

    assert isinstance(outcome.error, SimulationError)
    assert "heard by nobody; the first: what was left could not be ended" in str(outcome.error)
    assert isinstance(outcome.error.__cause__, Livelock)


# -- errors that nobody hears ----------------------------------------------------------------------


def unheard(main: Callable[[], Any]) -> str:
    outcome = attempt(main)
    assert isinstance(outcome.error, SimulationError), outcome
    assert isinstance(outcome.error.__cause__, ValueError)
    return str(outcome.error).partition("; the first: ")[2]


def test_an_error_of_a_task_that_nobody_awaits_fails_the_run() -> None:
    assert "exception was never retrieved" in unheard(lambda: in_a_task(raising(ValueError())))


def test_an_error_in_a_callback_fails_the_run() -> None:
    assert "a callback in 'in_a_callback-1' raised" in unheard(lambda: in_a_callback(raising(ValueError())))


def test_an_error_while_a_task_is_cancelled_at_the_end_fails_the_run() -> None:
    async def main() -> None:
        async def asserts() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                raise ValueError("not conserved")

        _kept = [asyncio.create_task(asserts())]
        await asyncio.sleep(1)

    assert "'asserts-1' was cancelled at the end of the run and raised" in unheard(main)


def test_what_the_program_raises_goes_before_what_nobody_heard() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(raising(ValueError()))
        await asyncio.sleep(1)
        raise KeyError("first")

    assert repr(attempt(main).error) == "KeyError('first')"


def test_errors_that_were_heard_do_not_count() -> None:
    async def main() -> None:
        async def fails() -> None:
            raise ValueError("heard")

        task = asyncio.create_task(fails())
        await asyncio.gather(fails(), return_exceptions=True)
        await asyncio.wait([task])
        task.exception()
        asyncio.create_task(asyncio.sleep(10)).cancel()
        with pytest.raises(ValueError, match="heard"):
            await fails()
        await asyncio.sleep(1)

    assert attempt(main).error is None


def test_a_run_that_validates_has_state_machines_look_at_their_invariants() -> None:
    looks: list[bool] = []

    async def main() -> None:
        looks.append(is_validating())

    with no_validation():
        for validate in (False, True, False):
            attempt(main, validate=validate)

        assert looks == [False, True, False]
        assert not is_validating()
