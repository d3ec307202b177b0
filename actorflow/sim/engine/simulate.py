"""One program, run in virtual time under one schedule.

A run is a function of (program, seed, schedule). The program is a function that makes its main
coroutine, since a schedule may need a first run to learn the points of the program, and a failing
run is repeated to find the few deviations that it takes.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from actorflow.errors import Deadlock, Livelock, SimulationError, describe
from actorflow.runtime.clock import Entropy
from actorflow.runtime.environment import ENVIRONMENT
from actorflow.runtime.validation import validation
from actorflow.sim.engine import outcomes, patched_environment
from actorflow.sim.engine.choice import Asked, Choices, Scheduler
from actorflow.sim.engine.event_loop import SimLoop
from actorflow.sim.engine.faults import NO_FAULTS, FaultInjector, Faults
from actorflow.sim.engine.plan import Plan, Planned
from actorflow.sim.engine.schedulers import FIFO, Ranks, Schedule
from actorflow.sim.engine.simulated_environment import SimulatedEnvironment
from actorflow.sim.engine.strands import STRAND
from actorflow.sim.engine.tasks import SimTask
from actorflow.sim.engine.turn_order import Order
from actorflow.sim.settings import check_number, check_whole

Main = Callable[[], Coroutine[Any, Any, Any]]
"""Makes the main coroutine of a program."""

NO_FAULT = Plan()
_CLEAN_UP_STEPS = 100_000
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_CAUSES = 8  # of an error, that an account tells


_ELSEWHERE = (
    "call it from a plain function; in a notebook: await asyncio.to_thread(sim.run, main), "
    "and of a law: await asyncio.to_thread(law)"
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a run may take.

    Attributes:
        max_steps: Callbacks and turns of actors, whether time passes or not; one more is a livelock.
        max_seconds: Virtual time.
    """

    max_steps: int = 200_000
    max_seconds: float = 86_400.0

    def __post_init__(self) -> None:
        check_whole("max_steps", self.max_steps, 1)
        check_number("max_seconds", self.max_seconds)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did.

    Attributes:
        result: What the main coroutine returned; None when it raised.
        error: What it raised; what is no Exception is here only from `pytest.fail`.
        plan: The deviations that were taken: run again under this plan, the program does the same.
        survey: The points that were asked.
        unused: Deviations of the plan that was given whose place was not reached.
        steps: Callbacks and turns of actors.
        seconds: Virtual time.
        trace: What happened, if it was kept: (time, strand, what).
    """

    result: Any
    error: BaseException | None
    plan: Plan
    survey: tuple[Asked, ...]
    unused: tuple[Any, ...]
    steps: int
    seconds: float
    trace: tuple[tuple[float, str, str], ...] | None

    @property
    def account(self) -> tuple[str, ...]:
        """All that happened, a line for each thing; equal for equal runs, in every process.

        Results and errors are told by their `repr`: let a program return plain values, since that of
        an object may show its address, and that of a long array leaves values out.
        """
        steps = [f"{when!r} s  {strand}  {what}" for when, strand, what in self.trace or ()]
        asked = sorted(f"asked {point.label!r} {point.count} times" for point in self.survey)
        return (
            *steps,
            f"{self.steps} steps, {self.seconds!r} s",
            *(f"took {deviation}" for deviation in sorted(self.plan.deviations)),
            *asked,
            f"result {self.result!r}",
            *_causes(self.error),
        )

    @property
    def digest(self) -> str:
        """A short hash of `account`."""
        return digest(self.account)


def digest(account: Iterable[str]) -> str:
    """Returns a short hash of an account."""
    return blake2b("\n".join(account).encode(), digest_size=8).hexdigest()


def attempt(
    main: Main,
    schedule: Schedule = FIFO,
    faults: Faults = NO_FAULTS,
    *,
    seed: int = 0,
    limits: Limits | None = None,
    trace: bool = False,
    validate: bool = False,
) -> Outcome:
    """Runs the program and returns what it did, also when it failed.

    Args:
        main: Makes the program's main coroutine; called once for every run.
        schedule: How to choose.
        faults: What goes wrong besides.
        seed: Of all chance in the run.
        limits: How long it may take.
        trace: Whether to keep what happened.
        validate: Whether the state machines of actorflow look at their invariants after every event.

    Raises:
        FaultNeverFired: a fault was requested that has no place in this program.
        BaseException: what is no failure of the program ends the run and comes through, such as
            Ctrl-C, and what hypothesis stops or discards an example with.
    """
    # A loop within a loop is refused by asyncio as well, but later and less clearly.
    if asyncio._get_running_loop() is not None:
        message = "a simulated run makes its own event loop, and was begun inside a running one"
        raise SimulationError(message, hint=_ELSEWHERE)
    limits = limits or Limits()
    survey: tuple[Asked, ...] = ()
    with validation() if validate else nullcontext():
        if schedule.needs_survey or faults.faults:
            # A FIFO run tells the points; what fails without any deviation is told without any.
            first = _once(main, FIFO.scheduler(), NO_FAULT, seed, limits, trace=trace)
            if first.error is not None:
                return first
            survey = first.survey
        return _once(main, schedule.scheduler(survey), faults.plan(survey), seed, limits, trace=trace)


def _once(
    main: Main, scheduler: Scheduler, faults: Plan, seed: int, limits: Limits, *, trace: bool
) -> Outcome:
    harmed = FaultInjector(scheduler, faults)
    choices = Choices(harmed if faults else scheduler)
    # By ranks only where the scheduler has some.
    order = Order(choices, scheduler if isinstance(scheduler, Ranks) else None)
    loop = SimLoop(order, max_steps=limits.max_steps, max_seconds=limits.max_seconds)
    if trace:
        loop.trace = []
    result: Any = None
    error: BaseException | None = None
    with (
        _without_tracer(),
        _unraisable(loop),
        patched_environment.patch_environment(now=loop.time, seed=seed) as outside,
    ):
        loop.tidy = outside.tidy
        try:
            # In a context of its own: the run leaves no variable behind.
            result = copy_context().run(_drive, loop, main, seed)
        except BaseException as raised:  # noqa: BLE001  the outcome, or raised below
            # Task groups wrap an order to whoever runs the program.
            error = outcomes.unwrap(raised)
            if isinstance(error, asyncio.CancelledError):
                error = SimulationError(
                    "the program ended with CancelledError, which nobody outside it asked for"
                )
                error.__cause__ = raised
        # ORDER: all that is told of the run is taken before the clean-up, which takes steps as well.
        order.end()
        kept = None if loop.trace is None else tuple(loop.trace)
        steps, seconds, taken = loop.steps, loop.time(), tuple(choices.taken)
        found = choices.survey()
        unused = (*harmed.unused, *(scheduler.unused if isinstance(scheduler, Planned) else ()))
        late = _clean_up(loop)
        outside.tidy()
    # What came during the clean-up counts only if the run itself was no order to stop.
    if late is not None and (error is None or outcomes.is_failure(error)):
        error = late
    if loop.complaints:
        # The run may have ended well, and errors still have reached nobody.
        unheard = _unobserved(loop.complaints)
        if error is None:
            error = unheard
        else:
            error.add_note(f"besides, {unheard.what}")
    # hypothesis has to see its own, wherever it was caught.
    error = outcomes.of_hypothesis(error) or error
    if error is not None and not outcomes.is_failure(error):
        raise error
    return Outcome(result, error, Plan.of(taken), found, unused, steps, seconds, kept)


@contextmanager
def _unraisable(loop: SimLoop) -> Iterator[None]:
    """Hears errors that Python itself cannot raise, such as those of `__del__`."""
    usual = sys.unraisablehook

    def hear(told: Any) -> None:
        what = told.err_msg or "Exception ignored in"
        name = getattr(told.object, "__qualname__", type(told.object).__name__)
        loop.complaints.append({"message": f"{what} {name}", "exception": told.exc_value})

    sys.unraisablehook = hear
    try:
        yield
    finally:
        sys.unraisablehook = usual


@contextmanager
def _without_tracer() -> Iterator[None]:
    """Takes hypothesis' line tracer off for the run: up to Python 3.11 it makes one 7 times as long.

    It explains a failure by the lines that failing examples share; those of a run are the simulator's.
    """
    tracer = sys.gettrace()
    of = getattr(tracer, "__module__", None) or type(getattr(tracer, "__self__", None)).__module__
    # any other tracer, of a debugger or of coverage, stays
    if not of.startswith("hypothesis"):
        yield
        return
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracer)


def _drive(loop: SimLoop, main: Main, seed: int) -> Any:
    STRAND.set(loop.main_strand)
    ENVIRONMENT.set(SimulatedEnvironment(loop, entropy=Entropy(seed)))
    return loop.run_until_complete(main())


def _clean_up(loop: SimLoop) -> BaseException | None:
    """Ends all that is left, first come, first served and without fault; no trace of it is kept.

    Returns:
        What is no failure of the program and came meanwhile, such as Ctrl-C.
    """
    loop.begin_clean_up(_CLEAN_UP_STEPS)
    late: BaseException | None = None
    try:
        # ORDER: programs before actors, since they close their systems; generators last, since either may
        # hold some.
        for phase in (_end_others, _end_actors, _end_generators):
            try:
                phase(loop)
            except (Deadlock, Livelock) as error:
                # What cannot be ended is heard like any error that nobody has heard.
                message = "what was left could not be ended"
                loop.call_exception_handler({"message": message, "exception": error})
            except BaseException as error:  # noqa: BLE001  the rest is ended all the same
                late = late or outcomes.unwrap(error)
    finally:
        # ORDER: the dead last: what their `finally` does reaches nobody.
        loop.bury()
        loop.close()
    return late


def _end_others(loop: SimLoop) -> None:
    actors = {task for system in loop.systems for task in system.tasks}
    _end(loop, [task for task in loop.living() if task not in actors])


def _end_actors(loop: SimLoop) -> None:
    _end(loop, loop.living())


def _end_generators(loop: SimLoop) -> None:
    loop.run_until_complete(loop.shutdown_asyncgens())


def _end(loop: SimLoop, tasks: list[SimTask]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    # A task that raised instead of ending says so; one that was cancelled has done what it should.
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            message = f"'{task.get_name()}' was cancelled at the end of the run and raised"
            loop.call_exception_handler({"message": message, "exception": error})


def _causes(error: BaseException | None) -> Iterator[str]:
    """Tells an error, what it says, and what it came from."""
    seen = 0
    while error is not None and seen < _CAUSES:
        yield f"error {error!r}: {error}"
        # as a traceback would: the context only where no cause is given
        error = error.__cause__ or error.__context__
        seen += 1


def _unobserved(complaints: list[dict[str, Any]]) -> SimulationError:
    """Returns the error of a run that ended well while errors reached nobody."""
    first = complaints[0]
    cause = first.get("exception")
    message = _ADDRESS.sub("", first["message"])  # which no other run has
    were = "error was" if len(complaints) == 1 else "errors were"
    what = f"{len(complaints)} {were} heard by nobody; the first: {message}"
    if cause is not None:
        what += f": {describe(cause)}"
    error = SimulationError(what, hint="await the task, or handle the error where it is raised")
    error.__cause__ = cause
    return error
