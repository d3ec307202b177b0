"""Shards and workers as actors that compute nothing, and a coordinator to conduct them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from actorflow.actors.actor import Actor
from actorflow.actors.ref import Ref
from actorflow.actors.system import ActorSystem
from actorflow.coord.actors.coordinator import Coordinator
from actorflow.coord.rules.messages import (
    Assignment,
    Computed,
    Contribute,
    ContributionOutcome,
    Exhausted,
    Fence,
    Heartbeat,
    Join,
    Leave,
    Missed,
    Permit,
    Pull,
    Pulled,
    Rejected,
    RunEnded,
    ShardStatus,
    Stored,
    Updated,
)
from actorflow.coord.rules.policy import Policy
from actorflow.coord.rules.run_settings import RunSettings
from actorflow.errors import ActorDied, ActorflowError, Fenced
from tests.coord.cluster import LoneShard, ModelShard

Work = Callable[[Permit], float | ActorflowError | None]
"""How long a contribution takes in seconds, what goes wrong, or None for one that never comes."""


class Shard(Actor):
    """Obeys a model shard, and answers pulls once it is at the version."""

    reentrant = True

    def __init__(self, model: ModelShard, find: Callable[[str], Ref]) -> None:
        self.model = model
        self._find = find
        self._waiting: list[asyncio.Future[None]] = []

    def receive(self, message: Any) -> Any:
        if isinstance(message, Contribute):
            kept = self.model.keep(message)
            self._speak()
            return kept
        if isinstance(message, Pull):
            return self._pulled(message.version)
        answer = self.model.hear(message)
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            future.set_result(None)
        if isinstance(answer, ShardStatus):
            return answer
        if answer is not None:
            self._find("chief/coordinator").signal(answer)
        self._speak()
        return None

    def _speak(self) -> None:
        if isinstance(self.model, LoneShard):
            for message in self.model.outbox:
                self._find("chief/coordinator").signal(message)
            self.model.outbox.clear()

    async def _pulled(self, version: int) -> Pulled:
        while self.model.version < version:
            self._waiting.append(self.system.create_future())
            await self._waiting[-1]
        return Pulled(self.model.version, {})


class Worker(Actor):
    """Keeps to the messages; what it computes takes as long as `work` says, and is nothing."""

    reentrant = True

    def __init__(self, process: str, company: Company, work: Work) -> None:
        self._process = process
        self._company = company
        self._work = work
        self._permit: Permit | None = None
        self._seat: Assignment | None = None
        self._joining = False

    async def on_start(self) -> None:
        await self._join()

    async def _join(self) -> None:
        self._seat = self._permit = None
        self._joining = True
        try:
            seat = await self._company.chief.ask(Join(self._process))
        except ActorDied:  # before it answered; another one takes over
            await asyncio.sleep(0.1)
            await self._join()
            return
        if isinstance(seat, Rejected):
            await asyncio.sleep(seat.wait_s)
            await self._join()
            return
        self._joining = False
        if isinstance(seat, Assignment):
            self._seat = seat
            self._beat()

    def receive(self, message: Any) -> Any:
        match message:
            case Permit():
                self._company.permits.append(message)
                return self._compute(message)
            case ContributionOutcome():
                self._company.outcomes.append(message)
                if self._permit is not None and self._permit.number == message.number:
                    self._permit = None
            case RunEnded(error=Fenced()):
                if not self._joining:
                    return self._join()
            case RunEnded():
                self._seat = self._permit = None
                self._company.heard.append((self._process, message))
            case "leave":
                assert self._seat is not None
                self._company.chief.signal(Leave(self._seat.rank, self._seat.incarnation))
                self._seat = None
            case Heartbeat():
                self._beat(message)
        return None

    def _beat(self, before: Heartbeat | None = None) -> None:
        seat = self._seat
        if seat is not None and (before is None or before.incarnation == seat.incarnation):
            number = 0 if self._permit is None else self._permit.number
            if not self._company.silent(self._process):
                self._company.chief.signal(Heartbeat(seat.rank, seat.incarnation, number))
            self.after(seat.heartbeat_s, Heartbeat(seat.rank, seat.incarnation, 0))

    async def _compute(self, permit: Permit) -> None:
        self._permit = permit
        term, number, rank = permit.term, permit.number, permit.rank
        size = self._company.size
        if size is not None and permit.batch.index >= size:
            self._say(permit, Exhausted(term, number, rank, permit.batch.epoch, size))
            return
        shards = self._company.shards
        pulled = await asyncio.gather(*(shard.ask(Pull(permit.version), 1000) for shard in shards))
        base = min(answer.version for answer in pulled)
        takes = self._work(permit)
        if takes is None:
            return
        if isinstance(takes, ActorflowError):
            self._say(permit, Missed(term, number, rank, takes))
            return
        if takes:
            await asyncio.sleep(takes)
        told = Contribute(term, number, rank, base, {})
        if self._permit is permit:
            answers = await asyncio.gather(*(shard.ask(told) for shard in shards))
            if all(isinstance(answer, Stored) for answer in answers):
                self._say(permit, Computed(term, number, rank, base, (float(number),)))
            else:
                self._say(permit, Missed(term, number, rank))

    def _say(self, permit: Permit, message: Any) -> None:
        if self._permit is permit:
            self.tell(self._company.chief, message)


class Wire(Actor):
    """Carries what a coordinator says to a shard, also when the coordinator is gone by then."""

    reentrant = True

    def __init__(self, to: Ref, lag_s: float) -> None:
        self._to = to
        self._lag_s = lag_s

    def receive(self, message: Any) -> Any:
        if isinstance(message, Fence):
            return self._asked(message)
        if isinstance(message, tuple):
            self._to.signal(message[0])
        else:
            self.after(self._lag_s, (message,))
        return None

    async def _asked(self, fence: Fence) -> Any:
        await asyncio.sleep(self._lag_s)
        return await self._to.ask(fence)


class Observer(Actor):
    """Hears of updates and the end."""

    def __init__(self, company: Company) -> None:
        self._company = company

    def receive(self, message: Any) -> None:
        if isinstance(message, Updated):
            self._company.updates.append(message)
        else:
            self._company.ended.set_result(message)


class Company:
    """All of a run, in one system.

    Attributes:
        outcomes: What workers heard.
        silenced: Processes whose heartbeats get lost.
    """

    chief: Ref
    ended: asyncio.Future[RunEnded]

    def __init__(
        self,
        system: ActorSystem,
        policy: Policy,
        workers: int = 3,
        shards: int = 2,
        *,
        size: int | None = None,
        work: Work = lambda permit: 0.1,
        models: Sequence[ModelShard] = (),
        term: int = 1,
        **settings: Any,
    ) -> None:
        self.system = system
        self.size = size
        self.work = work
        self.policy = policy
        self.settings = RunSettings(**settings)
        self.processes = [f"worker{n}" for n in range(workers)]
        self.models = list(models) or [ModelShard(n, fresh=policy.fresh) for n in range(shards)]
        self.refs: dict[str, Ref] = {}
        self.updates: list[Updated] = []
        self.outcomes: list[ContributionOutcome] = []
        self.permits: list[Permit] = []
        self.heard: list[tuple[str, RunEnded]] = []
        self.silenced: set[str] = set()
        self.ended = asyncio.get_running_loop().create_future()
        self.term = term
        self.shards = [self._spawn(f"ps{m.shard}/shard", Shard, m, self.find) for m in self.models]

    def find(self, address: str) -> Ref:
        return self.refs[address]

    def silent(self, process: str) -> bool:
        return process in self.silenced

    def _spawn(self, name: str, factory: Callable[..., Actor], *args: Any) -> Ref:
        self.refs[name] = ref = self.system.spawn(factory, *args, name=name)
        return ref

    def open(self, *, join: bool = True, lags_s: Sequence[float] = ()) -> None:
        """Starts the coordinator, and the workers.

        Args:
            lags_s: How long what it says takes to each shard, where it is not at once.
        """
        shards = self.shards
        if lags_s:
            shards = [
                self._spawn(f"wire{self.term}{n}", Wire, ref, lag)
                for n, (ref, lag) in enumerate(zip(shards, lags_s, strict=True))
            ]
        observer = self._spawn(f"chief/trainer{self.term}", Observer, self)
        args = (self.find, shards, self.processes, self.policy, self.settings, self.term, observer)
        self.chief = self._spawn("chief/coordinator", Coordinator, *args)
        for process in self.processes if join else ():
            self.join(process)

    async def replace_chief(self, lags_s: Sequence[float] = ()) -> None:
        """The coordinator is gone, and another one takes over; the workers do not notice."""
        await self.system.stop(self.chief)
        self.term += 1
        self.settings = replace(self.settings, gather_s=5.0)
        self.open(join=False, lags_s=lags_s)

    def join(self, process: str) -> None:
        self._spawn(f"{process}/worker", Worker, process, self, self.work)

    async def crash(self, process: str) -> None:
        await self.system.stop(self.refs[f"{process}/worker"])

    def judge(self) -> None:
        """All shards made the updates that were told, and nothing counts twice."""
        histories = {tuple(stage.chosen for stage in model.history) for model in self.models}
        told = tuple(tuple((r, n) for r, n, _, _ in update.chosen) for update in self.updates)
        assert histories == {told}
        numbers = [number for update in told for _, number in update]
        assert len(numbers) == len(set(numbers))
        receipts = [outcome.number for outcome in self.outcomes]
        assert len(receipts) == len(set(receipts))
        assert {o.number for o in self.outcomes if o.accepted} <= set(numbers)
        assert not {o.number for o in self.outcomes if not o.accepted} & set(numbers)
