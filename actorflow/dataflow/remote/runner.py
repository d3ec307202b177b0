"""The runner of a process: runs its parts of the steps of sessions that live anywhere.

Owns: the process's executor with the actors of its state, the parts that were prepared, and its parts of
    live steps.
**Receives** PreparePart (asked), StartPart, Token, AbortPart, SettlePart, CloseSession, see `step_messages`;
Lost, Unsent.
**Sends** PartDone, PartFailed, PartAborted and PartSettled to the session, Token to other runners.
**Promise**: each StartPart that is taken ends in one PartDone or one PartFailed, or in the PartAborted that
    answers an AbortPart; nothing of a step happens here after its PartAborted was sent, but that what it took
    comes back, before its PartSettled is sent. A token leaves at once and is delivered at most once; of one
    that may not have been the session hears PartFailed, whatever it heard before.
**Fails**: a step that fails fails alone.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, cast

from actorflow.actors.actor import Actor
from actorflow.actors.ref import Ref
from actorflow.actors.system import ActorSystem
from actorflow.actors.tombstones import because
from actorflow.dataflow.engine.executor import Executor
from actorflow.dataflow.engine.step import Step
from actorflow.dataflow.engine.token_sender import TokenSender
from actorflow.dataflow.remote.installed_part import InstalledPart, install_part
from actorflow.dataflow.remote.part_step import PartOutcome, PartStep
from actorflow.dataflow.remote.rendezvous import Rendezvous, Ruling
from actorflow.dataflow.remote.step_messages import (
    AbortPart,
    CloseSession,
    DropPlan,
    PartAborted,
    PartDone,
    PartFailed,
    PartPrepared,
    PartSettled,
    PreparePart,
    SettlePart,
    StartPart,
    Token,
)
from actorflow.dataflow.state.caller import Caller
from actorflow.dataflow.state.register import Source
from actorflow.dataflow.state.starvation_detector import Producers
from actorflow.dataflow.state.variable import Initialise
from actorflow.errors import ActorflowError, SessionClosed, StateError, StepAborted, Where, describe
from actorflow.graph.graph import Graph
from actorflow.kernels.device.devices import HOST
from actorflow.runtime.messages import DEAD, Call
from actorflow.values.arrays import as_array

RUNNER = "runner"
"""The name of the actor in its process."""

Reach = Callable[[str], Ref]
"""The address of an actor, `process/actor`, to its ref."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Whoever hears of it → runner, control lane: a process is gone, and with it what it had sent."""

    process: str
    error: ActorflowError


@dataclass(frozen=True, slots=True)
class Unsent:
    """Whoever hears of it → runner, control lane: a token from here reached nobody, or may not have.

    Whoever waits for it may have got its StartPart after it heard of the loss, and would wait for ever.
    """

    session: str
    number: int
    error: ActorflowError


class MakeExecutor(Protocol):
    """How a runner comes to its executor, once its system is open."""

    def __call__(self, system: ActorSystem, exchange: TokenSender) -> Executor:
        """Returns a fresh executor."""
        ...


def executor_of(
    process: str,
    graph: Graph,
    *,
    devices: Sequence[str] = (HOST,),
    threads: int = 0,
    max_messages: int = 1024,
) -> MakeExecutor:
    """Returns how the runner of a process makes its executor.

    Nobody counts who could fill the queues of several processes, so a wait there ends by its deadline.

    Args:
        process: Its name, which the actors of its state have before theirs.
        graph: What it runs parts of.
        devices: `/cpu:N`, the host's first.
        threads: Worker threads of each device; 0 runs all kernels on the event loop.
        max_messages: What the mailbox of each variable, queue or optimizer may hold.
    """

    def make(system: ActorSystem, exchange: TokenSender) -> Executor:
        return Executor(
            graph,
            system,
            Source(process),
            devices=devices,
            threads=threads,
            max_messages=max_messages,
            producers=Producers(system.now),
            starvation_s=None,
            token_sender=exchange,
        )

    return make


