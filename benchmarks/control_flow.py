"""Loops: turns a second in both forms, bodies that sleep together, LSTMs over sequences, and their memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from time import perf_counter
from typing import Any

import actorflow as af
from benchmarks.harness import Contest, Peer, Round, Size, Unit, absent
from benchmarks.loops import SIDE, Run, matrices, timed
from benchmarks.peers import load
from benchmarks.registry import benchmark
from benchmarks.sequences import ROWS, UNITS, open_lstm, peak

TURNS = {"scalar": 50_000, "512x512": 40}
AIMS = {"inline": 1.0, "lowered": 0.3}
"""Of turns a second, ours / TensorFlow's."""

TOGETHER = 16
SLEEP_S = 0.05
ALONE_AIM = 1 / 0.7
"""What k bodies that sleep may take, by the time of one: they overlap 0.7·k times."""

V2 = "functions in the graph, which a session makes Switch and Merge of"
COMPILED = "compiled by XLA: a turn is machine code"

LENGTHS = (100, 300, 1000)
OVERHEAD_AIM = 1.1
KEEPING = {"loop": "without recompute", "unroll": "unroll=True"}
"""Ways of `sequences` beside recompute."""


@benchmark(
    "control_flow", "loops inline and lowered, beside TensorFlow 1 and lax.while_loop; sequences, and memory"
)
async def contests(size: Size) -> AsyncGenerator[Contest]:
    """Loops of two bodies in two forms, bodies that sleep, then an LSTM over longer and longer sequences."""
    for form, aim in AIMS.items():
        async with AsyncExitStack() as stack:
            ours = await _loops(stack, lower=form == "lowered")
            theirs = await _peers(stack)
            for body, usual in TURNS.items():
                n = size.operations(usual if form == "inline" or body != "scalar" else usual // 10)
                peers = [
                    Peer(name, timed(loops[body]), aim if package == "tensorflow" else None, note)
                    if loops
                    else absent(name, package)
                    for name, package, loops, note in theirs
                ]
                yield Contest(f"while_{form}_{body}", Unit.TURNS, n, timed(ours[body]), peers)
    async with AsyncExitStack() as stack:
        one, all_ = [await _sleeping(stack, k) for k in (1, TOGETHER)]
        alone = Peer("one of them", one, ALONE_AIM, f"a node that sleeps {SLEEP_S:g} s; they overlap")
        yield Contest(f"sleeping_{TOGETHER}_ms", Unit.MILLISECONDS, 1, all_, [alone])
    for length in LENGTHS:
        steps = size.operations(length)
        async with AsyncExitStack() as stack:
            looped, unrolled = [await open_lstm(stack, steps, way) for way in ("loop", "unroll")]
            peer = Peer("unroll=True", unrolled, OVERHEAD_AIM, "nodes for every step: the same numbers")
            about = f"LSTM of {UNITS}, {ROWS} rows, forward and back to the gradients of its variables"
            yield Contest(f"rnn_{length}_ms", Unit.MILLISECONDS, 1, looped, [peer], note=about)
    steps = size.operations(LENGTHS[-1])
    peers = [Peer(name, peak(way, steps)) for way, name in KEEPING.items()]
    about = f"{steps} steps, recompute=True: by how much the largest resident set grows in one pass"
    yield Contest("rnn_memory", Unit.MEBIBYTES, 1, peak("recompute", steps), peers, note=about, once=True)


async def _loops(stack: AsyncExitStack, *, lower: bool) -> dict[str, Run]:
    """Opens a session, of one thread, on one loop of each body."""
    with af.Graph() as graph:
        n = af.placeholder("int32", (), name="n")
        x, w = (af.placeholder("float32", (SIDE, SIDE), name=name) for name in ("x", "w"))

        def loop(turn: Any, first: Any) -> Any:
            return af.while_loop(
                lambda i, _: i < n, lambda i, s: (i + 1, turn(s)), (0, first), lower=lower or None
            )[1]

        scalar = loop(lambda s: s * 0.5 + 1.0, 1.0)
        matrix = loop(lambda s: af.tanh(s @ w + x), x)
    session = await stack.enter_async_context(af.Session(graph, threads=1))
    values = dict(zip((x, w), matrices(), strict=True))
    return {
        "scalar": lambda turns: session.run(scalar, {n: turns}),
        "512x512": lambda turns: session.run(matrix, {n: turns, **values}),
    }


async def _peers(stack: AsyncExitStack) -> list[tuple[str, str, dict[str, Run], str]]:
    """Opens the peers: for each its name, its package, its loops, none where it is absent, and a note."""
    tensorflow, jax = load("tensorflow"), load("jax")
    found: list[tuple[str, str, dict[str, Run], str]] = []
    for functional, name in enumerate(("TensorFlow 1 while_loop", "TensorFlow 1 while_loop, v2")):
        loops: dict[str, Run] = {}
        if tensorflow is not None:
            loops = await stack.enter_async_context(tensorflow.open_loops(functional=bool(functional)))
        found.append((name, "tensorflow", loops, V2 if functional else ""))
    found.append(("lax.while_loop", "jax", {} if jax is None else jax.open_loops(), COMPILED))
    return found


async def _sleeping(stack: AsyncExitStack, bodies: int) -> Round:
    """Opens a session on so many nodes that sleep, each in a branch of its own."""

    async def sleep(x: Any) -> Any:
        await asyncio.sleep(SLEEP_S)
        return x

    py_actor: Any = getattr(af, "py_actor", None)
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        slept = [py_actor(sleep, x + float(k), x.spec) for k in range(bodies)]
    session = await stack.enter_async_context(af.Session(graph))

    async def round_(n: int) -> float:
        start = perf_counter()
        for _ in range(n):
            found = await session.run(slept, {x: 1.0})
            assert found == [1.0 + k for k in range(bodies)]
        return perf_counter() - start

    return round_
