"""Array work on a device's threads, awaited: what takes long does not hold up the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

OFFLOAD_BYTES = 64 * 1024  # of parameters; about 100 µs for the dozen passes of Adam

Submit = Callable[..., None]
"""(function of nothing, done(result, error, seconds)): runs it on a thread, and calls `done` on the loop."""


async def offload(submit: Submit, function: Callable[..., Any], *args: Any) -> Any:
    """Runs `function(*args)` through `submit` and returns what it returns, or raises what it raises."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def done(result: Any, error: BaseException | None, seconds: float) -> None:
        # Whoever waited may have been cancelled.
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    submit(lambda: function(*args), done)
    return await future