class Runner(Actor):
    """Runs this process's parts.

    Args:
        process: The name of this process.
        incarnation: Which one of it this is.
        graph: The graph, built as everywhere.
        make_executor: Makes what runs programs here.
        reach: Gives actors of any process by their address.
        max_early: How many tokens may wait here for the StartPart of their steps.
    """

    def __init__(
        self,
        process: str,
        incarnation: int,
        graph: Graph,
        make_executor: MakeExecutor,
        reach: Reach,
        max_early: int = 4096,
    ) -> None:
        self.process = process
        self.incarnation = incarnation
        self.rendezvous = Rendezvous(max_early)
        self.sent_tokens = 0
        self._graph = graph
        self._make_executor = make_executor
        self._reach = reach
        self._parts: dict[tuple[str, int], InstalledPart] = {}
        self._steps: dict[tuple[str, int], PartStep] = {}
        self._refs: dict[str, Ref] = {}

    def __repr__(self) -> str:
        return f"<Runner of {self.process!r}, {len(self._steps)} steps, {self.rendezvous!r}>"

    @property
    def parts(self) -> Mapping[tuple[str, int], InstalledPart]:
        """The parts of plans that run here, by session and number of the plan."""
        return self._parts

    @property
    def steps(self) -> int:
        """How many steps live here, or wait to hear how they ended elsewhere."""
        return len(self._steps)

    def part(self, session: str, number: int) -> PartStep | None:
        """Returns the part of a step that lives here."""
        return self._steps.get((session, number))

    def on_start(self) -> None:
        """Makes the executor; the actors of the state begin anew with it."""
        self.executor = self._make_executor(self.system, self)

    async def on_stop(self, reason: BaseException | None) -> None:
        """Aborts what runs and closes the executor."""
        why = because(reason)
        for session in {session for session, _ in self._steps}:
            self._close(session, SessionClosed(f"the runner of {self.process!r} has stopped{why}"))
        await self.executor.close()

    def receive(self, message: Any) -> Any:
        """Handles one message of a session or of another runner."""
        match message:
            case Token():
                self._token(message)
            case StartPart():
                self._start(message)
            case PreparePart():
                return self._prepare(message)
            case AbortPart(session, number, error):
                self._abort(session, number, error)
            case SettlePart(session, number, well, spent):
                self._settle(session, number, well, spent)
            case DropPlan(session, plan):
                self._parts.pop((session, plan), None)
            case CloseSession(session):
                self._close(session, SessionClosed("the session was closed"))
            case Lost(process, error):
                self._lost(process, error)
            case Unsent(session, number, error):
                self._say(
                    session, PartFailed(number, self.process, self._locate(error.at(Where(step=number))))
                )
        return None

    # -- plans -------------------------------------------------------------------------------------

    def _prepare(self, prepare: PreparePart) -> PartPrepared:
        for process in prepare.processes:
            if process.name != self.process:
                self.rendezvous.meet(process.name, process.incarnation)
        self.rendezvous.open(prepare.session, prepare.first)
        self._parts[prepare.session, prepare.plan] = install_part(
            prepare, self.process, self._graph, self.executor
        )
        return PartPrepared(self.process, self.incarnation)

    # -- steps -------------------------------------------------------------------------------------

    def _start(self, start: StartPart) -> None:
        part = self._parts.get((start.session, start.plan))
        came = self.rendezvous.start(start.session, start.number)
        if part is None:
            self.rendezvous.end(start.session, start.number)
            message = f"process {self.process!r} has no plan {start.plan} of {start.session!r}"
            self._say(start.session, PartFailed(start.number, self.process, StepAborted(message)))
            return
        if came is None:
            return  # it was aborted before, and that was answered
        end = PartOutcome(self)
        step = end.step = PartStep(start.number, start.step, part, end, self.system.now())
        self._steps[start.session, start.number] = step
        self.executor.start(part.partition, step, start.feeds)
        for token in came:
            self.executor.arrive(part.partition, step, token.key, token.value, token.turns)

    def ran(self, step: PartStep, values: tuple[Any, ...]) -> None:
        """Hears that a part has run: every fetch that lies here has come, and all has been sent."""
        name = step.part.initialises
        if not name:
            self._done(step, values)
            return
        answer = self.system.create_future()
        answer.add_done_callback(partial(self._initialised, step))
        try:
            self.executor.resources.tell(name, Call(Caller(answer), Initialise(as_array(values[0]))))
        except ActorflowError as error:
            answer.set_exception(error)

    def _initialised(self, step: PartStep, answer: Future[Any]) -> None:
        error = answer.exception()
        if error is None:
            self._done(step, (), refused=not answer.result())
        elif isinstance(error, ActorflowError):
            self.failed(step, error)
        else:
            message = f"variable {step.part.initialises!r} did not take its first value: {describe(error)}"
            self.failed(step, StateError(message))

    def _done(self, step: PartStep, values: tuple[Any, ...], *, refused: bool = False) -> None:
        session, number = step.part.session, step.number
        if self._steps.get((session, number)) is not step:
            return  # it was aborted while its initial value was on its way
        self.rendezvous.end(session, number)
        holds = bool(step.taken or step.spent)
        if not holds:
            del self._steps[session, number]
        self._put(session, PartDone(number, self.process, values, holds, step.spends, refused))

    def failed(self, step: PartStep, error: ActorflowError) -> None:
        """Hears that a part has failed: the session ends the step everywhere, and here once more."""
        session, number = step.part.session, step.number
        self.rendezvous.end(session, number)
        self._say(session, PartFailed(number, self.process, self._locate(error)))

    def _abort(self, session: str, number: int, error: ActorflowError) -> None:
        self.rendezvous.abort(session, number)
        step = self._steps.get((session, number))
        if step is None:
            self._say(session, PartAborted(number, self.process, False, (), ()))
            return
        waits = tuple(step.part.partition.waits(step))
        self._end(step, error)
        holds = bool(step.taken)
        if not holds:
            del self._steps[session, number]
        self._say(session, PartAborted(number, self.process, holds, step.spends, waits))

    def _end(self, step: PartStep, error: ActorflowError) -> None:
        """Ends a part without a word to the session; one that has ended keeps what nobody has used."""
        end: Any = step.future
        end.silence()
        step.abort(error)
        step.give_back()

    def _settle(self, session: str, number: int, well: bool, spent: tuple[int, ...]) -> None:
        step = self._steps.pop((session, number), None)
        if well:
            return
        if step is not None:
            step.settle(spent)
        self._say(session, PartSettled(number, self.process))

    def _close(self, session: str, error: ActorflowError) -> None:
        self.rendezvous.close(session)
        for at in [at for at in self._steps if at[0] == session]:
            step = self._steps.pop(at)
            self._end(step, error)
            step.settle(step.spends)
        for at in [at for at in self._parts if at[0] == session]:
            del self._parts[at]

    def _lost(self, process: str, error: ActorflowError) -> None:
        for session in {session for session, _ in self._parts}:
            if session.partition("/")[0] == process:
                self._close(session, error)
        self._refs = {to: ref for to, ref in self._refs.items() if to.partition("/")[0] != process}
        for step in tuple(self._steps.values()):
            if process in step.part.peers:
                step.abort(error.at(Where(step=step.id)))

    # -- tokens ------------------------------------------------------------------------------------

    def send(self, step: Step, key: int, value: Any, destination: str, turns: tuple[int, ...]) -> None:
        """Sends a token to another runner; see `TokenSender.send`."""
        part = cast("PartStep", step)
        dead = value is DEAD
        token = Token(
            part.part.session,
            part.number,
            key,
            None if dead else value,
            dead,
            self.process,
            self.incarnation,
            turns,
        )
        self.sent_tokens += 1
        self._ref(f"{destination}/{RUNNER}").put(token, self.system.nobody)

    def _token(self, token: Token) -> None:
        at = token.session, token.number
        value = DEAD if token.dead else token.value
        ruling = self.rendezvous.token(*at, token.key, value, token.source, token.incarnation, token.turns)
        if ruling is Ruling.NOW:
            step = self._steps[at]
            self.executor.arrive(step.part.partition, step, token.key, value, token.turns)
        elif ruling is Ruling.TOO_MANY:
            message = (
                f"{self.rendezvous.max_early} tokens wait at {self.process!r} for steps to start, "
                f"and one of step {token.number} came from {token.source!r}"
            )
            error = StepAborted(message, hint="raise max_early of the runner, or lower max_steps")
            self._say(token.session, PartFailed(token.number, self.process, error))

    # -- words -------------------------------------------------------------------------------------

    def _ref(self, address: str) -> Ref:
        ref = self._refs.get(address)
        if ref is None:
            ref = self._refs[address] = self._reach(address)
        return ref

    def _put(self, session: str, message: Any) -> None:
        try:
            self._ref(session).put(message, self.system.nobody)
        except ActorflowError as error:
            self._close(session, error)

    def _say(self, session: str, message: Any) -> None:
        try:
            self._ref(session).signal(message)
        except ActorflowError as error:
            self._close(session, error)

    def _locate(self, error: ActorflowError) -> ActorflowError:
        """Returns an error that says in which process it happened."""
        placed = error.copy()
        where = Where() if error.where is None else error.where
        placed.where = replace(where, device=f"{self.process}{where.device or ''}")
        return placed
