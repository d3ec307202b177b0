"""An input pipeline of a real data set's size: elements a second, inline and with two workers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

import actorflow as af
from benchmarks.harness import Contest, Peer, Round, Size, Unit, absent
from benchmarks.images import BATCH, BUFFER, SIZE, augmented, images
from benchmarks.peers import load
from benchmarks.registry import benchmark

PEERS = {
    "torch": ("torch DataLoader", "the whole order is shuffled; chance of Python's, another in every run"),
    "grain": ("grain", "the whole order is shuffled; a generator an element, as ours"),
    "tensorflow": ("tf.data", "its map is a graph of TensorFlow's ops; workers are threads"),
}
AIM = 1.0
BYTES = SIZE * SIZE * 4


@benchmark(
    "input",
    "decode, augment, shuffle, batch of 60,000 images 28x28; against torch DataLoader, tf.data, grain",
)
async def contests(size: Size) -> AsyncGenerator[Contest]:
    """Elements that come out of an endless pipeline, in batches: inline, then with two workers."""
    for workers in (0, 2):
        async with AsyncExitStack() as stack:
            ours = await _ours(stack, workers)
            peers = [_peer(stack, name, workers) for name in PEERS]
            if not workers:
                peers.append(
                    Peer("plain Python loop", _loop(), note="no shuffle, no chance of its own, no bounds")
                )
            n = size.operations(20_000, step=BATCH)
            yield Contest(f"elements_{workers}_workers", Unit.ELEMENTS, n, ours, peers)
            peers = [replace(peer, round=peer.round and _by_bytes(peer.round)) for peer in peers]
            note = f"the same in bytes: an element has {BYTES} when it leaves"
            yield Contest(
                f"megabytes_{workers}_workers", Unit.MEGABYTES, n * BYTES, _by_bytes(ours), peers, note=note
            )


def _by_bytes(round_: Round) -> Round:
    return lambda n: round_(n // BYTES)


def augment(element: tuple[Any, Any], bits: int) -> tuple[Any, Any]:
    """Decodes and augments one image, by bits of its own."""
    image, label = element
    return augmented(image, bits), label


async def _ours(stack: AsyncExitStack, workers: int) -> Round:
    """Opens a stream of batches that never ends."""
    pipeline = af.data.arrays(images()).map(augment, processes=workers or None, random="bits", seed=1)
    pipeline = pipeline.shuffle(BUFFER, seed=2).repeat().batch(BATCH).prefetch(2)
    batches = aiter(await stack.enter_async_context(pipeline.open()))
    return _async_round(batches)


def _async_round(batches: AsyncIterator[Any]) -> Round:
    async def round_(n: int) -> float:
        x: Any = None
        start = perf_counter()
        for _ in range(n // BATCH):
            x, _ = await anext(batches)
        seconds = perf_counter() - start
        _check(x)
        return seconds

    return round_


def _peer(stack: AsyncExitStack, name: str, workers: int) -> Peer:
    """Opens what another library makes of the same."""
    told, note = PEERS[name]
    module = load(name)
    if module is None:
        return absent(told, name, AIM)
    return Peer(told, _round(stack.enter_context(module.open_input(workers))), AIM, note)


def _loop() -> Round:
    def batches() -> Iterator[Any]:
        x, y = images()
        while True:
            for first in range(0, len(y) - BATCH + 1, BATCH):
                rows = [augmented(x[i], i) for i in range(first, first + BATCH)]
                yield np.stack(rows), y[first : first + BATCH]

    return _round(batches())


def _round(batches: Iterator[Any]) -> Round:
    async def round_(n: int) -> float:
        x: Any = None
        start = perf_counter()
        for _ in range(n // BATCH):
            x, _ = next(batches)
        seconds = perf_counter() - start
        _check(x)
        return seconds

    return round_


def _check(x: Any) -> None:
    if tuple(x.shape) != (BATCH, SIZE, SIZE):
        message = f"a batch must hold {BATCH} images, got {tuple(x.shape)}"
        raise RuntimeError(message)
