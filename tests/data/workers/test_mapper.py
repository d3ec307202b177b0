"""Functions on threads, several chunks under way."""

from __future__ import annotations

import asyncio
import threading
from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.data.run.map_reader import MapReader
from actorflow.data.stages.stage import CallSite
from actorflow.data.stages.stats import StageMeter
from actorflow.data.values.chunk import Chunk, number
from actorflow.data.values.rng import generator
from actorflow.data.workers.mapper import ElementFailed, ThreadMapper, apply_chunk
from actorflow.errors import InputError
from actorflow.kernels.device.threads import Threads
from actorflow.runtime.clock import SystemClock


def mapper(function: Callable[..., Any], loop: AbstractEventLoop, seed: int | None = None) -> ThreadMapper:
    return ThreadMapper(function, Threads("-test", loop, SystemClock(), 2), loop, seed)


def test_threads_give_results_in_order_and_several_chunks_at_once() -> None:
    both = threading.Barrier(2)

    def wait_for_the_other(value: int) -> int:
        both.wait()
        return -value

    async def main() -> None:
        made = mapper(wait_for_the_other, asyncio.get_running_loop())
        await made.start()
        results: list[Any] = await asyncio.gather(made.map([1], [0], 0), made.map([2], [1], 0))
        await made.close()
        await made.close()

        assert results == [[-1], [-2]]
        assert made.width == 4
        assert made.busy_s > 0

    asyncio.run(main())


def test_a_random_function_gets_the_generator_of_the_element() -> None:
    found = apply_chunk(lambda v, g: g.uniform(), [7, 8], [3, 9], 2, 5)

    assert found == [generator(5, 2, 3).uniform(), generator(5, 2, 9).uniform()]


def test_a_failure_says_which_element_and_what_was_done_before() -> None:
    async def main() -> ElementFailed:
        made = mapper(lambda v: 1 // v, asyncio.get_running_loop())
        with pytest.raises(ElementFailed) as caught:
            await made.map([1, 1, 0, 1], [10, 11, 12, 13], 0)
        await made.close()
        return caught.value

    failed = asyncio.run(main())

    assert (failed.ordinal, failed.done) == (12, [1, 1])
    assert isinstance(failed.error, ZeroDivisionError)


class Held:
    """A mapper that ends its chunks when it is told, in any order; it says nothing of what it did before."""

    width = 3

    def __init__(self) -> None:
        self.jobs: list[tuple[list[int], list[int], int, asyncio.Future[list[Any]]]] = []
        self.closed = 0

    async def start(self) -> None:
        pass

    def map(self, values: list[Any], ordinals: list[int], epoch: int) -> Awaitable[list[Any]]:
        reply: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self.jobs.append((values, ordinals, epoch, reply))
        return reply

    def end(self, which: int) -> None:
        values, ordinals, _, reply = self.jobs.pop(which)
        for value, ordinal in zip(values, ordinals, strict=True):
            if value < 0:
                reply.set_exception(ElementFailed(ordinal, ValueError(value)))
                return
        reply.set_result([10 * value for value in values])

    async def close(self) -> None:
        self.closed += 1


class Given:
    """A reader that gives chunks that are there already, and then ends the epoch."""

    def __init__(self, *chunks: Chunk) -> None:
        self.chunks = list(chunks)
        self.bytes = 0
        self.told: list[Any] = []

    def want(self, most: int = 64) -> asyncio.Future[Chunk | None]:
        reply: asyncio.Future[Chunk | None] = asyncio.get_running_loop().create_future()
        reply.set_result(self.chunks.pop(0) if self.chunks else None)
        return reply

    def skip(self) -> None:
        self.told.append("skip")

    def onward(self, again: bool) -> None:
        self.told.append(again)

    async def close(self) -> None:
        self.told.append("close")


def inlet(
    given_: Given,
    held: Any,
    *,
    ordered: bool = True,
    chance: bool = True,
    now: Callable[[], float] = lambda: 0.0,
) -> MapReader:
    return MapReader(
        given_,
        held,
        CallSite("map 'f'", "here.py:1"),
        ordered=ordered,
        meter=StageMeter("map 'f'"),
        now=now,
        loop=asyncio.get_running_loop(),
        draws=chance,
    )


def chunk(*values: int, at: int = 0, epoch: int = 0) -> Chunk:
    return Chunk(list(values), [number(epoch, at + i) for i in range(len(values))])


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def drained(made: MapReader, held: Held, picks: list[int]) -> list[Any]:
    """All that comes, where the mapper ends chunks in a drawn order; an error ends the list."""
    found: list[Any] = []
    moves = iter(picks)
    while True:
        wish = made.want()
        await turns()
        while not wish.done():
            held.end(next(moves, 0) % len(held.jobs))
            await turns()
        try:
            came = wish.result()
        except InputError as error:
            return [*found, error.what]
        if came is None:
            return found
        found.extend(came.values)


@given(picks=st.lists(st.integers(0, 9), max_size=8), ordered=st.booleans())
def test_results_come_in_order_or_as_they_are_done(picks: list[int], ordered: bool) -> None:
    async def main() -> list[Any]:
        held = Held()
        made = inlet(Given(*(chunk(2 * i, 2 * i + 1, at=2 * i) for i in range(5))), held, ordered=ordered)
        return await drained(made, held, picks)

    found = asyncio.run(main())

    expected = [10 * i for i in range(10)]
    assert found == expected if ordered else sorted(found) == expected


@given(picks=st.lists(st.integers(0, 9), max_size=8))
def test_an_error_comes_after_all_that_was_before_it(picks: list[int]) -> None:
    async def main() -> list[Any]:
        held = Held()
        made = inlet(Given(chunk(1, 2), chunk(3, -4, 5, at=2), chunk(6, -7, at=5)), held)
        return await drained(made, held, picks)

    assert asyncio.run(main()) == [10, 20, 30, "map 'f' failed at element 3 of epoch 0: ValueError: -4"]


def mixed(*places: tuple[int, int], values: list[int]) -> Chunk:
    """Elements of several epochs, as a shuffle behind a repeat gives them."""
    return Chunk(list(values), [number(epoch, ordinal) for epoch, ordinal in places])


PLACES = [(4, 7), (5, 0), (4, 9), (5, 7)]


def test_a_chunk_of_two_epochs_is_one_job_that_has_the_epoch_of_each() -> None:
    async def main() -> None:
        held = Held()
        wish = inlet(Given(mixed(*PLACES, values=[1, 2, 3, 4])), held).want()
        await turns()
        assert [job[:3] for job in held.jobs] == [([1, 2, 3, 4], [7, 0, 9, 7], [4, 5, 4, 5])]
        held.end(0)

        came = await wish

        assert came is not None
        assert came.values == [10, 20, 30, 40]
        assert came.numbers == [number(*place) for place in PLACES]

    asyncio.run(main())


def test_a_chunk_of_two_epochs_is_one_job_where_there_is_no_chance() -> None:
    async def main() -> None:
        held = Held()
        wish = inlet(Given(mixed(*PLACES, values=[1, 2, 3, 4])), held, chance=False).want()
        await turns()
        assert [job[:2] for job in held.jobs] == [([1, 2, 3, 4], [0, 1, 2, 3])]
        held.end(0)

        came = await wish

        assert came is not None
        assert came.values == [10, 20, 30, 40]

    asyncio.run(main())


@pytest.mark.parametrize("knows", [False, True])
@given(
    places=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=8, unique=True),
    bad=st.lists(st.integers(1, 7), max_size=3),
    chance=st.booleans(),
)
def test_the_first_failure_of_a_chunk_of_several_epochs_is_told_behind_what_was_before_it(
    knows: bool, places: list[tuple[int, int]], bad: list[int], chance: bool
) -> None:
    values = [-i if i in bad else i for i in range(len(places))]

    class Knows(Held):
        """Says what was done before a failure, as workers do."""

        def end(self, which: int) -> None:
            values, ordinals, _, reply = self.jobs[which]
            first = next((i for i, value in enumerate(values) if value < 0), None)
            if first is None:
                super().end(which)
            else:
                self.jobs.pop(which)
                done = [10 * value for value in values[:first]]
                reply.set_exception(ElementFailed(ordinals[first], ValueError(values[first]), done))

    async def main() -> list[Any]:
        held = Knows() if knows else Held()
        made = inlet(Given(mixed(*places, values=values)), held, chance=chance)
        return await drained(made, held, [])

    found = asyncio.run(main())

    stop = next((i for i, value in enumerate(values) if value < 0), len(values))
    assert found[:stop] == [10 * value for value in values[:stop]]
    told = ["map 'f' failed at element {1} of epoch {0}".format(*place) for place in places[stop:]]
    assert [end.partition(":")[0] for end in found[stop:]] == told[:1]


