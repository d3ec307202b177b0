"""A cluster of real processes on this machine: the chief in this one, the others as its children."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from actorflow.actors.system import STOP_S
from actorflow.cluster.connected import Opening
from actorflow.cluster.link_text import format_settings
from actorflow.cluster.process.process import CHIEF
from actorflow.cluster.process_runtime import Open, ProcessRuntime
from actorflow.cluster.sockets import local_keyring, open_sockets
from actorflow.errors import ConfigError, ProgramError
from actorflow.launch.exits import worth_restart
from actorflow.launch.inherited import FOLDER
from actorflow.launch.process_supervisor import Event, Exited, GivenUp, ProcessSupervisor, Started
from actorflow.launch.restarting import Restarts
from actorflow.launch.rundir import RunDirectory
from actorflow.launch.task import Task
from actorflow.plan.placement.placer import Placer
from actorflow.training.program import Program
from actorflow.training.program_file import ProgramFile
from actorflow.transport.rules.link_settings import LOCAL, LinkSettings
from actorflow.transport.zeromq import Keyring

if TYPE_CHECKING:
    from actorflow.sim.world.straggler import Straggler
    from actorflow.transport.zeromq.keys import Keyring

log = logging.getLogger("actorflow.cluster")

_GRACE_S = 1.0
"""How long a child may take to leave once it has been told twice."""

_TAIL = 20
"""Lines of its log that an error shows of a child that failed."""

TRANSPORTS = ("ipc", "tcp")


class LocalCluster(Opening):
    """Starts the processes of a cluster, and starts those again that die; see `Cluster.local`.

    Attributes:
        supervisor: Who looks after the children; None while it is not open.
        folder: The run's: sockets, logs; None while it is not open.
    """

    def __init__(
        self,
        program: str | Path | Callable[[int], Program],
        *,
        seed: int = 0,
        ps: int = 1,
        workers: int = 1,
        transport: str = "ipc",
        keys: Keyring | str | Path | Literal[False] | None = None,
        ready_s: float = 60.0,
        least: int | None = None,
        threads: int = 1,
        links: LinkSettings = LOCAL,
        placement: str | Placer = "first",
        restarts: Restarts | None = None,
        work_s: float = 0.0,
        straggler: Straggler | None = None,
        stop_s: float = STOP_S,
    ) -> None:
        _check_not_child()
        if transport not in TRANSPORTS:
            message = f"processes of one machine talk over {' or '.join(TRANSPORTS)}, got {transport!r:.60}"
            raise ConfigError(message)
        self.program_name, built = _program(program, seed)
        super().__init__(
            built,
            ps=ps,
            workers=workers,
            placement=placement,
            ready_s=ready_s,
            least=least,
            threads=threads,
            links=links,
            stop_s=stop_s,
        )
        self._seed = seed
        self._transport = transport
        self._keys = local_keyring(keys, transport)
        self._restarts = Restarts() if restarts is None else restarts
        self._delay = _delay(work_s, straggler, seed)
        self._ends: dict[str, str] = {}
        self._broken = False
        self.supervisor: ProcessSupervisor | None = None
        self.folder: RunDirectory | None = None

    @property
    def keys(self) -> Keyring | None:
        """The keys by which its processes know each other; None where they need none."""
        return self._keys

    def pids(self) -> dict[str, int]:
        """Returns the numbers of the processes that it has started and that live, by name."""
        return {} if self.supervisor is None else self.supervisor.pids()

    # -- life -------------------------------------------------------------------------------------------

    async def _set_up(self) -> Open:
        self._ends, self._broken = {}, False
        self.folder = RunDirectory(program=self.program_name)
        self.supervisor = ProcessSupervisor(self._hear)
        return open_sockets(self._bind(CHIEF), self._keys)

    def _folder(self) -> Path | None:
        return None if self.folder is None else self.folder.path

    async def _bring(self, runtime: ProcessRuntime) -> None:
        assert self.supervisor is not None
        assert self.folder is not None
        address = runtime.ways.addresses[0].at
        for job, names in (("ps", self.ps), ("worker", self.workers)):
            for index, name in enumerate(names):
                task = Task(job, index, len(self.ps), len(self.workers), address, bind=self._bind(name))
                self.supervisor.start(
                    name,
                    self._argv(job),
                    {**os.environ, **task.environ(), **_paths(), FOLDER: str(self.folder.path)},
                    restarts=self._restarts,
                    log=self.folder.log(name),
                    keys=None if self._keys is None or self._keys.path else self._keys.ring.text().encode(),
                )

    def _bind(self, name: str) -> str:
        if self._transport == "tcp":
            return "tcp://127.0.0.1:0"
        assert self.folder is not None
        return f"ipc://{self.folder.socket(name)}"

    def _argv(self, job: str) -> list[str]:
        argv = [sys.executable, "-m", "actorflow", "worker", self.program_name, "--seed", str(self._seed)]
        argv += ["--threads", str(self._threads), "--ready-s", str(self._ready_s)]
        argv += ["--stop-s", str(self._stop_s)]
        if self._keys is not None and self._keys.path is not None:  # from which keys are read again
            argv += ["--keys", str(self._keys.path.resolve())]
        links = format_settings(self._links)
        argv += ["--links", links] if links else []
        return [*argv, "--delay", self._delay] if self._delay and job == "worker" else argv

    async def _take_away(self) -> None:
        supervisor, self.supervisor = self.supervisor, None
        try:
            if supervisor is not None:
                try:
                    await self._wait_left(supervisor)
                finally:
                    await supervisor.close(grace_s=_GRACE_S)
        finally:
            folder, self.folder = self.folder, None
            if folder is not None:
                logs = folder.close(keep_logs=self._broken)
                if logs is not None:
                    log.warning("a process was given up; what all of them printed is in %s", logs)

    async def _wait_left(self, supervisor: ProcessSupervisor) -> None:
        """Waits for a moment until those have left who were let go."""
        free = self._free.intersection(supervisor.pids())
        ends = [asyncio.ensure_future(supervisor.end(name)) for name in free]
        if ends:
            await asyncio.wait(ends, timeout=_GRACE_S)
            for end in ends:
                end.cancel()

    # -- what becomes of the children ---------------------------------------------------------------------

    def _hear(self, event: Event) -> None:
        """Hears what becomes of the children."""
        match event:
            case Started(name):
                self._ends.pop(name, None)
            case Exited(name, asked=False):
                self._ends[name] = event.meaning
                if self.session is None and not worth_restart(event.returncode):
                    self._fail(self._cannot({name: event.meaning}))
            case GivenUp(name, why):
                self._ends[name] = f"{why}, and is not started again"
                self._broken = True
                if self.session is None:
                    self._fail(self._cannot({name: why}))
        self._note()

    def _note(self) -> None:
        """Writes down which processes there are, for those who look from outside."""
        if self.folder is not None and self.supervisor is not None:
            pids = {name: {"pid": pid} for name, pid in self.supervisor.pids().items()}
            try:
                self.folder.write(pids)
            except OSError as error:  # as of a full disk, which is no reason to end a run
                log.warning(
                    "which processes there are could not be written to %s: %s", self.folder.path, error
                )

    def _pids(self) -> Mapping[str, int]:
        return self.pids()

    def _how(self, missing: Iterable[str]) -> Iterable[str]:
        for name in missing:
            if name in self._ends:
                yield f"{name} {self._ends[name]}"
            else:
                yield from super()._how([name])
            said = "" if self.supervisor is None else self.supervisor.tail(name, _TAIL)
            yield from (f"{name} | {line}" for line in said.splitlines())


def _check_not_child() -> None:
    """Raises ConfigError in a process that a cluster has started: it would start a cluster of its own."""
    if os.environ.get("ACTORFLOW_JOB") in ("ps", "worker"):
        name = f"{os.environ['ACTORFLOW_JOB']}{os.environ.get('ACTORFLOW_TASK_INDEX', '')}"
        message = f"a cluster is made by the chief alone, and this process is its {name}"
        hint = 'children import the file of build: let only the main script go on, if __name__ == "__main__":'
        raise ConfigError(message, hint=hint)


def _program(given: Any, seed: int) -> tuple[str, Program]:
    """Returns what names a program in the children, and the program.

    Raises:
        ConfigError: it is no program that children could build as well.
        ProgramError: it cannot be built.
    """
    if isinstance(given, str | Path):
        file = ProgramFile(given)
        return file.name, file.program(seed)
    if isinstance(given, Program) or not callable(given):
        got = "a Program" if isinstance(given, Program) else repr(given)[:60]
        message = f"every process builds the program itself, from a file, a module or a function, got {got}"
        raise ConfigError(message, hint='af.Cluster.local(build, ...), or ("digits.py", ...)')
    name, built = ProgramFile.of(given), given(seed)
    if not isinstance(built, Program):
        message = f"build(seed) must return an af.Program, got {type(built).__name__}"
        raise ProgramError(message)
    return name, built


def _delay(work_s: float, straggler: Straggler | None, seed: int) -> str:
    """Returns what holds the workers up, as a text; "" for nothing."""
    if straggler is None and work_s == 0:
        return ""
    from actorflow.cluster.delay import STEADY, Delay  # with all of the simulator, which is slow to load

    return str(Delay(work_s, STEADY if straggler is None else straggler, seed))


def _paths() -> Mapping[str, str]:
    """Returns the variable by which children find what this process finds."""
    return {"PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)}
