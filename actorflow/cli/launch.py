"""`actorflow launch PROGRAM`: a whole cluster on this machine, watched until its chief is done.

It imports neither the program nor what trains: its processes start 0.9 s of processor time sooner for that.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from actorflow.cli.arguments import local_links, natural, positive
from actorflow.cli.cluster_arguments import add_common, add_training, common, training
from actorflow.cli.starting import CHIEF, Starting, has_built
from actorflow.errors import ActorflowError, ConfigError, pluralise
from actorflow.launch.environment_variables import unread
from actorflow.launch.exits import Exit, ending, is_ours, worth_restart
from actorflow.launch.inherited import FOLDER
from actorflow.launch.process_supervisor import Event, Exited, GivenUp, ProcessSupervisor, Started
from actorflow.launch.restarting import NEVER, Restarts
from actorflow.launch.rundir import RunDirectory
from actorflow.launch.task import Task
from actorflow.runtime import event_loop, program_name

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

log = logging.getLogger("actorflow.cli")

_NO_FAILURE = (Exit.DONE, Exit.USAGE, Exit.HUNG_UP, Exit.STOPPED, Exit.UNREAD, Exit.TERMINATED)
"""Ends after which nobody looks into logs."""

_DRAIN_S = 0.6
"""How long the chief may take to leave at a signal, and to let the others go."""

_ALIKE_S, _LOOK_S = 10.0, 0.05
"""How long the chief may take to find the same fault as another process, and how often to look."""

_SOON_S = 0.5
"""How long the chief may take to end after those that it has let go."""

_LEAVE_S = 0.4
"""How long the others may take to leave when the chief is done."""

_GRACE_S = 0.25
"""How long a process may take to end after SIGTERM: it has nothing to save."""


def add_to(commands: Commands) -> None:
    """Adds the command and its arguments."""
    about = "Trains a program on processes of this machine: a chief, processes with variables, and workers."
    parser = commands.add_parser("launch", help="train a program on several processes", description=about)
    add = parser.add_argument
    add("program", metavar="PROGRAM", help="a file that defines build(seed), or package.module:build")
    add("--ps", type=positive, default=1, metavar="N", help="processes that hold variables (default 1)")
    add("--workers", type=positive, default=1, metavar="N", help="processes that compute (default 1)")
    add(
        "--transport",
        choices=("ipc", "tcp"),
        default="ipc",
        help="how they talk (default ipc); over tcp with keys of their own, unless --keys says none",
    )
    add("--logs", type=Path, metavar="DIR", help="keep what the processes print here, 8 MiB of each")
    add("--restarts", type=natural, default=5, metavar="N", help="restarts of a process a minute (default 5)")
    add_common(add, local_links)
    add_training(add)
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Runs the cluster to its end; returns the exit code of its chief, or of what stopped it."""
    program = program_name.full(args.program)
    if args.logs is not None:
        _check_writable(args.logs)
    return event_loop.run(_Launch(args, program).run())


