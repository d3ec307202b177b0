"""Reads what children print, from pipes, and writes it to their logs; in a thread of its own.

So a child writes to no disk: that is full for its launcher alone, which loses lines for it. A child whose
launcher reads nothing for a while, as one that was stopped, may print `PIPE_BYTES`, and then waits for it.
"""

from __future__ import annotations

import fcntl
import os
import select
import threading
from contextlib import suppress
from pathlib import Path

from actorflow.errors import LaunchError
from actorflow.launch.logfile import LogFile

PIPE_BYTES = 1 << 20
"""What a pipe holds that nobody reads; 64 KiB where a user has too many."""

_READ_BYTES = 1 << 16


class LogPipes:
    """The pipes of all children of one launcher. Threads may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logs: dict[str, LogFile] = {}
        self._pipes: dict[int, str] = {}  # read ends, and whose they are
        self._wake: tuple[int, int] | None = None
        self._thread: threading.Thread | None = None

    def open(self, name: str, path: Path) -> int:
        """Returns the end of a new pipe to which a child prints; the caller closes it once that has started.

        Args:
            name: Of the child: all of its incarnations have one log.
            path: Of the log.

        Raises:
            LaunchError: the log cannot be written.
        """
        with self._lock:
            try:
                if name not in self._logs or self._logs[name].path != path:
                    before = self._logs.get(name)
                    self._logs[name] = LogFile(path)
                    if before is not None:
                        before.close()
                read, write = os.pipe()
            except OSError as error:
                message = f"what '{name}' prints goes to a file, got {path}: {error.strerror}"
                raise LaunchError(message) from error
            os.set_blocking(read, False)
            with suppress(OSError):
                fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            self._pipes[read] = name
            self._look_again()
        return write

    def drain(self, name: str) -> None:
        """Takes all that a child has printed until now: call it when that has ended."""
        with self._lock:
            for read in [read for read, whose in self._pipes.items() if whose == name]:
                self._take_all(read)

    def tail(self, name: str, lines: int = 20) -> str:
        """Returns the last lines that a child printed, also where its log could not be written."""
        with self._lock:
            log = self._logs.get(name)
            return "" if log is None else log.tail(lines)

    def close(self) -> None:
        """Takes what is there, and closes pipes and logs; harmless when that is done."""
        thread, self._thread = self._thread, None
        if self._wake is not None and thread is not None:
            wake, self._wake = self._wake, None
            os.close(wake[1])
            thread.join()
            os.close(wake[0])
        with self._lock:
            for read in tuple(self._pipes):
                self._take_all(read)
            for read in tuple(self._pipes):  # of what a child has left behind elsewhere
                self._release(read)
            for log in self._logs.values():
                log.close()
            self._logs.clear()

    # ------------------------------------------------------------------------------ the thread

    def _look_again(self) -> None:
        """Has the thread look at a pipe that is new; starts it where there is none."""
        if self._wake is None:
            self._wake = os.pipe()
            name = "actorflow-logs"
            self._thread = threading.Thread(target=self._read, args=self._wake[:1], name=name, daemon=True)
            self._thread.start()
        else:
            os.write(self._wake[1], b".")

    def _read(self, wake: int) -> None:
        """Reads from all pipes until the one that wakes it is at its end."""
        while True:
            poll = select.poll()
            poll.register(wake, select.POLLIN)
            with self._lock:
                for read in self._pipes:
                    poll.register(read, select.POLLIN)
            for ready, _ in poll.poll():
                if ready == wake:
                    if not os.read(wake, _READ_BYTES):
                        return
                    continue
                with self._lock:
                    self._take(ready)

    def _take_all(self, read: int) -> None:
        for _ in range(2 * PIPE_BYTES // _READ_BYTES):  # bounded, though another may go on printing
            if not self._take(read):
                return

    def _take(self, read: int) -> bool:
        """Reads what is there, once; whether there may be more."""
        if read not in self._pipes:  # it was closed since somebody looked
            return False
        try:
            printed = os.read(read, _READ_BYTES)
        except BlockingIOError:
            return False
        if not printed:
            self._release(read)
            return False
        self._logs[self._pipes[read]].write(printed)
        return True

    def _release(self, read: int) -> None:
        del self._pipes[read]
        os.close(read)
