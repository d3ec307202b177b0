"""A cluster of real processes, with the chief in this one; whoever started the others."""

from __future__ import annotations

import asyncio
import logging
import os
from abc import abstractmethod
from asyncio import Event, Future
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Any

from actorflow.actors.system import STOP_S
from actorflow.cluster.cluster import Cluster
from actorflow.cluster.hosts import retry_until_found
from actorflow.cluster.process.completion_note import forget
from actorflow.cluster.process.layout import join_names, name_processes
from actorflow.cluster.process.messages import (
    PROCESS_AGENT,
    UNREACHED,
    AddressTable,
    Describe,
    Introduce,
    ProcessCounts,
    Quit,
)
from actorflow.cluster.process.process import CHIEF, Process, check_threads
from actorflow.cluster.process.record import ProcessRecord, RunRecord
from actorflow.cluster.process_runtime import Open, ProcessRuntime
from actorflow.cluster.sockets import bindable, check_names, keyring, open_sockets
from actorflow.errors import ActorflowError, ConfigError, NotReady, SessionClosed, pluralise
from actorflow.launch.inherited import FOLDER
from actorflow.launch.process_id import processor_times
from actorflow.launch.restarting import told_incarnation
from actorflow.launch.rundir import ended_processes, pids
from actorflow.launch.starts import StartWatch
from actorflow.launch.task import address as checked_address
from actorflow.plan.placement.placer import Placer
from actorflow.runtime.clock import epoch_ms
from actorflow.training.program import Program
from actorflow.transport.rules.link_settings import SETTINGS, LinkSettings
from actorflow.transport.zeromq import Keyring
from actorflow.values.checks import is_number, is_whole

log = logging.getLogger("actorflow.cluster")

_LEAVE_S = 0.35
"""How long a process may take to hear that it may leave."""

_DRAIN_S = 0.2
"""How long an update may take that is being committed when the cluster is closed: nobody needs it then."""

_AGAIN_S = 0.05
"""How long to wait before a process that said where it is, and does not answer, is asked again."""

LINGER_S = 3.0
"""How long a chief that others have started stays for those who have not heard that the job is complete."""

_ASK_S = 2.0
"""How long it may take to answer."""


