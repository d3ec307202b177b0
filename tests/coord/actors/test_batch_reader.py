"""Batches by epoch and index are those of a list, whatever they come from and however they are asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.coord.actors.batch_reader import BatchReader, _ReadAhead
from actorflow.coord.rules.messages import Batch
from actorflow.data.pipeline import Pipeline
from actorflow.runtime.clock import SystemClock
from actorflow.sim.engine.schedulers import Schedule
from actorflow.sim.engine.simulate import Main
from actorflow.training.batches import describe_source, opening
from tests.data.pipelines import numbers_from
from tests.support.strategies import LIMITS, examples, plan_of_the_fault

SIZES = (3, 1, 5)


def plain(epoch: int) -> list[dict[str, int]]:
    return [{"x": 10 * epoch + k} for k in range(SIZES[epoch])]


def generated(epoch: int) -> Iterator[dict[str, int]]:
    yield from plain(epoch)


async def awaited(epoch: int) -> AsyncIterator[dict[str, int]]:
    for feeds in plain(epoch):
        await asyncio.sleep(0)
        yield feeds


def pipeline(epoch: int) -> Pipeline:
    return Pipeline(numbers_from(SIZES[epoch])).map(lambda k: {"x": 10 * epoch + int(k)})


KINDS: dict[str, Callable[[int], Any]] = {
    "list": plain,
    "generator": generated,
    "async generator": awaited,
    "pipeline": pipeline,
}
asked = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 6),
        st.sampled_from(["wait", "ahead", "cancel", "close"]),
    ),
    max_size=12,
)


def supply(batches: Callable[[int], Any]) -> BatchReader:
    return BatchReader(batches, opening(SystemClock(), 7))


def judged(kind: str, asked: list[tuple[int, int, str]], turns: int) -> Main:
    """Asks one after the other; whoever is to be cancelled is, so many turns of the loop later."""

    async def main() -> None:
        source = supply(KINDS[kind])
        try:
            for epoch, index, how in asked:
                task = asyncio.create_task(source.batch(Batch(epoch, index)))
                if how == "cancel":
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    task.cancel()
                try:
                    got = await task
                except asyncio.CancelledError:
                    assert how == "cancel"
                    continue
                want = plain(epoch)[index] if index < SIZES[epoch] else None
                assert got == want
                if got is None:
                    assert source.sizes[epoch] == SIZES[epoch]
                if how == "ahead":
                    source.read_ahead()
                elif how == "close":
                    await source.close()
        finally:
            await source.close()
        assert repr(source) == "<BatchReader, closed>"

    return main


@settings(max_examples=examples(120), deadline=None)
@given(kind=st.sampled_from(sorted(KINDS)), asked=asked, turns=st.integers(0, 3), schedule=sim.schedules())
def test_every_batch_is_that_of_its_index(
    kind: str, asked: list[tuple[int, int, str]], turns: int, schedule: Schedule
) -> None:
    """Whoever asks may be cancelled, in whatever moment, and the next one gets what is due all the same."""
    sim.run(judged(kind, asked, turns), schedule, limits=LIMITS)


def test_the_law_finds_a_reading_that_is_cancelled_with_whoever_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And whose generator, which that has ended, is asked for more."""

    async def alone(self: BatchReader, reading: Coroutine[Any, Any, None]) -> None:
        await reading

    async def take(self: BatchReader) -> None:
        assert self._reader is not None
        feeds = await self._reader.take()
        if feeds is None:
            self.sizes[0] = self._taken
        else:
            self._read = _ReadAhead(self._taken, feeds)
            self._taken += 1

    main = judged("async generator", [(0, 0, "wait"), (0, 1, "cancel"), (0, 2, "wait")], 1)
    monkeypatch.setattr(BatchReader, "_alone", alone)
    monkeypatch.setattr(BatchReader, "_take", take)

    plan_of_the_fault(main, most=2)


def test_the_law_finds_a_supply_that_forgets_what_it_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    main = judged("generator", [(2, 2, "wait"), (2, 1, "wait")], 0)
    monkeypatch.setattr(
        BatchReader, "_read_ahead_of", lambda self, index: self._read if self._taken > index else None
    )

    assert len(plan_of_the_fault(main)) == 0


def run(body: Callable[[], Any]) -> Any:
    return af.run(body())


def test_an_epoch_is_opened_once_while_indices_grow() -> None:
    async def main() -> list[int]:
        source = supply(generated)
        openings = []
        for at in (Batch(2, 0), Batch(2, 3), Batch(2, 3), Batch(2, 4), Batch(2, 1), Batch(2, 9)):
            await source.batch(at)
            openings.append(source.openings)
        return openings

    assert run(main) == [1, 1, 1, 1, 2, 2]


