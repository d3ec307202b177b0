"""Starts named processes, starts them again by a rule, and leaves none behind."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio import AbstractEventLoop, Future, TimerHandle
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from actorflow.errors import LaunchError
from actorflow.launch import restarting
from actorflow.launch.exits import Exit, meaning
from actorflow.launch.logpipes import LogPipes
from actorflow.launch.restarting import NEVER, GiveUp, Past, Restart, Restarts, next_incarnation
from actorflow.launch.spawn import KILLED_S, Child, reap
from actorflow.launch.watchdog import Watchdog
from actorflow.runtime.clock import epoch_ms

GRACE_S = 5.0
"""How long a process may take to end after SIGTERM."""


@dataclass(frozen=True, slots=True)
class Started:
    """An incarnation of a process has begun."""

    name: str
    incarnation: int
    pid: int


@dataclass(frozen=True, slots=True)
class Exited:
    """An incarnation has ended; `asked` says whether `stop` was called for it, `meaning` how it ended."""

    name: str
    incarnation: int
    returncode: int
    meaning: str
    asked: bool


@dataclass(frozen=True, slots=True)
class Restarting:
    """The next incarnation begins in so many seconds."""

    name: str
    after_s: float


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A process was worth another incarnation, and has had too many; `why` ends a sentence with its name."""

    name: str
    why: str


Event = Started | Exited | Restarting | GivenUp


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """How a process ended for good.

    Attributes:
        returncode: Of its last incarnation, as `subprocess` has it.
        why: The end of a sentence that begins with its name.
        gave_up: Whether it was worth another incarnation and has had too many.
    """

    returncode: int
    why: str
    gave_up: bool