class Opening(Cluster):
    """Holds a process runtime as the chief, waits for all others, and lets them go at the end.

    Args:
        ready_s: How long to wait for the others; see `launch.starts` for what counts.
        least: How many workers must be there; None for all. Those that come later take part then.
        threads: Worker threads of the chief for slow kernels.
        links: What links may hold, and how long they wait.
        stop_s: How long an actor of the chief may take to stop.

    Attributes:
        counts: How many processes there are, and who said so.
        linger_s: How long it stays for those who have not heard that the job is complete.
    """

    def __init__(
        self,
        program: Program,
        *,
        ps: int,
        workers: int,
        placement: str | Placer,
        ready_s: float,
        least: int | None,
        threads: int,
        links: LinkSettings,
        stop_s: float,
    ) -> None:
        super().__init__(
            program, name_processes("ps", ps), name_processes("worker", workers), placement=placement
        )
        check_seconds("ready_s", ready_s)
        check_seconds("stop_s", stop_s)
        _check_given(threads, links)
        if least is not None and not is_whole(least, 1, workers, plain=True):
            message = f"least is how many workers must be there, 1 to {workers}, got {least!r:.60}"
            raise ConfigError(message)
        self._ready_s = ready_s
        self._least = workers if least is None else least
        self.counts = ProcessCounts(ps, workers, "ps=", "workers=")
        self._threads = threads
        self._stop_s = stop_s
        self._links = links
        self._runtime: ProcessRuntime | None = None
        self._changed = Event()
        self._failed: ActorflowError | None = None
        self._free: set[str] = set()  # who has been let go
        self._record: RunRecord | None = None
        self._unready: ActorflowError | None = None  # why it could not begin
        self._over = False  # whether it is closed because all is done
        self.linger_s = 0.0

    # -- what each kind gives -------------------------------------------------------------------------

    @abstractmethod
    async def _set_up(self) -> Open:
        """Prepares what the chief needs, and returns how it gets its sockets."""

    def _folder(self) -> Path | None:
        """Returns the folder of the cluster, where the address or the environment does not tell it."""
        return None

    async def _bring(self, runtime: ProcessRuntime) -> None:
        """Starts the others, if that is its part."""

    async def _take_away(self) -> None:
        """Ends what it started, and frees what `_set_up` prepared."""

    def _list_ended(self) -> Mapping[str, str]:
        """Returns who has ended for good, and how, as far as whoever started them tells."""
        return {}

    def _pids(self) -> Mapping[str, int]:
        """Returns the numbers of those that run on this machine, as far as whoever started them tells."""
        return {}

    def _how(self, missing: Iterable[str]) -> Iterable[str]:
        """Yields lines on what is known of processes that are missing."""
        assert self._runtime is not None
        for name in missing:
            reason = self._runtime.losses.get(name)
            if reason is not None:
                yield f"{name}: {reason.what}"

    # -- life -------------------------------------------------------------------------------------------

    @property
    def chief(self) -> Process:
        """The chief's process: this one."""
        return self.runtime.process

    @property
    def runtime(self) -> ProcessRuntime:
        """What this process is in the cluster; raises SessionClosed when that is not open."""
        if self._runtime is None:
            raise SessionClosed("the cluster is not open", hint="async with af.Cluster... as cluster: ...")
        return self._runtime

    def incarnations(self) -> dict[str, int]:
        """Returns in which incarnation each process is; those to which there is no session are left out."""
        runtime = self.runtime
        there = {CHIEF, *runtime.reachable()}
        return {here.name: here.incarnation for here in runtime.table.entries if here.name in there}

    async def at_home(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Runs a coroutine here, where the chief is."""
        if self._runtime is None:
            coroutine.close()
            self.open_session_of()  # it is not
        return await coroutine

    async def _start(self) -> None:
        self._failed, self._changed, self._free, self._over = None, Event(), set(), False
        self._record = self._unready = None
        ways = await self._set_up()
        runtime = ProcessRuntime(
            CHIEF,
            _incarnation(),
            self.program,
            self.names,
            ways,
            threads=self._threads,
            links=self._links,
            stop_s=self._stop_s,
            on_change=self._take_table,
            folder=self._folder(),
            counts=self.counts,
        )
        self._runtime = await runtime.open()
        runtime.ended.add_done_callback(self._fail_chief)
        await self._bring(runtime)
        try:
            there = await self._ready(runtime)
        except ActorflowError as error:
            self._unready = error
            raise
        await self._describe(runtime, there)

    def hasten(self) -> None:
        """Has the end of a run wait for nobody for long: the cluster is about to be closed."""
        if self.training is not None:
            self.training.drain_s = _DRAIN_S

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = kind is None
        await super().__aexit__(kind, error, trace)

    async def _leave(self) -> None:
        self.hasten()
        await super()._leave()

    async def _stop(self) -> None:
        try:
            if self._runtime is not None:
                self._runtime.over = self._over
                await self._release_all(self._runtime)
                if self._over:
                    await self._linger(self._runtime)
        finally:
            try:
                await self._take_away()
            finally:
                runtime, self._runtime = self._runtime, None
                if runtime is not None:
                    await runtime.close()

    async def _release_all(self, runtime: ProcessRuntime) -> None:
        """Tells all who are there that they may leave, and why where nothing has begun."""
        ref = runtime.process.hub.ref
        there = [name for name in self.incarnations() if name != CHIEF]
        asks = [ref(f"{name}/{PROCESS_AGENT}").ask(Quit(self._unready), _LEAVE_S) for name in there]
        answers = await asyncio.gather(*asks, return_exceptions=True)
        self._free = {name for name, answer in zip(there, answers, strict=True) if answer is True}

    async def _linger(self, runtime: ProcessRuntime) -> None:
        """Tells those who come now that the job is complete, and leaves a note for those who come later."""
        runtime.leave_note()
        missing = set(self.names[1:]) - self._free
        until_s = asyncio.get_running_loop().time() + self.linger_s
        while missing - runtime.told and asyncio.get_running_loop().time() < until_s:
            await self._pause()
        if runtime.told:
            await self._pause()  # for the answer to leave

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_AGAIN_S):
                await Event().wait()

    @property
    def record(self) -> RunRecord:
        """Who ran this, and on what: those who were there when it was opened; see `Cluster.record`."""
        if self._record is None:
            self.open_session_of()  # it has never been
        assert self._record is not None
        return self._record if self.training is None else self._record.under(self.training.policy)

    # -- until all are there --------------------------------------------------------------------------

    def _take_table(self, _table: AddressTable) -> None:
        self._changed.set()

    def _fail_chief(self, ended: Future[ActorflowError | None]) -> None:
        """Hears that the chief itself cannot go on, as where another has begun in its place."""
        reason = None if ended.cancelled() else ended.result()
        if reason is not None:
            self._fail(reason)

    def _fail(self, reason: ActorflowError) -> None:
        """Hears that the cluster cannot become ready."""
        self._failed = self._failed or reason
        self._changed.set()

    async def _ready(self, runtime: ProcessRuntime) -> dict[str, int]:
        """Returns who is there, in which incarnation, when all have said where they are, and answer.

        Raises:
            NotReady: they do not, in time; or cannot any more.
        """
        answered: dict[str, int] = {}
        starts = StartWatch(self._ready_s, asyncio.get_running_loop().time())
        while not self._complete(runtime, answered):
            self._changed.clear()
            await self._introduce(runtime, answered)
            if self._failed is not None:
                raise self._failed
            if not self._complete(runtime, answered):
                self._check_possible()
                missing = [name for name in self.names[1:] if name not in answered]
                if starts.late(
                    asyncio.get_running_loop().time(), missing, lambda: processor_times(self._pids())
                ):
                    raise self._not_ready(answered, starts.describe())
                await self._moment()
        return answered

    async def _describe(self, runtime: ProcessRuntime, there: Iterable[str]) -> None:
        """Asks all who are there what they are, and warns where they differ in what decides bits."""
        ref = runtime.process.hub.ref
        names, mine = (name for name in self.names if name in there), runtime.process.about()
        asks = [ref(f"{name}/{PROCESS_AGENT}").ask(Describe(), _ASK_S) for name in names]
        answers = await asyncio.gather(*asks, return_exceptions=True)
        found = tuple(answer for answer in answers if isinstance(answer, ProcessRecord))
        self._record = RunRecord(mine.program, self.program.graph.seed, None, (mine, *found))
        for line in self._record.differences():
            log.warning("%s", line)

    def _complete(self, runtime: ProcessRuntime, answered: Mapping[str, int]) -> bool:
        there = [
            here.name
            for here in runtime.table.entries
            if here.name != CHIEF and answered.get(here.name) == here.incarnation
        ]
        return set(self.ps) <= set(there) and len(there) - len(self.ps) >= self._least

    async def _introduce(self, runtime: ProcessRuntime, answered: dict[str, int]) -> None:
        """Asks those who have said where they are, and have not answered in that incarnation."""

        async def ask(name: str) -> None:
            try:
                answered[name] = await runtime.process.hub.ref(f"{name}/{PROCESS_AGENT}").ask(
                    Introduce(), _ASK_S
                )
            except UNREACHED:
                answered.pop(name, None)

        new = [
            here.name
            for here in runtime.table.entries
            if here.name != CHIEF and answered.get(here.name) != here.incarnation
        ]
        await asyncio.gather(*map(ask, new))

    async def _moment(self) -> None:
        """Waits until something has changed, or for a short while after which one may ask again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_AGAIN_S):
                await self._changed.wait()

    def _check_possible(self) -> None:
        """Raises NotReady when some have ended for good without whom it cannot begin."""
        ends = {name: why for name, why in self._list_ended().items() if name in self.names[1:]}
        left = [name for name in self.workers if name not in ends]
        if ends and (len(left) < self._least or not ends.keys().isdisjoint(self.ps)):
            raise self._cannot(ends)

    def _cannot(self, ends: Mapping[str, str]) -> NotReady:
        """Returns the error for processes that ended before all were there, and how they did."""
        name = min(ends, key=self.names.index)
        error = NotReady(f"{self._describe_missing()} must be there, and '{name}' {ends[name]} before it was")
        for line in self._how([name]):
            error.add_note(f"  {line}")
        for other in sorted(ends.keys() - {name}):
            error.add_note(f"  {other} {ends[other]}")
        return error

    def _describe_missing(self) -> str:
        return (
            "all processes"
            if self._least == len(self.workers)
            else f"all ps and {pluralise(self._least, 'worker')}"
        )

    def _not_ready(self, answered: Iterable[str], said: str = "") -> NotReady:
        missing = [name for name in self.names[1:] if name not in answered]
        message = (
            f"{self._describe_missing()} must be there within {self._ready_s:g} s{said}, and "
            f"{join_names(missing)} not"
        )
        error = NotReady(message, hint="start them, or give them longer: --ready-s (ready_s= in Python)")
        for line in self._how(missing):
            error.add_note(f"  {line}")
        return error


