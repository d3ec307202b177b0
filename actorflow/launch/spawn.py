"""One child process as its launcher sees it: started afresh, heard when it ends, reaped.

A child is a fresh interpreter, never a fork: locks and threads of this process are not in it. It inherits
nothing but its standard streams and what is named here. It stands in a process group of its own, so that
Ctrl-C at a terminal reaches the launcher alone, which then ends it; what it leaves behind in its group
is killed when it has ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
import weakref
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from actorflow.errors import LaunchError
from actorflow.launch.inherited import DEATH_PIPE, KEYS

MOST_KEYS = 4096
"""Bytes of key material: a pipe takes as many without anybody reading."""


KILLED_S = 10.0
"""How long the system may take to end a process that was killed."""

UNKNOWN = 255
"""The return code of a process that other code of this one has reaped."""


class DeathPipe:
    """A pipe that ends when this process does: all of its children hold the other end.

    Attributes:
        theirs: The end that children inherit; only the guard reads what is written.
    """

    def __init__(self) -> None:
        self.theirs, self._ours = os.pipe()
        os.set_blocking(self._ours, False)
        _PIPES.add(self)

    def say(self, line: str) -> None:
        """Writes a line for the guard; nothing when it has long read none."""
        if self._ours < 0:
            return
        with suppress(BlockingIOError):
            os.write(self._ours, line.encode() + b"\n")

    def close(self) -> None:
        """Ends the pipe, at which all children believe that this process is dead."""
        if self._ours >= 0:
            os.close(self.theirs)
            self.release()

    def release(self) -> None:
        """Closes the end that keeps the pipe."""
        ours, self._ours = self._ours, -1
        if ours >= 0:
            os.close(ours)


_PIPES: weakref.WeakSet[DeathPipe] = weakref.WeakSet()


def _release_in_fork() -> None:
    """A fork of this process, made by others, would keep the pipe of a launcher that is dead."""
    for pipe in list(_PIPES):
        pipe.release()


os.register_at_fork(after_in_child=_release_in_fork)


class Child:
    """A process that has been started.

    Args:
        argv: The program and its arguments.
        env: All of its environment variables; the numbers of the descriptors are added.
        loop: On which its end is heard.
        ended: Is called once on the loop, with the return code as `subprocess` has it, when the process was
            reaped.
        death: The pipe by which it hears of this process's death; None when it shall outlive that.
        log: A file to which it prints, made when it is not there.
        out: A descriptor to which it prints, which stays the caller's; without either, the streams of this
            process.
        keys: Key material, which it reads from a pipe: neither arguments nor variables ever hold it.
        cwd: The folder in which it starts; None for this one's.

    Attributes:
        pid: Of the process.
        returncode: How it ended, None until it was reaped.

    Raises:
        LaunchError: when it cannot be started; nothing is left then.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        loop: AbstractEventLoop,
        ended: Callable[[int], None],
        *,
        death: DeathPipe | None = None,
        log: Path | None = None,
        out: int | None = None,
        keys: bytes | None = None,
        cwd: Path | None = None,
    ) -> None:
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            raise LaunchError("SIGCHLD must not be ignored, or nobody learns how a process has ended")
        self._loop = loop
        self._ended = ended
        self.returncode: int | None = None
        self._process = _start(argv, env, death, log, out, keys, cwd)
        self.pid = self._process.pid
        self._watched = _descriptor_of(self.pid)
        try:
            self._watch()
        except BaseException:
            self._process.kill()
            self._process.wait()
            if self._watched is not None:
                os.close(self._watched)
            raise

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to the process; none when it has ended."""
        if self.returncode is None:  # not reaped, so the number is still its own
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kills the process and all that is in its group; also when it is stopped."""
        if self.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            self.send(signal.SIGKILL)

    # --------------------------------------------------------------------------- the end

    def _watch(self) -> None:
        if self._watched is not None:
            self._loop.add_reader(self._watched, self._look)
        else:
            name = f"actorflow-wait-{self.pid}"
            threading.Thread(target=self._wait_beside, name=name, daemon=True).start()

    def _wait_beside(self) -> None:
        """Waits in a thread, where the system gives no descriptor of a process."""
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        """Reaps the process if it has ended; before that, while its number is its own, kills its group."""
        try:
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return
        except ChildProcessError:  # somebody else has reaped it
            self._process.returncode = UNKNOWN
        else:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        if self._watched is not None:
            self._loop.remove_reader(self._watched)
            os.close(self._watched)
            self._watched = None
        self.returncode = self._process.wait()
        self._ended(self.returncode)


async def reap(ends: Sequence[Future[Any]], limit_s: float) -> None:
    """Waits until children that were killed have ended, or so long; a cancellation waits as well."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + limit_s
    cancelled: asyncio.CancelledError | None = None
    while (waiting := [end for end in ends if not end.done()]) and (wait_s := until_s - loop.time()) > 0:
        try:
            await asyncio.wait(waiting, timeout=wait_s)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def _start(
    argv: Sequence[str],
    env: Mapping[str, str],
    death: DeathPipe | None,
    log: Path | None,
    out: int | None,
    keys: bytes | None,
    cwd: Path | None,
) -> subprocess.Popen[bytes]:
    left: dict[str, int] = {} if death is None else {DEATH_PIPE: death.theirs}
    opened: list[int] = []
    try:
        if keys is not None:
            left[KEYS] = _holding(keys)
            opened.append(left[KEYS])
        if log is not None:
            out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            opened.append(out)
        return subprocess.Popen(
            list(argv),
            env={**env, **{name: str(descriptor) for name, descriptor in left.items()}},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            pass_fds=tuple(left.values()),
            process_group=0,
            cwd=cwd,
        )
    except OSError as error:
        what = f"{argv[0]} must be a program that can be started"
        where = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
        message = f"{what}, got {where}"
        raise LaunchError(message) from error
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _holding(keys: bytes) -> int:
    """The read end of a pipe that holds the keys and then ends."""
    if len(keys) > MOST_KEYS:
        message = f"key material must have at most {MOST_KEYS} bytes, got {len(keys)}"
        raise LaunchError(message)
    theirs, ours = os.pipe()
    try:
        os.write(ours, keys)
    except BaseException:
        os.close(theirs)
        raise
    finally:
        os.close(ours)
    return theirs


def _descriptor_of(pid: int) -> int | None:
    """A descriptor that can be read when the process has ended; None where the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, one older than 5.3, or forbidden
        return None
