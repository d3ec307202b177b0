"""Programs that no two runs agree on, each for a reason of its own, and one that is steady."""

from __future__ import annotations

import asyncio
import itertools
from time import perf_counter
from typing import Any

_numbers = itertools.count()


class Thing:
    def __init__(self, name: int) -> None:
        self.name = name


async def addresses() -> Any:
    await asyncio.sleep(0)
    return [thing.name for thing in {Thing(i) for i in range(12)}]


async def strings() -> Any:
    await asyncio.sleep(0)
    return list({f"shard {i}" for i in range(12)}), hash("ps") % 1000


async def strings_in_order_of_tasks() -> None:
    """Only the trace shows it."""
    await asyncio.gather(*(asyncio.sleep(0.001 * i) for i, _ in enumerate("abc")))
    for name in {"ps", "worker", "chief", "replica", "queue", "variable"}:
        await asyncio.create_task(asyncio.sleep(0), name=name)


async def real_time() -> Any:
    await asyncio.sleep(0)
    return perf_counter()


async def numbers() -> Any:
    await asyncio.sleep(0)
    return next(_numbers)


async def steady() -> Any:
    await asyncio.sleep(0)
    return [i for i in {1, 5, 9, 17}]  # noqa: C416  the order of numbers is the same everywhere


async def printing() -> None:
    print("what a program prints")  # noqa: T201


ADDRESSES = {"steady": steady, "addresses": addresses}
STRINGS = {"steady": steady, "strings": strings, "strings_in_order_of_tasks": strings_in_order_of_tasks}
REAL_TIME = {"real_time": real_time}
NUMBERS = {"numbers": numbers, "steady": steady}
PRINTING = {"printing": printing}
EMPTY: dict[str, Any] = {}
