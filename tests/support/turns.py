"""Turns of the event loop that a test lets go by."""

from __future__ import annotations

import asyncio


async def turns(count: int = 30) -> None:
    """Lets whatever is ready go on, so many times."""
    for _ in range(count):
        await asyncio.sleep(0)
