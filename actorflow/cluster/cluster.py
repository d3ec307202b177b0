"""Processes that run one program together, as whoever started them holds them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from itertools import count
from types import TracebackType
from typing import Any, Self

from actorflow.actors.step_messages import Process as Member
from actorflow.cluster.layout import Layout, laid_out
from actorflow.cluster.process import CHIEF, Process, device_of, member
from actorflow.cluster.training import Training
from actorflow.errors import ConfigError, CoordinatorLost, SessionClosed
from actorflow.plan.place import Placer, checked
from actorflow.program import Program
from actorflow.report import SpreadStats
from actorflow.spread import SpreadSession


class Cluster(ABC):
    """Some processes: one that decides, some with parameters, some that compute. `async with` it.

    Variables that no device scope places lie on the `ps` processes, spread by bytes. Steps run by
    `run` begin and end in the chief's process.

    Attributes:
        program: What they run; every process has built the same.
        ps: Processes with parameters.
        workers: Processes that compute.
        layout: Which variables lie where.
        placer: Chooses where what `run` computes goes, if its scopes leave that open.
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
        self.placer = checked(placement)
        self.layout: Layout = laid_out(program, self.ps, self.workers)
        self.session: SpreadSession | None = None
        self.training: Training | None = None
        self.run_numbers = count(1)

    @staticmethod
    def simulated(program: Program, *, ps: int = 1, workers: int = 1, **options: Any) -> Cluster:
        """Returns a cluster whose processes are hosts of a simulated world.

        Open it in a simulated run: `sim.run(main)`, or a test under `@sim.world("chief", ps=2, worker=4)`
        that hands its `world` over.

        Args:
            program: What it runs.
            ps: How many processes have parameters: ps0, ps1, …
            workers: How many compute: worker0, worker1, …
            **options: `placement`, how the nodes of `run` are placed, as for a `Session`; `world`;
                `latency_s`, how long a message travels; `work_s`, how long a worker computes at a
                contribution, and `straggler`, how that is disturbed; `links`, what links may hold and how
                long they wait; `seed`, of the world's chance.

        Raises:
            ConfigError: there are fewer than one of either, or more `ps` than variables to train.
        """
        from actorflow.cluster.simulated import SimulatedCluster

        return SimulatedCluster(program, ps=ps, workers=workers, **options)

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
        """The chief's process, in its present life."""

    @abstractmethod
    async def at_home(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Runs a coroutine in the chief's process and returns what it returns.

        Raises:
            CoordinatorLost: the chief's process is gone.
        """

    # -- life -------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self._start()
        chief = self.chief
        names = (CHIEF, *self.ps, *self.workers)
        members: list[Member] = [member(name, 1) for name in names]
        homes = {
            name: device_of(process)
            for process, trained, frozen in zip(self.ps, self.layout.trained, self.layout.frozen, strict=True)
            for name in (*trained, *frozen)
        }
        graph = self.program.graph
        session = SpreadSession(
            graph,
            chief.system,
            members,
            chief.post.ref,
            home=CHIEF,
            placement=self.placer,
            state=homes,
        )
        chief.post.on_lost(session.lost)
        await self.at_home(session.__aenter__())
        self.session = session
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self.session = self.session, None
        training, self.training = self.training, None
        try:
            if training is not None:
                with suppress(CoordinatorLost):
                    await self.at_home(training.close())
            if session is not None:
                with suppress(CoordinatorLost):  # then there is nothing to close
                    await self.at_home(session.close())
        finally:
            await self._stop()

    # -- steps ------------------------------------------------------------------------------------------

    async def run(
        self, fetches: Any, feeds: Mapping[Any, Any] | None = None, *, deadline_s: float | None = None
    ) -> Any:
        """Runs one step over the processes; as `Session.run`."""
        return await self.at_home(self.opened().run(fetches, feeds, deadline_s=deadline_s))

    def stats(self) -> SpreadStats:
        """Returns what the session at the chief has done."""
        return self.opened().stats()

    @property
    def messages(self) -> int:
        """Messages that the chief's actors have handled."""
        return self.chief.system.dispatch.turns

    def opened(self) -> SpreadSession:
        """Returns the session at the chief; raises SessionClosed when the cluster is not open."""
        if self.session is None:
            raise SessionClosed("the cluster is not open", hint="async with af.Cluster... as cluster: ...")
        return self.session

    def __repr__(self) -> str:
        state = "open" if self.session is not None else "closed"
        return f"<{type(self).__name__} of {len(self.ps)} ps and {len(self.workers)} workers, {state}>"
