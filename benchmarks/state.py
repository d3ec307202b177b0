"""Variables and queues, a step each: reads and updates, with a snapshot held and without, and queue ops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from time import perf_counter
from types import ModuleType
from typing import Any

import numpy as np

import actorflow as af
from benchmarks.harness import Contest, Peer, Round, Size, Unit, absent
from benchmarks.peers import load
from benchmarks.registry import benchmark

SIZES = {"1kb": 1_000, "100mb": 100_000_000}
CAPACITY = 64
BLOCKED = 50
COPIES = "TensorFlow's read copies what it hands out; ours hands out a snapshot that nobody can write"
BARE = "no graph, no step, no check of shapes: the floor of a queue in asyncio"

Run = Callable[[], Awaitable[Any]]


@benchmark(
    "state", "reads and updates of variables, and queue ops, a step each; against TensorFlow, asyncio.Queue"
)
async def contests(size: Size) -> AsyncGenerator[Contest]:
    """A variable of 1 KB and one of 100 MB, then a queue of scalars."""
    tensorflow = load("tensorflow")
    for name, nbytes in SIZES.items():
        async with AsyncExitStack() as stack:
            ours = await _variable(stack, nbytes)
            theirs = await _tensorflow_variable(stack, tensorflow, nbytes)
            n = size.operations(3_000 if nbytes < 1_000_000 else 10)
            for verb in ("read", "update", "update_held", "assign"):
                peers = [_tensorflow(theirs, verb, COPIES if verb == "read" else "")]
                if verb.startswith("update"):
                    peers.append(Peer("numpy, in place", _floor(nbytes), note="`value += delta`, no step"))
                yield Contest(f"{verb}_{name}", Unit.OPS, n, _in_turn(ours[verb]), peers)
    async with AsyncExitStack() as stack:
        n = size.operations(4_000)
        ours_queue = await _queue(stack)
        theirs = {}
        if tensorflow is not None:
            theirs = {"queue": await stack.enter_async_context(tensorflow.open_queue(CAPACITY))}
        plain = Peer(f"asyncio.Queue({CAPACITY})", _in_turn(_asyncio_queue()), note=BARE)
        yield Contest("queue_ops", Unit.OPS, n, _in_turn(ours_queue), [_tensorflow(theirs, "queue"), plain])
    tasks = Peer(
        f"{2 * BLOCKED} tasks at two asyncio.Queues", _leave_tasks, note="cancelled and awaited, no more"
    )
    yield Contest("leave_ms", Unit.MILLISECONDS, 1, _leave, [tasks], 100.0)


async def _variable(stack: AsyncExitStack, nbytes: int) -> dict[str, Run]:
    """Opens a session on one variable of float32, and returns a step of each verb.

    What a step hands out is dropped at once, but for `update_held`, whose snapshot lives through the write.
    """
    with af.Graph() as graph:
        w = af.Variable(af.zeros((nbytes // 4,)), name="w")
        delta = af.placeholder("float32", w.shape, name="delta")
        read, add, assign = w.read(), w.assign_add(delta), w.assign(delta)
    session = await stack.enter_async_context(af.Session(graph))
    ones = np.ones(nbytes // 4, np.float32)
    held: list[Any] = []

    async def update_held() -> None:
        held[:] = [await session.run(read)]
        await session.run(add, {delta: ones})

    return {
        "read": lambda: session.run(read),
        "update": lambda: session.run(add, {delta: ones}),
        "update_held": update_held,
        "assign": lambda: session.run(assign, {delta: ones}),
    }


async def _tensorflow_variable(
    stack: AsyncExitStack, tensorflow: ModuleType | None, nbytes: int
) -> dict[str, Run]:
    if tensorflow is None:
        return {}
    found: dict[str, Run] = await stack.enter_async_context(tensorflow.open_variable(nbytes // 4))
    return found


async def _queue(stack: AsyncExitStack) -> Run:
    """Opens a session on a queue of scalars, and returns one enqueue and one dequeue, a step each."""
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(CAPACITY, "float32", (), name="q")
        x = af.placeholder("float32", (), name="x")
        put, take = queue.enqueue(x), queue.dequeue()
    session = await stack.enter_async_context(af.Session(graph))
    value = np.ones((), np.float32)

    async def run() -> Any:
        await session.run(put, {x: value})
        return await session.run(take)

    return run


def _asyncio_queue() -> Run:
    queue: asyncio.Queue[Any] = asyncio.Queue(CAPACITY)
    value = np.ones((), np.float32)

    async def run() -> Any:
        await queue.put(value)
        return await queue.get()

    return run


async def _leave(_: int) -> float:
    """Leaves a session in which steps wait at a full queue and an empty one; returns how long that took."""
    with af.Graph() as graph:
        full, empty = (af.state.FIFOQueue(1, "float32", (), name=name) for name in ("full", "empty"))
        put, take = full.enqueue(1.0), empty.dequeue()
    async with af.Session(graph, max_steps=2 * BLOCKED) as session:
        await session.run(put)
        waiting = [asyncio.create_task(session.run(op)) for op in (put, take) for _ in range(BLOCKED)]
        await asyncio.sleep(0.05)
        start = perf_counter()
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    seconds = perf_counter() - start
    if not all(isinstance(e, af.errors.StepAborted) for e in ended):
        message = f"every step that waited must end by the session's end, got {ended}"
        raise RuntimeError(message)
    return seconds


async def _leave_tasks(_: int) -> float:
    full: asyncio.Queue[float] = asyncio.Queue(1)
    empty: asyncio.Queue[float] = asyncio.Queue(1)
    await full.put(1.0)
    waiting: list[asyncio.Task[Any]] = [asyncio.create_task(full.put(1.0)) for _ in range(BLOCKED)]
    waiting += [asyncio.create_task(empty.get()) for _ in range(BLOCKED)]
    await asyncio.sleep(0.05)
    start = perf_counter()
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    return perf_counter() - start


def _in_turn(run: Run) -> Round:
    """Returns the round of `n` operations, one after the other."""

    async def round_(n: int) -> float:
        start = perf_counter()
        for _ in range(n):
            await run()
        return perf_counter() - start

    return round_


def _floor(nbytes: int) -> Round:
    value, ones = np.zeros(nbytes // 4, np.float32), np.ones(nbytes // 4, np.float32)

    async def round_(n: int) -> float:
        nonlocal value
        start = perf_counter()
        for _ in range(n):
            value += ones
        return perf_counter() - start

    return round_


def _tensorflow(runs: dict[str, Run], verb: str, note: str = "") -> Peer:
    if not runs:
        return absent("TensorFlow 1 Session", "tensorflow")
    return Peer("TensorFlow 1 Session", _in_turn(runs[verb]), note=note)
