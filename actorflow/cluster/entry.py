"""The entry of `actorflow worker`, in a process that is not the chief: serves until the end, and says why."""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import sys
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from actorflow.actors.system import STOP_S
from actorflow.cluster.hosts import retry_until_found
from actorflow.cluster.process.discovery_client import CHIEF_TIMEOUTS, ChiefTimeouts
from actorflow.cluster.process.layout import name_processes
from actorflow.cluster.process.messages import ProcessCounts
from actorflow.cluster.process.process import CHIEF
from actorflow.cluster.process_runtime import ProcessRuntime
from actorflow.cluster.sockets import bind_of, check_names, chief_at, dial_address, open_sockets
from actorflow.errors import (
    ActorError,
    ActorflowError,
    CoordinatorLost,
    Fenced,
    JobOver,
    Misplaced,
    NotReady,
    PeerRefused,
    ProgramError,
    QuorumLost,
)
from actorflow.launch.exits import Exit, ending
from actorflow.launch.inherited import DEATH_PIPE, take
from actorflow.launch.parent_death import on_parent_death
from actorflow.launch.task import Task
from actorflow.runtime.clock import epoch_ms
from actorflow.runtime.disk import is_full
from actorflow.training.program import Program
from actorflow.transport.rules.link_settings import SETTINGS, LinkSettings
from actorflow.transport.zeromq import Keyring

if TYPE_CHECKING:
    from actorflow.cluster.delay import Delay

_GRACE_S = 0.8
"""How long a process may take to leave, kernels that still run included."""

_CODES: tuple[tuple[type[ActorflowError], Exit], ...] = (
    (Fenced, Exit.AGAIN),
    (CoordinatorLost, Exit.LOST),
    (QuorumLost, Exit.LOST),
    (NotReady, Exit.LOST),
    (PeerRefused, Exit.USAGE),
    (Misplaced, Exit.USAGE),
    (ActorError, Exit.ACTOR),
    (ProgramError, Exit.USAGE),
)


