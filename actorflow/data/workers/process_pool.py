"""A function applied to chunks of elements in a pool of spawned processes, on one event loop.

Elements travel as raw buffers, functions by name; see `transport.codec.message_codec` and
`data.workers.function_names`. There is no thread: the sockets of the children are read and written by the
loop, and never block it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio import Future
from collections import deque
from functools import partial
from typing import Any

from actorflow.data.values.rng import Epochs
from actorflow.data.workers.child_main import ChildHello
from actorflow.data.workers.child_process import ChildProcess
from actorflow.data.workers.function_names import MAIN, FunctionName, is_finding, name_function
from actorflow.data.workers.mapper import ElementFailed
from actorflow.errors import CannotTravel, ConfigError, DiskFull, InputError, StateError, Where
from actorflow.runtime.call_site import line_at
from actorflow.transport.codec.message_codec import encode
from actorflow.values.checks import is_whole

PER_CHILD = 2
"""Chunks that a child has at once: one that it works on, one that is there when it is done."""

BUSY_GRACE_S = 0.05
"""How long a child that is at work when the pool closes may take to end by itself."""


class ProcessMapper:
    """Applies a function to chunks of elements in processes; see `actorflow.data.workers.mapper.Mapper`.

    Args:
        function: Defined at the top of a module, or its name `"module:function"`, or a `FunctionName`.
        processes: How many, at least 1.
        seed: None for a function without chance; else it is called `function(element, generator)`, with
            the generators of this seed, see `data.values.rng`.
        as_bits: Whether it is given 64 random bits, an int, and not a generator.
        start_s: How long the processes may take to import the function.

    **Promise.** Results come in the order of the elements, or `ElementFailed` for the first that failed, or
    whose result cannot be sent. When a process dies, the chunks that it had fail, each at its first
    element; the other processes go on. Nothing is done twice. Every future ends. After `close` there
    is no process, descriptor or timer left.

    Raises:
        ConfigError: for a function that processes cannot find, or no processes.
    """

    def __init__(
        self,
        function: Any,
        processes: int,
        *,
        seed: int | None = None,
        as_bits: bool = False,
        start_s: float = 60.0,
    ) -> None:
        if not is_whole(processes, 1, plain=True):
            message = f"processes must be an integer of at least 1, got {processes!r}"
            raise ConfigError(message)
        self.width = PER_CHILD * processes
        self._name = name_function(function)
        self._processes = processes
        self._seed = seed
        self._as_bits = as_bits
        self._start_s = start_s
        self._children: list[_ChildState] = []
        self._waiting: deque[_SentChunk] = deque()
        self._started = self._closed = False
        self._ready: Future[None]
        self._empty: Future[None]
        self._last_end = ""

    def pids(self) -> list[int]:
        """Returns the numbers of the processes that live."""
        return [child.process.pid for child in self._children]

    async def start(self) -> None:
        """Starts the processes, and waits until all have found the function.

        Raises:
            ConfigError: when one has not, with its reason; all are ended then.
        """
        if self._started or self._closed:
            raise StateError("a pool of processes starts once")
        # A module that runs a pipeline when it is imported would do so in each child, without end.
        if is_finding():
            message = "its module runs a pipeline when it is imported, and would again in every process"
            raise ConfigError(message, hint='put what runs behind if __name__ == "__main__":')
        self._started = True
        loop = asyncio.get_running_loop()
        self._ready, self._empty = loop.create_future(), loop.create_future()
        hello = encode(_hello(self._name, self._seed, as_bits=self._as_bits).data())
        try:
            for _ in range(self._processes):
                child = _ChildState()
                child.process = ChildProcess(loop, partial(self._hear, child), partial(self._ended, child))
                # ORDER: known before it is spoken to: it may end at once, and is then taken out.
                self._children.append(child)
                child.process.send(hello)
            async with asyncio.timeout(self._start_s):
                await self._ready
        except TimeoutError:
            late = sum(not child.ready for child in self._children)
            await self.close()
            # It may be waiting for something itself: its module does more than define things.
            message = f"processes must find {self._name} within {self._start_s:g} s, {late} of them did not"
            raise ConfigError(message, hint="does its module do more than define things?") from None
        except BaseException:
            await self.close()
            raise

    def map(self, values: list[Any], ordinals: list[int], epoch: Epochs) -> Future[list[Any]]:
        """Returns the results to come; more than `width` chunks wait here.

        The arrays of a result are writeable views of one piece of memory, so who keeps one of them
        keeps that.
        """
        chunk = _SentChunk(values, ordinals, epoch, asyncio.get_running_loop().create_future())
        if self._closed or not self._started:
            chunk.end(StateError("the pool of processes is not open"))
        elif not values:
            chunk.future.set_result([])
        # All have died: nobody is left to wait for.
        elif not self._children:
            chunk.fail(InputError(f"no process is left for {self._name}: the last {self._last_end}"))
        else:
            self._waiting.append(chunk)
            self._feed()
        return chunk.future

    async def close(self) -> None:
        """Ends the processes, whatever they do; chunks under way fail with StateError.

        Idle ones end by themselves, busy ones are killed after a grace. Whoever is cancelled here
        hears of it when all have ended.
        """
        if self._started and not self._closed:
            self._closed = True
            for chunk in [*self._waiting, *(chunk for child in self._children for chunk in child.chunks)]:
                # ORDER: chunks are ended before children, whose ends would tell another reason.
                chunk.end(StateError("the pool of processes was closed"))
            self._waiting.clear()
            # One that is at work may not return: it gets less time.
            for child in self._children:
                child.process.hang_up(
                    BUSY_GRACE_S
                ) if child.chunks or not child.ready else child.process.hang_up()
            if not self._children and not self._empty.done():
                self._empty.set_result(None)
        self._closed = True
        cancelled: asyncio.CancelledError | None = None
        while self._started and not self._empty.done():
            try:
                await asyncio.wait([self._empty])
            # Told when all have ended: nothing of the pool may be left behind.
            except asyncio.CancelledError as error:
                cancelled = error
                # Whoever cancels does not want to wait any longer.
                for child in self._children:
                    child.process.hang_up(0)
        if cancelled is not None:
            raise cancelled

    # -------------------------------------------------------------------------- children

    def _feed(self) -> None:
        """Hands chunks that wait to the children that have the fewest."""
        while self._waiting and self._children:
            # The child with the fewest; one chunk waits in its socket while it works on the other.
            child = min(self._children, key=_load)
            if len(child.chunks) == PER_CHILD:
                return
            chunk = self._waiting.popleft()
            if chunk.future.done():  # nobody waits for it any more
                continue
            try:
                # Ordinals are for chance: without that they need not travel.
                parts = encode((chunk.epoch, None if self._seed is None else chunk.ordinals, chunk.values))
            except CannotTravel:
                chunk.fail_unsendable()
                continue
            chunk.values = []  # what is not sent yet is held by the process, and no longer
            child.chunks.append(chunk)
            child.process.send(parts)

    def _hear(self, child: _ChildState, message: Any) -> None:
        """Takes a message of a child: whether it found the function, or the answer for its oldest chunk."""
        if not child.ready:
            self._hear_hello(child, message)
            return
        # A child answers in the order in which it was asked.
        chunk = child.chunks.popleft()
        # ORDER: it gets the next before its results are looked at.
        self._feed()
        if chunk.future.done():
            return
        results, report = message
        if report is None:
            chunk.future.set_result(results)
        else:
            error = self._error(child, report)
            chunk.end(ElementFailed(chunk.ordinals[len(results)], error, results))

    def _hear_hello(self, child: _ChildState, message: Any) -> None:
        # Another one has failed already, or the pool closes.
        if self._ready.done():
            return
        if message:
            # The user knows his script by that name.
            what = f"a process cannot use {self._name}: {message['what'].replace(MAIN, '__main__')}"
            kind = DiskFull if message.get("full") else ConfigError
            error = kind(what, where=_where(message["place"]), hint=message["hint"])
            _note(error, child, message["traceback"])
            self._ready.set_exception(error)
            return
        child.ready = True
        if len(self._children) == self._processes and all(child.ready for child in self._children):
            self._ready.set_result(None)

    def _error(self, child: _ChildState, report: dict[str, Any]) -> InputError:
        what = report["what"].replace(MAIN, "__main__")
        error = InputError(what, where=_where(report["place"]), hint=report["hint"])
        _note(error, child, report["traceback"])
        return error

    def _ended(self, child: _ChildState) -> None:
        """A child has ended: what it had fails, and so does all that waits when it was the last."""
        self._children.remove(child)
        ending = child.process.ending
        self._last_end = f"(process {child.process.pid}) {ending}"
        if not self._ready.done():
            message = f"a process ({child.process.pid}) {ending} before it had found {self._name}"
            self._ready.set_exception(ConfigError(message, hint="its stderr may tell more"))
            self._ready.exception()  # nobody waits for it while the pool closes
        hint = "was the memory used up?" if ending is not None and "SIGKILL" in ending else None
        # Nothing is done twice: what it had fails, each chunk at its first element.
        for chunk in child.chunks:
            first, last = chunk.ordinals[0], chunk.ordinals[-1]
            elements = f"element {first}" if first == last else f"elements {first} to {last}"
            message = f"a process ({child.process.pid}) {ending} while it had {elements} for {self._name}"
            chunk.fail(InputError(message, hint=hint))
        child.chunks.clear()
        if self._children:
            return
        while self._waiting:
            chunk = self._waiting.popleft()
            chunk.fail(InputError(f"no process is left for {self._name}: the last {self._last_end}"))
        if self._closed:
            self._empty.set_result(None)


class _ChildState:
    """A process and what it has."""

    __slots__ = ("chunks", "process", "ready")

    process: ChildProcess

    def __init__(self) -> None:
        self.chunks: deque[_SentChunk] = deque()  # in the order in which it answers
        self.ready = False


class _SentChunk:
    """Elements under way, and who waits for their results."""

    __slots__ = ("epoch", "future", "ordinals", "values")

    def __init__(
        self, values: list[Any], ordinals: list[int], epoch: Epochs, future: Future[list[Any]]
    ) -> None:
        self.values = values
        self.ordinals = ordinals
        self.epoch = epoch
        self.future = future

    def end(self, error: Exception) -> None:
        """Ends the wait with an error."""
        if not self.future.done():
            self.future.set_exception(error)
            self.future.exception()  # whoever waited may be gone, which is no fault of theirs

    def fail(self, error: InputError) -> None:
        """Fails at the first element."""
        self.end(ElementFailed(self.ordinals[0], error))

    def fail_unsendable(self) -> None:
        """Fails at the first element that no message holds."""
        # One by one, now that it is known that not all can be sent.
        for ordinal, value in zip(self.ordinals, self.values, strict=True):
            try:
                encode(value)
            except CannotTravel as error:
                what = f"an element cannot be sent to a process: {error.what}"
                self.end(ElementFailed(ordinal, InputError(what, hint=error.hint)))
                return
        self.fail(InputError("the elements of one chunk are too large for one message"))


def _load(child: _ChildState) -> int:
    return len(child.chunks)


def _hello(name: FunctionName, seed: int | None, *, as_bits: bool) -> ChildHello:
    # A relative entry would mean another folder where the child is.
    path = [os.path.abspath(entry) if not entry or os.path.exists(entry) else entry for entry in sys.path]
    python_path = os.environ.get("PYTHONPATH")
    argv = list(sys.argv)
    return ChildHello(
        path, argv, python_path, name.module, name.qualname, name.file, name.digest, seed, as_bits
    )


def _where(place: tuple[str, int] | None) -> Where | None:
    return None if place is None else Where(defined_at=line_at(*place))


def _note(error: Exception, child: _ChildState, traceback: str | None) -> None:
    if traceback is not None:
        told = traceback.replace(MAIN, "__main__")
        error.add_note(f"in process {child.process.pid}:\n{told}".rstrip())
