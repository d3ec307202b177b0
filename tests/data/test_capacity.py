"""What a running pipeline holds stays below what it states: by its own count, and by what is alive."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow.data.pipeline import Pipeline
from tests.data.reading import run
from tests.support.strategies import examples

ROW_BYTES = 32


class Alive:
    """Counts the bytes of arrays that have not been let go of."""

    def __init__(self) -> None:
        self.now = 0
        self.peak = 0

    def watched(self, value: Any) -> Any:
        """A copy of an array that counts as long as somebody has it."""
        made = np.array(value)
        weakref.finalize(made, self._gone, made.nbytes)
        self.now += made.nbytes
        self.peak = max(self.peak, self.now)
        return made

    def _gone(self, size: int) -> None:
        self.now -= size


@dataclass(frozen=True)
class Watched:
    """Rows of which it is known how many are alive."""

    alive: Alive
    size: int
    blocking: bool
    name: str = "watched"
    element_bytes: int = ROW_BYTES

    def open(self, start: int, epoch: int) -> Any:
        return WatchedReader(self, start)


class WatchedReader:
    def __init__(self, source: Watched, start: int) -> None:
        self.source, self.at = source, start

    def read(self, n: int) -> list[Any]:
        stop = min(self.source.size, self.at + n)
        found = [
            self.source.alive.watched(np.full(ROW_BYTES // 8, i, np.int64)) for i in range(self.at, stop)
        ]
        self.at = stop
        return found

    def close(self) -> None:
        pass


@dataclass
class Drawn:
    """A pipeline on its way; `size` is that of its elements, in bytes."""

    alive: Alive
    pipeline: Pipeline
    size: int = ROW_BYTES

    def map(self, threads: int | None) -> None:
        size, watched = self.size, self.alive.watched
        self.pipeline = self.pipeline.map(watched, threads=threads, element_bytes=size)

    def batch(self, n: int) -> None:
        self.pipeline = self.pipeline.batch(n, drop_remainder=True)
        self.size *= n
        self.map(None)


STEPS: st.SearchStrategy[Callable[[Drawn], None]] = st.one_of(
    st.sampled_from([None, 1, 2]).map(lambda n: lambda d: d.map(n)),
    st.sampled_from([2, 10, 64]).map(lambda n: lambda d: d.batch(n)),
    st.sampled_from([1, 5, 100]).map(lambda n: lambda d: setattr(d, "pipeline", d.pipeline.prefetch(n))),
    st.sampled_from([3, 150]).map(lambda n: lambda d: setattr(d, "pipeline", d.pipeline.shuffle(n, seed=1))),
    st.just(lambda d: setattr(d, "pipeline", d.pipeline.filter(lambda v: v.flat[0] % 3 != 1))),
    st.just(lambda d: setattr(d, "pipeline", d.pipeline.take(900))),
    st.just(lambda d: setattr(d, "pipeline", d.pipeline.repeat(2))),
)


async def through(pipeline: Pipeline, pauses: int) -> af.data.Stats:
    """Takes all elements, with turns for all others between two."""
    async with pipeline.open() as stream:
        async for element in stream:
            del element
            for _ in range(pauses):
                await asyncio.sleep(0)
    return stream.stats()


@settings(max_examples=examples(40), deadline=None)
@given(
    steps=st.lists(STEPS, min_size=1, max_size=5),
    size=st.sampled_from([100, 1000, 3000]),
    blocking=st.booleans(),
    pauses=st.sampled_from([0, 20]),
)
def test_what_a_drawn_pipeline_holds_stays_below_what_it_states(
    steps: list[Callable[[Drawn], None]], size: int, blocking: bool, pauses: int
) -> None:
    alive = Alive()
    drawn = Drawn(alive, Pipeline(Watched(alive, size, blocking)))
    for step in steps:
        step(drawn)
    stated = drawn.pipeline.capacity.bytes
    assert stated is not None

    stats = run(through(drawn.pipeline, pauses))

    assert stats.peak_bytes <= stated
    assert alive.peak <= stated


@pytest.mark.parametrize(
    "behind", [lambda p: p.take(1000), lambda p: p.map(np.copy, element_bytes=64 * ROW_BYTES)]
)
def test_no_more_batches_are_taken_from_a_queue_than_are_stated(
    behind: Callable[[Pipeline], Pipeline],
) -> None:
    pipeline = behind(af.data.arrays(np.zeros((64 * 300, ROW_BYTES), np.uint8)).batch(64).prefetch(60))
    stated = pipeline.capacity.bytes
    assert stated is not None

    stats = run(through(pipeline, 200))

    assert 60 * 64 * ROW_BYTES < stats.peak_bytes <= stated
