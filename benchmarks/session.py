"""Steps of a session: what one costs at least, alone and among others, and how fast tiny ops go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from time import perf_counter
from types import ModuleType
from typing import Any

import numpy as np

import actorflow as af
from benchmarks.chains import SHAPES, open_chains, round_of
from benchmarks.harness import Contest, Peer, Round, Size, Unit, absent
from benchmarks.peers import load, queue_task
from benchmarks.registry import benchmark

CALLERS = 100
CONSTANT = 2.0
QUEUE = f"asyncio.Queue({queue_task.NODE_CAPACITY}) + task a node"
BARE = "one bounded queue and one task a node, and no more: no checks of feeds, no errors, no limit of steps"
FUSION = "the design's aim, 1x TensorFlow, is for fused graphs; here every addition is an actor of its own"

Run = Callable[[Any], Awaitable[Any]]


@benchmark(
    "session", "latency of a step, alone and among 100, and null ops; against Queue + task, TensorFlow"
)
async def contests(size: Size) -> AsyncGenerator[Contest]:
    """Steps of one addition, then graphs of 10,000."""
    tensorflow = load("tensorflow")
    n = size.operations(5_000, step=CALLERS)
    async with AsyncExitStack() as stack:
        ours = await _addition(stack)
        queue = await stack.enter_async_context(queue_task.open_node(partial(np.add, np.float32(CONSTANT))))
        rival = None
        if tensorflow is not None:
            rival = _in_turn((await stack.enter_async_context(tensorflow.open_addition(CONSTANT))).run)
        peers = [Peer(QUEUE, _in_turn(queue.run), note=BARE), _tensorflow(rival, 0.3)]
        yield Contest("run_us", Unit.MICROSECONDS, n, _in_turn(ours), peers, 25.0)
        peers = [Peer(QUEUE, _at_once(queue.run), note=BARE)]
        yield Contest("run_concurrent_us", Unit.MICROSECONDS, n, _at_once(ours), peers)
    for shape, (width, length) in SHAPES.items():
        async with AsyncExitStack() as stack:
            ours_round, peers = await _null_ops(stack, width, length, tensorflow)
            n = size.operations(3 * width * length, step=width * length)
            yield Contest(f"null_ops_{shape}", Unit.OPS, n, ours_round, peers, note=FUSION)


async def _addition(stack: AsyncExitStack) -> Run:
    """Opens a session on x + constant; the step is planned the first time and cached from then on."""
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        y = x + CONSTANT
    session = await stack.enter_async_context(af.Session(graph, max_steps=CALLERS, passes=()))

    async def run(value: Any) -> Any:
        return await session.run(y, {x: value})

    return run


def _in_turn(run: Run) -> Round:
    """Returns the round of `n` steps, one after the other."""

    async def round_(n: int) -> float:
        value = np.ones((), np.float32)
        result = None
        start = perf_counter()
        for _ in range(n):
            result = await run(value)
        seconds = perf_counter() - start
        _check(result)
        return seconds

    return round_


def _at_once(run: Run) -> Round:
    """Returns the round of `n` steps by `CALLERS` callers, each its share one after the other."""

    async def caller(share: int) -> Any:
        value = np.ones((), np.float32)
        result = None
        for _ in range(share):
            result = await run(value)
        return result

    async def round_(n: int) -> float:
        share = n // CALLERS
        start = perf_counter()
        results = await asyncio.gather(*(caller(share) for _ in range(CALLERS)))
        seconds = perf_counter() - start
        for result in results:
            _check(result)
        return seconds

    return round_


async def _null_ops(
    stack: AsyncExitStack, width: int, length: int, tensorflow: ModuleType | None
) -> tuple[Round, list[Peer]]:
    """Opens every side on the same graph of numpy additions."""
    x, one = np.zeros((), np.float32), np.ones((), np.float32)
    ours = await stack.enter_async_context(open_chains(width, length, lambda a, b: a + b, lambda v: v))
    queue = await stack.enter_async_context(queue_task.open_chains(np.add, width, length))
    rival = None
    if tensorflow is not None:
        steps = await stack.enter_async_context(tensorflow.open_chains(width, length))
        rival = round_of(steps.run, x, one, width, length)
    peers = [Peer(QUEUE, round_of(queue.run, x, one, width, length), note=BARE), _tensorflow(rival)]
    return round_of(ours, x, one, width, length), peers


def _tensorflow(round_: Round | None, aim: float | None = None) -> Peer:
    name = "TensorFlow 1 Session"
    return absent(name, "tensorflow-cpu", aim) if round_ is None else Peer(name, round_, aim)


def _check(result: Any) -> None:
    if result != 1.0 + CONSTANT:
        message = f"the step must return {1.0 + CONSTANT}, got {result}"
        raise RuntimeError(message)
