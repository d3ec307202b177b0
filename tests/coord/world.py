"""A run without actors: the rules, model shards and model workers, and links that keep the order of a pair.

Whoever runs it chooses, turn by turn, which link delivers next and what befalls workers; so every order in
which messages of different senders can arrive is one of its runs.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from actorflow.coord.rules.contribution_table import NO_BATCH
from actorflow.coord.rules.coordinator_state import CoordinatorState
from actorflow.coord.rules.messages import (
    Assignment,
    Batch,
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
    Refused,
    RunEnded,
    Stored,
    Updated,
)
from actorflow.coord.rules.outbox import Send, ToObserver, ToShard, ToWorker
from actorflow.coord.rules.per_shard_state import PerShardState
from actorflow.coord.rules.policy import Policy
from actorflow.coord.rules.run_settings import RunSettings
from actorflow.coord.rules.worker_state import base_of
from actorflow.errors import Fenced
from tests.coord.cluster import LoneShard, ModelShard

CHIEF = "chief"


class Pulling(NamedTuple):
    """A pull under a permit, of its version or a later one: it waits on the shard until that is there."""

    number: int
    version: int


class ModelWorker:
    """Keeps to the messages: at most one contribution at a time, the newest permit replaces the one before."""

    def __init__(self, process: str, size: int | None) -> None:
        self.process = process
        self.size = size
        self.alive = True
        self.seat: Assignment | None = None
        self.permit: Permit | None = None
        self.bases: dict[int, int] = {}
        self.answers: dict[int, bool] = {}
        self.end: RunEnded | None = None


class World:
    """One run.

    Attributes:
        updates: What the observer was told.
        outcomes: By number, what workers were told.
        deaths: How many workers were given up or have left.
    """

    def __init__(
        self,
        policy: Policy,
        workers: int,
        shards: int = 2,
        *,
        size: int | None = None,
        rounds: Callable[..., CoordinatorState] | None = None,
        **settings: Any,
    ) -> None:
        self.settings = RunSettings(**settings)
        names = [f"worker{n}" for n in range(workers)]
        self.apart = self.settings.agreement == "per_shard"
        self.rounds = (rounds or (PerShardState if self.apart else CoordinatorState))(
            policy, names, shards, self.settings
        )
        kind = LoneShard if self.apart else ModelShard
        self.shards: Sequence[ModelShard] = [kind(n, fresh=policy.fresh) for n in range(shards)]
        self.workers = {name: ModelWorker(name, size) for name in names}
        self.links: dict[tuple[str, str], deque[Any]] = {}
        self.now = 0.0
        self.pulling: list[tuple[ModelShard, str, Pulling]] = []
        self.updates: list[Updated] = []
        self.ends: list[RunEnded] = []
        self.outcomes: dict[int, list[ContributionOutcome]] = {}
        self.permits: list[Permit] = []
        self.deaths = 0
        self.spread = 0
        self.send(self.rounds.open({s.shard: s.hear(Fence(1)) for s in self.shards}, self.now))
        for name in names:
            self.link(name, CHIEF).append(Join(name))

    # -- links ---------------------------------------------------------------------------------------

    def link(self, source: str, target: str) -> deque[Any]:
        return self.links.setdefault((source, target), deque())

    def busy(self) -> list[tuple[str, str]]:
        return sorted(key for key, link in self.links.items() if link)

    def deliver(self, key: tuple[str, str]) -> None:
        source, target = key
        message = self.links[key].popleft()
        if target == CHIEF:
            self.to_chief(message)
        elif target.startswith("shard"):
            self.to_shard(self.shards[int(target[5:])], source, message)
        elif self.workers[target].alive:
            self.to_worker(self.workers[target], source, message)
        clocks = [self.rounds.contributions.clock[rank] for rank in self.rounds.members.alive]
        self.spread = max(self.spread, max(clocks, default=0) - min(clocks, default=0))

    def send(self, sends: tuple[Send, ...]) -> None:
        for send in sends:
            match send:
                case ToShard(shard, message):
                    self.link(CHIEF, f"shard{shard}").append(message)
                case ToWorker(process, message):
                    self.link(CHIEF, process).append(message)
                case ToObserver(RunEnded() as end):
                    self.ends.append(end)
                case ToObserver(Updated() as update):
                    self.updates.append(update)

    # -- what each does ---------------------------------------------------------------------------------

    def to_chief(self, message: Any) -> None:
        if isinstance(message, Join):
            if self.rounds.ended is None:
                seat, sends = self.rounds.join(message.process, self.now)
                self.link(CHIEF, message.process).append(seat)
                self.send(sends)
        else:
            self.send(self.rounds.hear(message, self.now))

    def to_shard(self, shard: ModelShard, source: str, message: Any) -> None:
        name = f"shard{shard.shard}"
        if isinstance(message, Contribute):
            self.link(name, source).append((shard.shard, shard.keep(message)))
        elif isinstance(message, Pulling):
            self.pulling.append((shard, source, message))
        elif (answer := shard.hear(message)) is not None:
            self.link(name, CHIEF).append(answer)
        if isinstance(shard, LoneShard):
            self.link(name, CHIEF).extend(shard.outbox)
            shard.outbox.clear()
        waiting, self.pulling = self.pulling, []
        for at, worker, pull in waiting:
            if at.version < pull.version:
                self.pulling.append((at, worker, pull))
            else:
                self.link(f"shard{at.shard}", worker).append((pull.number, at.shard, at.version))

    def to_worker(self, worker: ModelWorker, source: str, message: Any) -> None:
        match message:
            case Assignment():
                worker.seat = message
            case ContributionOutcome():
                self.outcomes.setdefault(message.number, []).append(message)
                if worker.permit is not None and worker.permit.number == message.number:
                    worker.permit = None
            case Permit():
                self.permits.append(message)
                self.begin(worker, message)
            case RunEnded(error=Fenced()):
                worker.seat = worker.permit = None
                self.link(worker.process, CHIEF).append(Join(worker.process))
            case RunEnded():
                worker.end = message
            case (int(number), int(shard), int(base)):
                if worker.permit is not None and worker.permit.number == number:
                    worker.bases[shard] = base
                    if len(worker.bases) == len(self.shards):
                        self.contribute(worker, worker.permit)
            case (int(shard), Stored() | Refused() as answer):
                self.answered(worker, shard, answer)

    def begin(self, worker: ModelWorker, permit: Permit) -> None:
        worker.permit, worker.bases, worker.answers = permit, {}, {}
        batch = permit.batch
        if worker.size is not None and batch.index >= worker.size:
            self.say(worker, Exhausted(permit.term, permit.number, permit.rank, batch.epoch, worker.size))
            return
        for shard in self.shards:
            self.link(worker.process, f"shard{shard.shard}").append(Pulling(permit.number, permit.version))

    def contribute(self, worker: ModelWorker, permit: Permit) -> None:
        bases = tuple(worker.bases[shard.shard] for shard in self.shards)
        base = (
            base_of(permit, bases, fresh=self.rounds.policy.fresh, apart=True) if self.apart else min(bases)
        )
        if base is None:
            self.say(worker, Missed(permit.term, permit.number, permit.rank))
            worker.permit = None
            return
        for shard in self.shards:
            told = Contribute(permit.term, permit.number, permit.rank, base, {}, bases)
            self.link(worker.process, f"shard{shard.shard}").append(told)

    def answered(self, worker: ModelWorker, shard: int, answer: Stored | Refused) -> None:
        permit = worker.permit
        if permit is None or permit.number != answer.number:
            return
        worker.answers[shard] = isinstance(answer, Stored)
        kept = tuple(worker.answers.values())
        if not all(kept) and not (self.apart and (any(kept) or len(kept) < len(self.shards))):
            self.say(worker, Missed(permit.term, permit.number, permit.rank))
            worker.permit = None
        elif len(kept) == len(self.shards):
            bases = tuple(worker.bases[shard.shard] for shard in self.shards)
            base = permit.version if self.apart and self.rounds.policy.fresh else min(bases)
            scalars = (float(permit.number),)
            self.say(worker, Computed(permit.term, permit.number, permit.rank, base, scalars, bases))

    def say(self, worker: ModelWorker, message: Any) -> None:
        self.link(worker.process, CHIEF).append(message)

    # -- what befalls workers ------------------------------------------------------------------------------

    def crash(self, process: str) -> None:
        """It is gone; what it had sent arrives, and its end is heard after that."""
        worker = self.workers[process]
        if worker.alive:
            worker.alive = False
            self.deaths += 1
            for (_, target), link in self.links.items():
                if target == process:
                    link.clear()
            while self.link(process, CHIEF):
                self.deliver((process, CHIEF))
            self.send(self.rounds.gone(process, self.now))

    def rejoin(self, process: str) -> None:
        """It runs again, and knows nothing."""
        if not self.workers[process].alive:
            self.workers[process] = ModelWorker(process, self.workers[process].size)
            self.link(process, CHIEF).append(Join(process))

    def fence(self, process: str) -> None:
        """It is given up although it lives: it was silent."""
        self.deaths += 1
        self.send(self.rounds.gone(process, self.now))

    def leave(self, process: str) -> None:
        worker = self.workers[process]
        if worker.alive and worker.seat is not None:
            self.deaths += 1
            self.say(worker, Leave(worker.seat.rank, worker.seat.incarnation))
            worker.alive = False

    def beat(self) -> None:
        """Everybody who lives and has an assignment says so."""
        for worker in self.workers.values():
            if worker.alive and worker.seat is not None and worker.end is None:
                number = 0 if worker.permit is None else worker.permit.number
                self.say(worker, Heartbeat(worker.seat.rank, worker.seat.incarnation, number))

    def tick(self) -> None:
        self.now += self.settings.heartbeat_s
        self.beat()
        while any(self.links[key] for key in self.busy() if key[1] == CHIEF):
            self.deliver(next(key for key in self.busy() if key[1] == CHIEF))
        self.send(self.rounds.tick(self.now))

    def finish(self, turns: int = 20_000) -> None:
        """Delivers fairly, and lets time pass when nothing is on its way, until the run is over."""
        for turn in range(turns):
            busy = self.busy()
            if busy:
                self.deliver(busy[turn % len(busy)])
            elif self.rounds.ended is not None:
                return
            else:
                self.tick()
        raise AssertionError(
            f"no end after {turns} turns: {self.rounds.commitment!r}, {self.rounds.permits!r}"
        )

    def permits_out(self) -> list[Permit]:
        """Those that the coordinator has just said, and nobody has heard."""
        return [m for link in self.links.values() for m in link if isinstance(m, Permit)]

    def run_until_permits(self) -> None:
        """Lets all join, and start."""
        while len(self.permits) < len(self.workers):
            self.deliver(self.busy()[0])

    # -- what must hold ------------------------------------------------------------------------------------

    def judge(self) -> None:
        """All shards made the same updates, as recorded, and every contribution is in one at most."""
        histories = {tuple(stage.chosen for stage in shard.history) for shard in self.shards}
        assert len(histories) == 1, histories
        recorded = tuple(tuple((r, n) for r, n, _, _ in u.chosen) for u in self.updates)
        assert histories == {recorded}
        assert [u.version for u in self.updates] == list(range(1, len(self.updates) + 1))
        numbers = [number for update in recorded for _, number in update]
        assert len(numbers) == len(set(numbers)), "a contribution was used twice"
        for update in recorded:
            ranks = [rank for rank, _ in update]
            assert ranks == sorted(set(ranks)), "a rank was used twice, or out of order"
        dropped = self.dropped()
        assert not set(dropped) & set(numbers), "what was dropped was used"
        for number, outcomes in self.outcomes.items():
            assert len(outcomes) == 1, "two receipts"
            assert outcomes[0].accepted == (number in numbers)
        if not self.deaths:
            assert {*numbers} <= self.outcomes.keys(), "who lives hears what was used"
        assert len(self.ends) == 1
        assert all(shard.end == RunEnded(end.term, end.error) for shard in self.shards for end in self.ends)
        if self.rounds.policy.fresh:
            assert {base - u.version for u in self.updates for *_, base in u.chosen} <= {-1}, "stale"

    def dropped(self) -> list[int]:
        """What was told to be dropped, by updates and by the end: all of which a receipt says so, and once."""
        told = [number for update in self.updates for number, _ in update.dropped]
        told += [number for end in self.ends for number, _ in end.dropped]
        assert len(told) == len(set(told)), "told twice"
        refused = {
            n for n, (first, *_) in self.outcomes.items() if not first.accepted and first.reason != NO_BATCH
        }
        assert refused <= set(told), "what was dropped was not told"
        return told

    def judge_apart(self) -> None:
        """What each shard used is recorded, and every contribution has one receipt that agrees with it."""
        for shard in self.shards:
            made = [stage.chosen for stage in shard.history]
            told = [u.per_shard[shard.shard] for u in self.updates if u.per_shard[shard.shard]]
            assert made == told
            numbers = [number for chosen in made for _, number in chosen]
            assert len(numbers) == len(set(numbers)), "a shard used a contribution twice"
        assert [u.version for u in self.updates] == list(range(1, len(self.updates) + 1))
        used = set()
        for update in self.updates:
            union = {each for chosen in update.per_shard for each in chosen}
            assert [(r, n) for r, n, _, _ in update.chosen] == sorted(union)
            used |= {number for _, number in union}
        dropped = self.dropped()
        assert not set(dropped) & used, "what was dropped was used"
        for number, outcomes in self.outcomes.items():
            assert len(outcomes) == 1, "two receipts"
            assert outcomes[0].accepted == (number in used)
        assert len(self.ends) == 1
        assert all(shard.end == RunEnded(end.term, end.error) for shard in self.shards for end in self.ends)
        versions = [shard.version for shard in self.shards]
        if self.rounds.policy.fresh:
            assert max(versions) - min(versions) <= 1
            assert {base - u.version for u in self.updates for *_, base in u.chosen} <= {-1}, "stale"
        if self.ends[0].error is None and self.settings.steps is not None:
            assert set(versions) == {self.settings.steps}

    def batches(self) -> Counter[Batch]:
        used = {number: batch for update in self.updates for _, number, batch, _ in update.chosen}
        return Counter(used.values())
