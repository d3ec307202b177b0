"""Lets no child outlive a launcher that dies: a pipe ends with it, and a program reads the pipe."""

from __future__ import annotations

import os
import sys
from asyncio import AbstractEventLoop, Future
from collections.abc import Iterable
from pathlib import Path

from actorflow.launch import guard
from actorflow.launch.process_id import ProcessId
from actorflow.launch.spawn import KILLED_S, Child, DeathPipe, reap


class Watchdog:
    """Sees to it that children do not outlive this process for long; see `guard` and `parent_death`.

    Attributes:
        pipe: Which every child inherits.
    """

    def __init__(self, loop: AbstractEventLoop) -> None:
        self.pipe = DeathPipe()
        self._loop = loop
        self._child: Child | None = None
        self._ended: Future[int] | None = None

    @property
    def pid(self) -> int | None:
        """The pid of the program, None where there is none now."""
        return None if self._child is None else self._child.pid

    def stand(self, children: Iterable[int]) -> None:
        """Starts the program if there is none: before the first child, and when somebody has killed it.

        Args:
            children: The pids of those that are alive.

        Raises:
            LaunchError: when it cannot be started.
        """
        if self._child is not None:
            return
        ended: Future[int] = self._loop.create_future()

        def gone(returncode: int) -> None:
            self._child = None
            ended.set_result(returncode)

        argv = [sys.executable, "-I", "-S", guard.__file__]
        self._child = Child(argv, os.environ, self._loop, gone, death=self.pipe, log=Path(os.devnull))
        self._ended = ended
        for pid in children:
            self.began(pid)

    def began(self, pid: int) -> None:
        """Says that there is a child."""
        known = ProcessId.of(pid)
        self.pipe.say(f"+{pid} {known.started if known else 0}")

    def forget_child(self, pid: int) -> None:
        """Says that there is a child no more."""
        self.pipe.say(f"-{pid}")

    async def close(self) -> None:
        """Ends pipe and program; call it when all children are reaped. Calling it again does nothing."""
        self.pipe.close()
        if self._child is not None and self._ended is not None:
            self._child.kill()
            await reap([self._ended], KILLED_S)
