"""Plain code that takes long to give a batch does not hold its worker's event loop up.

So the worker's heartbeats go on, none of its batches is lost, and what stands still is named.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.coord.rules.run_settings import RunSettings
from actorflow.errors import Stalled
from tests.support.events import drain

BATCHES = 6
SLOW = 2
HELD_S = 10.0
"""How long the code waits for the loop, where that is held up."""


class Slow:
    """What is slow: it returns when the event loop has gone on for a while."""

    def __init__(self) -> None:
        self.went_on = threading.Event()
        self.waits = threading.Event()
        self.held = False
        self.waited = False

    def read(self) -> None:
        """Waits for the loop, once."""
        if not self.waited:
            self.waited = True
            self.waits.set()
            self.held = not self.went_on.wait(HELD_S)

    async def watch(self) -> None:
        """Goes on for a while, once something waits."""
        while not self.waits.is_set():  # noqa: ASYNC110  a thread sets it
            await asyncio.sleep(0.001)
        for _ in range(20):
            await asyncio.sleep(0.001)
        self.went_on.set()


def feeds(k: int) -> dict[str, Any]:
    return {"x": np.array([k + 1.0], np.float32)}


def generator(slow: Slow) -> Any:
    for k in range(BATCHES):
        if k == SLOW:
            slow.read()
        yield feeds(k)


def at_its_end(slow: Slow) -> Any:
    for k in range(BATCHES):
        yield feeds(k)
    slow.read()


class Rows(Sequence[Any]):
    """A sequence that reads a batch when it is looked at."""

    def __init__(self, slow: Slow) -> None:
        self.slow = slow

    def __len__(self) -> int:
        return BATCHES

    def __getitem__(self, k: Any) -> Any:
        if k == SLOW:
            self.slow.read()
        return feeds(k)


class Reader:
    """An iterator that is no generator."""

    def __init__(self, slow: Slow) -> None:
        self.slow = slow
        self.rest = iter(range(BATCHES))

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        k = next(self.rest)
        if k == SLOW:
            self.slow.read()
        return feeds(k)


class Opened:
    """What takes long to open."""

    def __init__(self, slow: Slow) -> None:
        self.slow = slow

    def __iter__(self) -> Iterator[Any]:
        self.slow.read()
        return iter([feeds(k) for k in range(BATCHES)])


def loaded(slow: Slow) -> list[Any]:
    slow.read()
    return [feeds(k) for k in range(BATCHES)]


def program(batches: Callable[[int], Any], epochs: int = 1) -> af.Program:
    with af.Graph(seed=0) as graph:
        x = af.placeholder("float32", (None,), name="x")
        w = af.Variable(np.float32(0), name="w")
        loss = af.mean((w * x - 2) ** 2)
        step = af.minimize(loss, af.optim.sgd(0.01))
    return af.Program(graph=graph, loss=loss, train=step, epochs=epochs, batches=batches)


WAYS = [generator, at_its_end, Rows, Reader, Opened, loaded]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("policy", [af.Sync(), af.Async()], ids=str)
def test_the_loop_goes_on_while_a_batch_is_slow_and_every_batch_is_trained_on(
    way: Callable[[Slow], Any], policy: af.Policy
) -> None:
    slow = Slow()
    used: list[int] = []

    async def main() -> None:
        async with af.Cluster.in_process(program(lambda _epoch: way(slow)), ps=1, workers=2) as cluster:
            watching = asyncio.ensure_future(slow.watch())
            async for event in af.Trainer(cluster, policy).run():
                if isinstance(event, af.types.UpdateDone):
                    assert not event.update.dropped
                    used.extend(batch.index for _, _, batch, _ in event.update.chosen)
            await watching

    af.run(main)

    assert slow.waited
    assert not slow.held
    assert sorted(used) == list(range(BATCHES))


class Stands:
    """What stands still until the test is over."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.closed = threading.Event()

    def batches(self, _epoch: int) -> Iterator[Any]:
        try:
            self.go_on.wait(HELD_S)  # the line that is told
            yield feeds(0)
        finally:
            self.closed.set()

    def rows(self, _epoch: int) -> list[Any]:
        self.go_on.wait(HELD_S)
        return [feeds(0)]


LINE = Stands.batches.__code__.co_firstlineno + 2


@pytest.mark.parametrize(
    ("read", "told"),
    [
        (
            Stands.batches,
            rf"batch 0 of epoch 0, of generator 'Stands\.batches' at .*test_slow_generator\.py:{LINE}",
        ),
        (Stands.rows, r"batch 0 of epoch 0, of function 'Stands\.rows' at .*test_slow_generator\.py:\d+"),
    ],
)
def test_plain_code_that_stands_still_ends_in_stalled_that_names_it(
    read: Callable[[Stands, int], Any], told: str
) -> None:
    stands = Stands()

    async def main() -> None:
        settings = RunSettings(stuck_s=2.0, heartbeat_s=0.05, missed=100)
        async with af.Cluster.in_process(program(partial(read, stands)), ps=1, workers=1) as cluster:
            with pytest.raises(Stalled, match=told):
                await drain(af.Trainer(cluster, af.Sync(), settings=settings).run())
        assert not stands.go_on.is_set()

    try:
        af.run(main)
    finally:
        stands.go_on.set()
    if read is Stands.batches:
        assert stands.closed.wait(HELD_S)


def test_a_batch_is_given_once_its_worker_is_told_of_another_while_it_reads() -> None:
    """A permit that counts no more ends the wait for a batch, not the reading."""
    slow, reads = Slow(), []

    class Counted(Rows):
        def __getitem__(self, k: Any) -> Any:
            reads.append(k)
            return super().__getitem__(k)

    async def main() -> None:
        async with af.Cluster.in_process(program(lambda _epoch: Counted(slow)), ps=1, workers=2) as cluster:
            watching = asyncio.ensure_future(slow.watch())
            await drain(af.Trainer(cluster, af.Backup(1, 2)).run())
            await watching

    af.run(main)

    assert not slow.held
    assert set(reads) == set(range(BATCHES))
