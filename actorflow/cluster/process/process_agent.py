"""The agent of a process: opens a shard or a worker there, when the chief says so."""

from __future__ import annotations

from asyncio import Lock
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from actorflow.actors.actor import Actor
from actorflow.actors.ref import Ref
from actorflow.cluster.process.messages import (
    SHARD,
    WORKER,
    Describe,
    Dismiss,
    Enlist,
    Introduce,
    MeetAll,
    OpenShard,
    Quit,
)
from actorflow.cluster.process.record import ProcessRecord
from actorflow.coord.actors.batch_reader import BatchReader
from actorflow.coord.actors.peer_shards import Introduction
from actorflow.coord.actors.replica import Replica
from actorflow.coord.actors.shard import ShardActor
from actorflow.coord.actors.worker import Worker
from actorflow.coord.rules.commit import recover, recover_apart
from actorflow.dataflow.engine.resources import optimizer_actor, tell_of_rows
from actorflow.dataflow.optimizer.gradients import MakeState
from actorflow.dataflow.optimizer.optimizer import OptimizerActor
from actorflow.errors import CoordinationError, ShardLost
from actorflow.graph.atomic_block import in_order
from actorflow.plan.program import Holder, Holding
from actorflow.runtime import environment, reader_thread
from actorflow.runtime.clock import Clock
from actorflow.training.batches import describe_source, opening

if TYPE_CHECKING:
    from actorflow.actors.remote.hub import RemoteHub
    from actorflow.dataflow.engine.executor import Executor
    from actorflow.errors import ActorflowError
    from actorflow.training.program import Program

Work = Callable[[], Awaitable[None]]


class Home(Protocol):
    """What a process agent needs of the process that it is in."""

    name: str
    incarnation: int
    program: Program
    hub: RemoteHub
    quit: Callable[[ActorflowError | None], None]

    @property
    def executor(self) -> Executor:
        """What runs programs there."""
        ...

    def about(self) -> ProcessRecord:
        """Returns what the process is."""
        ...


class ProcessAgent(Actor):
    """Opens and closes what this process contributes to training runs.

    **Receives** OpenShard, MeetAll, Enlist, Dismiss, Introduce, Describe, Quit, all asked.
    **Promise** a message that is repeated does no harm: what is there stays. Orders are obeyed one after the
    other; who asks what process this is, or has it quit, does not wait for them.
    **Fails** what cannot be opened is the answer's error; nothing is left half open.

    Args:
        process: Whose.
        work: Awaited once a contribution of a worker.
        clock: Tells how long batches take.
    """

    reentrant: ClassVar[bool] = True

    def __init__(self, process: Home, work: Work | None, clock: Clock) -> None:
        self._process = process
        self._work = work
        self._clock = clock
        self._enlisted = 0  # the run for which the worker was opened
        self._worker: Worker | None = None
        self._orders = Lock()

    async def receive(self, message: Any) -> int | ProcessRecord:
        """Obeys one message of the chief."""
        match message:
            case Introduce():
                return self._process.incarnation
            case Describe():
                return self._process.about()
            case Quit(reason):
                self._process.quit(reason)
            case _:
                async with self._orders:
                    await self._obey(message)
        return True

    async def _obey(self, message: Any) -> None:
        match message:
            case OpenShard():
                await self._dismiss(SHARD)
                await self._open_shard(message)
            case MeetAll():
                self._meet(message)
            case Enlist():
                if self._enlisted != message.run or not self._works():
                    await self._dismiss(WORKER)
                    self._enlist(message)
                    self._enlisted = message.run
            case Dismiss(actor):
                await self._dismiss(actor)
            case _:
                what = f"an agent takes what cluster.messages says, got {type(message).__name__}"
                raise CoordinationError(what)

    def _works(self) -> bool:
        """Whether there is a worker, and one that has not ended: cut off for long it gives up."""
        return WORKER in self.system.actors and self._worker is not None and not self._worker.over

    async def _dismiss(self, actor: str) -> None:
        cell = self.system.actors.get(actor)
        if cell is not None:
            await self.system.stop(cell)

    async def _open_shard(self, order: OpenShard) -> None:
        graph = self._process.program.graph
        optimizer = graph.objects[order.optimizer]

        def make() -> OptimizerActor:
            actor = optimizer_actor(optimizer)
            tell_of_rows(actor, graph, order.optimizer, order.trained)
            return actor

        executor = self._process.executor
        shard = self.system.spawn(
            lambda: ShardActor(
                order.shard,
                {name: self._variable(name) for name in order.trained},
                make,
                frozen={name: self._variable(name) for name in order.frozen},
                shards=order.shards,
                fresh=order.fresh,
                recover=recover if order.closes is None else recover_apart,
                closes=order.closes,
                finite=order.finite,
                shares=order.shares,
                order=in_order(order.trained, graph.resources),
                submit=executor.submit,
                process=self._process.name,
            ),
            name=SHARD,
        )
        try:
            await shard.ask(MakeState(order.limit_s), order.limit_s)
        except BaseException:
            await self._dismiss(SHARD)
            raise

    def _variable(self, name: str) -> Ref:
        return self._process.executor.resources.find(Holder(Holding.RESOURCE, name))

    def _meet(self, meet: MeetAll) -> None:
        ref = self._process.hub.ref
        shard = self.system.actors.get(SHARD)
        if shard is None:
            message = f"'{self._process.name}' has no shard any more, and no values: it has begun anew"
            raise ShardLost(message)
        shard.signal(
            Introduction(ref(meet.coordinator), [ref(address) for address in meet.shards], meet.term)
        )

    def _enlist(self, order: Enlist) -> None:
        process = self._process
        program, ref = process.program, process.hub.ref
        metrics = list(program.metrics.values())
        replica = Replica(program.graph, program.loss, metrics, program.train, process.executor, self.system)

        here = environment.ENVIRONMENT.get()
        thread = reader_thread.of(self.system.loop, self._clock) if here is None else None

        def make() -> Worker:
            self._worker = Worker(
                replica,
                BatchReader(
                    program.batches,
                    opening(self._clock, program.graph.seed, thread),
                    now=self.system.now,
                    describe=describe_source,
                    thread=thread,
                ),
                ref(order.coordinator),
                [ref(address) for address in order.shards],
                process.name,
                order.fresh,
                work=self._work,
                join_s=order.join_s,
                answer_s=order.answer_s,
                apart=order.apart,
            )
            return self._worker

        self.system.spawn(make, name=WORKER)