def test_one_batch_is_read_ahead_where_that_can_be_awaited() -> None:
    given: list[int] = []

    async def noted(epoch: int) -> AsyncIterator[Any]:
        async for feeds in awaited(epoch):
            given.append(feeds["x"])
            yield feeds

    async def main() -> Any:
        source = supply(noted)
        await source.batch(Batch(2, 0))
        for _ in range(9):
            source.read_ahead()
            await asyncio.sleep(0)
        ahead = list(given)
        assert repr(source) == "<BatchReader, 2 batches read of epoch 2>"
        again, behind = await source.batch(Batch(2, 0)), await source.batch(Batch(2, 1))
        await source.close()
        return ahead, again, behind, source.openings

    assert run(main) == ([20, 21], {"x": 20}, {"x": 21}, 1)


def test_what_cannot_be_awaited_is_not_read_before_it_is_due() -> None:
    """A generator may give the same array again and again, with other contents."""
    given: list[int] = []

    def reused(epoch: int) -> Iterator[Any]:
        for k in range(3):
            given.append(k)
            yield {"x": given}

    async def main() -> None:
        source = supply(reused)
        await source.batch(Batch(0, 0))
        source.read_ahead()
        await asyncio.sleep(0)
        assert given == [0]
        await source.close()

    run(main)


def test_generators_and_pipelines_are_closed() -> None:
    told: list[str] = []

    def closing(epoch: int) -> Iterator[Any]:
        try:
            yield from plain(epoch)
        finally:
            told.append(f"closed {epoch}")

    async def main() -> None:
        source = supply(closing)
        await source.batch(Batch(0, 1))
        await source.batch(Batch(1, 0))
        assert told == ["closed 0"]
        await source.close()
        await source.close()

    run(main)
    assert told == ["closed 0", "closed 1"]


def test_what_is_read_when_it_is_closed_ends() -> None:
    async def stuck(epoch: int) -> AsyncIterator[Any]:
        await asyncio.get_running_loop().create_future()
        yield {}

    async def main() -> None:
        source = supply(stuck)
        task = asyncio.create_task(source.batch(Batch(0, 0)))
        await asyncio.sleep(0.01)
        await source.close()
        with pytest.raises(errors.StepAborted, match="the batches were closed while one was being read"):
            await task

    run(main)


@pytest.mark.parametrize("empty", [lambda _: [], lambda _: iter([]), lambda _: Pipeline(numbers_from(0))])
def test_an_epoch_without_batches_has_none_and_whoever_knows_the_others_decides(
    empty: Callable[[int], Any],
) -> None:
    source = supply(empty)

    for _ in range(2):
        assert run(lambda: source.batch(Batch(4, 0))) is None
        assert source.sizes == {4: 0}


def test_a_source_that_fails_is_opened_anew_and_fails_again() -> None:
    def failing(epoch: int) -> Iterator[Any]:
        yield {"x": 0}
        raise ZeroDivisionError

    async def main() -> None:
        source = supply(failing)
        for _ in range(2):
            with pytest.raises(errors.ProgramError, match=r"batches\(0\) must not fail") as caught:
                await source.batch(Batch(0, 2))
            assert "test_batch_reader.py" in str(caught.value.where)
        assert await source.batch(Batch(0, 0)) == {"x": 0}
        await source.close()

    run(main)


def test_the_programs_own_code_is_blamed_on_its_line() -> None:
    def broken(epoch: int) -> Any:
        raise KeyError(epoch)

    with pytest.raises(errors.ProgramError, match=r"batches\(3\) must not fail") as caught:
        run(lambda: supply(broken).batch(Batch(3, 0)))
    assert "test_batch_reader.py" in str(caught.value.where)


# -- what all workers open the same way ------------------------------------------------------------


def shuffled(epoch: int) -> Pipeline:
    return Pipeline(numbers_from(20)).shuffle(20).map(lambda k: {"x": int(k)})


def test_workers_see_one_order_of_a_pipeline_that_was_given_no_seed() -> None:
    async def order(seed: int, epoch: int) -> list[int]:
        source = BatchReader(shuffled, opening(SystemClock(), seed))
        found = [await source.batch(Batch(epoch, k)) for k in range(20)]
        await source.close()
        return [feeds["x"] for feeds in found if feeds is not None]

    first = run(lambda: order(1, 0))

    assert sorted(first) == list(range(20))
    assert run(lambda: order(1, 0)) == first
    assert run(lambda: order(1, 1)) != first
    assert run(lambda: order(2, 0)) != first


def test_a_pipeline_without_a_fixed_order_is_refused() -> None:
    def unordered(epoch: int) -> Pipeline:
        return Pipeline(numbers_from(3)).map(lambda k: {"x": k}, threads=2, ordered=False)

    with pytest.raises(errors.InputError, match="no position is fixed"):
        run(lambda: supply(unordered).batch(Batch(0, 0)))


