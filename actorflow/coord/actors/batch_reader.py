"""The batches of a training run by epoch and index, whatever they come from.

Batches are handed out by number: this worker's next one may be any later one, or an earlier one again
that another worker did not finish. A sequence is looked into by index. Everything else is read forward,
and what others were given is passed over, so every worker reads whole epochs; for an earlier batch the
epoch is opened anew.

One reading at a time, each in a task of its own: whoever waits for a batch may be cancelled at any time,
and a generator that is cancelled while it reads would give nothing more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from typing import Any, NamedTuple, Protocol

from actorflow.coord.rules.messages import Batch
from actorflow.errors import StepAborted, shorten, show_value
from actorflow.runtime.reader_thread import ReaderThread
from actorflow.runtime.user_code import blame_user_code

Feeds = Mapping[Any, Any]


class BatchReading(Protocol):
    """The batches of one epoch, in order, once it has been entered."""

    async def take(self) -> Feeds | None:
        """Returns the next batch; None when there is none."""
        ...


Opening = Callable[[Any, int], AbstractAsyncContextManager[BatchReading]]
"""(what `batches(epoch)` returned, epoch) -> its batches; the same ones whenever it is asked."""


Describe = Callable[[Callable[[int], Any], Any], str]
"""(batches, what `batches(epoch)` returned; None before it has) -> what that is, with its line."""

_QUICK = (list, tuple)
"""Sequences that no code of the program's reads."""

_WHAT = 300
"""Characters that are told of what somebody waits for."""


class InputWait(NamedTuple):
    """A wait for a batch.

    Attributes:
        what: Which batch, and of what, with its line.
        since: Since when.
    """

    what: str
    since: float


def _describe_plainly(batches: Callable[[int], Any], source: Any) -> str:
    return show_value(batches if source is None else source)


class _ReadAhead(NamedTuple):
    number: int
    feeds: Feeds


