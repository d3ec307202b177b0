"""Pulls that wait: woken when their version has come, and no more than so many."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import actorflow as af
from actorflow import errors
from actorflow.coord.actors import pending_update
from actorflow.coord.actors.pending_update import PullWaiters


def run(body: Any) -> Any:
    return af.run(body())


async def waits(who: PullWaiters, versions: list[int]) -> list[asyncio.Task[None]]:
    loop = asyncio.get_running_loop()
    tasks = [asyncio.create_task(who.wait_for(version, loop.create_future())) for version in versions]
    await asyncio.sleep(0)
    return tasks


async def woken(tasks: list[asyncio.Task[None]]) -> list[bool]:
    await asyncio.sleep(0)
    return [task.done() for task in tasks]


def test_those_are_woken_whose_version_has_come_and_at_the_end_all() -> None:
    async def main() -> None:
        who = PullWaiters()
        tasks = await waits(who, [1, 3, 2])

        who.wake(2)
        assert await woken(tasks) == [True, False, True]
        assert repr(who) == "<PullWaiters for versions [3], at most 65536>"

        who.wake()
        assert await woken(tasks) == [True, True, True]
        assert len(who) == 0

    run(main)


def test_one_that_was_cancelled_holds_nobody_up() -> None:
    async def main() -> None:
        who = PullWaiters()
        tasks = await waits(who, [1, 1])
        tasks[0].cancel()
        await asyncio.sleep(0)

        who.wake(1)

        assert await woken(tasks) == [True, True]
        assert tasks[0].cancelled()

    run(main)


def test_of_too_many_the_oldest_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        who = PullWaiters()
        tasks = await waits(who, [7, 8, 9])

        with pytest.raises(
            errors.CoordinationError, match="2 pulls wait for a version, .* this one of version 7"
        ):
            await tasks[0]
        assert len(who) == 2
        who.wake()
        await asyncio.gather(*tasks[1:])

    monkeypatch.setattr(pending_update, "MOST_PULLS", 2)
    run(main)