def test_a_stream_that_somebody_opened_is_refused() -> None:
    with pytest.raises(errors.ProgramError, match=r"batches\(0\) must return what each worker can open"):
        run(lambda: supply(lambda _: pipeline(0).open()).batch(Batch(0, 0)))
    with pytest.raises(errors.ProgramError, match="must return an iterable of feeds, got 7"):
        run(lambda: supply(lambda _: 7).batch(Batch(0, 0)))


ENDINGS = [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError]


class Raising(list[Any]):
    """A sequence whose elements raise."""

    def __init__(self, ending: type[BaseException]) -> None:
        super().__init__([{"x": 1}])
        self.ending = ending

    def __getitem__(self, at: Any) -> Any:
        raise self.ending


def fail(ending: type[BaseException]) -> None:
    raise ending


def raises_at(where: str, ending: type[BaseException]) -> Callable[[int], Any]:
    def plain_generator() -> Iterator[Any]:
        fail(ending)
        yield {}

    async def async_generator() -> AsyncIterator[Any]:
        await asyncio.sleep(0)
        fail(ending)
        yield {}

    def batches(epoch: int) -> Any:
        match where:
            case "the call":
                raise ending
            case "a sequence":
                return Raising(ending)
            case "a generator":
                return plain_generator()
            case _:
                return async_generator()

    return batches


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("where", ["the call", "a sequence", "a generator", "an async generator"])
def test_what_is_no_exception_is_a_failure_of_the_program_as_well(
    where: str, ending: type[BaseException]
) -> None:
    async def main() -> None:
        source = supply(raises_at(where, ending))
        with pytest.raises(
            errors.ProgramError, match=r"(?s)batches\(0\) must not fail.*test_batch_reader\.py:\d+"
        ) as caught:
            await source.batch(Batch(0, 0))
        assert isinstance(caught.value.__cause__, ending)
        await source.close()

    sim.run(main, limits=LIMITS)


def test_who_waits_for_a_batch_is_told_with_what_stands_still_and_since_when() -> None:
    async def stands(epoch: int) -> AsyncIterator[dict[str, int]]:
        for feeds in plain(epoch)[:2]:
            yield feeds
        await asyncio.sleep(1000)

    async def main() -> None:
        time = asyncio.get_running_loop().time
        source = BatchReader(stands, opening(SystemClock(), 7), now=time, describe=describe_source)
        assert source.waits() is None
        assert await source.batch(Batch(0, 0)) == {"x": 0}
        assert source.waits() is None
        asking = asyncio.ensure_future(source.batch(Batch(0, 2)))
        await asyncio.sleep(5.0)
        waits = source.waits()
        assert waits is not None
        assert waits.what.startswith("batch 2 of epoch 0, of async generator 'test_who_waits")
        line = stands.__code__.co_firstlineno + 3
        assert f"test_batch_reader.py:{line}" in waits.what
        assert time() - waits.since == 5.0
        asking.cancel()
        await asyncio.sleep(0)
        assert source.waits() is None
        late = asyncio.ensure_future(source.batch(Batch(0, 7)))
        await asyncio.sleep(1.0)
        waits = source.waits()
        assert waits is not None
        assert waits.what.startswith("batch 7 of epoch 0, 2 of them read so far, of async generator")
        late.cancel()
        await source.close()

    sim.run(main)


def test_a_plain_generator_that_holds_the_loop_up_is_seen_from_beside_at_its_present_line() -> None:
    seen: list[Any] = []

    def looks(epoch: int) -> Iterator[dict[str, int]]:
        seen.append(source.waits())
        yield {"x": epoch}

    source = BatchReader(looks, opening(SystemClock(), 7), describe=describe_source)
    sim.run(lambda: source.batch(Batch(0, 0)))

    assert f"generator '{looks.__qualname__}' at " in seen[0].what
    assert seen[0].what.endswith(f"test_batch_reader.py:{looks.__code__.co_firstlineno + 1}")


def test_what_is_told_of_a_wait_is_cut() -> None:
    async def main() -> None:
        async def never(_epoch: int) -> AsyncIterator[Any]:
            await asyncio.sleep(1000)
            yield {}

        source = BatchReader(
            never, opening(SystemClock(), 7), describe=lambda _batches, _source: "x" * 10_000
        )
        asking = asyncio.ensure_future(source.batch(Batch(0, 0)))
        await asyncio.sleep(1.0)
        waits = source.waits()
        assert waits is not None
        assert len(waits.what) == 300
        asking.cancel()
        await source.close()

    sim.run(main)
