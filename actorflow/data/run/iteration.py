"""A stream that closes itself: what `async for element in pipeline` runs.

A task of its own holds the stream open, so the stream is left in the same way however the loop over it
ends: by its end, by an error, by a `break`, or by whoever cancels all tasks of the event loop and waits for
them, as `asyncio.run` does.
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop, Future, Task
from typing import Any, Self

from actorflow.data.run.stream import Stream
from actorflow.runtime.affinity import Affinity


class Iteration:
    """The elements of a stream that nobody else uses, opened with the first."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._keeper: Task[None] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        """Returns the next element; at the end, and after an error, everything is closed first."""
        # With the first element: an iterator that nobody uses opens nothing.
        if self._keeper is None:
            loop = asyncio.get_running_loop()
            opened: Future[None] = loop.create_future()
            self._leave: Future[None] = loop.create_future()
            self._loop = loop
            # An async generator would be closed in a task that `asyncio.run` does not wait for.
            self._keeper = loop.create_task(_keep(self._stream, opened, self._leave))
            self._opened = opened
            self._affinity = Affinity("the loop over a pipeline", loop)
        self._affinity.check()
        # Shielded: whoever gives up waiting must not undo the opening, which others may wait for.
        await asyncio.shield(self._opened)
        try:
            return await anext(self._stream)
        except Exception:
            _set_ended(self._leave)
            # ORDER: everything is closed before the end, or the error, is told.
            await asyncio.wait([self._keeper])
            raise

    # A `break` leaves the iterator to the collector, which may run in any thread.
    def __del__(self) -> None:
        if self._keeper is not None and not self._keeper.done():
            _leave_soon(self._loop, self._leave)


def _leave_soon(loop: AbstractEventLoop, leave: Future[None]) -> None:
    """Ends the keeper, from whatever thread collects the iterator; without a loop its task is gone."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(_set_ended, leave)


def _set_ended(leave: Future[None]) -> None:
    if not leave.done():
        leave.set_result(None)


async def _keep(stream: Stream, opened: Future[None], leave: Future[None]) -> None:
    """Holds the stream open until it is to be left."""
    try:
        async with stream:
            opened.set_result(None)
            await leave
    except Exception as error:
        if opened.done():
            raise
        opened.set_exception(error)
        opened.exception()  # whoever opened it may be gone
    finally:
        opened.cancel()  # unless it has ended
