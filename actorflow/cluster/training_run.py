"""A training run as the chief conducts it: opens the shards, starts a coordinator, enlists the workers.

Everything here lives in the chief's process. What comes of it are `Updated` records and one `RunEnded`.
"""

from __future__ import annotations

import asyncio
from asyncio import Queue
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from actorflow.actors.actor import Actor
from actorflow.actors.ref import Ref
from actorflow.cluster.availability import Availability
from actorflow.cluster.process.layout import Layout
from actorflow.cluster.process.messages import (
    COORDINATOR,
    PROCESS_AGENT,
    SHARD,
    UNREACHED,
    WORKER,
    Dismiss,
    Enlist,
    MeetAll,
    OpenShard,
)
from actorflow.cluster.process.process import Process
from actorflow.cluster.worker_supervisor import WorkerSupervisor
from actorflow.coord.actors.coordinator import Coordinator
from actorflow.coord.actors.peer_shards import ReadStats, ShardStats
from actorflow.coord.rules.commit import term_of_run
from actorflow.coord.rules.messages import RunEnded, Updated
from actorflow.coord.rules.policy import Policy, full
from actorflow.coord.rules.policy_checks import has_enough
from actorflow.coord.rules.run_settings import RunSettings
from actorflow.errors import (
    CoordinatorLost,
    ShardLost,
    describe,
)
from actorflow.runtime.messages import Terminated

_UNHEARD = 64
"""Updates that wait for whoever trains; then the coordinator waits."""


class _RunListener(Actor):
    """The observer: hands on what it hears, and lets the coordinator wait when nobody takes it."""

    def __init__(self, heard: Queue[Updated | RunEnded]) -> None:
        self._heard = heard

    async def receive(self, message: Any) -> None:
        if isinstance(message, Terminated):
            why = "it was stopped" if message.reason is None else describe(message.reason).splitlines()[0]
            lost = CoordinatorLost(f"the coordinator is gone: {why}")
            lost.__cause__ = message.reason
            message = RunEnded(0, lost)
        await self._heard.put(message)


