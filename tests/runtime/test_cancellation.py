"""A CancelledError is of the task that runs, or of something that it waits for."""

from __future__ import annotations

import asyncio

from actorflow.runtime.cancellation import is_cancellation


def test_it_tells_whose_cancellation_it_is() -> None:
    seen: list[bool] = []

    async def waits(future: asyncio.Future[None]) -> None:
        try:
            await future
        except asyncio.CancelledError as error:
            seen.append(is_cancellation(error))

    async def main() -> None:
        for ends_the_task in (True, False):
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            task = asyncio.ensure_future(waits(future))
            await asyncio.sleep(0)
            (task if ends_the_task else future).cancel()
            await task

    asyncio.run(main())

    assert seen == [True, False]
