"""Sets of asyncio that go by number in a run; each law fails without its part of `deterministic_ids`."""

from __future__ import annotations

import asyncio
from asyncio import tasks
from collections.abc import AsyncIterator
from typing import Any

import pytest

from actorflow.sim.engine.deterministic_ids import GeneratorSet
from actorflow.sim.engine.simulate import attempt
from actorflow.sim.property.replay import stir


def results(main: Any, runs: int = 6) -> set[str]:
    """What a program saw in several runs on heaps that differ; one element when they agree."""
    seen, kept = set(), []
    for seed in range(runs):
        kept.append(stir(seed))
        outcome = attempt(main)
        if outcome.error is not None:
            raise outcome.error
        seen.add(repr(outcome.result))
    return seen


async def said(word: str, seconds: float = 0.0) -> str:
    await asyncio.sleep(seconds)
    return word


def test_coroutines_of_as_completed_begin_in_order() -> None:
    async def main() -> Any:
        return [await next_ for next_ in asyncio.as_completed([said(f"c{i}") for i in range(12)])]

    assert results(main) == {repr([f"c{i}" for i in range(12)])}


def test_as_completed_takes_each_once_and_keeps_its_timeout() -> None:
    async def main() -> Any:
        task = asyncio.create_task(said("twice", 0.001))
        once = [await next_ for next_ in asyncio.as_completed([task, task])]
        late = asyncio.as_completed([said("late", 1.0)], timeout=0.5)
        with pytest.raises(TimeoutError):
            [await next_ for next_ in late]
        return once, asyncio.get_running_loop().time()

    assert results(main, 1) == {"(['twice'], 0.501)"}


def test_as_completed_refuses_what_is_no_iterable_of_them() -> None:
    async def main() -> Any:
        waits = said("alone")
        with pytest.raises(TypeError, match="coroutine"):
            list(asyncio.as_completed(waits))  # type: ignore[arg-type]
        waits.close()

    assert results(main, 1) == {"None"}


def test_gathered_futures_keep_their_order_in_sets() -> None:
    async def main() -> Any:
        names = {asyncio.gather(said(f"g{i}")): i for i in range(12)}
        done, _ = await asyncio.wait(names)
        return [names[future] for future in done], [names[future] for future in set(names)]

    assert len(results(main)) == 1


def test_all_tasks_goes_by_number_whatever_ran_before() -> None:
    async def main() -> Any:
        made = []
        for i in range(60):
            made.append(asyncio.create_task(said("", 1.0)))
            for _ in range(i % 9):  # numbers of nothing, so that some fall on one place of the set
                asyncio.get_running_loop().create_future()
        return [task.get_name() for task in asyncio.all_tasks()]

    async def many() -> None:
        await asyncio.gather(*(said("") for _ in range(3000)))  # makes the set of all tasks large

    before = attempt(main).result
    attempt(many)

    assert len(before) == 61
    assert attempt(main).result == before
    assert results(main) == {repr(before)}


def test_generators_are_closed_oldest_first() -> None:
    closed: list[str] = []

    async def numbers(name: str) -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            closed.append(name)

    async def main() -> None:
        kept = [numbers(f"g{i}") for i in range(12)]
        for generator in kept:
            await anext(generator)
        asyncio.get_running_loop().call_later(60.0, kept.clear)  # keeps them until the run is over

    for seed in range(4):
        kept = stir(seed)
        closed.clear()
        attempt(main)
        assert closed == [f"g{i}" for i in range(12)], len(kept)


def test_generators_are_held_weakly_and_forgotten() -> None:
    async def numbers() -> AsyncIterator[int]:
        yield 1

    held, one, other = GeneratorSet(), numbers(), numbers()
    held.add(one)  # type: ignore[arg-type]
    held.add(other)  # type: ignore[arg-type]
    held.discard(one)  # type: ignore[arg-type]
    held.discard(one)  # type: ignore[arg-type]

    assert list(held) == [other]
    del other
    assert list(held) == []
    held.clear()
    assert len(held) == 0


async def gathered() -> type:
    """What `gather` makes."""
    both = asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))
    await both
    return type(both)


def test_outside_a_run_asyncio_is_as_it_was() -> None:
    async def nothing() -> None:
        pass

    before = (tasks.as_completed, asyncio.as_completed, tasks.all_tasks, asyncio.all_tasks)
    attempt(nothing)

    assert (tasks.as_completed, asyncio.as_completed, tasks.all_tasks, asyncio.all_tasks) == before
    assert asyncio.run(gathered()).__hash__ is asyncio.Future.__hash__
