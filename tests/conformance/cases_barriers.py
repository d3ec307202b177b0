"""Barriers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.conformance.resources import Resources, both

SHORT = 0.05


def keys(text: str) -> Any:
    return np.array([letter.encode() for letter in text], object)


def ints(*values: int) -> Any:
    return np.array(values, "int32")


def pair(s: Resources) -> Any:
    return s.barrier(["float32", "int32"], [(2,), ()])


def rows(count: int) -> Any:
    return np.arange(2 * count, dtype="float32").reshape(count, 2)


async def take(
    s: Resources, barrier: Any, n: int, *, small: bool = False, within: float | None = None
) -> Any:
    """Keys and components, without the numbers of their batches."""
    _, names, columns = barrier.take_many(n, allow_small_batch=small)
    return await s.run([names, list(columns)], within=within)


async def sizes(s: Resources, barrier: Any) -> list[int]:
    return [int(await s.run(barrier.ready_size())), int(await s.run(barrier.incomplete_size()))]


@both("barriers: a tuple leaves when all its components are there")
async def _(s: Resources) -> Any:
    barrier = pair(s)
    await s.do(barrier.insert_many(0, keys("ab"), rows(2)))
    found = [await sizes(s, barrier)]
    await s.do(barrier.insert_many(1, keys("ab"), ints(7, 8)))
    return [*found, await sizes(s, barrier), await take(s, barrier, 2), await sizes(s, barrier)]


@both("barriers: the order is that in which keys were first seen")
async def _(s: Resources) -> Any:
    barrier = pair(s)
    for batch in ("a", "b", "c"):
        await s.do(barrier.insert_many(0, keys(batch), rows(1)))
    await s.do(barrier.insert_many(1, keys("cba"), ints(3, 2, 1)))
    return await take(s, barrier, 3)


@both(
    "barriers: the order of keys that came together",
    instead=np.array([b"a", b"b"], object),
    because="keys leave in their order; there those of one batch leave as they are completed",
)
async def _(s: Resources) -> Any:
    barrier = pair(s)
    await s.do(barrier.insert_many(0, keys("ab"), rows(2)), barrier.insert_many(1, keys("ba"), ints(7, 8)))
    return await s.run(barrier.take_many(2)[1])


@both("barriers: a take waits for what is incomplete")
async def _(s: Resources) -> Any:
    barrier = pair(s)
    await s.do(barrier.insert_many(0, keys("ab"), rows(2)), barrier.insert_many(1, keys("a"), ints(1)))
    return [await take(s, barrier, 2, within=SHORT), await sizes(s, barrier), await take(s, barrier, 1)]


@both("barriers: a take that waited gets what is completed")
async def _(s: Resources) -> Any:
    barrier = pair(s)
    await s.do(barrier.insert_many(0, keys("a"), rows(1)))
    waiting = await s.begin(barrier.take_many(1)[1])
    return [await s.do(barrier.insert_many(1, keys("a"), ints(5))), await waiting]


@both("barriers: a component comes once for a key")
async def _(s: Resources) -> Any:
    barrier = pair(s)
    put = [await s.do(barrier.insert_many(1, keys("a"), ints(k))) for k in (1, 2)]
    await s.do(barrier.insert_many(0, keys("a"), rows(1)))
    return [*put, await take(s, barrier, 1)]


@both("barriers: a key may come again after it was taken")
async def _(s: Resources) -> Any:
    barrier = pair(s)
    found = []
    for k in (1, 2):
        await s.do(barrier.insert_many(0, keys("a"), rows(1)), barrier.insert_many(1, keys("a"), ints(k)))
        found.append(await take(s, barrier, 1))
    return found


@both("barriers: one component is enough where there is one")
async def _(s: Resources) -> Any:
    barrier = s.barrier(["int32"], [()])
    await s.do(barrier.insert_many(0, keys("xy"), ints(1, 2)))
    return await take(s, barrier, 2)


@both("barriers: components of bytes")
async def _(s: Resources) -> Any:
    barrier = s.barrier(["bytes"], [()])
    await s.do(barrier.insert_many(0, keys("x"), keys("v")))
    return await take(s, barrier, 1)


@both("barriers: a closed one ends a take of more than it will have")
async def _(s: Resources) -> Any:
    barrier = s.barrier(["int32"], [()])
    await s.do(barrier.insert_many(0, keys("ab"), ints(1, 2)), barrier.close())
    return [await take(s, barrier, 3), await take(s, barrier, 2), await take(s, barrier, 1)]


@both("barriers: a closed one gives a small batch")
async def _(s: Resources) -> Any:
    barrier = s.barrier(["int32"], [()])
    await s.do(barrier.insert_many(0, keys("ab"), ints(1, 2)), barrier.close())
    return [await take(s, barrier, 3, small=True), await take(s, barrier, 3, small=True)]


@both("barriers: a closed one lets no new key in")
async def _(s: Resources) -> Any:
    barrier = pair(s)
    await s.do(barrier.insert_many(0, keys("a"), rows(1)), barrier.close())
    return [await s.do(barrier.insert_many(0, keys("b"), rows(1))), await sizes(s, barrier)]


@both("barriers: what is incomplete may be completed after the close")
async def _(s: Resources) -> Any:
    barrier = pair(s)
    await s.do(barrier.insert_many(0, keys("a"), rows(1)), barrier.close())
    return [await s.do(barrier.insert_many(1, keys("a"), ints(9))), await take(s, barrier, 1)]


@both("barriers: a close that cancels drops what is incomplete")
async def _(s: Resources) -> Any:
    barrier = pair(s)
    await s.do(barrier.insert_many(0, keys("ab"), rows(2)), barrier.insert_many(1, keys("b"), ints(9)))
    await s.do(barrier.close(cancel_pending_enqueues=True))
    told = await s.do(barrier.insert_many(1, keys("a"), ints(1)))
    return [told, (await sizes(s, barrier))[0], await take(s, barrier, 1), await take(s, barrier, 1)]


@both(
    "barriers: closing twice",
    instead=["done", "invalid"],
    because="an error of whoever closes, and another one than what an insert meets",
)
async def _(s: Resources) -> Any:
    barrier = pair(s)
    return [await s.do(barrier.close()), await s.do(barrier.close())]


@both("barriers: closing ends a take that waits")
async def _(s: Resources) -> Any:
    barrier = pair(s)
    waiting = await s.begin(barrier.take_many(1)[1])
    return [await s.do(barrier.close()), await waiting]


@both(
    "barriers: values have the shape that was said",
    instead="refused when built",
    because="shapes are known when the graph is built, and what differs cannot be stacked",
)
async def _(s: Resources) -> Any:
    return await s.do(pair(s).insert_many(0, keys("a"), np.zeros((1, 3), "float32")))


@both("barriers: as many values as keys")
async def _(s: Resources) -> Any:
    return await s.do(pair(s).insert_many(1, keys("ab"), ints(1)))


@both(
    "barriers: batches are counted",
    instead=np.array([0, 1, 1]),
    because="batches are counted from 0, not from the smallest integer",
)
async def _(s: Resources) -> Any:
    barrier = s.barrier(["int32"], [()])
    await s.do(barrier.insert_many(0, keys("a"), ints(1)), barrier.insert_many(0, keys("bc"), ints(2, 3)))
    return await s.run(barrier.take_many(3)[0])


@both(
    "barriers: an insert that is refused changes nothing",
    instead=["invalid", [0, 1]],
    because="so that it can be put right, and tried again",
)
async def _(s: Resources) -> Any:
    barrier = pair(s)
    await s.do(barrier.insert_many(1, keys("b"), ints(1)))
    told = await s.do(barrier.insert_many(1, keys("ab"), ints(2, 3)))
    return [told, await sizes(s, barrier)]
