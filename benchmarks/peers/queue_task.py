"""What people write by hand: one `asyncio.Queue` and one task for every actor or node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

from benchmarks.peers import (
    CAPACITY,
    DEADLINE_S,
    AsyncCounter,
    Counter,
    time_asks,
    time_asks_together,
    time_tells,
)

NODE_CAPACITY = 64


class QueueActor:
    """A bounded queue and the task that handles what comes out of it."""

    def __init__(self, counter: Counter) -> None:
        self._queue: asyncio.Queue[tuple[Any, asyncio.Future[Any] | None]] = asyncio.Queue(CAPACITY)
        self._loop = asyncio.get_running_loop()
        body = self._run_async if isinstance(counter, AsyncCounter) else self._run
        self.task = self._loop.create_task(body(counter.receive))

    async def tell(self, message: Any) -> None:
        """Sends, once there is room."""
        await self._queue.put((message, None))

    async def ask(self, message: Any) -> Any:
        """Sends and waits for the answer, at most until the deadline."""
        future = self._loop.create_future()
        await self._queue.put((message, future))
        async with asyncio.timeout(DEADLINE_S):
            return await future

    async def _run(self, receive: Callable[[Any], Any]) -> None:
        while True:
            message, future = await self._queue.get()
            result = receive(message)
            if future is not None and not future.done():
                future.set_result(result)

    async def _run_async(self, receive: Callable[[Any], Any]) -> None:
        while True:
            message, future = await self._queue.get()
            result = await receive(message)
            if future is not None and not future.done():
                future.set_result(result)


class QueueActors:
    """Both counters as such actors; see `Actors`."""

    def __init__(self) -> None:
        self._plain = QueueActor(Counter())
        self._async = QueueActor(AsyncCounter())
        self.tasks = (self._plain.task, self._async.task)

    async def tell(self, n: int) -> float:
        """See `Actors`."""
        return await time_tells(self._plain.tell, self._plain.ask, n)

    async def ask(self, n: int) -> float:
        """See `Actors`."""
        return await time_asks(self._plain.ask, n)

    async def ask_queued(self, n: int) -> float:
        """See `Actors`."""
        return await self.ask(n)

    async def ask_async(self, n: int) -> float:
        """See `Actors`."""
        return await time_asks(self._async.ask, n)

    async def ask_together(self, n: int) -> float:
        """See `Actors`."""
        return await time_asks_together(self._plain.ask, n)


@asynccontextmanager
async def open_actors() -> AsyncIterator[QueueActors]:
    """Starts the two actors and stops them in the end."""
    actors = QueueActors()
    try:
        yield actors
    finally:
        await _cancel(actors.tasks)


class QueueNode:
    """A node of a graph: takes (step, port, value), and fires once a step has all its inputs.

    Attributes:
        targets: Where the value goes: (node, port of it).
        deliver: Hears of every firing; for the node at the end.
    """

    def __init__(self, function: Callable[..., Any], inputs: int) -> None:
        self.queue: asyncio.Queue[tuple[int, int, Any]] = asyncio.Queue(NODE_CAPACITY)
        self.targets: list[tuple[QueueNode, int]] = []
        self.deliver: Callable[[int, Any], None] | None = None
        self._function = function
        self._inputs = inputs

    async def run(self) -> None:
        """Fires until cancelled."""
        function, inputs, targets, deliver = self._function, self._inputs, self.targets, self.deliver
        get = self.queue.get
        waiting: dict[int, dict[int, Any]] = {}
        while True:
            step, port, value = await get()
            if inputs > 1:
                values = waiting.setdefault(step, {})
                values[port] = value
                if len(values) < inputs:
                    continue
                del waiting[step]
                value = function(*[values[i] for i in range(inputs)])
            else:
                value = function(value)
            if deliver is not None:
                deliver(step, value)
            for target, target_port in targets:
                await target.queue.put((step, target_port, value))


class QueueGraph:
    """Nodes that run, and the steps that run through them; several may at once.

    Args:
        nodes: All of them, linked.
        sources: For each fed value the (node, port) pairs that take it.
        end: The node whose value ends a step.
    """

    def __init__(
        self, nodes: Sequence[QueueNode], sources: Sequence[Sequence[tuple[QueueNode, int]]], end: QueueNode
    ) -> None:
        end.deliver = self._deliver
        self._loop = asyncio.get_running_loop()
        self._sources = sources
        self._steps: dict[int, asyncio.Future[Any]] = {}
        self._count = 0
        self.tasks = [self._loop.create_task(node.run()) for node in nodes]

    async def run(self, *values: Any) -> Any:
        """Runs one step with a value a source and returns what its end computed."""
        self._count = step = self._count + 1
        future = self._steps[step] = self._loop.create_future()
        for value, places in zip(values, self._sources, strict=True):
            for node, port in places:
                await node.queue.put((step, port, value))
        return await future

    def _deliver(self, step: int, value: Any) -> None:
        self._steps.pop(step).set_result(value)


@asynccontextmanager
async def open_chains(add: Callable[[Any, Any], Any], width: int, length: int) -> AsyncIterator[QueueGraph]:
    """Starts `width` chains of `length` nodes x + one + one + …, whose ends are gathered in a tuple.

    Both are fed: x to the heads of the chains, one to a node that passes it on to every other.
    """
    one = QueueNode(lambda value: value, 1)
    end = QueueNode(lambda *values: values, width)
    nodes = [one, end]
    heads = []
    for chain in range(width):
        row = [QueueNode(add, 2) for _ in range(length)]
        for node, after in pairwise(row):
            node.targets.append((after, 0))
        row[-1].targets.append((end, chain))
        one.targets += [(node, 1) for node in row]
        heads.append((row[0], 0))
        nodes += row
    graph = QueueGraph(nodes, [heads, [(one, 0)]], end)
    try:
        yield graph
    finally:
        await _cancel(graph.tasks)


@asynccontextmanager
async def open_node(function: Callable[[Any], Any]) -> AsyncIterator[QueueGraph]:
    """Starts one node of one fed value, and one behind it that ends the step."""
    node, end = QueueNode(function, 1), QueueNode(lambda value: value, 1)
    node.targets.append((end, 0))
    graph = QueueGraph([node, end], [[(node, 0)]], end)
    try:
        yield graph
    finally:
        await _cancel(graph.tasks)


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    failed = [error for task in tasks if not task.cancelled() and (error := task.exception()) is not None]
    if failed:
        raise BaseExceptionGroup("tasks of a peer failed", failed)
