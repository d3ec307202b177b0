"""The steps of a session that run in several processes, from StartPart to the last word about them.

`dataflow.remote.step_completion` says when a step is over and whom to tell what; here that is sent, and
whoever waits for the step hears of it.
"""

from __future__ import annotations

from asyncio import CancelledError, Future, Task, shield
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from actorflow.actors import timer_wheel
from actorflow.actors.actor import Actor
from actorflow.actors.ref import Ref
from actorflow.actors.system import ActorSystem
from actorflow.actors.waits import Blocked
from actorflow.dataflow.remote.runner import RUNNER, Reach, Runner
from actorflow.dataflow.remote.step_completion import StepCompletion
from actorflow.dataflow.remote.step_messages import (
    AbortPart,
    PartAborted,
    PartDone,
    PartFailed,
    PartSettled,
    SettlePart,
    StartPart,
)
from actorflow.dataflow.user.nested_steps import Await
from actorflow.errors import ActorflowError, DeadlinePassed, StepAborted, Where
from actorflow.session.distributed_plan import DistributedPlan

_SHOWN = 4  # phrases of what a step waits for that an error shows


class DistributedStep:
    """A step that runs in several processes.

    Attributes:
        number: Its number in the session.
        future: Gets the values, or the error.
        is_first: Whether it gives a variable its initial value; such steps do not count.
        waits: What its parts waited for when they were aborted, by process.
        late: Whether its deadline has passed: the error follows once it is known what it waited for, and
            what it took is back.
        runner: The number of the step whose code runs it; None where there is none.
        ticket: Stands for it where it has the place of that one.
        name: What reports call it.
        refused: Whether the initial value that it computed was not wanted any more.
    """

    def __init__(
        self,
        number: int,
        plan: DistributedPlan,
        future: Future[list[Any]],
        deadline_s: float | None,
        expire: Callable[[DistributedStep], None],
        step_id: int,
        parts: Callable[[int], Sequence[Any]],
    ) -> None:
        self.number = number
        self.name = f"step {step_id}" if step_id else "the step of a first value"
        self.ticket: object = None
        self._parts = parts
        self.plan = plan
        self.future = future
        self.deadline_s = deadline_s
        self.gathering = StepCompletion(plan.made.parts)
        self.values: list[Any] = [None] * plan.fetches
        self.waits: dict[str, tuple[str, ...]] = {}
        self.late = self.refused = False
        self.is_first = bool(plan.prepare.initialises)
        self.runner: int | None = None
        self.bucket: Any = None
        self.grace: timer_wheel.Timer | None = None
        self._expire = expire

    def __repr__(self) -> str:
        return f"<DistributedStep {self.number}, {self.gathering!r}>"

    def blocked(self) -> Blocked[Any]:
        """Returns what it waits for in this process, as far as that is code of the user."""
        return Blocked(tuple(Await(self, part) for part in self._parts(self.number)))

    def expire(self) -> None:
        """Ends the step because its deadline has passed."""
        self._expire(self)


@dataclass(slots=True)
class _Question:
    """What a runner was asked, as long as it has not answered; `error` is why no answer counts any more."""

    process: str
    error: ActorflowError | None = None


class RunnerReports(Actor):
    """Where runners report to a session. **Receives** PartDone, PartFailed, PartAborted, PartSettled."""

    def __init__(self, steps: DistributedSteps) -> None:
        self._steps = steps

    def receive(self, message: Any) -> None:
        """Hands on what a runner says."""
        self._steps.hear(message)


