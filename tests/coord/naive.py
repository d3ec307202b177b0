"""The classic protocol of synchronous replicas, as a model: what ours is compared with.

Each parameter shard has an accumulator, and there is one queue of tokens. A worker reads, computes, gives its
gradient with the version it believes in to every accumulator, takes a token, and believes in the version that
the token says. The chief takes `m` gradients of each accumulator, applies them, and puts `max(m, n)` tokens.

Source: tensorflow/python/training/sync_replicas_optimizer.py (2016).
"""

from __future__ import annotations

from collections import deque
from typing import Any


class Accumulator:
    """Of one shard: gradients of the present step; those of an older one are dropped, and nobody is told."""

    def __init__(self) -> None:
        self.step = 0
        self.gradients: list[tuple[int, int]] = []
        self.taken: list[tuple[tuple[int, int], ...]] = []

    def apply(self, worker: int, number: int, believed: int) -> bool:
        if believed < self.step:
            return False
        self.gradients.append((worker, number))
        return True

    def take(self, m: int) -> None:
        self.taken.append(tuple(self.gradients[:m]))
        self.gradients = self.gradients[m:]
        self.step += 1


class Worker:
    """One replica.

    Attributes:
        believed: Its local step.
        unheard: Shards that have not answered yet.
    """

    def __init__(self, batches: int) -> None:
        self.alive = True
        self.batches = batches
        self.believed = 0
        self.number = 0
        self.unheard: set[int] = set()


class Naive:
    """One run of the classic protocol.

    Args:
        n: Workers.
        m: Gradients that make an update.
        shards: Accumulators.
        tokens: How many tokens there are at first; m by default, as in the original.
        batches: How many each worker has.
    """

    def __init__(
        self, n: int, m: int, shards: int = 2, *, tokens: int | None = None, batches: list[int]
    ) -> None:
        self.n, self.m = n, m
        self.version = 0
        self.tokens = deque([0] * (m if tokens is None else tokens))
        self.queue: deque[int] = deque()  # workers that wait for a token
        self.accumulators = [Accumulator() for _ in range(shards)]
        self.workers = [Worker(count) for count in batches]
        self.links: dict[tuple[str, str], deque[Any]] = {}
        self.held: set[tuple[str, str]] = set()
        self.computed: list[tuple[int, int]] = []
        self.told: dict[int, list[bool]] = {}
        self.lost: set[int] = set()
        for rank in range(n):
            self.compute(rank)

    # -- what scenarios do ---------------------------------------------------------------------------

    def hold(self, worker: int, *shards: int) -> None:
        self.held |= {(f"worker{worker}", f"shard{s}") for s in shards or range(len(self.accumulators))}

    def release(self) -> None:
        self.held.clear()

    def die(self, worker: int) -> None:
        """It dies with whatever it has: a token, and a gradient that nobody will see."""
        self.workers[worker].alive = False
        for (source, _), link in self.links.items():
            if source == f"worker{worker}":
                link.clear()

    def run(self, updates: int = 8) -> None:
        """Delivers what is not held, in a fixed order, until nothing moves or enough is done."""
        while self.version < updates:
            busy = sorted(key for key, link in self.links.items() if link and key not in self.held)
            if not busy:
                return
            self.deliver(busy[0])

    @property
    def made(self) -> list[list[tuple[int, ...]]]:
        """By shard, the workers in each update."""
        return [[tuple(w for w, _ in update) for update in a.taken] for a in self.accumulators]

    @property
    def untold(self) -> set[int]:
        """Contributions that were dropped by a shard, and whose workers heard of nothing."""
        return {number for number in self.lost if False not in self.told.get(number, [])}

    @property
    def finished(self) -> bool:
        """Whether all that is alive has ended: nobody waits for what will not come."""
        idle = all(worker.batches == 0 and not worker.unheard for worker in self.workers if worker.alive)
        return idle and not self.queue

    # -- the protocol ----------------------------------------------------------------------------------

    def compute(self, rank: int) -> None:
        worker = self.workers[rank]
        if worker.batches == 0:
            return
        worker.batches -= 1
        self.computed.append((rank, self.version))
        worker.number = len(self.computed)
        worker.unheard = set(range(len(self.accumulators)))
        for shard in range(len(self.accumulators)):
            link = self.links.setdefault((f"worker{rank}", f"shard{shard}"), deque())
            link.append((rank, worker.number, worker.believed))

    def deliver(self, key: tuple[str, str]) -> None:
        rank, number, believed = self.links[key].popleft()
        shard = int(key[1][5:])
        worker = self.workers[rank]
        if not self.accumulators[shard].apply(rank, number, believed):
            self.lost.add(number)
        self.told.setdefault(number, []).append(True)  # that is all that a worker hears
        worker.unheard.discard(shard)
        if not worker.unheard:
            self.queue.append(rank)
        self.chief()
        self.hand_out()

    def chief(self) -> None:
        for accumulator in self.accumulators:
            if accumulator.step == self.version and len(accumulator.gradients) >= self.m:
                accumulator.take(self.m)
        if all(accumulator.step > self.version for accumulator in self.accumulators):
            self.version += 1
            self.tokens.extend([self.version] * max(self.n, self.m))

    def hand_out(self) -> None:
        while self.queue and self.tokens:
            rank = self.queue.popleft()
            self.workers[rank].believed = self.tokens.popleft()
            if self.workers[rank].alive:
                self.compute(rank)
