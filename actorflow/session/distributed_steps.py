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
from actorflow.dataflow.engine.step import not_admitted
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
from actorflow.runtime.tag import StepId
from actorflow.session.distributed_plan import Parts

_SHOWN = 4  # phrases of what a step waits for that an error shows


class DistributedStep:
    """A step that runs in several processes, or waits to.

    Attributes:
        id: Its number in the order of calls; 0 where it gives a variable its initial value.
        number: Its number among those that have begun; 0 before.
        parts: What it runs, once it has begun.
        gathering: Which processes have said what of it, once it has begun.
        future: Gets the values, or the error.
        since: When it was asked for.
        deadline_s: How long it may take.
        waits: What its parts waited for when they were aborted, by process.
        late: Whether its deadline has passed: the error follows once it is known what it waited for, and
            what it took is back.
        parent: The step whose code runs it; None where there is none.
        ahead: While it waits for admission, gives the groups of steps of which one must end before.
        refused: Whether the initial value that it computed was not wanted any more.
        bucket: Where the wheel keeps the deadline.
        grace: How long its processes have to say that it is aborted.
    """

    parts: Parts
    gathering: StepCompletion

    def __init__(
        self,
        step: StepId,
        fetches: int,
        future: Future[list[Any]],
        deadline_s: float | None,
        since: float,
    ) -> None:
        self.id = step
        self.number = 0
        self.future = future
        self.deadline_s = deadline_s
        self.since = since
        self.values: list[Any] = [None] * fetches
        self.waits: dict[str, tuple[str, ...]] = {}
        self.late = self.refused = False
        self.parent: DistributedStep | None = None
        self.ahead: Callable[[], Sequence[Any]] | None = None
        self.bucket: Any = None
        self.grace: timer_wheel.Timer | None = None
        self._steps: DistributedSteps | None = None  # once it has begun

    def __repr__(self) -> str:
        return f"<DistributedStep {self.number}, {self.gathering!r}>" if self.begun else f"<{self.name}>"

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"step {self.id}" if self.id else "the step of a first value"

    @property
    def begun(self) -> bool:
        """Whether its processes know of it."""
        return self._steps is not None

    def begin(self, number: int, parts: Parts, steps: DistributedSteps) -> None:
        """Notes as which of those that have begun it begins, with which parts."""
        self.number = number
        self.parts = parts
        self.gathering = StepCompletion(parts.made.parts)
        self._steps = steps

    @property
    def lingers(self) -> bool:
        """Whether something of it may still happen somewhere."""
        return self.begun and not self.gathering.over

    def blocked(self) -> Blocked[Any]:
        """Returns what it waits for in this process, as far as that is code of the user, or its admission."""
        if self.ahead is not None:
            return Blocked((), tuple(self.ahead()))
        parts = () if self._steps is None else self._steps.parts_here(self.number)
        return Blocked(tuple(Await(self, part) for part in parts))

    def abort(self, error: BaseException) -> None:
        """Ends it with `error`."""
        if self._steps is not None and isinstance(error, ActorflowError):
            self._steps.fail(self, error)
        elif not self.future.done():
            self.future.set_exception(error)

    def cancel(self) -> None:
        """Ends it because whoever ran it was cancelled, be it in the moment in which it ended well."""
        if not self.future.done():
            self.future.cancel()
        if self._steps is not None:
            self._steps.cancel(self)

    def forget(self) -> None:
        """Lets go of its error, the traceback of which knows the step: who ran it has the error."""
        self.future = self.future.get_loop().create_future()
        self.future.cancel()

    def expire(self) -> None:
        """Ends it because its deadline has passed."""
        if self._steps is not None:
            self._steps.expire(self)
        else:
            self.abort(not_admitted(self.name, self.deadline_s))


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
    """The steps of a session that have begun.

    Args:
        system: The actor system of the session's process.
        address: Where runners report.
        reach: Gives actors of any process.
        grace_s: How long an aborted step waits for its processes to say that it is, and that what it took
            is back; None is no limit.

    Attributes:
        gone: Processes that are lost, and why.
        next_number: What the next step will have.
        release: Called when a step is over.
        transfers: What went from one process to another in the steps that ended well.
    """

    release: Callable[[DistributedStep], None]

    def __init__(self, system: ActorSystem, address: str, reach: Reach, grace_s: float | None) -> None:
        self.gone: dict[str, ActorflowError] = {}
        self.next_number = 1
        self.transfers = 0
        self._system = system
        self._address = address
        self._reach = reach
        self._grace_s = grace_s
        self._live: dict[int, DistributedStep] = {}
        self._returning: dict[int, DistributedStep] = {}  # over, and what they took is on its way back
        self._questions: dict[Task[Any], _Question] = {}
        self._closed: ActorflowError | None = None
        self._runners: dict[str, Ref] = {}
        self._idle: Future[None] | None = None

    def live(self, number: int) -> DistributedStep | None:
        """Returns a step by its number, while it lives."""
        return self._live.get(number)

    def parts_here(self, number: int) -> list[Any]:
        """Returns the part of a step that lives in this process, if there is one."""
        cell = self._system.actors.get(RUNNER)
        runner = None if cell is None else cell.behaviour
        part = runner.part(self._address, number) if isinstance(runner, Runner) else None
        return [] if part is None else [part]

    # -- whoever runs a step -----------------------------------------------------------------------

    def begin(self, parts: Parts, step: DistributedStep, fed: Sequence[Any]) -> None:
        """Sends one StartPart to each process; numbers grow in the order in which steps begin."""
        number = self.next_number
        self.next_number += 1
        step.begin(number, parts, self)
        self._live[number] = step
        for name, part in parts.made.parts.items():
            values = tuple(fed[k] for k in part.feeds)
            start = StartPart(self._address, number, parts.number, step.id, values)
            try:
                if name in self.gone:
                    raise self.gone[name].at(Where(step=number))
                self._runner(name).put(start, self._system.nobody)
            except ActorflowError as error:
                self.fail(step, error)
                self._lost(step, name)

    def settle(self, step: DistributedStep) -> None:
        """Whoever ran a step has its values."""
        if step.refused:
            self._undo(step)
        else:
            self.transfers += len(step.parts.made.transfers) if step.id else 0
            self._settle(step, well=True)

    def cancel(self, step: DistributedStep) -> None:
        """Whoever ran a step was cancelled: it ends everywhere."""
        if step.gathering.over and step.gathering.error is None:  # it has ended well in this very moment
            self._undo(step)
        else:
            self.fail(step, StepAborted(f"step {step.number} was cancelled by its caller"))

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
                self.fail(step, error.at(Where(step=step.number)))
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
                self.fail(step, message.error)
            case PartAborted(_, process, holds, spent, waits):
                step.waits[process] = waits
                if step.gathering.aborted(process, holds, spent):
                    self._over(step)

    def _done(self, step: DistributedStep, done: PartDone) -> None:
        for k, value in zip(step.parts.made.parts[done.process].fetches, done.values, strict=False):
            step.values[k] = value  # of an initial value there is none: the variable has it
        step.refused |= done.refused
        if step.gathering.done(done.process, done.holds, done.spent):
            self._over(step)

    # -- ends --------------------------------------------------------------------------------------

    def expire(self, step: DistributedStep) -> None:
        """Ends a step because its deadline has passed."""
        step.late = True
        running = sorted(step.gathering.running)
        message = f"step {step.number} did not end within its deadline of {step.deadline_s:g} s"
        for name in running:
            step.waits.setdefault(name, ())
        self.fail(step, DeadlinePassed(message, where=Where(step=step.number)))

    def fail(self, step: DistributedStep, error: ActorflowError) -> None:
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
        self.release(step)
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
