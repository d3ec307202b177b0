"""Work that is handed to threads is awaited, and its error raised."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import actorflow as af
from actorflow.kernels.device.offload import offload


def test_the_result_or_the_error_of_the_function_comes_back() -> None:
    def submit(function: Any, done: Any) -> None:
        try:
            done(function(), None, 0.1)
        except ZeroDivisionError as error:
            done(None, error, 0.1)

    async def main() -> None:
        assert await offload(submit, divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await offload(submit, divmod, 7, 0)

    af.run(main())


def test_a_result_that_nobody_waits_for_any_more_is_dropped() -> None:
    late = []

    async def main() -> None:
        waiting = asyncio.create_task(offload(lambda function, done: late.append(done), divmod, 7, 2))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        assert waiting.cancelled()

        late[0](None, None, 0.0)

    af.run(main())