class DistributedSteps:
    """The live steps of a session.

    Args:
        system: The actor system of the session's process.
        address: Where runners report.
        reach: Gives actors of any process.
        grace_s: How long an aborted step waits for its processes to say that it is, and that what it took
            is back; None is no limit.
        room: Called when a step is over.

    Attributes:
        gone: Processes that are lost, and why.
        counted: How many steps live, those for initial values left out.
        peak: The most of them.
        next_number: What the next step will have.
    """

    def __init__(
        self, system: ActorSystem, address: str, reach: Reach, grace_s: float | None, room: Callable[[], None]
    ) -> None:
        self.gone: dict[str, ActorflowError] = {}
        self.counted = self.peak = 0
        self.next_number = 1
        self._system = system
        self._address = address
        self._reach = reach
        self._grace_s = grace_s
        self._room = room
        self._live: dict[int, DistributedStep] = {}
        self._returning: dict[int, DistributedStep] = {}  # over, and what they took is on its way back
        self._questions: dict[Task[Any], _Question] = {}
        self._closed: ActorflowError | None = None
        self._runners: dict[str, Ref] = {}
        self._idle: Future[None] | None = None

    def live(self, number: int | None) -> DistributedStep | None:
        """Returns a step by its number, while it lives."""
        return None if number is None else self._live.get(number)

    def all_live(self) -> list[DistributedStep]:
        """Returns all that live, in the order in which they began."""
        return list(self._live.values())

    def _parts_here(self, number: int) -> list[Any]:
        """Returns the part of a step that lives in this process, if there is one."""
        cell = self._system.actors.get(RUNNER)
        runner = None if cell is None else cell.behaviour
        part = runner.part(self._address, number) if isinstance(runner, Runner) else None
        return [] if part is None else [part]

    # -- whoever runs a step -----------------------------------------------------------------------

    def begin(
        self, plan: DistributedPlan, step_id: int, fed: Sequence[Any], deadline_s: float | None, since: float
    ) -> DistributedStep:
        """Sends one StartPart to each process; numbers grow in the order in which steps begin."""
        number = self.next_number
        self.next_number += 1
        step = DistributedStep(
            number, plan, self._system.create_future(), deadline_s, self._expired, step_id, self._parts_here
        )
        self._live[number] = step
        if not step.is_first:
            self.counted += 1
            self.peak = max(self.peak, self.counted)
        if deadline_s is not None:
            self._system.timer_wheel.add(since + deadline_s, step)
        for name, part in plan.made.parts.items():
            start = StartPart(self._address, number, plan.number, step_id, tuple(fed[k] for k in part.feeds))
            try:
                if name in self.gone:
                    raise self.gone[name].at(Where(step=number))
                self._runner(name).put(start, self._system.nobody)
            except ActorflowError as error:
                self._fail(step, error)
                self._lost(step, name)
        return step

    async def result(self, step: DistributedStep) -> list[Any]:
        """Returns the values of a step; whoever is cancelled ends it everywhere."""
        try:
            values = await step.future
        except CancelledError:
            gathering = step.gathering
            if gathering.over and gathering.error is None:  # it has ended well in this very moment
                self._undo(step)
            else:
                self._fail(step, StepAborted(f"step {step.number} was cancelled by its caller"))
            raise
        finally:
            if step.bucket is not None:
                timer_wheel.remove(step)
        if step.refused:
            self._undo(step)
        else:
            self._settle(step, well=True)
        return values

    def abort(self, error: ActorflowError) -> None:
        """Ends all steps with `error`."""
        for step in tuple(self._live.values()):
            self._fail(step, error.at(Where(step=step.number)))

    def close(self, error: ActorflowError) -> None:
        """Ends all questions with `error`, and whoever asks another has it as well."""
        self._closed = error
        for question, about in self._questions.items():
            about.error = error
            question.cancel()

    async def wait_settled(self) -> None:
        """Waits until no step lives, and what was taken and not used is back."""
        while self._live or self._returning:
            if self._idle is None:
                self._idle = self._system.create_future()
            await shield(self._idle)

    # -- processes ---------------------------------------------------------------------------------

    async def ask(self, process: str, message: Any) -> Any:
        """Asks the runner of a process; the loss of it ends the question at once.

        An answer that came just before the loss does not count: the incarnation that gave it is over.
        """
        if self._closed is not None:
            raise self._closed.copy()
        if process in self.gone:
            raise self.gone[process].copy()
        asked = self._runner(process).ask(message)
        question = self._system.loop.create_task(asked, name=f"spread-ask-{process}")
        about = self._questions[question] = _Question(process)
        try:
            answer = await question
        except CancelledError:
            if about.error is None:
                raise
            raise about.error.copy() from None
        finally:
            del self._questions[question]
        if about.error is not None:
            raise about.error.copy()
        return answer

    def tell(self, process: str, message: Any) -> None:
        """Tells the runner of a process on the control lane; nobody hears when it is gone."""
        self._say(process, lambda ref: ref.signal(message))

    def put(self, process: str, message: Any) -> None:
        """Tells the runner of a process behind all that was put before."""
        self._say(process, lambda ref: ref.put(message, self._system.nobody))

    def _say(self, process: str, say: Callable[[Ref], object]) -> None:
        if process in self.gone:
            return
        try:
            say(self._runner(process))
        except ActorflowError as error:
            self.lost(process, error)

    def lost(self, process: str, error: ActorflowError) -> None:
        """Hears that a process is gone: every step that needs it ends."""
        self.gone[process] = error
        self._runners.pop(process, None)
        for question, about in self._questions.items():
            if about.process == process:
                about.error = error
                question.cancel()
        for step in tuple(self._live.values()):
            if step.gathering.concerns(process):
                self._fail(step, error.at(Where(step=step.number)))
                self._lost(step, process)
        for step in tuple(self._returning.values()):
            self._take_back(step, process)

    def _runner(self, process: str) -> Ref:
        ref = self._runners.get(process)
        if ref is None:
            ref = self._runners[process] = self._reach(f"{process}/{RUNNER}")
        return ref

    def hear(self, message: Any) -> None:
        """Takes what a runner says; what comes too late concerns nobody."""
        if isinstance(message, PartSettled):
            returning = self._returning.get(message.number)
            if returning is not None:
                self._take_back(returning, message.process)
            return
        step = self._live.get(message.number)
        if step is None:
            if not isinstance(message, PartFailed) and message.holds:  # of a step that did not wait for it
                self.tell(message.process, SettlePart(self._address, message.number, False, message.spent))
            return
        match message:
            case PartDone():
                self._done(step, message)
            case PartFailed():
                self._fail(step, message.error)
            case PartAborted(_, process, holds, spent, waits):
                step.waits[process] = waits
                if step.gathering.aborted(process, holds, spent):
                    self._over(step)

    def _done(self, step: DistributedStep, done: PartDone) -> None:
        for k, value in zip(step.plan.made.parts[done.process].fetches, done.values, strict=False):
            step.values[k] = value  # of an initial value there is none: the variable has it
        step.refused |= done.refused
        if step.gathering.done(done.process, done.holds, done.spent):
            self._over(step)

    # -- ends --------------------------------------------------------------------------------------

    def _expired(self, step: DistributedStep) -> None:
        step.late = True
        running = sorted(step.gathering.running)
        message = f"step {step.number} did not end within its deadline of {step.deadline_s:g} s"
        for name in running:
            step.waits.setdefault(name, ())
        self._fail(step, DeadlinePassed(message, where=Where(step=step.number)))

    def _fail(self, step: DistributedStep, error: ActorflowError) -> None:
        """Ends a step with its first error; whoever waits hears at once, unless the step is late."""
        gathering = step.gathering
        if gathering.over or gathering.error is not None:
            return
        told = gathering.fail(error)
        if not step.late and not step.future.done():
            step.future.set_exception(error)
        if not told:
            self._over(step)
            return
        self._limit(step)
        for name in told:
            if name in self.gone:
                self._lost(step, name)
            else:
                self.tell(name, AbortPart(self._address, step.number, error))

    def _limit(self, step: DistributedStep) -> None:
        """Gives the processes of a step a time to say that it is aborted, and that what it took is back."""
        if self._grace_s is not None:
            step.grace = timer_wheel.Timer(lambda: self._give_up(step))
            self._system.timer_wheel.add(self._system.now() + self._grace_s, step.grace)

    def _give_up(self, step: DistributedStep) -> None:
        """Waits no longer for processes that do not say that a step is aborted there, or given back."""
        for name in sorted(step.gathering.aborting):
            step.waits[name] = ("an answer: it does not say what it does",)
            self._lost(step, name)
        self._all_back(step)

    def _lost(self, step: DistributedStep, process: str) -> None:
        if step.gathering.lost(process):
            self._over(step)

    def _over(self, step: DistributedStep) -> None:
        """Nothing of the step happens anywhere any more."""
        if self._live.pop(step.number, None) is None:
            return
        if step.gathering.error is not None:
            self._undo(step)
        elif not step.future.done():
            step.future.set_result(step.values)
        if not step.is_first:
            self.counted -= 1
            self._room()
        self._look_idle()

    def _settle(self, step: DistributedStep, *, well: bool) -> None:
        """Tells who holds something of a step that is over how it ended."""
        gathering = step.gathering
        for name in gathering.settle(well=well):
            if name in self.gone:
                self._take_back(step, name)
            else:
                self.tell(name, SettlePart(self._address, step.number, well, tuple(sorted(gathering.spent))))

    def _undo(self, step: DistributedStep) -> None:
        """Lets what a step took and did not use be given back, and waits until it is."""
        if not step.gathering.open:
            self._all_back(step)
            return
        self._returning[step.number] = step
        if step.grace is None:
            self._limit(step)
        self._settle(step, well=False)

    def _take_back(self, step: DistributedStep, process: str) -> None:
        if step.gathering.settle_process(process):
            self._all_back(step)

    def _all_back(self, step: DistributedStep) -> None:
        """What a step took is back, as far as it was not used, or nobody waits for that any longer."""
        self._returning.pop(step.number, None)
        if step.grace is not None:
            step.grace.cancel()
        error = step.gathering.error
        if error is not None and not step.future.done():
            step.future.set_exception(self._deadline_error(step, error) if step.late else error)
        self._look_idle()

    def _look_idle(self) -> None:
        if not self._live and not self._returning and self._idle is not None:
            idle, self._idle = self._idle, None
            idle.set_result(None)

    def _deadline_error(self, step: DistributedStep, error: ActorflowError) -> ActorflowError:
        """Returns the error of a step whose deadline has passed, with what its parts waited for."""
        phrases = [f"{name} for {' and '.join(w[:_SHOWN])}" for name, w in sorted(step.waits.items()) if w]
        what = f"{error.what}; it waits: {'; '.join(phrases)}" if phrases else error.what
        return DeadlinePassed(what, where=error.where, hint="raise deadline_s")
