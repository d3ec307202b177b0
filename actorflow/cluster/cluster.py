"""Processes that run one program together, as whoever started them holds them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from itertools import count
from types import TracebackType
from typing import Any, Self

from actorflow.actors.ref import Ref
from actorflow.cluster.availability import Availability
from actorflow.cluster.kinds import Kinds
from actorflow.cluster.process.layout import Layout, lay_out
from actorflow.cluster.process.process import CHIEF, Process, device_of, member
from actorflow.cluster.process.record import RunRecord
from actorflow.cluster.training_run import TrainingRun
from actorflow.dataflow.remote.step_messages import SessionProcess as Member
from actorflow.errors import ConfigError, CoordinatorLost, PeerLost, SessionClosed
from actorflow.plan.placement.placer import Placer, check_placer
from actorflow.plan.placement.state_placement import place_state
from actorflow.runtime.affinity import Affinity, affinity_here
from actorflow.runtime.name_hints import unknown_argument
from actorflow.session.distributed import DistributedSession
from actorflow.session.fetch_types import ARGUMENTS, with_run_types
from actorflow.session.stats import SessionStats
from actorflow.training.program import Program


class Cluster(Kinds, ABC):
    """Some processes: one that decides, some with parameters, some that compute. `async with` it.

    Variables that no device scope places lie on the `ps` processes, spread by bytes. Steps run by
    `run` begin and end in the chief's process.

    Attributes:
        program: What they run; every process has built the same.
        ps: Processes with parameters.
        workers: Processes that compute.
        layout: Which variables lie where.
        placer: Chooses where what `run` computes goes, if its scopes leave that open.
        availability: Who is there; None while it is not open.
        training: Whose shards are open; None before anything is trained.
        run_numbers: Gives each training run its number.

    Raises:
        ConfigError: a cluster has no worker, no `ps`, or more of these than variables to train; or there is
            no such placement.
        CoordinationError: the program's update is none that several workers can share.
    """

    def __init__(
        self,
        program: Program,
        ps: Sequence[str],
        workers: Sequence[str],
        *,
        placement: str | Placer = "first",
    ) -> None:
        given: Any = program
        if not isinstance(given, Program):
            message = f"a cluster runs an af.Program, got {type(program).__name__} {program!r:.60}"
            raise ConfigError(message, hint="what the `build(seed)` of a program file returns")
        self.program = program
        self.ps = tuple(ps)
        self.workers = tuple(workers)
        self.placer = check_placer(placement)
        self.layout: Layout = lay_out(program, self.ps, self.workers)
        self.session: DistributedSession | None = None
        self.availability: Availability | None = None
        self.training: TrainingRun | None = None
        self.run_numbers = count(1)
        self._entered = False
        self._affinity: Affinity | None = None

    # -- what each kind of cluster gives ----------------------------------------------------------------

    @abstractmethod
    async def _start(self) -> None:
        """Starts the processes, or connects to them."""

    @abstractmethod
    async def _stop(self) -> None:
        """Stops them, or lets go of them."""

    @property
    @abstractmethod
    def chief(self) -> Process:
        """The chief's process, in its present incarnation."""

    @abstractmethod
    def incarnations(self) -> dict[str, int]:
        """Returns in which incarnation each process is; those that are not there are left out."""

    @abstractmethod
    async def at_home(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Runs a coroutine in the chief's process and returns what it returns.

        Raises:
            CoordinatorLost: the chief's process is gone.
        """

    # -- life -------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        message = "a cluster is entered by `async with`: leaving it waits for its processes, got `with`"
        raise ConfigError(message, hint="async with af.Cluster.local(...) as cluster: ...")

    def __exit__(self, *_: object) -> None: ...

    async def __aenter__(self) -> Self:
        """Opens it; once it is closed it may be opened again, and begins anew.

        Raises:
            ConfigError: it is open, or cannot be opened here; then nothing of it is left.
        """
        self.check_here()
        if self._entered:
            message = "the cluster is open already"
            raise ConfigError(message, hint="close it first, or make another cluster")
        self._entered = True
        self._affinity = affinity_here("the cluster")
        try:
            await self._enter()
        except BaseException:
            await self._leave()
            raise
        return self

    async def _enter(self) -> None:
        await self._start()
        chief, there = self.chief, self.incarnations()
        lives = {name: there.get(name, 0) for name in self.names}
        members: list[Member] = [member(name, life) for name, life in lives.items()]
        homes = {
            name: device_of(process)
            for process, trained, frozen in zip(self.ps, self.layout.trained, self.layout.frozen, strict=True)
            for name in (*trained, *frozen)
        }
        graph = self.program.graph
        session = DistributedSession(
            graph,
            chief.system,
            members,
            chief.hub.ref,
            home=CHIEF,
            placement=self.placer,
            state=homes,
        )
        devices = {device_of(name): name for name in self.names}

        def home_of(name: str) -> str:
            return devices[place_state(graph.resources[name], tuple(devices), homes)]

        attendance = Availability(chief.hub, session, lives, home_of)
        await self.at_home(session.__aenter__())
        self.session, self.availability = session, attendance
        for name in self.names:
            if name not in there:
                attendance.lost(name, PeerLost(f"'{name}' was not there when the cluster was opened"))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.check_here()
        await self._leave()

    async def open(self) -> Self:
        """Opens it for code of many tasks, such as the cells of a notebook; `close` ends it.

        Raises:
            ConfigError: as `async with`.
        """
        await self.__aenter__()
        self.chief.system.release_body()
        return self

    async def close(self) -> None:
        """Closes it, its processes included; closing twice is harmless."""
        self.check_here()
        if self._entered:
            await self._leave()

    async def _leave(self) -> None:
        session, self.session, self.availability = self.session, None, None
        training, self.training = self.training, None
        try:
            with suppress(CoordinatorLost):  # then there is nothing to close
                if training is not None:
                    await self.at_home(training.end())
                if session is not None:
                    await self.at_home(session.close())
        finally:
            try:
                await self._stop()
            finally:
                self._entered = False
                self._affinity = None

    # -- steps ------------------------------------------------------------------------------------------

    @with_run_types
    async def run(
        self,
        fetches: Any,
        feeds: Mapping[Any, Any] | None = None,
        *,
        deadline_s: float | None = None,
        **unknown: Any,
    ) -> Any:
        """Runs one step over the processes; as `Session.run`.

        A process that was lost takes part again once it is back.

        Raises:
            ShardLost: the step needs a variable whose value is gone, since its process began anew.
        """
        if unknown:
            raise unknown_argument("run", next(iter(unknown)), ARGUMENTS)
        self.open_session_of()
        assert self.availability is not None
        return await self.at_home(self.availability.run(fetches, feeds, deadline_s))

    def ref(self, address: str) -> Ref:
        """Returns the address of an actor of any process, such as `worker0/echo`, for use at the chief.

        It is good for every incarnation of the process, also before the actor is there: whoever asks then
        hears so. What `actors(process)` of the program spawned is there once the cluster is open.

        Args:
            address: `process/actor`.

        Raises:
            ConfigError: it is no address.
            ActorError: there is no such process, or the chief's has no such actor.
            SessionClosed: the cluster is not open.
        """
        self.open_session_of()
        return self.chief.ref(address)

    async def settled(self) -> None:
        """Waits until no step runs, and what aborted steps took and did not use is back in its place.

        A step that was cancelled, or failed with another error than its deadline, may still have elements of
        queues. Of a process that does not say within a second that they are back nobody waits.

        Raises:
            SessionClosed: the cluster is not open.
            CoordinatorLost: the chief's process is gone.
        """
        await self.at_home(self.open_session_of().wait_settled())

    def stats(self) -> SessionStats:
        """Returns what the session at the chief has done."""
        return self._open_session().stats()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all processes, the chief's first."""
        return CHIEF, *self.ps, *self.workers

    @property
    def record(self) -> RunRecord | None:
        """Who runs this, on what and under which policy; None where all is one process, in a simulation."""
        return None

    @property
    def messages(self) -> int:
        """Messages that the chief's actors have handled."""
        return self.chief.system.dispatch.turns

    def open_session_of(self) -> DistributedSession:
        """Returns the session at the chief.

        Raises:
            SessionClosed: the cluster is not open.
            WrongLoop: in another thread or event loop than that in which it was opened.
        """
        session = self._open_session()
        self.check_here()
        return session

    def check_here(self) -> None:
        """Raises WrongLoop in another thread or event loop than that in which the cluster was opened.

        While it is not open all may call.
        """
        if self._affinity is not None:
            self._affinity.check()

    def _open_session(self) -> DistributedSession:
        if self.session is None:
            raise SessionClosed("the cluster is not open", hint="async with af.Cluster... as cluster: ...")
        return self.session

    def __repr__(self) -> str:
        state = "open" if self.session is not None else "closed"
        return f"<{type(self).__name__} of {len(self.ps)} ps and {len(self.workers)} workers, {state}>"
