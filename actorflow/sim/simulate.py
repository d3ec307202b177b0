"""One program, run in virtual time under one schedule.

A run is a function of (program, seed, schedule). The program is a function that makes its main
coroutine, since a schedule may need a first run to learn the points of the program, and a failing
run is repeated to find the few deviations that it takes.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextvars import copy_context
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from actorflow.clock import Entropy
from actorflow.errors import Deadlock, Livelock, SimulationError
from actorflow.setting import SETTING
from actorflow.sim import reality
from actorflow.sim.choice import Asked, Choices, Chooser
from actorflow.sim.choosers import FIFO, Ranks, Schedule
from actorflow.sim.harms import NO_FAULTS, Faults, Harmed
from actorflow.sim.lanes import LANE
from actorflow.sim.loop import SimLoop, SimTask
from actorflow.sim.order import Order
from actorflow.sim.plan import Plan, Planned
from actorflow.sim.seats import SimSetting

Main = Callable[[], Coroutine[Any, Any, Any]]
"""Makes the main coroutine of a program."""

NO_HARM = Plan()
_CLEAN_UP_STEPS = 100_000
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_CAUSES = 8  # of an error, that an account tells


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a run may take.

    Attributes:
        max_steps: Callbacks and turns of actors; one more is a livelock.
        max_seconds: Virtual time.
    """

    max_steps: int = 200_000
    max_seconds: float = 86_400.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did.

    Attributes:
        result: What the main coroutine returned; None when it raised.
        error: What it raised.
        plan: The deviations that were taken: run again under this plan, the program does the same.
        survey: The points that were asked.
        unused: Deviations of the plan that was given whose place was not reached.
        steps: Callbacks and turns of actors.
        seconds: Virtual time.
        trace: What happened, if it was kept: (time, lane, what).
    """

    result: Any
    error: Exception | None
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
        steps = [f"{when!r} s  {lane}  {what}" for when, lane, what in self.trace or ()]
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
) -> Outcome:
    """Runs the program and returns what it did, also when it failed.

    Args:
        main: Makes the program's main coroutine; called once for every run.
        schedule: How to choose.
        faults: Harms laid over that.
        seed: Of all chance in the run.
        limits: How long it may take.
        trace: Whether to keep what happened.

    Raises:
        FaultNeverFired: a harm was requested that has no place in this program.
        BaseException: what is no Exception ends the run and comes through, such as the one with
            which hypothesis stops an example.
    """
    limits = limits or Limits()
    survey: tuple[Asked, ...] = ()
    if schedule.needs_survey or faults.harms:
        first = _once(main, FIFO.chooser(), NO_HARM, seed, limits, trace=trace)
        if first.error is not None:
            return first
        survey = first.survey
    return _once(main, schedule.chooser(survey), faults.plan(survey), seed, limits, trace=trace)


def _once(main: Main, chooser: Chooser, harms: Plan, seed: int, limits: Limits, *, trace: bool) -> Outcome:
    harmed = Harmed(chooser, harms)
    choices = Choices(harmed if harms else chooser)
    order = Order(choices, chooser if isinstance(chooser, Ranks) else None)
    loop = SimLoop(order, max_steps=limits.max_steps, max_seconds=limits.max_seconds)
    if trace:
        loop.trace = []
    result, error = None, None
    with reality.replaced(now=loop.time, seed=seed) as outside:
        loop.tidy = outside.tidy
        try:
            result = copy_context().run(_drive, loop, main, seed)
        except Exception as raised:  # noqa: BLE001  it is the outcome
            error = raised
        finally:
            order.stop()  # ORDER: before the choices are read: it tells who still stands aside
            kept = None if loop.trace is None else tuple(loop.trace)
            steps, seconds, taken = loop.steps, loop.time(), tuple(choices.taken)
            found = choices.survey()
            unused = (*harmed.unused, *(chooser.unused if isinstance(chooser, Planned) else ()))
            _clean_up(loop)
            outside.tidy()
    if error is None and loop.complaints:
        error = _unheard(loop.complaints)
    return Outcome(result, error, Plan.of(taken), found, unused, steps, seconds, kept)


def _drive(loop: SimLoop, main: Main, seed: int) -> Any:
    LANE.set(loop.main_lane)
    SETTING.set(SimSetting(loop, entropy=Entropy(seed)))
    return loop.run_until_complete(main())


def _clean_up(loop: SimLoop) -> None:
    """Ends all that is left, first come, first served and without harm; no trace of it is kept."""
    loop.begin_clean_up(_CLEAN_UP_STEPS)
    try:
        actors = {task for system in loop.systems for task in system.tasks}
        _end(loop, [task for task in loop.living() if task not in actors])  # which closes the systems
        _end(loop, loop.living())
        loop.run_until_complete(loop.shutdown_asyncgens())
    except (Deadlock, Livelock) as error:
        loop.call_exception_handler({"message": "what was left could not be ended", "exception": error})
    finally:
        loop.bury()
        loop.close()


def _end(loop: SimLoop, tasks: list[SimTask]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))


def _causes(error: BaseException | None) -> Iterator[str]:
    """Tells an error, what it says, and what it came from."""
    seen = 0
    while error is not None and seen < _CAUSES:
        yield f"error {error!r}: {error}"
        error = error.__cause__ or error.__context__
        seen += 1


def _unheard(complaints: list[dict[str, Any]]) -> SimulationError:
    """Returns the error of a run that ended well while errors reached nobody."""
    first = complaints[0]
    cause = first.get("exception")
    message = _ADDRESS.sub("", first["message"])  # which no other run has
    what = f"{len(complaints)} errors were heard by nobody; the first: {message}"
    error = SimulationError(what, hint="await the task, or handle the error where it is raised")
    error.__cause__ = cause
    return error
