"""Worker processes as the soak sees them: started, asked, heard, replaced."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.soaking.falsified import Falsified
from tests.soaking.worker import Ask, Collected, Told

LINES_OF_LOG = 25
DUMPS = ("Timeout (", "Fatal Python error")  # what faulthandler begins with; innermost call first


class WorkerLost(Exception):
    """A worker process ended without an answer; the message says how, and what its log ends with."""


class Worker:
    """One process of `tests.soaking.worker`, in a session of its own so that Ctrl-C does not reach it."""

    def __init__(self, log: Path, laws: str, expression: str) -> None:
        self._log = log
        ours, theirs = socket.socketpair()
        self._channel = ours
        self._heard = b""
        command = [sys.executable, "-m", "pytest", "-p", "tests.soaking.worker", "-q"]
        command += ["--soak-channel", str(theirs.fileno()), laws, "-m", "hypothesis", "-k", expression]
        command += ["-p", "no:cacheprovider", "-p", "no:xdist", "-o", "faulthandler_timeout=0"]
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        theirs.close()

    def __repr__(self) -> str:
        return f"Worker(pid={self._process.pid}, log={str(self._log)!r})"

    def fileno(self) -> int:
        """Returns what to select on: readable when there is something to `hear`."""
        return self._channel.fileno()

    def ask(self, ask: Ask) -> None:
        """Sends `ask`; when the process has just died, `hear` tells."""
        try:
            self._channel.sendall(json.dumps(asdict(ask)).encode() + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            self._channel.setblocking(True)  # the end of the stream is still to be read

    def hear(self) -> Collected | Told | None:
        """Returns the next answer, None when only part of it is there.

        Raises:
            WorkerLost: when the process is gone.
        """
        try:
            part = self._channel.recv(1 << 20)
        except ConnectionResetError:
            part = b""
        if not part:
            raise WorkerLost(self._obituary())
        self._heard += part
        line, newline, rest = self._heard.partition(b"\n")
        if not newline:
            return None
        self._heard = rest
        return _answer(json.loads(line))

    def stop(self) -> None:
        """Ends the process and whatever it started."""
        self._channel.close()
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _obituary(self) -> str:
        try:
            status = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return f"closed its socket and lives on\n{self._end_of_log()}"
        how = f"exit status {status}" if status >= 0 else f"killed by {signal.Signals(-status).name}"
        return f"{how}\n{self._end_of_log()}"

    def _end_of_log(self) -> str:
        """Returns where the process was when it ended itself, else the last lines it wrote."""
        lines = self._log.read_text(errors="replace").splitlines()
        dumps = [n for n, line in enumerate(lines) if line.startswith(DUMPS)]
        shown = lines[dumps[-1] :][:LINES_OF_LOG] if dumps else lines[-LINES_OF_LOG:]
        return "\n".join([f"from {self._log}:", *shown])


def _answer(found: dict[str, Any]) -> Collected | Told:
    if "laws" in found:
        return Collected(**found)
    failures = [Falsified(**each) for each in found.pop("failures")]
    return Told(failures=failures, **found)
