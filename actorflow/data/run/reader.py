"""What a part of a pipeline reads from: a source, or the buffer of the part before it."""

from __future__ import annotations

import asyncio
import inspect
from asyncio import AbstractEventLoop, CancelledError, Future, Task
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from actorflow.data.run.buffer import END, Onward, SkipEpoch, TakeElements
from actorflow.data.sources.protocol import AsyncCloses
from actorflow.data.stages.stats import StageMeter
from actorflow.data.values.chunk import CHUNK, Chunk, nbytes, number, numbers
from actorflow.data.values.chunk_size import ChunkSize
from actorflow.errors import InputError, InternalError, Where, describe
from actorflow.runtime.cancellation import FAILURES

if TYPE_CHECKING:
    from actorflow.actors.ref import Ref
    from actorflow.data.sources.protocol import Reader, Source
    from actorflow.data.stages.stage import CallSite
    from actorflow.runtime.environment import Workers

Now = Callable[[], float]


class StageReader(Protocol):
    """Gives chunks, epoch after epoch. At most one `want` is open at a time.

    Attributes:
        bytes: Of the elements that it holds: read ahead, or under way.
    """

    @property
    def bytes(self) -> int:
        """Bytes of the elements that it holds."""
        ...

    def want(self, most: int = CHUNK) -> Future[Chunk | None]:
        """Returns the next elements, at least one; None where the epoch ends, and once only."""
        ...

    def skip(self) -> None:
        """No more of this epoch is wanted; a `want` that is open will not be looked at."""
        ...

    def onward(self, again: bool) -> None:
        """Says after the end of an epoch whether another one is wanted."""
        ...

    async def close(self) -> None:
        """Lets go of everything."""
        ...


class _SourcePass:
    """One epoch of a source: its reader, opened when it is first read."""

    __slots__ = ("_reader", "_source", "awaits", "epoch", "left", "next", "reading")

    def __init__(self, source: Source, epoch: int, start: int) -> None:
        self._source = source
        self._reader: Reader | None = None
        self.epoch = epoch
        self.next = start
        self.reading: Future[Any] | None = None
        self.left = False  # nobody wants what a read that has not begun would give
        self.awaits = False  # whether reading waits on the loop

    @property
    def begun(self) -> bool:
        """Whether there is a reader, or will be one."""
        return self._reader is not None or self.reading is not None

    def read(self, most: int) -> Any:
        """Reads, on whatever thread it is called."""
        # Submitted and not begun when its epoch was left: nothing is opened for nobody.
        if self.left:
            return []
        if self._reader is None:
            self._reader = self._source.open(self.next, self.epoch)
        return self._reader.read(most)

    def close(self) -> Awaitable[None] | None:
        """Closes the reader on the thread that read, if there is one; returns what is still to be awaited."""
        reader, self._reader = self._reader, None
        if reader is None:
            # Nothing was opened: nothing is to be closed.
            return None
        reader.close()
        return reader.aclose() if isinstance(reader, AsyncCloses) else None


