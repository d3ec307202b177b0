"""A reader whose elements go through a mapper: several chunks are under way, in order or as they end."""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Callable
from typing import Any

from actorflow.data.run.reader import StageReader
from actorflow.data.stages.stage import CallSite
from actorflow.data.stages.stats import StageMeter
from actorflow.data.values.chunk import CHUNK, Chunk, nbytes, places
from actorflow.data.values.chunk_size import ChunkSize
from actorflow.data.values.rng import Epochs
from actorflow.data.values.view_copies import copy_views
from actorflow.data.workers.mapper import ElementFailed, Mapper
from actorflow.errors import ConfigError, Where

Job = Future[tuple[Chunk, int, BaseException | None]]
"""A chunk under way: the results, the bytes of what they are made of, and the error that ended them."""


class MapReader:
    """Gives what a mapper makes of the elements of another reader.

    Args:
        reader: What it reads.
        mapper: Applies the function; started and closed here.
        call_site: Of the map, for errors.
        ordered: Whether results come in the order of the elements, or as they are done.
        meter: Of the map.
        now: Measures chunks, so that a slow function gets few elements at a time.
        loop: Whose tasks are made.
        max_bytes: About how many bytes of results are under way at once; at least one of each chunk.
        draws: Whether the function takes chance, which depends on the epoch.
        keeps: Whether single results are kept behind it: then each owns its memory. What comes from a process
            comes a chunk at a time, and lies in the memory of that.
    """

    def __init__(
        self,
        reader: StageReader,
        mapper: Mapper,
        call_site: CallSite,
        *,
        ordered: bool,
        meter: StageMeter,
        now: Callable[[], float],
        loop: AbstractEventLoop,
        max_bytes: int | None = None,
        draws: bool = True,
        keeps: bool = False,
    ) -> None:
        self._keeps = keeps
        self._draws = draws
        self._max_bytes = max_bytes
        self._reader = reader
        self._mapper = mapper
        self._call_site = call_site
        self._ordered = ordered
        self._meter = meter
        self._now = now
        self._loop = loop
        self._under_way: deque[Job] = deque()
        self._dropped: set[Future[Any]] = set()
        self._started = False
        self._wish: Future[Chunk | None] | None = None
        self._ended = False
        self._error: BaseException | None = None
        self._chunk_size = ChunkSize()
        self.bytes = 0

    def want(self, most: int = CHUNK) -> Future[Chunk | None]:
        """Returns the next results; see `StageReader`."""
        return self._loop.create_task(self._next())

    def skip(self) -> None:
        """Drops what is under way."""
        # A function that runs cannot be stopped: its job ends unheard.
        self._drop()
        if not self._ended:
            self._reader.skip()
        self._ended = False
        self._error = None  # of elements that nobody wants any more

    def onward(self, again: bool) -> None:
        """Says whether another epoch is wanted."""
        self._drop()
        self._ended = False
        self._reader.onward(again)

    async def close(self) -> None:
        """Ends everything, whatever is under way."""
        # ORDER: jobs, mapper, and what it reads last: nothing is read for a mapper that is closed.
        for job in self._under_way:
            job.cancel()
        await self._mapper.close()
        await asyncio.gather(*self._under_way, *self._dropped, return_exceptions=True)
        await self._reader.close()

    def _drop(self) -> None:
        """Forgets what is under way; it ends unheard."""
        self._wish = None
        self.bytes = 0
        for job in self._under_way:
            if not job.done():
                job.cancel()
                # Kept until it has ended, so that `close` waits for it.
                self._dropped.add(job)
                job.add_done_callback(self._dropped.discard)
        self._under_way.clear()

    async def _next(self) -> Chunk | None:
        if not self._started:
            self._started = True
            try:
                await self._mapper.start()
            # A function that cannot be found is told at the line of the map.
            except ConfigError as refused:
                raise refused.at(Where(defined_at=self._call_site.line)) from refused.__cause__
        while True:
            self._fill()
            job = self._first_done()
            if job is not None:
                chunk, size, error = job.result()
                self.bytes -= size
                if error is not None:
                    # Chunks behind a failure are dropped: nothing comes out after it.
                    self._drop()
                    self._error = error
                # What was made before the failure goes out first; a chunk may have failed at its first
                # element.
                if len(chunk):
                    self._meter.passed(len(chunk), nbytes(chunk.values[:1]))
                    return chunk
            elif self._under_way or self._wish is not None:
                # In order only the first may leave, so nothing else is worth waking up for.
                heads = [self._under_way[0]] if self._ordered and self._under_way else self._under_way
                waits: list[Future[Any]] = [*heads, *([] if self._wish is None else [self._wish])]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            elif self._error is not None:
                raise self._error
            else:
                return None

    def _fill(self) -> None:
        """Gives the mapper as many chunks as it takes and the reader below has."""
        while len(self._under_way) < self._mapper.width and not self._ended and self._error is None:
            if self._wish is None:
                self._wish = self._reader.want(self._chunk_size.most)
            # At most one wish is open: it is kept when somebody stops waiting for this.
            if not self._wish.done():
                return
            wish, self._wish = self._wish, None
            # Raised when everything under way has come out.
            self._error = wish.exception()
            if self._error is not None:
                return
            chunk = wish.result()
            if chunk is None:
                self._ended = True
                return
            size = chunk.bytes
            self.bytes += size
            self._under_way.append(self._loop.create_task(self._map(chunk, size)))

    def _first_done(self) -> Job | None:
        """Takes out the job whose results are next, if there is one."""
        if self._ordered:
            return self._under_way.popleft() if self._under_way and self._under_way[0].done() else None
        for job in self._under_way:
            if job.done():
                self._under_way.remove(job)
                return job
        return None

    async def _map(self, chunk: Chunk, size: int) -> tuple[Chunk, int, BaseException | None]:
        """Returns the results, and the error that stopped them, if any."""
        start = self._now()
        values, error = await self._results(chunk)
        spent = self._now() - start
        self._meter.busy_s += spent
        # Each result owns its memory: a view would keep the whole chunk alive for as long as one element is
        # held.
        if self._keeps:
            values = list(map(copy_views, values))
        made = Chunk(values, chunk.numbers[: len(values)])
        self._chunk_size.note_duration(len(chunk), spent / 2)  # half of the time a chunk waits for its turn
        if self._max_bytes is not None:
            # So many elements that what is under way in all workers stays within the limit.
            fit = self._max_bytes * len(made) // max(1, self._mapper.width * made.bytes)
            self._chunk_size.most = max(1, min(self._chunk_size.most, fit))
        # The elements are gone, the results are there.
        self.bytes += made.bytes - size
        return made, made.bytes, error

    async def _results(self, chunk: Chunk) -> tuple[list[Any], BaseException | None]:
        """The results up to the first failure, and that."""
        values, numbers = chunk.values, chunk.numbers
        whose, names = places(numbers)
        epochs: Epochs = whose[0]
        # Elements of two epochs in one chunk: chance depends on the epoch of each. Without chance the
        # ordinals are names only, and one may be that of two elements.
        if len(set(whose)) > 1:
            if self._draws:
                epochs = whose
            else:  # there the ordinals are names only, and one may be that of two elements
                names = list(range(len(numbers)))
        try:
            return await self._mapper.map(values, names, epochs), None
        except ElementFailed as failed:
            if failed.done is not None:
                # It has said what was done before.
                return failed.done, self._call_site.element_error(numbers[len(failed.done)], failed.error)
            # The failed one is known by its number: those before it are made again, and come out.
            if names.count(failed.ordinal) == 1:
                count = names.index(failed.ordinal)
                error = self._call_site.element_error(numbers[count], failed.error)
                if not count:
                    return [], error
                done, before = await self._results(Chunk(values[:count], numbers[:count]))
                return done, before or error
            return await self._one_by_one(chunk)
        except Exception as broken:  # noqa: BLE001  the workers failed, not the function
            # Not the function but its workers: nobody knows which element it was.
            return [], self._call_site.element_error(numbers[0], broken)

    async def _one_by_one(self, chunk: Chunk) -> tuple[list[Any], BaseException | None]:
        """As `_results`, where it is not clear which element has failed."""
        results: list[Any] = []
        for value, number in zip(chunk.values, chunk.numbers, strict=True):
            done, error = await self._results(Chunk([value], [number]))
            results += done
            if error is not None:
                return results, error
        return results, None
