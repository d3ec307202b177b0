"""One child process as its parent sees it: spawned, spoken to without blocking, heard when it ends.

A child is a fresh interpreter, never a fork. It inherits one end of a Unix socket pair and nothing else.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from actorflow.data.workers.frames import Inbox, Outbox
from actorflow.errors import WireError
from actorflow.transport.codec.message_codec import decode
from actorflow.transport.codec.types import Buffer

GRACE_S = 1.0
"""How long a child may take to end by itself after its stream has ended."""

_LOOK_S = 0.002  # between two looks whether a child has ended, where the system does not tell
_ROOM = 1 << 20  # of the socket, as far as the system allows
_TURN = 1 << 22  # bytes read or written at a time: a child that keeps up would keep the loop
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")

# A child takes and frees the memory of a chunk over and over. glibc would give it back each time, and
# every page would fault again: chunks of 8 x 64 KiB cost a child 220 faults and 870 µs, so 12 and 490.
_KEPT = dict.fromkeys(("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), str(64 << 20))


class ChildProcess:
    """A child that runs `actorflow.data.workers.child_main`.

    Args:
        loop: On which it is heard.
        heard: Is called with every message that it sends.
        ended: Is called once, when the process has ended and was reaped; `ending` says how.

    Attributes:
        pid: Of the process.
    """

    def __init__(
        self, loop: AbstractEventLoop, heard: Callable[[Any], None], ended: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._hear = heard
        self._ended = ended
        self._inbox = Inbox()
        self._outbox = Outbox()
        self._writing = False
        self._timer: TimerHandle | None = None
        self._fault: WireError | None = None
        self._sock, theirs = socket.socketpair()
        try:
            self._sock.setblocking(False)
            # A chunk should fit: a child that works must not wait for half of one.
            for end in (self._sock, theirs):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _ROOM)
            self._process = _spawn(theirs.fileno())
        except BaseException:
            self._sock.close()
            raise
        finally:
            # The child has its own copy: with ours open its end would never show.
            theirs.close()
        self.pid = self._process.pid
        self._open = True
        loop.add_reader(self._sock, self._read)
        # Told by the system when it ends; else it is looked at now and then.
        self._watched = _descriptor_of(self.pid)
        if self._watched is not None:
            loop.add_reader(self._watched, self._exited)

    @property
    def ending(self) -> str | None:
        """How the process ended, as errors say it; None while it runs."""
        code = self._process.returncode
        if self._fault is not None and code is not None:
            return f"was ended, for it sent no message: {self._fault.what}"
        if code is None or code >= 0:
            return None if code is None else f"ended with exit status {code}"
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:  # a real-time signal has no name
            return f"was ended by signal {-code}"

    def send(self, parts: list[Buffer]) -> None:
        """Sends a frame; what the socket has no room for waits. Never blocks."""
        if self._open:
            self._outbox.add(parts)
            # The first write is tried at once: there is nearly always room.
            if not self._writing:
                self._write()

    def hang_up(self, grace_s: float = GRACE_S) -> None:
        """Ends the stream, at which the child ends; it is killed if that takes it longer than `grace_s`."""
        if self._open:
            self._open = False
            self._loop.remove_reader(self._sock)
            if self._writing:
                self._loop.remove_writer(self._sock)
            self._sock.close()
            self._outbox.clear()
            self._inbox = Inbox()  # a part of a message may hold much memory
            # The system does not tell that it has ended.
            if self._watched is None:
                self._look_again()
        if self._process.returncode is None:
            self._cancel_timer()
            # It ends by itself when the stream does, unless its function does not return.
            self._timer = self._loop.call_later(grace_s, self._process.kill)

    # ------------------------------------------------------------------------ the stream

    def _write(self) -> None:
        written = 0
        try:
            # At most so much at a time: a child that keeps up would keep the loop.
            while self._outbox and written < _TURN:
                n = self._sock.sendmsg(self._outbox.batch())
                self._outbox.drop_sent(n)
                written += n
        except BlockingIOError:
            pass
        except OSError:  # it has gone, which reading finds out
            self._outbox.clear()
        # Asked to be called only as long as something waits.
        waits = bool(self._outbox)
        if waits and not self._writing:
            self._loop.add_writer(self._sock, self._write)
        elif self._writing and not waits:
            self._loop.remove_writer(self._sock)
        self._writing = waits

    def _read(self) -> None:
        end = self._inbox.received + _TURN
        while self._open and self._inbox.received < end:
            try:
                n = self._sock.recv_into(self._inbox.room())
            except BlockingIOError:
                return
            except OSError:
                # As if it had hung up: how it has ended its exit status says.
                n = 0
            if not n:
                self.hang_up()
                return
            try:
                frame = self._inbox.fill(n)
                if frame is not None:
                    self._hear(decode(frame))
            # What is no message can only be followed by what is none.
            except WireError as error:
                self._fault = error
                self.hang_up(0)

    # --------------------------------------------------------------------------- the end

    def _look_again(self) -> None:
        if self._process.poll() is None:
            self._loop.call_later(_LOOK_S, self._look_again)
        else:
            self._exited()

    def _exited(self) -> None:
        """The process has ended; what it said last is read."""
        if self._process.poll() is None:
            return
        if self._watched is not None:
            self._loop.remove_reader(self._watched)
            os.close(self._watched)
            self._watched = None
        before = -1
        # What it said last is still in the socket; the rest of the stream is not waited for.
        while self._open and before != self._inbox.received:
            before = self._inbox.received
            self._read()
        self.hang_up()
        self._cancel_timer()
        self._ended()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _spawn(descriptor: int) -> subprocess.Popen[bytes]:
    """Starts the child program with an end of a socket pair."""
    ours = str(Path(__file__).parents[3])
    path = os.pathsep.join(filter(None, (ours, os.environ.get("PYTHONPATH"))))
    # Never a fork: locks and threads of this process would be in it.
    return subprocess.Popen(
        # -P: a folder of the user's must not hide a module of Python's.
        [sys.executable, *_flags(), "-P", "-m", "actorflow.data.workers.child_main", str(descriptor)],
        pass_fds=(descriptor,),
        stdin=subprocess.DEVNULL,
        env=_KEPT | dict(os.environ) | _ONE_THREAD | {"PYTHONPATH": path},
        # So that Ctrl-C at a terminal reaches the parent alone, which then ends it.
        process_group=0,
    )


def _flags() -> list[str]:
    """What changes the meaning of a program: the child runs under the same."""
    flags = ["-O"] * sys.flags.optimize + [f"-W{option}" for option in sys.warnoptions]
    return [*flags, "-X", f"utf8={int(sys.flags.utf8_mode)}"]


def _descriptor_of(pid: int) -> int | None:
    """A descriptor that can be read when the process has ended; None where the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, or one older than 5.3
        return None