class BatchReader:
    """Gives batches by epoch and index.

    INVARIANT: `_taken` batches were read from the reader of `_epoch`; of these the last one is kept, and
        the last one that was given.

    Args:
        batches: Epoch (0, 1, …) → its batches: a sequence, or what `opening` can read.
        opening: Reads what is no sequence.
        now: Gives the time.
        describe: Says what batches come from.
        thread: Where plain code of the program's runs; None for the thread of the loop.

    Attributes:
        sizes: How many batches each epoch has that has been read to its end.
        openings: How often an epoch has been opened.
    """

    def __init__(
        self,
        batches: Callable[[int], Any],
        opening: Opening,
        *,
        now: Callable[[], float] = lambda: 0.0,
        describe: Describe = _describe_plainly,
        thread: ReaderThread | None = None,
    ) -> None:
        self.sizes: dict[int, int] = {}
        self.openings = 0
        self._batches = batches
        self._opening = opening
        self._now = now
        self._describe = describe
        self._thread = thread
        self._asked: tuple[Batch, float] | None = None  # what somebody waits for, and since when
        self._source: Any = None
        self._epoch: int | None = None
        self._sequence: Sequence[Any] | None = None
        self._scope: AbstractAsyncContextManager[BatchReading] | None = None
        self._reader: BatchReading | None = None
        self._awaits = False
        self._taken = 0
        self._given: _ReadAhead | None = None
        self._read: _ReadAhead | None = None
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        where = "closed" if self._epoch is None else f"{self._taken} batches read of epoch {self._epoch}"
        return f"<BatchReader, {where}>"

    async def batch(self, at: Batch) -> Feeds | None:
        """Returns the batch; None when its epoch has no batch of that index, see `sizes`.

        Who is cancelled has taken nothing.

        Raises:
            ProgramError: the program's own code failed.
            InputError: a pipeline failed at an element.
        """
        self._asked = asked = at, self._now()
        try:
            return await self._batch(at)
        finally:
            if self._asked is asked:  # else somebody else waits by now
                self._asked = None

    def waits(self) -> InputWait | None:
        """Returns for which batch somebody waits, and of what; None when nobody does."""
        if self._asked is None:
            return None
        at, since = self._asked
        read = f", {self._taken} of them read so far" if 0 < self._taken < at.index else ""
        what = f"batch {at.index} of epoch {at.epoch}{read}, of {self._describe(self._batches, self._source)}"
        return InputWait(shorten(what, _WHAT), since)

    async def _batch(self, at: Batch) -> Feeds | None:
        while True:
            size = self.sizes.get(at.epoch)
            if size is not None and at.index >= size:
                return None
            if self._epoch != at.epoch:
                await self._alone(self._open(at.epoch))
            elif self._sequence is not None and (self._thread is None or type(self._sequence) in _QUICK):
                with _users(at.epoch):
                    found: Feeds = self._sequence[at.index]
                return found
            elif (kept := self._read_ahead_of(at.index)) is not None:
                self._given = kept
                return kept.feeds
            elif self._sequence is not None:
                await self._alone(self._look(at))
            elif at.index < self._taken:
                await self._alone(self._open(at.epoch))
            else:
                await self._alone(self._take())

    def read_ahead(self) -> None:
        """Begins to read the next batch, if that can be awaited; it is kept until it is asked for or passed.

        Others are read when they are asked for: a plain generator may well give the same arrays again with
        other contents.
        """
        if self._epoch is None or self._reader is None or not self._awaits or self._task is not None:
            return
        more = self._taken < self.sizes.get(self._epoch, self._taken + 1)
        if more and self._read is self._given:
            self._start(self._take())

    async def close(self) -> None:
        """Ends what is being read and closes the epoch; the next batch opens it anew."""
        while self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._leave()

    # -- one reading at a time -----------------------------------------------------------------------

    async def _alone(self, reading: Coroutine[Any, Any, None]) -> None:
        """Does a reading when nobody else reads; if somebody does, waits for that instead."""
        if self._task is not None:
            reading.close()
            await asyncio.wait([self._task])
            return
        task = self._start(reading)
        await asyncio.wait([task])
        if task.cancelled():
            raise StepAborted("the batches were closed while one was being read")
        task.result()

    def _start(self, reading: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self._task = task = asyncio.get_running_loop().create_task(reading, name="actorflow-supply")
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled():
            task.exception()  # who waits has it; where nobody does, the next one meets it again

    async def _open(self, epoch: int) -> None:
        await self._leave()
        with _users(epoch):
            source = self._source = await self._plain(partial(self._batches, epoch))
            self.openings += 1
            if isinstance(source, Sequence):
                self._learn(epoch, await self._plain(partial(len, source)))
                self._sequence = source
            else:
                scope = self._opening(source, epoch)
                self._reader = await scope.__aenter__()
                self._scope = scope
        self._awaits = isinstance(source, AsyncIterable)
        self._epoch = epoch

    async def _plain(self, function: Callable[[], Any]) -> Any:
        """Calls plain code of the program's, beside the loop where it has a thread."""
        if self._thread is None:
            return function()
        call = self._thread.hand_over(function)
        await self._thread.until_over(call)
        return call.result()

    async def _look(self, at: Batch) -> None:
        """Reads one batch of a sequence."""
        assert self._sequence is not None
        with _users(at.epoch):
            self._read = _ReadAhead(
                at.index, await self._plain(partial(self._sequence.__getitem__, at.index))
            )

    async def _take(self) -> None:
        """Reads one batch; whatever goes wrong closes the epoch, for it cannot go on."""
        assert self._reader is not None
        assert self._epoch is not None
        try:
            with _users(self._epoch):
                feeds = await self._reader.take()
            if feeds is None:
                self._learn(self._epoch, self._taken)
                return
        except BaseException:
            await self._leave()
            raise
        self._read = _ReadAhead(self._taken, feeds)
        self._taken += 1

    async def _leave(self) -> None:
        """Closes the epoch that is open."""
        scope, self._scope = self._scope, None
        epoch = self._epoch
        self._epoch = self._sequence = self._reader = self._given = self._read = self._source = None
        self._taken = 0
        if scope is not None and epoch is not None:
            with _users(epoch):
                await scope.__aexit__(None, None, None)

    def _read_ahead_of(self, index: int) -> _ReadAhead | None:
        return next((k for k in (self._given, self._read) if k is not None and k.number == index), None)

    def _learn(self, epoch: int, size: int) -> None:
        self.sizes[epoch] = size


def _users(epoch: int) -> AbstractContextManager[None]:
    """Blames the program for all that its batches raise: nothing of it may end the worker."""
    return blame_user_code(f"batches({epoch})", ends=False)
