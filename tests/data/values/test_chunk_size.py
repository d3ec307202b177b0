"""How many elements are taken at once: quick ones soon many, slow ones one by one, the first one at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import actorflow as af
from actorflow.data.run.reader import SourceReader
from actorflow.data.stages.operators import FlatMap
from actorflow.data.stages.stage import CallSite
from actorflow.data.stages.stats import StageMeter
from actorflow.data.values import chunk_size as pace_module
from actorflow.data.values.chunk import CHUNK
from actorflow.data.values.chunk_size import AIM_S, LATE_S, ChunkSize
from tests.data.chunks import PLACE, chunks

seconds = st.floats(0, 10) | st.floats(0, 0.02)


@given(st.lists(st.tuples(st.integers(1, CHUNK), seconds)))
def test_it_grows_up_to_its_aim_and_shrinks_when_a_piece_is_late(pieces: list[tuple[int, float]]) -> None:
    pace = ChunkSize()
    pace.note_duration(1, 9.0)  # of which it learns nothing
    for count, took in pieces:
        before = pace.most

        pace.note_duration(count, took)

        fit = CHUNK if took * CHUNK <= AIM_S * count else int(AIM_S * count / took)
        assert 1 <= pace.most <= min(CHUNK, 2 * before)
        if took > LATE_S:
            assert pace.most == max(1, min(2 * before, fit))
        else:
            assert pace.most == max(before, min(2 * before, fit))


@given(per=st.floats(0, 1))
def test_it_settles_in_a_few_pieces(per: float) -> None:
    pace = ChunkSize()
    pace.note_duration(1, 9.0)  # of which it learns nothing
    for _ in range(8):
        pace.note_duration(pace.most, per * pace.most)

    settled = pace.most
    pace.note_duration(settled, per * settled)

    assert pace.most in (settled, settled - 1, settled + 1)  # as the last digit of a division falls


def no_workers() -> Any:
    raise AssertionError


class Counted:
    """The integers from 0 on; notes how many are asked for, and says how long that took."""

    name, size, blocking, element_bytes = "counted", None, False, 8

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.time = 0.0
        self.each = 0.0

    def open(self, start: int, epoch: int) -> Any:
        self.at = start
        return self

    def read(self, n: int) -> list[int]:
        self.asked.append(n)
        self.time += n * self.each
        self.at += n
        return list(range(self.at - n, self.at))

    def close(self) -> None:
        pass


def test_a_source_is_asked_for_one_then_more_and_for_few_when_it_is_slow() -> None:
    async def main() -> list[int]:
        source = Counted()
        loop = asyncio.get_running_loop()
        made = SourceReader(
            source, CallSite("counted", "here.py:1"), loop, no_workers, StageMeter(""), lambda: source.time
        )
        seen: list[int] = []
        for each in (0.0, 0.1):
            source.each = each
            for _ in range(8):
                chunk = await made.want()
                assert chunk is not None
                seen += chunk.values
        assert (await made.want(most=1) or ()) and source.asked[-1] == 1
        await made.close()
        assert seen == list(range(len(seen)))
        return source.asked[:-1]

    assert asyncio.run(main()) == [1, 1, 2, 4, 8, 16, 32, 64, 64, 1, 1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(("each", "most"), [(0.0, CHUNK), (0.1, 1)])
def test_a_flat_map_gives_what_is_slow_one_by_one(each: float, most: int) -> None:
    time = [0.0]

    def many(value: int) -> Iterator[int]:
        for _ in range(500):
            time[0] += each
            yield value

    operator = FlatMap(PLACE, many)
    operator.now = lambda: time[0]

    sizes = [len(out) for chunk in chunks([1, 2], [2]) for out in operator.push(chunk)]

    assert sum(sizes) == 1000
    assert sizes[0] == 1
    assert max(sizes) == most


def test_the_first_element_of_a_generator_is_there_before_the_second_is_made() -> None:
    taken = threading.Event()

    def waiting() -> Iterator[int]:
        yield 0
        taken.wait()
        yield 1

    async def main() -> list[int]:
        async with af.data.generator(waiting).map(abs).open() as stream:
            first = await anext(stream)
            taken.set()
            return [first, await anext(stream)]

    assert asyncio.run(main()) == [0, 1]


def made_until_left(calls: list[int], pipeline: af.data.Pipeline, count: int) -> None:
    """Takes some elements of a stream, and leaves it."""

    async def main() -> None:
        async with pipeline.open() as stream:
            for _ in range(count):
                await anext(stream)
            calls.append(-1)

    asyncio.run(main())


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("where", ["generator", "map", "flat_map"])
def test_a_stream_of_slow_elements_is_left_after_the_one_that_is_made(
    where: str, blocking: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace_module, "LATE_S", -1.0)
    monkeypatch.setattr(pace_module, "AIM_S", 0.0)  # whatever is measured, it is too slow
    monkeypatch.setattr("actorflow.data.run.pipeline_worker._TURN_S", -1.0)
    calls: list[int] = []

    def noted(value: int) -> int:
        calls.append(value)
        return value

    def elements() -> Iterator[int]:
        for n in range(1000):
            yield noted(n) if where == "generator" else n

    pipeline = af.data.generator(elements, blocking=blocking)
    if where == "map":
        pipeline = pipeline.map(noted)
    elif where == "flat_map":
        pipeline = pipeline.take(1).flat_map(lambda _: map(noted, range(1000)))

    made_until_left(calls, pipeline, 3)

    left = calls.index(-1)
    assert calls[:left] == list(range(left))
    assert 3 <= left <= 3 + (CHUNK + 2 if blocking else 4)  # a thread reads ahead
    assert len(calls) - left - 1 <= 1
