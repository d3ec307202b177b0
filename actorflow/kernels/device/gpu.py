"""A card as a device of one event loop: one stream, one thread that launches, one that collects.

Kernels are launched by a thread of the device, in the order in which their nodes fire, so that the
loop never waits for the card, for a kernel that is compiled, or for one that looks at its values (a
check of labels, say). A node has fired when its kernel is *launched*: its output is an array that
the card has yet to fill, and the order of the stream makes the next kernel wait for it. Only a copy
to the host waits for the card, on the other thread, by the event behind it; then it hands numpy's
array to the loop.

Errors: what a launch raises (shapes, no memory, an index out of range) aborts the step at the node.
What the card finds later (an illegal address) comes up at the next copy to the host, which fails in
the name of the node whose value it fetches; the card is lost to this process then.

A launch costs the threads about 10 µs and the way to them as much again: small graphs are faster on
the host. Fusing them, and replaying them as CUDA graphs, is for later.

Run on an H100 (CuPy 14.2): a chain of 200 additions takes 61 µs a node; without a card the tests run it
on a stand-in for CuPy.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from actorflow.errors import PlacementError, SessionClosed
from actorflow.kernels.device.page_locked import CHUNK_BYTES, CHUNKS, Staging
from actorflow.kernels.device.threads import Done, Threads
from actorflow.runtime.clock import Clock
from actorflow.values.arrays import Array, library
from actorflow.values.tensor_list import TensorList

_TO_CARD, _TO_HOST = 1, 2  # cudaMemcpyKind


class Gpu:
    """A card.

    Args:
        name: For example `/gpu:0`.
        index: Which card, as CUDA counts.

    Raises:
        PlacementError: when CuPy or the card is not there, with the reason.
    """

    library = "cupy"

    def __init__(self, name: str, index: int, loop: AbstractEventLoop, clock: Clock) -> None:
        cp = self._cupy = library("cupy")
        self.name = name
        self.offloaded = 0
        self.now = clock.now
        self._loop = loop
        self._closed = False
        try:
            # Asked first: to take a card that is not there raises something that says less.
            n = int(cp.cuda.runtime.getDeviceCount())
            self._number = cp.cuda.Device(index)
            if index < n:
                with self._number:
                    # Non-blocking: not ordered with the default stream, which other code of the process may
                    # use.
                    self.stream = cp.cuda.Stream(non_blocking=True)
                    self._up, self._down = self._staging(), self._staging()
        except cp.cuda.runtime.CUDARuntimeError as error:
            message = f"CUDA cannot open card {index}: {error}"
            raise PlacementError(message) from error
        if index >= n:
            message = f"CUDA sees {n} cards and no number {index}"
            raise PlacementError(message)
        # One thread that launches keeps the order in which nodes fire; one that collects may wait for the
        # card.
        self._launcher = Threads(f"{name}/launch", loop, clock, 1)
        self._collector = Threads(f"{name}/collect", loop, clock, 1)

    def __repr__(self) -> str:
        return f"<Gpu {self.name} {self.library}, {self.offloaded} launched>"

    def submit(self, job: Callable[[], Any], done: Done) -> None:
        """Launches `job` on the stream and calls `done` on the loop when it has been launched."""
        self._check_open()
        self.offloaded += 1
        # Done when it is launched: the array has yet to be filled, and the order of the stream makes the next
        # kernel wait.
        self._launcher.submit(partial(self._within, job), done)

    def collect(self, job: Callable[[], Any], done: Done) -> None:
        """Runs `job`, which may wait for the card, and calls `done` on the loop with its result."""
        self._check_open()
        self._collector.submit(partial(self._within, job), done)

    def upload(self, value: Array | TensorList) -> Array | TensorList:
        """Returns a numpy array on the card; for jobs of `submit`. The card may not be done copying.

        Of a list each array is brought there, whether or not it was brought before in another list.
        """
        if isinstance(value, TensorList):
            return value.map(self.upload)
        cp = self._cupy
        out = cp.empty(value.shape, dtype=value.dtype)
        at = out.data.ptr

        def transfer(buffer: Any, start: int, n: int) -> None:
            cp.cuda.runtime.memcpyAsync(at + start, buffer.ctypes.data, n, _TO_CARD, self.stream.ptr)

        # Through page-locked memory, from which the card copies while it computes.
        self._up.send(_flat(np.asarray(value)), transfer)
        return out

    def download(self, value: Array | TensorList) -> Array | TensorList:
        """Returns an array of the card as one of numpy, or a scalar as numpy's own kernels make them.

        For jobs of `collect`, since it waits: of a list for each array in it.
        """
        if isinstance(value, TensorList):
            return value.map(self.download)
        cp = self._cupy
        # Its bytes have to lie in a row to be copied as such.
        source = cp.ascontiguousarray(value)
        out = np.empty(value.shape, value.dtype)
        at = source.data.ptr

        def transfer(buffer: Any, start: int, n: int) -> None:
            cp.cuda.runtime.memcpyAsync(buffer.ctypes.data, at + start, n, _TO_HOST, self.stream.ptr)

        self._down.receive(_flat(out), transfer)
        # A number as numpy's own kernels make it, not an array without axes.
        return out[()]

    def constant(self, value: Array) -> Array:
        """Returns a numpy array on the card, there when this returns: for plans, not for steps."""
        with self._number, self.stream:
            found = self._cupy.asarray(np.asarray(value))
            # Waits for the card: the array on the host may be gone right after.
            self.stream.synchronize()
        return found

    async def close(self) -> None:
        """Waits for what runs, drops what waits, and ends the threads."""
        if self._closed:
            return
        self._closed = True
        # ORDER: nothing more is launched, then what was launched ends, then the thread that waits for it.
        await self._launcher.close()
        idle = self._loop.create_future()
        # In the thread that may wait.
        self._collector.submit(self.stream.synchronize, lambda _, error, __: _end(idle, error))
        try:
            await idle  # the card reads the staging buffers until then
        finally:
            await self._collector.close()

    def _check_open(self) -> None:
        if self._closed:
            message = f"device {self.name} is closed"
            raise SessionClosed(message)

    def _within(self, job: Callable[[], Any]) -> Any:
        # The card and the stream are the thread's: each job sets them.
        with self._number, self.stream:
            return job()

    def _staging(self) -> Staging:
        cuda, stream = self._cupy.cuda, self.stream
        pinned = [cuda.alloc_pinned_memory(CHUNK_BYTES) for _ in range(CHUNKS)]
        return Staging(
            [np.ndarray(CHUNK_BYTES, np.uint8, memory) for memory in pinned],
            # An event that blocks lets the core go; one that spins would take it from the loop.
            lambda: stream.record(cuda.Event(block=True, disable_timing=True)),
            lambda event: event.synchronize(),
        )


def _flat(array: np.ndarray) -> np.ndarray:
    """Returns the bytes of an array in C order, without a copy where it is in that order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _end(future: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