def test_bytes_are_those_of_what_is_under_way() -> None:
    async def main() -> None:
        held = Held()
        made = inlet(Given(chunk(1, 2), chunk(3)), held)
        wish = made.want()
        await turns()
        assert made.bytes == 24

        held.end(0)
        await wish

        assert made.bytes == 8

    asyncio.run(main())


def test_a_skip_drops_what_is_under_way_and_an_end_closes_all() -> None:
    async def main() -> None:
        held, given_ = Held(), Given(chunk(1), chunk(2), chunk(3), chunk(4))
        made = inlet(given_, held)
        wish = made.want()
        await turns()
        held.end(0)
        await wish

        made.skip()
        made.onward(True)
        assert made.bytes == 0
        await made.close()

        assert given_.told == ["skip", True, "close"]
        assert held.closed == 1

    asyncio.run(main())


def test_a_slow_function_gets_few_elements_at_a_time() -> None:
    async def main() -> list[int]:
        time, asked = [0.0], []

        class Slow(Held):
            width = 1

            def map(self, values: list[Any], ordinals: list[int], epoch: int) -> Awaitable[list[Any]]:
                time[0] += seconds[0] * len(values)
                reply = super().map(values, ordinals, epoch)
                self.end(0)
                return reply

        class Endless(Given):
            def want(self, most: int = 64) -> asyncio.Future[Chunk | None]:
                asked.append(most)
                self.chunks.append(chunk(*range(most)))
                return super().want(most)

        seconds = [1e-6]
        made = inlet(Endless(), Slow(), now=lambda: time[0])
        for _ in range(9):
            await made.want()
        quick = asked[-1]
        seconds[0] = 1.0
        for _ in range(3):
            await made.want()
        return [asked[0], quick, asked[-1]]

    assert asyncio.run(main()) == [1, 64, 1]
