"""What `actorflow worker` does in a process that is not the chief: serves until it is over, and says why."""

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
from actorflow.clock import epoch_ms
from actorflow.cluster.hosts import until_found
from actorflow.cluster.layout import numbered
from actorflow.cluster.messages import Counts
from actorflow.cluster.neighbours import PATIENCE, Patience
from actorflow.cluster.process import CHIEF
from actorflow.cluster.sockets import bind_of, check_names, chief_at, dialled_at, opened
from actorflow.cluster.station import Station
from actorflow.disk import is_full
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
from actorflow.launch.orphanage import on_orphaned
from actorflow.launch.task import Task
from actorflow.program import Program
from actorflow.transport.settings import SETTINGS, Settings
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
    if is_full(reason):  # whatever else it is: in its next life there may be room
        return Exit.FAILED
    return next((code for kind, code in _CODES if isinstance(reason, kind)), Exit.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
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
    links: Settings = SETTINGS
    stop_s: float = STOP_S
    patience: Patience = PATIENCE
    find_s: float = PATIENCE.ready_s
    delay: Delay | None = None
    counts: Counts | None = None


class Calls:
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
            on_orphaned(pipe, loop, lambda: self._end(gone))

    @contextmanager
    def heard(self, hear: Callable[[ActorflowError], None]) -> Iterator[None]:
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


async def until_stopped(
    main: Coroutine[Any, Any, None], calls: Calls, hasten: Callable[[], None] = lambda: None
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

    with ExitStack() as hurried, calls.heard(end):
        try:
            await running
        except asyncio.CancelledError:
            if not stopped:
                raise
    return stopped[0] if stopped else None


async def serve(program: Program, task: Task, manner: Manner, calls: Calls) -> ActorflowError | None:
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
    with calls.heard(lambda called: hear(called)):  # ORDER: before there is anything to clean up
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
        station = Station(
            task.name,
            epoch_ms() if task.incarnation is None else task.incarnation,
            program,
            (CHIEF, *numbered("ps", task.ps), *numbered("worker", task.workers)),
            opened(bind, manner.keys),
            chief=chief_at(chief, manner.keys),
            threads=manner.threads,
            links=manner.links,
            stop_s=manner.stop_s,
            patience=manner.patience,
            work=work,
            counts=manner.counts,
        )
        await station.open()
        hear = station.end
        for called in early:
            station.end(called)
        try:
            reason = await station.ended
        finally:
            with hurry(code_of(reason)):
                await station.close()
    return reason


async def _ways(task: Task, manner: Manner) -> tuple[str, str]:
    """Returns where a process binds, and where it dials the chief; waits for hosts that are not known yet."""
    check_names([task.coordinator] if task.bind is None else [task.coordinator, task.bind], manner.keys)
    return await until_found(lambda: (bind_of(task), dialled_at(task.coordinator)), manner.find_s)


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
