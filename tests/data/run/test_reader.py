"""Reading a source: one read at a time, one chunk ahead, readers closed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow import errors
from actorflow.data.run.reader import SourceReader
from actorflow.data.stages.stage import CallSite
from actorflow.data.stages.stats import StageMeter
from actorflow.data.values.chunk import number


class Gated:
    """The integers below `size`, three at a time, each when the gate lets it; counts reads and readers."""

    name, blocking, element_bytes = "gated", False, 8

    def __init__(self, size: int, fails: int | None = None) -> None:
        self.size = size
        self.fails = fails
        self.opened: list[tuple[int, int]] = []
        self.closed = 0
        self.reading = 0
        self.gate: list[asyncio.Future[None]] = []

    def open(self, start: int, epoch: int) -> Any:
        self.opened.append((start, epoch))
        return GatedReader(self, start)

    def let(self) -> None:
        """Lets the oldest read go on."""
        self.gate.pop(0).set_result(None)


class GatedReader:
    def __init__(self, source: Gated, start: int) -> None:
        self.source, self.at = source, start

    async def read(self, n: int) -> list[int]:
        source = self.source
        source.reading += 1
        assert source.reading == 1
        try:
            source.gate.append(asyncio.get_running_loop().create_future())
            await source.gate[-1]
        finally:
            source.reading -= 1
        if self.at == source.fails:
            raise OSError("gone")
        stop = min(self.at + 3, source.size, source.size if source.fails is None else source.fails)
        values = list(range(self.at, stop))
        self.at = stop
        return values

    def close(self) -> None:
        assert self.source.reading == 0
        self.source.closed += 1


def inlet(source: Any, **more: Any) -> SourceReader:
    def no_workers() -> Any:
        raise AssertionError

    loop = asyncio.get_running_loop()
    return SourceReader(
        source, CallSite("gated", "here.py:1"), loop, no_workers, StageMeter(""), lambda: 0.0, **more
    )


async def turns() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


def test_one_chunk_is_read_ahead_and_no_more() -> None:
    async def main() -> None:
        source = Gated(20)
        made = inlet(source)
        first = made.want()
        await turns()
        assert (len(source.gate), made.bytes) == (1, 0)

        source.let()
        await turns()
        assert first.done()
        assert (len(source.gate), made.bytes) == (1, 0)  # the second read has begun

        source.let()
        await turns()
        assert (len(source.gate), made.bytes) == (0, 24)  # it has ended, and there is no third

        second = made.want()
        await turns()
        assert second.done()
        assert (len(source.gate), made.bytes) == (1, 0)
        await made.close()
        assert source.closed == 1

    asyncio.run(main())


def test_whoever_sees_the_result_first_does_not_read_twice() -> None:
    async def main() -> None:
        source = Gated(20)
        made = inlet(source)
        first = made.want()
        await turns()
        source.let()
        for _ in range(9):
            if first.done():
                break
            await asyncio.sleep(0)

        second = made.want()  # before any callback of the first has run
        await turns()
        source.let()
        await turns()

        assert [found.result().values for found in (first, second)] == [[0, 1, 2], [3, 4, 5]]  # type: ignore[union-attr]
        await made.close()

    asyncio.run(main())


@given(size=st.integers(0, 12), epochs=st.integers(1, 3), leave=st.integers(0, 8))
def test_every_reader_is_closed_once_nothing_reads(size: int, epochs: int, leave: int) -> None:
    async def main() -> None:
        source = Gated(size)
        made = inlet(source)
        for epoch in range(epochs):
            seen: list[int] = []
            for _ in range(leave):
                wish = made.want()
                while not wish.done():
                    await turns()
                    if source.gate:
                        source.let()
                    await turns()
                chunk = wish.result()
                if chunk is None:
                    break
                assert chunk.numbers == [number(epoch, value) for value in chunk.values]
                seen += chunk.values
            else:
                made.skip()
            assert seen == list(range(min(size, 3 * leave)))
            made.onward(True)
            source.gate = [gate for gate in source.gate if not gate.done()]
            await turns()
            source.gate.clear()
        await made.close()
        assert source.closed == len(source.opened)

    asyncio.run(main())


def test_it_begins_at_an_element_of_an_epoch() -> None:
    async def main() -> None:
        source = Gated(20)
        made = inlet(source, start=5, epoch=2)
        wish = made.want()
        await turns()
        source.let()

        chunk = await wish

        assert source.opened == [(5, 2)]
        assert chunk is not None
        assert chunk.numbers == [number(2, 5), number(2, 6), number(2, 7)]
        await made.close()

    asyncio.run(main())


def test_a_source_that_is_over_is_not_opened() -> None:
    async def main() -> None:
        source = Gated(20)
        made = inlet(source, over=True)

        assert await made.want() is None

        await made.close()
        assert source.opened == []

    asyncio.run(main())


def test_an_error_is_that_of_the_next_element() -> None:
    async def main() -> None:
        source = Gated(20, fails=3)
        made = inlet(source)
        wish = made.want()
        await turns()
        source.let()
        await wish
        await turns()
        source.let()
        with pytest.raises(errors.InputError, match="gated failed at element 3 of epoch 0: OSError: gone"):
            await made.want()
        await made.close()

    asyncio.run(main())


class AsyncClosed(GatedReader):
    async def aclose(self) -> None:
        await asyncio.sleep(0)
        self.source.closed += 10
        if self.source.fails == -1:
            raise OSError("its end failed")


class AsyncGated(Gated):
    def open(self, start: int, epoch: int) -> Any:
        self.opened.append((start, epoch))
        return AsyncClosed(self, start)


@pytest.mark.parametrize("reads", [False, True])
def test_a_reader_that_closes_on_the_loop_has_ended_when_the_inlet_is_closed(reads: bool) -> None:
    async def main() -> None:
        source = AsyncGated(20)
        made = inlet(source)
        made.want()
        await turns()
        if not reads:
            source.let()
            await turns()
        made.skip()
        made.onward(True)

        await made.close()

        assert source.closed == 11 * len(source.opened) == 11

    asyncio.run(main())


def test_what_the_end_of_a_reader_raises_comes_out_of_closing() -> None:
    async def main() -> None:
        source = AsyncGated(20, fails=-1)
        made = inlet(source)
        made.want()
        await turns()
        made.skip()
        made.onward(True)
        await turns()

        with pytest.raises(
            errors.InputError, match="gated: closing it raised OSError: its end failed"
        ) as told:
            await made.close()

        assert isinstance(told.value.__cause__, OSError)
        assert "here.py:1" in str(told.value)

    asyncio.run(main())