@dataclass(slots=True, eq=False)
class _SupervisedProcess:
    """A process in all of its incarnations.

    INVARIANT: while `end` is open, it has a child that is not reaped or a timer.
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    log: Path | None
    keys: bytes | None
    rule: Restarts
    end: Future[ProcessEnd]
    incarnation: int = 0
    child: Child | None = None
    since_s: float = 0.0
    timer: TimerHandle | None = None
    past: Past = field(default_factory=Past)
    returncode: int = 0
    asked: bool = False


class ProcessSupervisor:
    """Looks after processes that it has started, on the loop that runs now.

    Args:
        tell: Is called on the loop with every event. What it raises goes to the loop's handler of
            exceptions and disturbs nothing.
        now_ms: Gives incarnations, in milliseconds since the epoch.

    **Promise.** Every process that was started is reaped when `close` returns or raises, also when it was
    stopped by a signal, ignores SIGTERM, was about to be started again, or the caller was cancelled. When
    this process dies, its children hear of it; see `parent_death`.
    """

    def __init__(
        self, tell: Callable[[Event], None] | None = None, *, now_ms: Callable[[], int] = epoch_ms
    ) -> None:
        self._loop: AbstractEventLoop = asyncio.get_running_loop()
        self._tell = tell
        self._now_ms = now_ms
        self._charges: dict[str, _SupervisedProcess] = {}
        self._guard = Watchdog(self._loop)
        self._logs = LogPipes()
        self._closed = False

    def start(
        self,
        name: str,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        *,
        restarts: Restarts = NEVER,
        log: Path | None = None,
        keys: bytes | None = None,
    ) -> int:
        """Starts a process and returns its pid.

        Args:
            name: What events, and the others, call it.
            argv: The program and its arguments.
            env: All of its environment variables, None for this process's; `ACTORFLOW_INCARNATION` is added.
            restarts: Whether it is started again.
            log: Where what it prints goes, see `logfile`; None for the streams of this process.
            keys: Key material that every incarnation of it reads from a pipe.

        Raises:
            LaunchError: when it cannot be started, its log cannot be written, one of the name is there, or
                the supervisor is closed.
        """
        if (before := self._charges.get(name)) is not None and not before.end.done():
            message = f"a process must have a name of its own, got {name!r}, which is running"
            raise LaunchError(message)
        charge = _SupervisedProcess(
            name,
            tuple(argv),
            dict(os.environ if env is None else env),
            log,
            keys,
            restarts,
            self._loop.create_future(),
            incarnation=0 if before is None else before.incarnation,
        )
        self._begin(charge)
        self._charges[name] = charge
        assert charge.child is not None
        self._say(Started(name, charge.incarnation, charge.child.pid))
        return charge.child.pid

    def pids(self) -> dict[str, int]:
        """Returns the pid of every process that is alive."""
        return {name: at.child.pid for name, at in self._charges.items() if at.child is not None}

    @property
    def guard(self) -> Watchdog:
        """What outlives this process, to end what it would leave."""
        return self._guard

    def tail(self, name: str, lines: int = 20) -> str:
        """Returns the last lines that a process with a log printed; "" for none, and once it is closed."""
        return self._logs.tail(name, lines)

    def incarnation(self, name: str) -> int:
        """Returns the number of the present incarnation of a process, or of the last one."""
        return self._charges[name].incarnation

    async def end(self, name: str) -> ProcessEnd:
        """Waits until a process has ended for good, and returns how."""
        return await asyncio.shield(self._charges[name].end)

    async def stop(self, names: Collection[str] | None = None, *, grace_s: float = GRACE_S) -> None:
        """Ends processes and waits until all of them are reaped.

        SIGTERM, also for those that a signal has stopped, which go on for that; SIGKILL when they take
        longer than `grace_s`, or at once when the caller is cancelled.

        Args:
            names: Which; None for all.
            grace_s: How long they may take.

        Raises:
            LaunchError: when the system does not end a process that was killed.
        """
        charges = [at for name, at in self._charges.items() if names is None or name in names]
        for charge in charges:
            self._ask(charge)
        try:
            if waiting := _open(charges):
                await asyncio.wait(waiting, timeout=grace_s)
        finally:
            await self._kill(charges)

    async def close(self, *, grace_s: float = GRACE_S) -> None:
        """Stops all processes; none can be started after it. Calling it again does nothing."""
        self._closed = True
        try:
            await self.stop(grace_s=grace_s)
        finally:
            self._logs.close()
            await self._guard.close()

    async def __aenter__(self) -> Self:
        """Returns itself; the block's end closes it."""
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.close()

    # ----------------------------------------------------------------------- incarnations

    def _begin(self, charge: _SupervisedProcess) -> None:
        """Starts the next incarnation."""
        if self._closed:
            message = f"the supervisor must be open to start {charge.name}"
            raise LaunchError(message)
        self._guard.stand(self.pids().values())
        charge.incarnation = next_incarnation(charge.incarnation, self._now_ms())
        charge.since_s = self._loop.time()
        out = None if charge.log is None else self._logs.open(charge.name, charge.log)
        try:
            charge.child = Child(
                charge.argv,
                {**charge.env, "ACTORFLOW_INCARNATION": str(charge.incarnation)},
                self._loop,
                lambda returncode: self._ended(charge, returncode),
                death=self._guard.pipe,
                out=out,
                keys=charge.keys,
            )
        finally:
            if out is not None:
                os.close(out)
        self._guard.began(charge.child.pid)

    def _begin_again(self, charge: _SupervisedProcess) -> None:
        charge.timer = None
        try:
            self._begin(charge)
        except LaunchError as error:  # the system has no room for it now, or its program is gone
            self._say(Exited(charge.name, charge.incarnation, Exit.FAILED, error.what, asked=False))
            self._decide(charge, Exit.FAILED)
        else:
            assert charge.child is not None
            self._say(Started(charge.name, charge.incarnation, charge.child.pid))

    def _ended(self, charge: _SupervisedProcess, returncode: int) -> None:
        """An incarnation has ended, and its process is reaped."""
        if charge.child is not None:
            self._guard.forget_child(charge.child.pid)
        charge.child = None
        self._logs.drain(charge.name)  # ORDER: before anybody is told, who may show its last lines
        self._say(Exited(charge.name, charge.incarnation, returncode, meaning(returncode), charge.asked))
        self._decide(charge, returncode)

    def _decide(self, charge: _SupervisedProcess, returncode: int) -> None:
        charge.returncode = returncode
        if charge.asked:
            self._finish(charge, GiveUp(meaning(returncode), gave_up=False))
            return
        now_s = self._loop.time()
        charge.past, what = restarting.decide(
            charge.past, charge.rule, returncode, lasted_s=now_s - charge.since_s, now_s=now_s
        )
        if isinstance(what, Restart):
            charge.timer = self._loop.call_later(what.after_s, self._begin_again, charge)
            self._say(Restarting(charge.name, what.after_s))
            return
        self._finish(charge, what)
        if what.gave_up and charge.rule is not NEVER:
            self._say(GivenUp(charge.name, what.why))

    def _finish(self, charge: _SupervisedProcess, over: GiveUp) -> None:
        charge.end.set_result(ProcessEnd(charge.returncode, over.why, over.gave_up))

    def _ask(self, charge: _SupervisedProcess) -> None:
        """Asks a process to end; one that waits for its next incarnation has ended."""
        charge.asked = True
        if charge.child is not None:
            charge.child.send(signal.SIGTERM)
            charge.child.send(signal.SIGCONT)  # after which a process that was stopped finds the other
        elif charge.timer is not None:
            charge.timer.cancel()
            charge.timer = None
            self._finish(charge, GiveUp(meaning(charge.returncode), gave_up=False))

    async def _kill(self, charges: Sequence[_SupervisedProcess]) -> None:
        """Kills those that are left, and waits until they are reaped."""
        for charge in charges:
            if charge.child is not None:
                charge.child.kill()
        await reap(_open(charges), KILLED_S)
        if left := [charge for charge in charges if charge.child is not None]:
            named = ", ".join(f"{charge.name} (pid {self.pids()[charge.name]})" for charge in left)
            message = f"processes must end when they are killed, got {named} after {KILLED_S:g} s"
            raise LaunchError(message)

    def _say(self, event: Event) -> None:
        if self._tell is None:
            return
        try:
            self._tell(event)
        except Exception as error:  # noqa: BLE001  whoever watches must not break what is watched
            said = f"the listener of a supervisor failed at {event}"
            self._loop.call_exception_handler({"message": said, "exception": error})


def _open(charges: Sequence[_SupervisedProcess]) -> list[Future[ProcessEnd]]:
    return [charge.end for charge in charges if not charge.end.done()]
