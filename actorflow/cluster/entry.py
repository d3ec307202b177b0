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
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from actorflow.clock import epoch_ms
from actorflow.cluster.layout import numbered
from actorflow.cluster.neighbours import PATIENCE, Patience
from actorflow.cluster.process import CHIEF
from actorflow.cluster.station import Open, Station
from actorflow.errors import (
    ActorflowError,
    CoordinatorLost,
    Fenced,
    NotReady,
    PeerRefused,
    ProgramError,
    QuorumLost,
)
from actorflow.launch.exits import Exit
from actorflow.launch.inherited import DEATH_PIPE, take
from actorflow.launch.orphanage import on_orphaned
from actorflow.launch.task import Task
from actorflow.program import Program
from actorflow.transport.address import Address
from actorflow.transport.settings import SETTINGS, Settings

_GRACE_S = 0.8
"""How long a process may take to leave, kernels that still run included; then it ends at once."""

_CODES: tuple[tuple[type[ActorflowError], Exit], ...] = (
    (Fenced, Exit.AGAIN),
    (CoordinatorLost, Exit.LOST),
    (QuorumLost, Exit.LOST),
    (NotReady, Exit.LOST),
    (PeerRefused, Exit.USAGE),
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
    if isinstance(reason, Stopped):
        return 128 + reason.number
    return next((code for kind, code in _CODES if isinstance(reason, kind)), Exit.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a process is to be, beside its task.

    Attributes:
        chief: Where the chief is.
        open: How it gets its sockets.
        threads: Worker threads for slow kernels.
        links: What links may hold, and how long they wait.
        patience: How long the chief may be away.
    """

    chief: Address
    open: Open
    threads: int = 1
    links: Settings = SETTINGS
    patience: Patience = PATIENCE


async def until_stopped(main: Coroutine[Any, Any, None]) -> ActorflowError | None:
    """Runs a chief to its end, and returns why it was stopped; None when it was not.

    SIGTERM, Ctrl-C and the death of its launcher cancel it, after which it cleans up.

    Raises:
        ActorflowError: as `main` does.
    """
    loop = asyncio.get_running_loop()
    running = loop.create_task(main)
    stopped: list[ActorflowError] = []

    def end(reason: ActorflowError) -> None:
        if not stopped:
            stopped.append(reason)
            running.cancel()

    watch_launcher(loop, end)
    with signals(loop, end):
        try:
            await running
        except asyncio.CancelledError:
            if not stopped:
                raise
    return stopped[0] if stopped else None


async def serve(build: Callable[[], Program], task: Task, manner: Manner) -> ActorflowError | None:
    """Runs a process of a cluster until it is over, and returns why; None when the chief has let it go.

    Args:
        build: Makes the program.
        task: Which process this is.
        manner: How it is to be.

    Raises:
        ActorflowError: it cannot begin: its program, its address.
    """
    loop = asyncio.get_running_loop()
    ending: list[ActorflowError] = []

    def end(reason: ActorflowError) -> None:
        ending.append(reason)
        for station in stations:
            station.end(reason)

    stations: list[Station] = []
    watch_launcher(loop, end)
    with signals(loop, end):
        names = (CHIEF, *numbered("ps", task.ps), *numbered("worker", task.workers))
        station = Station(
            task.name,
            epoch_ms() if task.incarnation is None else task.incarnation,
            build(),
            names,
            manner.open,
            chief=manner.chief,
            threads=manner.threads,
            links=manner.links,
            patience=manner.patience,
        )
        await station.open()
        stations.append(station)
        for reason in ending:  # it came before
            station.end(reason)
        try:
            return await station.ended
        finally:
            with hurry(code_of(station.ended.result() if station.ended.done() else None)):
                await station.close()


def watch_launcher(loop: AbstractEventLoop, end: Callable[[ActorflowError], None]) -> None:
    """Calls `end` when the launcher of this process is dead, and sees to it that the process ends soon."""
    pipe = take(DEATH_PIPE)
    if pipe is not None:
        gone = CoordinatorLost("whoever started this process is gone")
        on_orphaned(pipe, loop, lambda: end(gone))


@contextmanager
def signals(loop: AbstractEventLoop, end: Callable[[ActorflowError], None]) -> Iterator[None]:
    """Calls `end` at SIGTERM and at Ctrl-C, as long as the block lasts."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, end, Stopped(number))
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def leave(code: int) -> None:
    """Ends a process that a launcher waits for, without taking the interpreter down piece by piece.

    Which would be for memory that the system takes back anyway: on a busy machine with two cores a cluster with
    three children closes in 0.03 to 0.13 s so, and in 1.0 s otherwise.
    """
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@contextmanager
def hurry(code: int) -> Iterator[None]:
    """Ends the process with a code when the block, and what follows it, takes too long."""
    timer = threading.Timer(_GRACE_S, os._exit, (int(code),))
    timer.daemon = True
    timer.start()
    yield
