"""The actor that runs one part of a pipeline: it reads, works and puts, epoch after epoch."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from actorflow.actors.actor import Actor
from actorflow.actors.address import tick
from actorflow.actors.ref import Ref
from actorflow.data.run.buffer import EpochEnded, FailEpoch, PutElements, StreamLeft
from actorflow.data.run.reader import StageReader
from actorflow.data.stages.chain import Chain
from actorflow.data.stages.stats import MemoryAccount, StageMeter
from actorflow.data.values.chunk import CHUNK, Chunk
from actorflow.data.values.chunk_size import ChunkSize

_TURN_S = 0.001
"""How long a worker works before it gives others a turn, as the pump of actors does."""


class StartWorker:
    """The message that starts a worker."""


class PipelineWorker(Actor):
    """Owns a reader and the stages behind it, up to the next buffer.

    Receives: Run, once; it works until the pipeline ends or fails.
    Sends: PutElements, EpochEnded and FailEpoch to its buffer.
    Promise: what came out before a failure is put before it; it stands still while the buffer is full. What
        is slow is worked on an element at a time, and put before the next: see `chunk_size`.
    Fails: never by what users wrote: that goes to the buffer.

    Args:
        make: Makes the reader.
        chain: The stages.
        first: What is put before anything is read.
        buffer: Where everything is put.
        meters: Of the first stage, and of the last.
        memory: Counts the bytes of what is held here.
        max_bytes: What the buffer holds, if that is limited: then less is worked on at once.
    """

    def __init__(
        self,
        make: Callable[[Any], StageReader],
        chain: Chain,
        first: Iterable[Chunk],
        buffer: Ref,
        meters: tuple[StageMeter, StageMeter],
        memory: MemoryAccount,
        max_bytes: int | None = None,
    ) -> None:
        self._max_bytes = max_bytes
        # With a limit of bytes nothing is known of how large what comes is: one at first.
        self._most = CHUNK if max_bytes is None else 1
        self._make = make
        self._reader: StageReader | None = None
        self._chain = chain
        self._first = first
        self._buffer = buffer
        self._input, self._output = meters
        self._memory = memory
        self._turn_s = 0.0
        self._chunk_size = ChunkSize()

    async def receive(self, message: Any) -> None:
        """Runs."""
        try:
            # In this actor, whose readers and workers it lets go of.
            self._reader = self._make(self.system)
            await self._run(self._reader)
        # By its system, or by whoever cancels all tasks of the loop: whoever takes must not wait for ever.
        except CancelledError:
            self._buffer.try_tell(FailEpoch(StreamLeft("a task of the stream was cancelled")))
            self.ref.stop()
            raise
        # Never a failure of this actor: it goes to whoever takes, behind what came before it.
        except Exception as error:  # noqa: BLE001  it goes to whoever takes
            await self._buffer.tell(FailEpoch(error))

    async def on_stop(self, reason: BaseException | None) -> None:
        """Lets go of readers and workers."""
        if self._reader is not None:
            await self._reader.close()
        self._memory.hold(self, 0)

    async def _run(self, reader: StageReader) -> None:
        chain = self._chain
        wanted = True
        # What leaves with the last element of a position, before anything is read.
        for piece in self._first:
            wanted = wanted and await self._put(piece, 0)
        while True:
            if await self._epoch(reader, wanted):
                for piece in chain.end():
                    if not await self._put(piece, 0):
                        break
                # Whether a `repeat` wants another epoch; whoever takes may still want one for itself.
                again = chain.again
            else:
                # Not wanted any more: the rest of the stages' epoch is dropped, and whoever takes is asked.
                again = False
            if not again:
                again = await self._ended()
                if again:
                    chain.restart()
            reader.onward(again)
            wanted = True
            if not again:
                return

    async def _epoch(self, reader: StageReader, wanted: bool) -> bool:
        """Runs one epoch; false when whoever takes wants no more of it."""
        chain, now = self._chain, self.system.now
        while wanted and not chain.full:
            start = now()
            chunk = await reader.want(self._chunk_size.most)
            self._input.input_s += now() - start
            if chunk is None:
                return True
            held = chunk.bytes + reader.bytes
            self._memory.hold(self, chain.bytes + held)
            wanted = await self._work(chunk, held)
        # Full, as behind `take`, or unwanted: the rest of the epoch is never read.
        reader.skip()
        return wanted

    async def _work(self, chunk: Chunk, held: int) -> bool:
        """Puts what comes of a chunk; false when this epoch is not wanted any more."""
        chain, now = self._chain, self.system.now
        for part in self._parts(chunk):
            # The time of the stages alone: waiting for room says nothing about them.
            spent, start = 0.0, now()
            for piece in chain.push(part):
                spent += now() - start
                if not await self._put(piece, held):
                    return False
                start = now()
            self._chunk_size.note_duration(len(part), spent + now() - start)
            await self._turn()
            # The other parts would be dropped by the stages anyway.
            if chain.full:
                break
        return True

    def _parts(self, chunk: Chunk) -> Iterator[Chunk]:
        """Gives a chunk, in parts that take little time, and make about what a buffer of few bytes holds."""
        if len(chunk) <= min(self._most, self._chunk_size.most):
            yield chunk
            return
        at = 0
        while at < len(chunk):
            stop = at + min(self._most, self._chunk_size.most)
            yield Chunk(chunk.values[at:stop], chunk.numbers[at:stop])
            at = stop

    async def _put(self, piece: Chunk, held: int) -> bool:
        """Puts a piece, and waits for room; false when this epoch is not wanted any more."""
        now = self.system.now
        if not self._chain.makes:  # the buffer counts what waits to be put
            held = max(0, held - piece.bytes)
        self._memory.hold(self, self._chain.bytes + held)
        if not piece.values:
            # Stages that give nothing, such as a filter, must not keep the loop.
            await self._turn()
            return True
        if self._max_bytes is not None:
            fit = self._max_bytes * len(piece) // max(1, piece.bytes)
            # At most doubled: the first of large elements must not come after a whole chunk of them.
            self._most = max(1, min(CHUNK, 2 * self._most, fit))
        reply = self.system.create_future()
        start = now()
        await self._buffer.tell(PutElements(list(zip(piece.values, piece.numbers, strict=True)), reply))
        wanted: bool = await reply
        end = now()
        self._output.room_s += end - start
        if start > self._turn_s + _TURN_S:  # whoever waits gets it before the next takes as long
            await tick()
            end = now()
        self._turn_s = end
        return wanted

    async def _turn(self) -> None:
        """Gives others a turn when they have waited long: stages that give nothing must not keep the loop."""
        now = self.system.now
        if now() > self._turn_s + _TURN_S:
            await tick()
            self._turn_s = now()

    async def _ended(self) -> bool:
        """Says that the epoch is over, and returns whether another one is wanted."""
        reply = self.system.create_future()
        await self._buffer.tell(EpochEnded(reply))
        again: bool = await reply
        return again