class SourceReader:
    """Reads a source: inline, on a thread where it may block, or by awaiting what it gives.

    Where reading does not happen inline, the next elements are read while the last are worked on. No more
    are read at once than take little time, so that nobody waits long for the first of them, and leaving
    not for the others.

    Args:
        source: What to read.
        call_site: Of the source, for errors.
        loop: Whose futures are given.
        workers: Makes a thread for a source that blocks.
        meter: Of the source.
        now: Measures how long reading takes.
        start: The ordinal of the first element of the first epoch.
        epoch: The first epoch.
        over: Whether that has no more elements.
        unclosed: Hears once, while this closes, of the first reader whose end failed; `close` raises it
            where this is None.
    """

    def __init__(
        self,
        source: Source,
        call_site: CallSite,
        loop: AbstractEventLoop,
        workers: Callable[[], Workers],
        meter: StageMeter,
        now: Now,
        *,
        start: int = 0,
        epoch: int = 0,
        over: bool = False,
        unclosed: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._source = source
        self._call_site = call_site
        self._loop = loop
        self._meter = meter
        self._now = now
        self._pass = _SourcePass(source, epoch, start)
        self._workers = workers() if source.blocking else None
        self._ahead: Future[Chunk | None] | None = None
        self._wanted: Future[Chunk | None] | None = None
        self._dropped: list[_SourcePass] = []
        self._closing: set[Future[None]] = set()
        self._unclosed = unclosed
        self._fault: BaseException | None = None
        self._eager = source.blocking
        self._chunk_size = ChunkSize()
        self._asked = CHUNK
        self.bytes = 0
        # The next answer is the end of the epoch.
        if over:
            self._ahead = loop.create_future()
            self._ahead.set_result(None)

    def want(self, most: int = CHUNK) -> Future[Chunk | None]:
        """Returns the next elements; see `StageReader`."""
        found, self._ahead = self._ahead, None
        self._asked = most
        if found is None:
            found = self._read()
        self.bytes = 0
        # It was read ahead: reading goes on in this very turn.
        if found.done():
            self._go_ahead(found)
        else:
            self._wanted = found
        return found

    def skip(self) -> None:
        """Ends the epoch: nothing more of it is read."""
        self._drop()

    def onward(self, again: bool) -> None:
        """Prepares the next epoch."""
        self._drop()
        self._pass = _SourcePass(self._source, self._pass.epoch + 1, 0)

    async def close(self) -> None:
        """Closes the readers, once nothing reads any more; raises what failed where nobody else hears of it.

        Raises:
            InputError: the end of a reader failed.
        """
        # ORDER: nothing is read ahead any more, then what reads has to end, then readers are closed, and
        # their thread last.
        self._eager = False
        self._drop()
        try:
            reading = [old.reading for old in self._dropped if old.reading is not None]
            await asyncio.gather(*reading, return_exceptions=True)
            for old in self._dropped:
                self._release(old)
            while self._closing:
                await asyncio.wait(tuple(self._closing))
        finally:
            if self._workers is not None:
                await self._workers.close()
        fault, self._fault = self._fault, None
        if fault is not None:
            if self._unclosed is None:
                raise fault
            self._unclosed(fault)

    def _release(self, old: _SourcePass) -> None:
        """Closes a reader that nobody reads, on the thread that read it; `close` waits for its end."""
        if not old.begun:
            return
        # Inline, in the thread of the loop: the reader was opened there as well.
        if self._workers is None:
            try:
                self._end(old.close())
            except Exception as error:  # noqa: BLE001  told when this closes
                self._not_closed(error)
            return
        # On the thread that read it: files, databases and the code of a generator may belong to it, and may
        # take their time.
        closing: Future[None] = self._loop.create_future()
        self._closing.add(closing)

        def closed(rest: Awaitable[None] | None, error: BaseException | None, _seconds: float) -> None:
            if error is not None:
                self._not_closed(error)
            self._end(rest)
            self._closing.discard(closing)
            closing.cancel()  # ends it; `close` looks at what is left

        self._workers.submit(old.close, closed)

    def _end(self, rest: Awaitable[None] | None) -> None:
        """Awaits what a reader still has to do on the loop."""
        if rest is not None:
            ending: Future[None] = asyncio.ensure_future(rest, loop=self._loop)
            self._closing.add(ending)
            ending.add_done_callback(self._ended)

    def _ended(self, ending: Future[None]) -> None:
        self._closing.discard(ending)
        error = None if ending.cancelled() else ending.exception()
        if error is not None:
            self._not_closed(error)

    def _not_closed(self, error: BaseException) -> None:
        """Keeps the error of the first end that failed."""
        if self._fault is None:
            self._fault = error
            if isinstance(error, Exception):
                message = f"{self._source.name}: closing it raised {describe(error)}"
                self._fault = InputError(message, where=Where(defined_at=self._call_site.line))
                self._fault.__cause__ = error

    def _drop(self) -> None:
        """Ends the pass; its reader is closed after what is being read."""
        old, self._ahead, self._wanted = self._pass, None, None
        self.bytes = 0
        # Of those that are dropped only what still reads matters.
        self._dropped = [each for each in self._dropped if each.reading is not None]
        old.left = True
        if old.reading is None or self._workers is not None:  # on its thread, what reads comes first
            self._release(old)
        else:
            self._dropped.append(old)
            old.reading.cancel()
            old.reading.add_done_callback(lambda _: self._release(old))
        self._pass = _SourcePass(self._source, old.epoch, old.next)

    def _go_ahead(self, found: Future[Chunk | None]) -> None:
        """Begins to read what will be wanted next, if reading does not happen inline."""
        # ORDER: in the turn in which what was wanted is there, not in a callback of it: whoever waits for
        # that may see it first and want more, and two would read at once.
        if self._eager and found.exception() is None and found.result() is not None:
            self._ahead = self._read()

    def _read(self) -> Future[Chunk | None]:
        reply: Future[Chunk | None] = self._loop.create_future()
        current, start = self._pass, self._now()
        most = min(self._asked, self._chunk_size.most)
        if self._workers is not None:
            done: Future[Any] = self._loop.create_future()
            current.reading = done

            def read(values: Any, error: BaseException | None, seconds: float) -> None:
                current.reading = None
                done.cancel()  # ends it; only its callbacks matter
                self._done(reply, current, values, error, seconds)

            self._workers.submit(lambda: current.read(most), read)
            return reply
        try:
            values = current.read(most)
        # Whatever a source raises: told as an error of the element.
        except FAILURES as error:
            self._done(reply, current, None, error, self._now() - start)
            return reply
        if not inspect.isawaitable(values):
            self._done(reply, current, values, None, self._now() - start)
            return reply
        # It turns out to be awaited: from now on the next is read while the last is worked on.
        self._eager = current.awaits = True
        current.reading = asyncio.ensure_future(values, loop=self._loop)
        current.reading.add_done_callback(lambda task: self._await_read(reply, current, task, start))
        return reply

    def _await_read(
        self, reply: Future[Chunk | None], current: _SourcePass, task: Future[Any], start: float
    ) -> None:
        current.reading = None
        if not task.cancelled():
            error = task.exception()
        # Cancelled by us, since nobody wants it any more.
        elif current is not self._pass or (isinstance(task, Task) and task.cancelling()):
            reply.cancel()
            return
        else:  # not by us: it has raised it, or what it waits for was cancelled
            error = CancelledError()
        self._done(reply, current, None if error else task.result(), error, self._now() - start)

    def _done(
        self,
        reply: Future[Chunk | None],
        current: _SourcePass,
        values: Any,
        error: BaseException | None,
        s: float,
    ) -> None:
        self._meter.busy_s += s
        # Whoever wanted it has been cancelled.
        if reply.done():
            return
        wanted = reply is self._wanted
        if error is not None:
            reply.set_exception(self._failed(current, error))
            reply.exception()  # read ahead, it may never be wanted
        # No elements: the epoch ends.
        elif not values:
            reply.set_result(None)
        else:
            self._meter.passed(len(values), nbytes(values[:1]))
            if current.awaits:  # its time is that of whoever fills it
                s = 0.0
            self._chunk_size.note_duration(len(values), s)
            chunk = Chunk(values, numbers(current.epoch, current.next, len(values)))
            current.next += len(values)
            # Only what was read ahead waits here: what was wanted is whoever's who wanted it.
            if current is self._pass and self._eager and not wanted:
                self.bytes = chunk.bytes
            reply.set_result(chunk)
        if wanted:
            self._wanted = None
            self._go_ahead(reply)

    def _failed(self, current: _SourcePass, error: BaseException) -> BaseException:
        # Ctrl-C and the like are nobody's element.
        if not isinstance(error, Exception | CancelledError):
            return error
        if isinstance(error, InputError):
            return error.at(Where(defined_at=self._call_site.line))
        return self._call_site.element_error(number(current.epoch, current.next), error)


class BufferReader:
    """Takes from the buffer of the part before.

    Args:
        buffer: Its actor.
        loop: Whose futures are given.
        most: Elements that it takes at once.
    """

    def __init__(self, buffer: Ref, loop: AbstractEventLoop, most: int = CHUNK) -> None:
        self._most = most
        self._buffer = buffer
        self._loop = loop
        self._open: TakeElements | None = None
        self.bytes = 0  # what waits is the buffer's
        self._ended = False

    def want(self, most: int = CHUNK) -> Future[Chunk | None]:
        """Returns the next elements; see `StageReader`."""
        found: Future[Chunk | None] = self._loop.create_future()
        # The end came together with the last elements.
        if self._ended:
            self._ended = False
            found.set_result(None)
            return found
        # In the turn of the buffer: a future would take two turns of the loop more.
        self._open = TakeElements(min(most, self._most), lambda pairs, error: self._came(found, pairs, error))
        _tell_consumer(self._buffer, self._open)
        return found

    def skip(self) -> None:
        """Wants no more of this epoch."""
        self._ended = False
        _tell_consumer(self._buffer, SkipEpoch(self._open))

    def onward(self, again: bool) -> None:
        """Says whether another epoch is wanted."""
        _tell_consumer(self._buffer, Onward(again))

    async def close(self) -> None:
        """Has nothing to let go of."""

    def _came(self, found: Future[Chunk | None], pairs: list[Any], error: BaseException | None) -> bool:
        self._open = None
        # Whoever wanted it has been cancelled: the buffer takes it back.
        if found.done():
            return False
        if error is not None:
            found.set_exception(error)
            found.exception()  # whoever wanted it may have been cancelled
            return True
        if pairs[-1][0] is END:
            pairs.pop()
            if not pairs:
                found.set_result(None)
                return True
            # The next `want` says so.
            self._ended = True
        found.set_result(Chunk(*map(list, zip(*pairs, strict=True))))
        return True


def _tell_consumer(buffer: Ref, message: Any) -> None:
    if not buffer.try_tell(message):
        what = f"the mailbox of '{buffer.name}' is full, with one producer and one consumer"
        raise InternalError(what)