class Stopped(ActorflowError):
    """A signal asks the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


def code_of(reason: ActorflowError | None) -> int:
    """Returns the exit code of a process that ends for a reason; None is that its part is done."""
    if reason is None:
        return Exit.DONE
    if isinstance(reason, JobOver):
        return Exit.DONE
    if isinstance(reason, Stopped):
        return 128 + reason.number
    if is_full(reason):  # whatever else it is: in its next incarnation there may be room
        return Exit.FAILED
    return next((code for kind, code in _CODES if isinstance(reason, kind)), Exit.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopManner:
    """How a process is to be, beside its task.

    Attributes:
        keys: Those of the cluster; None has none.
        threads: Worker threads for slow kernels.
        links: What links may hold, and how long they wait.
        stop_s: How long an actor may take to stop.
        patience: How long the chief may be away.
        find_s: How long the chief's host, and its own, are looked for.
        delay: Holds a worker up at each contribution, in an experiment.
        counts: How many processes there are, and who said so.
    """

    keys: Keyring | None = None
    threads: int = 1
    links: LinkSettings = SETTINGS
    stop_s: float = STOP_S
    patience: ChiefTimeouts = CHIEF_TIMEOUTS
    find_s: float = CHIEF_TIMEOUTS.ready_s
    delay: Delay | None = None
    counts: ProcessCounts | None = None


class StopCalls:
    """What calls for the end of this process from outside: its launcher's death, SIGTERM, SIGHUP, Ctrl-C.

    Make it before anything that takes long, such as building the program: from then on the process ends
    soon after its launcher, whatever it does.

    Args:
        loop: Which will run.
    """

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._reason: ActorflowError | None = None
        self._hear: Callable[[ActorflowError], None] | None = None
        pipe = take(DEATH_PIPE)
        if pipe is not None:
            gone = CoordinatorLost("whoever started this process is gone")
            on_parent_death(pipe, loop, lambda: self._end(gone))

    @contextmanager
    def handle_first(self, hear: Callable[[ActorflowError], None]) -> Iterator[None]:
        """Has the first reason handed over, at once if it has come, as long as the block lasts."""
        loop, numbers = asyncio.get_running_loop(), ending()
        for number in numbers:
            loop.add_signal_handler(number, self._end, Stopped(number))
        self._hear = hear
        if self._reason is not None:
            hear(self._reason)
        try:
            yield
        finally:
            self._hear = None
            for number in numbers:
                loop.remove_signal_handler(number)

    def _end(self, reason: ActorflowError) -> None:
        if self._reason is None:
            self._reason = reason
            if self._hear is not None:
                self._hear(reason)


async def run_until_stopped(
    main: Coroutine[Any, Any, None], calls: StopCalls, hasten: Callable[[], None] = lambda: None
) -> ActorflowError | None:
    """Runs a chief to its end, and returns what called for an end before; None when nothing did.

    Then it is cancelled, and cleans up; not for longer than any other process.

    Args:
        main: What the chief does.
        calls: What calls for its end.
        hasten: Called before it is cancelled.

    Raises:
        ActorflowError: as `main` does.
    """
    running = asyncio.get_running_loop().create_task(main)
    stopped: list[ActorflowError] = []

    def end(reason: ActorflowError) -> None:
        stopped.append(reason)
        hasten()
        running.cancel()
        hurried.enter_context(hurry(code_of(reason)))

    with ExitStack() as hurried, calls.handle_first(end):
        try:
            await running
        except asyncio.CancelledError:
            if not stopped:
                raise
    return stopped[0] if stopped else None


async def serve(program: Program, task: Task, manner: StopManner, calls: StopCalls) -> ActorflowError | None:
    """Runs a process of a cluster until it is over, and returns why; None when the chief has let it go.

    Args:
        program: What it runs.
        task: Which process this is.
        manner: How it is to be.
        calls: What calls for its end from outside.

    Raises:
        ActorflowError: it cannot begin, as where its address is taken.
    """
    work = None
    if manner.delay is not None and task.job == "worker":
        from actorflow.cluster.delay import Delaying  # with all of the simulator, which is slow to load

        work = partial(Delaying, manner.delay, task.name)
    early: list[ActorflowError] = []
    hear: Callable[[ActorflowError], None] = early.append
    reason: ActorflowError | None = None
    with calls.handle_first(lambda called: hear(called)):  # ORDER: before there is anything to clean up
        finding = asyncio.ensure_future(_ways(task, manner))

        def stop(called: ActorflowError) -> None:
            early.append(called)
            finding.cancel()

        hear = stop
        if early:
            finding.cancel()
        try:
            bind, chief = await finding
        except asyncio.CancelledError:
            if not early:
                raise
            return early[0]
        hear = early.append
        runtime = ProcessRuntime(
            task.name,
            epoch_ms() if task.incarnation is None else task.incarnation,
            program,
            (CHIEF, *name_processes("ps", task.ps), *name_processes("worker", task.workers)),
            open_sockets(bind, manner.keys),
            chief=chief_at(chief, manner.keys),
            threads=manner.threads,
            links=manner.links,
            stop_s=manner.stop_s,
            timeouts=manner.patience,
            work=work,
            counts=manner.counts,
        )
        await runtime.open()
        hear = runtime.end
        for called in early:
            runtime.end(called)
        try:
            reason = await runtime.ended
        finally:
            with hurry(code_of(reason)):
                await runtime.close()
    return reason


async def _ways(task: Task, manner: StopManner) -> tuple[str, str]:
    """Returns where a process binds, and where it dials the chief; waits for hosts that are not known yet."""
    check_names([task.coordinator] if task.bind is None else [task.coordinator, task.bind], manner.keys)
    return await retry_until_found(lambda: (bind_of(task), dial_address(task.coordinator)), manner.find_s)


def leave(code: int) -> None:
    """Ends a process that a launcher waits for, without taking the interpreter down piece by piece.

    Which would be for memory that the system takes back anyway: on a busy machine with two cores a cluster
    with three children closes in 0.03 to 0.13 s so, and in 1.0 s otherwise.
    """
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@contextmanager
def hurry(code: int) -> Iterator[None]:
    """Ends the process with a code when the block takes too long, as where a kernel goes on and on."""
    timer = threading.Timer(_GRACE_S, os._exit, (int(code),))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