def _check_writable(folder: Path) -> None:
    """Makes the folder for logs; raises ConfigError where nothing can be written to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK | os.X_OK)
    except OSError as error:
        message = f"--logs is a folder to write to, got {folder}: {error.strerror}"
        raise ConfigError(message) from None
    if not writable:
        message = f"--logs is a folder to write to, got {folder}, which may not be written to"
        raise ConfigError(message)


class _Launch:
    """One run: starts all, waits for the chief or a signal, and leaves nothing."""

    def __init__(self, args: argparse.Namespace, program: str) -> None:
        self._args = args
        self._program = program
        self._quiet = not args.no_progress and sys.stdout.isatty()  # the chief draws there
        self._later: list[str] = []
        self._incarnations: dict[str, int] = {}
        self._ends: dict[str, str] = {}  # for the chief, which may be waiting for one of them
        self._over: asyncio.Future[int]
        self._code = 0
        self._folder: RunDirectory
        self._supervisor: ProcessSupervisor

    async def run(self) -> int:
        """Returns the exit code."""
        here, main = asyncio.get_running_loop(), asyncio.current_task()
        assert main is not None
        self._over = here.create_future()
        with RunDirectory(program=self._program) as folder:
            self._folder = folder
            numbers = ending()
            for number in numbers:
                here.add_signal_handler(number, self._stop, number, main)
            try:
                async with ProcessSupervisor(self._hear) as self._supervisor:
                    self._start()
                    starting = Starting(
                        self._args.program, folder.path, self._args.ready_s, _print, self._cannot_begin
                    )
                    self._over.add_done_callback(lambda _: starting.stop())
                    code = await self._over
                    await self._end()
            except asyncio.CancelledError:
                if not self._code:
                    raise
                code = self._code  # told twice
            finally:
                for number in numbers:
                    here.remove_signal_handler(number)
            self._report(code)
        return code

    def _start(self) -> None:
        args, chief, keys = self._args, self._address(), self._keys()
        unused = unread(os.environ)
        if unused:
            _print(
                f"launch does not read {', '.join(unused)}: it starts a chief, {args.ps} ps and "
                f"{pluralise(args.workers, 'worker')} of its own (--ps, --workers)"
            )
        own = [name for name in unused if name.startswith("ACTORFLOW_")]  # as an address for all of them
        inherited = {name: value for name, value in os.environ.items() if name not in own}
        for job, count in (("chief", 1), ("ps", args.ps), ("worker", args.workers)):
            for index in range(count):
                task = Task(job, index, args.ps, args.workers, chief)
                name = task.name
                self._supervisor.start(
                    name,
                    self._argv(job),
                    {**inherited, **task.environ(), FOLDER: str(self._folder.path)},
                    restarts=NEVER if job == CHIEF else Restarts(limit=args.restarts),
                    log=None if job == CHIEF else self._log(name),
                    keys=keys,
                )

    def _keys(self) -> bytes | None:
        """Keys of this run alone, which its processes inherit: over tcp, where none were given."""
        if self._args.transport == "ipc" or self._args.keys is not None:
            return None
        from actorflow.transport.zeromq.keys import Keyring  # with zmq, which is slow to load

        return Keyring.new().ring.text().encode()

    def _address(self) -> str:
        """Where the chief is to be found."""
        if self._args.transport == "ipc":
            return f"ipc://{self._folder.socket(CHIEF)}"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            return f"tcp://127.0.0.1:{free.getsockname()[1]}"

    def _log(self, name: str) -> Path:
        if self._args.logs is None:
            return self._folder.log(name)
        path: Path = self._args.logs / f"{name}.log"
        return path

    def _argv(self, job: str) -> list[str]:
        command = [sys.executable, "-m", "actorflow", "worker", self._program]
        return [*command, *common(self._args), *(training(self._args) if job == CHIEF else ())]

    # -- what is heard --------------------------------------------------------------------------------

    def _stop(self, number: signal.Signals, main: asyncio.Task[object]) -> None:
        """A signal: the chief drains, for a moment; the second time all are killed."""
        if self._code:
            main.cancel()
            return
        self._code = 128 + number
        pid = self._supervisor.pids().get(CHIEF)
        if pid is None:
            self._end_of_chief(self._code)
            return
        if number == signal.SIGINT and not has_built(self._folder.path):
            _print("stopped by Ctrl-C before it began")
            number = signal.SIGTERM  # Python itself has a lot to say of the other, that early
        os.kill(pid, number)
        os.kill(pid, signal.SIGCONT)  # after which one that was stopped finds the other
        asyncio.get_running_loop().call_later(_DRAIN_S, self._end_of_chief, self._code)

    def _hear(self, event: Event) -> None:
        match event:
            case Started(name):
                if name in self._incarnations:
                    self._say(f"{name} is started again (life {self._incarnations[name] + 1})")
                self._incarnations[name] = self._incarnations.get(name, 0) + 1
            case Exited(name, asked=False):
                if event.returncode != Exit.USAGE and not worth_restart(event.returncode):
                    self._ends[name] = event.meaning
                self._exited(name, event.returncode, event.meaning)
            case GivenUp(name, why):
                self._ends[name] = why
                self._say(f"{name} {why}, and is not started again")
                self._show_log(name)
        pids = self._supervisor.pids()
        try:
            self._folder.write({name: {"pid": pid} for name, pid in pids.items()}, self._ends)
        except OSError as error:  # as of a full disk, which is no reason to end a run
            log.warning("which processes there are could not be written to %s: %s", self._folder.path, error)

    def _exited(self, name: str, returncode: int, meaning: str) -> None:
        if name == CHIEF:
            ours = is_ours(returncode)
            if not ours and not self._code:  # else it was too early, or too late, to end in peace
                self._say(f"{name} {meaning}, and with it the run")
            self._end_of_chief(self._code or (returncode if ours else Exit.LOST))
        elif self._over.done() or self._code or returncode == 0:
            pass
        elif returncode == Exit.LOST:  # the chief says it better, if it is about to end as well
            asyncio.get_running_loop().call_later(_SOON_S, self._say_unless_over, f"{name} {meaning}")
        elif returncode == Exit.USAGE:  # as it would again
            here = asyncio.get_running_loop()
            self._refused(name, meaning, here.time() + _ALIKE_S, here)
        else:
            self._say(f"{name} {meaning}")

    def _refused(self, name: str, meaning: str, until: float, here: asyncio.AbstractEventLoop) -> None:
        """Ends the run, unless the chief is about to: what is wrong with a program is said once, by it."""
        if self._over.done():
            return
        if has_built(self._folder.path) or here.time() > until:
            self._say(f"{name} {meaning}")
            self._show_log(name)
            self._end_of_chief(Exit.USAGE)
        else:
            here.call_later(_LOOK_S, self._refused, name, meaning, until, here)

    def _cannot_begin(self, why: ActorflowError) -> None:
        """Ends the run before it has begun."""
        if not self._over.done():
            _print(f"{type(why).__name__}: {why}")
            self._end_of_chief(Exit.LOST)

    def _end_of_chief(self, code: int) -> None:
        if not self._over.done():
            self._over.set_result(code)

    async def _end(self) -> None:
        """Gives the others, whom the chief has let go, a moment to leave by themselves."""
        others = [name for name in self._supervisor.pids() if name != CHIEF]
        if not self._code and self._over.result() != Exit.LOST:
            try:
                async with asyncio.timeout(_LEAVE_S):
                    await asyncio.gather(*map(self._supervisor.end, others))
            except TimeoutError:
                pass
        await self._supervisor.close(grace_s=_GRACE_S)

    def _say_unless_over(self, line: str) -> None:
        if not self._over.done():
            self._say(line)

    # -- what is said ---------------------------------------------------------------------------------

    def _say(self, line: str) -> None:
        if self._quiet and not self._over.done():
            self._later.append(line)
        else:
            _print(line)

    def _show_log(self, name: str) -> None:
        if self._args.logs is not None:
            self._say(f"  see {self._log(name)}")
            return
        for line in self._supervisor.tail(name).splitlines():
            self._say(f"{name} | {line}")

    def _report(self, code: int) -> None:
        """Says what was kept back, and where the logs are if there is something to look for."""
        for line in self._later:
            _print(line)
        failed = code not in _NO_FAILURE
        logs = self._folder.close(keep_logs=failed)
        if logs is not None:
            _print(f"what the processes printed is in {logs}")


def _print(line: str) -> None:
    with suppress(OSError):  # nobody reads on: no reason to stop watching
        print(line, file=sys.stderr, flush=True)
