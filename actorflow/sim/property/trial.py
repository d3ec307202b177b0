"""Runs a program under a schedule; a failure is told by the plan that repeats it.

A failing run by seed or by priorities is reduced to the few deviations that it takes, and the plan
is noted on the exception, ready to be pasted as an `@example`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from types import CodeType
from weakref import WeakKeyDictionary

from actorflow.errors import FaultNeverFired
from actorflow.sim.engine import outcomes
from actorflow.sim.engine.faults import NO_FAULTS, Faults
from actorflow.sim.engine.plan import MAX_DEVIATIONS, Plan
from actorflow.sim.engine.schedulers import FIFO, Schedule, is_planned
from actorflow.sim.engine.simulate import Limits, Main, Outcome, attempt
from actorflow.sim.property import explanations, hash_seed
from actorflow.sim.property.run_checks import (
    check_faults,
    check_limits,
    check_program,
    check_schedule,
    check_seed,
)
from actorflow.sim.property.shrinking import MAX_RUNS, Shrinking

_MAX_STEPS = 5_000_000  # that a reduction may take in all: a livelock takes very many a run
_MIN_RUNS = 20

_HINTS: WeakKeyDictionary[CodeType, Plan] = WeakKeyDictionary()
"""What made a program fail, by its code; looked up, never iterated."""


class StalePlanWarning(UserWarning):
    """A plan has an entry whose place the program does not reach any more: it repeats nothing."""


def run(
    main: Main,
    schedule: Schedule = FIFO,
    faults: Faults = NO_FAULTS,
    *,
    seed: int = 0,
    limits: Limits | None = None,
    trace: bool = False,
    validate: bool = False,
) -> Outcome:
    """Runs the program in virtual time, and returns what it did.

    Args:
        main: Makes the program's main coroutine; it may be called many times.
        schedule: How to choose: FIFO, `Plan`, `Seeded`, `PCT`, `DelayBounded`.
        faults: What goes wrong besides.
        seed: Of all chance in the run.
        limits: How long it may take.
        trace: Whether to keep what happened.
        validate: Whether queues, links, coordinators and the like look at their own invariants after every
            event. It finds a fault of actorflow where it begins, and takes more time.

    Raises:
        ConfigError: what is given is no program, schedule, faults, seed or limits.
        Exception: what the program raised, with the plan noted on it.
        Deadlock, Livelock: the program cannot end.
        Escape: it reached for the real world.
        FaultNeverFired: a requested fault did nothing.
    """
    code = getattr(main, "__code__", None)  # of all runs that hypothesis makes of one program
    hint = None if code is None else _HINTS.get(code)
    trial = Trial(main, seed=seed, limits=limits, hint=hint, validate=validate)
    try:
        return trial.run(schedule, faults, _paste, trace=trace)
    finally:
        if code is not None and trial.hint is not None:
            _HINTS[code] = trial.hint


def _paste(plan: Plan) -> str:
    return f"schedule={plan!r}"


class Trial:
    """A program that is run again and again.

    Args:
        main: Makes its main coroutine.
        seed: Of all chance in a run.
        limits: How long a run may take.
        hint: A plan that made a like program fail: tried first when a failure is reduced.
        validate: See `run`.

    Attributes:
        before_reducing: Called once the runs of the example proper are over.
    """

    def __init__(
        self,
        main: Main,
        *,
        seed: int = 0,
        limits: Limits | None = None,
        hint: Plan | None = None,
        validate: bool = False,
    ) -> None:
        check_program(main)
        check_seed(seed)
        check_limits(limits)
        explanations.of_the_program_alone()
        self.hint = hint
        self._main = main
        self._seed = seed
        self._limits = limits
        self._validate = validate
        self.before_reducing: Sequence[Callable[[], None]] = ()

    def attempt(self, schedule: Schedule, faults: Faults = NO_FAULTS, *, trace: bool = False) -> Outcome:
        """Runs the program once and returns what it did."""
        return attempt(
            self._main,
            schedule,
            faults,
            seed=self._seed,
            limits=self._limits,
            trace=trace,
            validate=self._validate,
        )

    def run(
        self, schedule: Schedule, faults: Faults, paste: Callable[[Plan], str], *, trace: bool = False
    ) -> Outcome:
        """Runs the program; raises its error with the note that `paste` makes of the plan."""
        check_schedule(schedule)
        check_faults(faults)
        outcome = self.attempt(schedule, faults, trace=trace)
        for harm in faults.faults if outcome.error is None else ():
            if not _is_faulty(outcome, harm[0]):
                # Other deviations took the run elsewhere: alone it has its place.
                again = self.attempt(FIFO, Faults((harm,)), trace=trace)
                if again.error is None and not _is_faulty(again, harm[0]):
                    message = f"the harm {harm} was not reached"
                    raise FaultNeverFired(message)
                if again.error is not None:
                    outcome = again
                    break
        if outcome.error is not None:
            raise self._add_note(outcome, schedule, faults, paste)
        if isinstance(schedule, Plan) and outcome.unused:
            stale = "; ".join(map(str, outcome.unused))
            warnings.warn(
                f"the plan was not followed, never reached: {stale}", StalePlanWarning, stacklevel=3
            )
        return outcome

    def _add_note(
        self, outcome: Outcome, schedule: Schedule, faults: Faults, paste: Callable[[Plan], str]
    ) -> BaseException:
        """Returns the error of a failed run, with the plan as a note."""
        plan = outcome.plan
        if len(plan) > MAX_DEVIATIONS or (len(plan) and not is_planned(schedule)):
            plan, outcome = self._reduce(outcome)
        error = outcome.error
        assert error is not None
        if not len(plan):
            error.add_note("it fails first come, first served, without any deviation:")
        elif len(plan) == 1:
            error.add_note(f"it takes one deviation: {plan}")
        else:
            error.add_note(f"it takes {len(plan)} deviations: {plan}")
        if len(plan) > MAX_DEVIATIONS:
            repeat = f"schedule={schedule!r}" + (f", faults={faults!r}" if faults.faults else "")
            error.add_note(f"more than a plan holds ({MAX_DEVIATIONS}): repeat it with {repeat}")
        else:
            error.add_note(paste(plan))
        error.add_note(hash_seed.describe())
        return error

    def _reduce(self, outcome: Outcome) -> tuple[Plan, Outcome]:
        """Returns the shortest plan found that fails with the same kind of error, and its run.

        Where the plan of a run does not repeat it, that run itself: its program depends on more than
        its schedule, such as on what it draws from hypothesis while it runs.
        """
        for call in self.before_reducing:
            call()
        kind = outcomes.origin(outcome.error)
        affordable = max(_MIN_RUNS, _MAX_STEPS // max(1, outcome.steps))
        failed: dict[Plan, Outcome] = {}

        def fails(plan: Plan) -> bool:
            again = self.attempt(plan)
            if outcomes.origin(again.error) == kind:
                failed.clear()  # the last one that failed is the shortest
                failed[plan] = again
            return plan in failed

        start = outcome.plan
        try:
            if self.hint is not None and len(self.hint) < len(start) and fails(self.hint):
                if len(self.hint) == 1:
                    return self.hint, failed[self.hint]
                start = self.hint
            plan = Shrinking(fails, min(MAX_RUNS, affordable)).reduce(start.deviations, outcome.survey)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if outcomes.of_hypothesis(error) is None:
                raise
            return outcome.plan, outcome
        if plan is None:
            return outcome.plan, outcome
        self.hint = plan
        return plan, failed[plan]


def _is_faulty(outcome: Outcome, kind: str) -> bool:
    return any(deviation.text == kind for deviation in outcome.plan.deviations)
