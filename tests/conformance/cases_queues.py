"""Queues: order, waiting, closing."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.conformance.resources import Resources, both

SHORT = 0.05
"""Seconds after which a step that waits for nobody has waited enough."""


def numbers(*values: int) -> Any:
    return (np.array(values, "int32"),)


@both("queues: first in, first out")
async def _(s: Resources) -> Any:
    queue = s.fifo(9, "int32", [()])
    told = await s.do(
        queue.enqueue(np.int32(5)), queue.enqueue(np.int32(6)), queue.enqueue_many(numbers(7, 8))
    )
    taken = queue.dequeue()
    return [told, [await s.run(taken) for _ in range(4)]]


@both("queues: several components, which stay together")
async def _(s: Resources) -> Any:
    queue = s.fifo(9, ["int32", "float32"], [(), (2,)])
    await s.do(
        queue.enqueue_many((np.array([1, 2, 3], "int32"), np.arange(6, dtype="float32").reshape(3, 2)))
    )
    return [await s.run(queue.dequeue()), await s.run(queue.dequeue_many(2))]


@both("queues: components by name")
async def _(s: Resources) -> Any:
    queue = s.fifo(9, ["int32", "float32"], [(), ()], ["label", "value"])
    await s.do(queue.enqueue({"value": np.float32(0.5), "label": np.int32(3)}))
    return await s.run(queue.dequeue())


@both("queues: elements of any shape where none is given")
async def _(s: Resources) -> Any:
    queue = s.fifo(9, "int32", None)
    await s.do(queue.enqueue((np.array([1, 2, 3], "int32"),)), queue.enqueue((np.array([[4]], "int32"),)))
    return [await s.run(queue.dequeue()), await s.run(queue.dequeue())]


@both(
    "queues: what has no shape is not stacked",
    instead="refused when built",
    because="shapes are known when the graph is built",
)
async def _(s: Resources) -> Any:
    return await s.run(s.fifo(9, "int32", None).dequeue_many(2))


@both("queues: the size")
async def _(s: Resources) -> Any:
    queue = s.fifo(9, "int32", [()])
    found = [int(await s.run(queue.size()))]
    await s.do(queue.enqueue_many(numbers(1, 2, 3)))
    found.append(int(await s.run(queue.size())))
    await s.run(queue.dequeue())
    return [*found, int(await s.run(queue.size()))]


@both("queues: an empty one makes a dequeue wait")
async def _(s: Resources) -> Any:
    return await s.run(s.fifo(9, "int32", [()]).dequeue(), within=SHORT)


@both("queues: a full one makes an enqueue wait")
async def _(s: Resources) -> Any:
    queue = s.fifo(2, "int32", [()])
    put = queue.enqueue(np.int32(1))
    return [await s.do(put), await s.do(put), await s.do(put, within=SHORT), int(await s.run(queue.size()))]


@both("queues: an enqueue that waited goes on when there is room")
async def _(s: Resources) -> Any:
    queue = s.fifo(1, "int32", [()])
    await s.do(queue.enqueue(np.int32(1)))
    waiting = await s.begin_to_do(queue.enqueue(np.int32(2)))
    taken = queue.dequeue()
    return [await s.run(taken), await waiting, await s.run(taken)]


@both("queues: a dequeue that waited gets what comes")
async def _(s: Resources) -> Any:
    queue = s.fifo(1, "int32", [()])
    waiting = await s.begin(queue.dequeue())
    return [await s.do(queue.enqueue(np.int32(4))), await waiting]


@both("queues: more rows than there is room for go in one by one")
async def _(s: Resources) -> Any:
    queue = s.fifo(2, "int32", [()])
    waiting = await s.begin_to_do(queue.enqueue_many(numbers(1, 2, 3, 4, 5)))
    taken = queue.dequeue()
    return [[await s.run(taken) for _ in range(5)], await waiting]


@both("queues: dequeue_many takes more than there is room for")
async def _(s: Resources) -> Any:
    queue = s.fifo(2, "int32", [()])
    waiting = await s.begin(queue.dequeue_many(5))
    return [await s.do(queue.enqueue_many(numbers(1, 2, 3, 4, 5))), await waiting]


@both("queues: dequeue_up_to of an open queue takes all that it asks for")
async def _(s: Resources) -> Any:
    queue = s.fifo(9, "int32", [()])
    await s.do(queue.enqueue_many(numbers(1, 2, 3)))
    return [await s.run(queue.dequeue_up_to(2)), await s.run(queue.dequeue_up_to(2), within=SHORT)]


@both("queues: a dequeue_many of nothing")
async def _(s: Resources) -> Any:
    return await s.run(s.fifo(9, "int32", [(2,)]).dequeue_many(0))


@both("queues: an enqueue_many of nothing")
async def _(s: Resources) -> Any:
    queue = s.fifo(9, "int32", [()])
    return [await s.do(queue.enqueue_many(numbers())), int(await s.run(queue.size()))]


@both("queues: an element that does not fit is refused")
async def _(s: Resources) -> Any:
    return await s.do(s.fifo(9, "int32", [(2,)]).enqueue((np.zeros(3, "int32"),)))


@both("queues: components of a batch have as many rows")
async def _(s: Resources) -> Any:
    queue = s.fifo(9, ["int32", "int32"], [(), ()])
    return await s.do(queue.enqueue_many((np.zeros(2, "int32"), np.zeros(3, "int32"))))


@both("queues: a closed one gives what is left, then ends")
async def _(s: Resources) -> Any:
    queue = s.fifo(9, "int32", [()])
    await s.do(queue.enqueue_many(numbers(1, 2)), queue.close())
    taken = queue.dequeue()
    return [await s.run(taken) for _ in range(3)]


@both("queues: a closed one lets nothing in")
async def _(s: Resources) -> Any:
    queue = s.fifo(9, "int32", [()])
    await s.do(queue.close())
    return [await s.do(queue.enqueue(np.int32(1))), await s.do(queue.enqueue_many(numbers(1, 2)))]


@both("queues: a closed one with too few leaves them there")
async def _(s: Resources) -> Any:
    queue = s.fifo(9, "int32", [()])
    await s.do(queue.enqueue_many(numbers(1, 2)), queue.close())
    return [
        await s.run(queue.dequeue_many(3)),
        int(await s.run(queue.size())),
        await s.run(queue.dequeue_many(2)),
    ]


@both("queues: dequeue_up_to of a closed queue takes the rest")
async def _(s: Resources) -> Any:
    queue = s.fifo(9, "int32", [()])
    await s.do(queue.enqueue_many(numbers(1, 2, 3)), queue.close())
    taken = queue.dequeue_up_to(2)
    return [await s.run(taken) for _ in range(3)]


@both("queues: closing ends a dequeue that waits")
async def _(s: Resources) -> Any:
    queue = s.fifo(9, "int32", [()])
    waiting = await s.begin(queue.dequeue())
    return [await s.do(queue.close()), await waiting]


@both("queues: closing gives a dequeue_many that waits back what it had")
async def _(s: Resources) -> Any:
    queue = s.fifo(9, "int32", [()])
    await s.do(queue.enqueue_many(numbers(1, 2)))
    waiting = await s.begin(queue.dequeue_many(3))
    return [await s.do(queue.close()), await waiting, await s.run(queue.dequeue_many(2))]


@both("queues: closing lets an enqueue that waits in")
async def _(s: Resources) -> Any:
    queue = s.fifo(1, "int32", [()])
    await s.do(queue.enqueue(np.int32(1)))
    waiting = await s.begin_to_do(queue.enqueue(np.int32(2)))
    closing = await s.begin_to_do(queue.close())
    taken = queue.dequeue()
    return [await s.run(taken), await waiting, await closing, await s.run(taken), await s.run(taken)]


@both("queues: closing cancels an enqueue that waits, if it is told to")
async def _(s: Resources) -> Any:
    queue = s.fifo(1, "int32", [()])
    await s.do(queue.enqueue(np.int32(1)))
    waiting = await s.begin_to_do(queue.enqueue(np.int32(2)))
    closed = await s.do(queue.close(cancel_pending_enqueues=True))
    taken = queue.dequeue()
    return [closed, await waiting, await s.run(taken), await s.run(taken)]


@both(
    "queues: closing twice",
    instead=["done", "invalid"],
    because="an error of whoever closes, and another one than what an enqueue meets",
)
async def _(s: Resources) -> Any:
    queue = s.fifo(1, "int32", [()])
    return [await s.do(queue.close()), await s.do(queue.close())]


@both(
    "queues: a dequeue_many that was given up",
    instead=["deadline", 2],
    because="what a step that fails has taken goes back to its place",
)
async def _(s: Resources) -> Any:
    queue = s.fifo(9, "int32", [()])
    await s.do(queue.enqueue_many(numbers(1, 2)))
    return [await s.run(queue.dequeue_many(3), within=SHORT), int(await s.run(queue.size()))]


@both("queues: the smallest priority first, then who came first")
async def _(s: Resources) -> Any:
    queue = s.priority(9, "int32", ())
    await s.do(queue.enqueue_many((np.array([3, 1, 2, 1], "int64"), np.array([30, 10, 20, 11], "int32"))))
    return [await s.run(queue.dequeue()), await s.run(queue.dequeue_many(3))]


@both("queues: a priority that comes later goes before")
async def _(s: Resources) -> Any:
    queue = s.priority(9, "int32", ())
    await s.do(queue.enqueue_many((np.array([5, 4], "int64"), np.array([50, 40], "int32"))))
    found = [await s.run(queue.dequeue())]
    await s.do(queue.enqueue((np.int64(-1), np.int32(7))))
    return [*found, await s.run(queue.dequeue()), await s.run(queue.dequeue())]


@both("queues: batches are padded to the longest")
async def _(s: Resources) -> Any:
    queue = s.padding(9, "int32", [(None,)])
    for row in ([1, 2, 3], [4], [5, 6]):
        await s.do(queue.enqueue((np.array(row, "int32"),)))
    return [await s.run(queue.dequeue_many(2)), await s.run(queue.dequeue())]


@both("queues: padding in two axes, with a component that has none")
async def _(s: Resources) -> Any:
    queue = s.padding(9, ["float32", "int32"], [(None, None), ()])
    await s.do(queue.enqueue((np.ones((1, 2), "float32"), np.int32(1))))
    await s.do(queue.enqueue((np.full((2, 1), 2, "float32"), np.int32(2))), queue.close())
    return await s.run(queue.dequeue_up_to(5))


@both("queues: a shuffle queue keeps some while it is open")
async def _(s: Resources) -> Any:
    queue = s.shuffle(9, 2, "int32", [()])
    await s.do(queue.enqueue_many(numbers(1, 2, 3)))
    found = [int(await s.run(queue.dequeue()) > 0), await s.run(queue.dequeue(), within=SHORT)]
    return [*found, int(await s.run(queue.size()))]


@both("queues: a shuffle queue gives each element once, closed or not")
async def _(s: Resources) -> Any:
    queue = s.shuffle(20, 4, "int32", [()])
    await s.do(queue.enqueue_many(numbers(*range(12))))
    first = await s.run(queue.dequeue_many(8))
    await s.do(queue.close())
    rest = await s.run(queue.dequeue_many(4))
    return [
        first.shape[0],
        rest.shape[0],
        np.sort(np.concatenate([first, rest])),
        await s.run(queue.dequeue()),
    ]


@both(
    "queues: a shuffle queue that keeps more than fit",
    instead="refused when built",
    because="both numbers are known when the graph is built",
)
async def _(s: Resources) -> Any:
    return await s.do(s.shuffle(2, 3, "int32", [()]).enqueue(np.int32(1)))
