"""What a run of a trainer tells, where a test does not ask for it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any


async def drain(run: AsyncGenerator[Any, None]) -> None:
    """Runs to the end, drops the events, and leaves the run closed however it ends."""
    async with aclosing(run) as events:
        async for _ in events:
            pass