class ConnectedCluster(Opening):
    """Waits at an address for processes that somebody else starts; see `Cluster.connect`."""

    def __init__(
        self,
        program: Program,
        address: str,
        *,
        ps: int = 1,
        workers: int = 1,
        keys: Keyring | str | Path | None = None,
        ready_s: float = 60.0,
        least: int | None = None,
        threads: int = 1,
        links: LinkSettings = SETTINGS,
        placement: str | Placer = "first",
        stop_s: float = STOP_S,
    ) -> None:
        super().__init__(
            program,
            ps=ps,
            workers=workers,
            placement=placement,
            ready_s=ready_s,
            least=least,
            threads=threads,
            links=links,
            stop_s=stop_s,
        )
        self._address = checked_address(address, "the chief's address")
        self._keys = keyring(keys)

    async def _set_up(self) -> Open:
        forget(self._address)
        check_names([self._address], self._keys)
        bind = await retry_until_found(lambda: bindable(self._address), self._ready_s)
        return open_sockets(bind, self._keys)

    def _list_ended(self) -> Mapping[str, str]:
        folder = os.environ.get(FOLDER)  # of a launcher on this machine
        return ended_processes(Path(folder)) if folder else {}

    def _pids(self) -> Mapping[str, int]:
        folder = os.environ.get(FOLDER)  # of a launcher on this machine
        return pids(Path(folder)) if folder else {}


def _check_given(threads: Any, links: Any) -> None:
    """Raises ConfigError for what is no number of threads, or are no settings of links."""
    check_threads(threads)
    if not isinstance(links, LinkSettings):
        message = f"links are as Settings say, got {links!r:.60}"
        raise ConfigError(
            message, hint="actorflow.transport.rules.link_settings.LinkSettings(silence_s=30.0)"
        )


def check_seconds(name: str, given: Any) -> None:
    """Raises ConfigError for what is no time above 0."""
    if not is_number(given, plain=True) or not 0 < given < inf:
        message = f"{name} is a number of seconds above 0, got {given!r:.60}"
        raise ConfigError(message)


_latest = 0
"""The incarnation of the chief that this process was last."""


def _incarnation() -> int:
    global _latest
    _latest = told_incarnation(os.environ.get("ACTORFLOW_INCARNATION"), _latest, epoch_ms())
    return _latest