class TrainingRun:
    """Conducts the runs of one trainer, one after the other; the shards stay from run to run.

    Args:
        chief: The chief's process.
        availability: Gives variables their initial values.
        layout: What lies where.
        policy: Who may start, and what makes an update.
        settings: Limits and times that all runs share.
        numbers: Of runs, ascending; one that all trainers of a cluster share, since what is said in a run is
            told from what was said in others by its number.

    Attributes:
        policy: For the next run: what the last one has made of it.
        drain_s: How long the end of a run waits for the update that is being committed.
    """

    def __init__(
        self,
        chief: Process,
        availability: Availability,
        layout: Layout,
        policy: Policy,
        settings: RunSettings,
        numbers: Iterator[int],
    ) -> None:
        self._chief = chief
        self._availability = availability
        self._layout = layout
        self.policy = policy
        self._settings = settings
        self._numbers = numbers
        self.drain_s = settings.fence_s
        self._run = 0
        self._over = True
        self._heard: Queue[Updated | RunEnded] = Queue(_UNHEARD)
        self._coordinator: Ref | None = None
        self._decides: Coordinator | None = None
        self._hearing: Ref | None = None
        self._recruiters: list[Ref] = []

    # -- shards ---------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Opens a shard in each process that has one, with the state of its optimizer, which may take long.

        Raises:
            ShardLost: a process is not there.
            ActorflowError: a shard cannot be opened.
        """
        layout = self._layout
        names = [name for group in (*layout.trained, *layout.frozen) for name in group]
        with _require_reachable(" and ".join(layout.ps)):
            await self._availability.initialise(names)
        closes = None
        if self._settings.agreement == "per_shard":
            closes = has_enough(self.policy, full(len(layout.workers)))
        opening = []
        for shard, process in enumerate(layout.ps):
            order = OpenShard(
                shard,
                layout.trained[shard],
                layout.frozen[shard],
                layout.optimizer,
                len(layout.ps),
                self.policy.fresh,
                closes,
                layout.finite,
                self._settings.stuck_s,
                self.policy.rate == "shared",
            )
            opening.append(self._ask_ps(process, order, order.limit_s))
        for failed in await asyncio.gather(*opening, return_exceptions=True):
            if failed is not None:
                raise failed
        with _require_reachable(" and ".join(layout.ps)):  # a process that began anew meanwhile has no values
            await self._availability.initialise(names)

    async def _ask_ps(self, process: str, order: Any, limit_s: float | None = None) -> None:
        with _require_reachable(process):
            await self._agent(process).ask(order, limit_s)

    def _agent(self, process: str) -> Ref:
        return self._chief.hub.ref(f"{process}/{PROCESS_AGENT}")

    @property
    def _shards(self) -> tuple[str, ...]:
        return tuple(f"{process}/{SHARD}" for process in self._layout.ps)

    # -- a run ----------------------------------------------------------------------------------------

    async def begin(self, limits: RunSettings) -> None:
        """Begins a run: its coordinator has a higher term than all before. What fails leaves nothing.

        Raises:
            ShardLost: a shard cannot be reached.
        """
        await self.end()
        try:
            await self._begin(limits)
        except BaseException:
            await self.end()
            raise

    async def _begin(self, limits: RunSettings) -> None:
        self._run = next(self._numbers)
        self._heard, self._over = Queue(_UNHEARD), False
        chief, ref = self._chief, self._chief.hub.ref
        self._hearing = chief.system.spawn(_RunListener, self._heard, name=f"hearing{self._run}")
        name = f"{COORDINATOR}{self._run}"
        self._decides = decides = Coordinator(
            ref,
            [ref(address) for address in self._shards],
            self._layout.workers,
            self.policy,
            limits,
            term_of_run(self._run),
            self._hearing,
        )
        self._coordinator = chief.system.spawn(lambda: decides, name=name)
        self._coordinator.watch(self._hearing)
        address = f"{chief.name}/{name}"
        for process in self._layout.ps:
            await self._ask_ps(process, MeetAll(address, self._shards, term_of_run(self._run)))
        policy, settings = self.policy, self._settings
        apart = settings.agreement == "per_shard"
        # A pull waits for the update that is being made: where none comes, the coordinator says why first.
        times = settings.gather_s, 2 * settings.stuck_s
        order = Enlist(self._run, address, self._shards, policy.fresh, *times, apart)
        self._recruiters = [
            chief.system.spawn(
                WorkerSupervisor,
                self._agent(process),
                ref(f"{process}/{WORKER}"),
                self._coordinator,
                order,
                settings.heartbeat_s,
                settings.lease_s,
                name=f"recruiter{self._run} {process}",
            )
            for process in self._layout.workers
        ]

    async def next(self) -> Updated | RunEnded:
        """Returns the next update, or the end of the run."""
        heard = await self._heard.get()
        self._over = isinstance(heard, RunEnded)
        return heard

    async def stats(self) -> list[ShardStats]:
        """Returns what each shard has done."""
        ask = [self._chief.hub.ref(address).ask(ReadStats()) for address in self._shards]
        with _require_reachable(" and ".join(self._layout.ps)):
            return list(await asyncio.gather(*ask))

    @property
    def number(self) -> int:
        """That of the run which began last."""
        return self._run

    async def end(self, number: int | None = None) -> None:
        """Ends the run, if there is one and it has that number, after the update that is being committed."""
        if number is not None and number != self._run:
            return  # another has begun since
        system = self._chief.system
        recruiters, self._recruiters = self._recruiters, []
        for recruiter in recruiters:
            await system.stop(recruiter)
        coordinator, self._coordinator = self._coordinator, None
        hearing, self._hearing = self._hearing, None
        if coordinator is not None and hearing is not None:
            if not self._over:
                coordinator.signal(RunEnded(term_of_run(self._run)))
                await self._drain()
            await system.stop(coordinator)
            await system.stop(hearing)
        decided, self._decides = self._decides, None
        if decided is not None:
            self.policy = decided.policy  # what it has learnt stays

    async def _drain(self) -> None:
        """Takes what nobody wants to hear any more, up to the end."""
        try:
            async with asyncio.timeout(self.drain_s):
                while not isinstance(await self.next(), RunEnded):
                    pass
        except TimeoutError:
            pass

    async def close(self) -> None:
        """Ends the run and closes shards and workers, as far as their processes can be reached."""
        await self.end()
        actors = [(p, WORKER) for p in self._layout.workers] + [(p, SHARD) for p in self._layout.ps]
        asks = [self._agent(p).ask(Dismiss(actor), self._settings.fence_s) for p, actor in actors]
        await asyncio.gather(*asks, return_exceptions=True)


@contextmanager
def _require_reachable(process: str) -> Iterator[None]:
    """Raises ShardLost when a process that is to hold parameters cannot be reached."""
    try:
        yield
    except UNREACHED as error:
        message = f"{process}, to hold parameters, cannot be reached: {describe(error)}"
        raise ShardLost(message) from error
