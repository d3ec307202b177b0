"""The queue between two parts of a pipeline.

An actor that obeys `dataflow.state.fifo_rule`, with ends and errors.

One producer and one consumer. Elements go in as pairs (value, number); where an epoch ends, an `END`
goes in among them.

Producer: any number of `PutElements`, then `EpochEnded`; or `FailEpoch`, after which it ends.
Consumer: any number of `TakeElements`; after `END` it says `Onward`. With `SkipEpoch` it wants no more of
    this epoch, and hears of no `END`.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from actorflow.actors.actor import Actor
from actorflow.data.stages.stage import CallSite
from actorflow.data.stages.stats import MemoryAccount, StageMeter
from actorflow.data.values.chunk import epoch_of, ordinal_of, size_of
from actorflow.dataflow.state.fifo_rule import FifoRule
from actorflow.dataflow.state.queue_rule import QueueAnswer
from actorflow.errors import InputError, InternalError, OutOfRange, StateError, Where


class Mark(Enum):
    """What is in the queue beside elements."""

    END = "the end of an epoch"


END = Mark.END


class StreamLeft(StateError):
    """The stream was left while somebody waited in it."""


@dataclass(slots=True, eq=False)
class PutElements:
    """Producer → buffer: elements; answered True once all are in, False if this epoch is not wanted.

    Attributes:
        pairs: Of values and numbers.
        reply: The answer.
        refusal: What is answered once those are in that come before an element which is too large.
    """

    pairs: list[tuple[Any, int]]
    reply: Future[bool]
    refusal: InputError | None = None


@dataclass(slots=True, eq=False)
class EpochEnded:
    """Producer → buffer: the epoch is over; answered with whether another one is wanted."""

    reply: Future[bool]


@dataclass(slots=True, eq=False)
class TakeElements:
    """Consumer → buffer: up to `most` pairs, at least one; or [END]; or the error at which it failed.

    Attributes:
        most: How many.
        came: (pairs, error) -> None, called once, in the turn of the buffer: a future would take two turns
            of the loop more. False hands the pairs back: whoever waited is gone.
    """

    most: int
    came: Callable[[list[tuple[Any, int]], BaseException | None], bool]


@dataclass(frozen=True, slots=True)
class FailEpoch:
    """Producer → buffer: no more will come, because of this."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Onward:
    """Consumer → buffer: after `END`, whether another epoch is wanted."""

    again: bool


@dataclass(frozen=True, slots=True)
class SkipEpoch:
    """Consumer → buffer: no more of this epoch, and no answer to the take that is open."""

    take: TakeElements | None


class BufferActor(Actor):
    """Owns what waits between two parts of a pipeline.

    Receives: PutElements, EpochEnded, TakeElements, FailEpoch, Onward, SkipEpoch.
    Promise: every element goes out once, in order; an error comes after all that was put before it, and
        again for whoever takes later. A put waits for room, so a slow consumer holds the producer up.
    Fails: when it stops, whoever waits gets StreamLeft.

    Args:
        name: What errors call it.
        capacity: How many elements fit.
        meter: Of the stage before it.
        memory: Counts the bytes of what is inside, or waits to be.
        max_bytes: How many bytes fit; an element that alone has more is refused.
        call_site: Of the stage that has the limit, for that error.
    """

    def __init__(
        self,
        name: str,
        capacity: int,
        meter: StageMeter,
        memory: MemoryAccount,
        max_bytes: int | None = None,
        call_site: CallSite | None = None,
    ) -> None:
        self.fifo = FifoRule(name, capacity, max_bytes, size=_size)
        self._call_site = call_site
        self._meter = meter
        self._memory = memory
        self._error: BaseException | None = None
        self._skipping = False
        self._ended: Future[bool] | None = None
        self._onward: bool | None = None

    def receive(self, message: Any) -> None:
        """Obeys the rule and passes on its answers."""
        match message:
            case PutElements():
                self._put(message)
            case TakeElements():
                # As many as are there at once, but never more: a take that waits for the rest would hold up
                # what has come.
                waiting = max(1, min(message.most, len(self.fifo)))
                self._answer(self.fifo.dequeue(message, waiting))
            case EpochEnded(reply):
                self._end(reply)
            case Onward(again):
                self._onward = again
                # Both have to be known, in whichever order they come: that the epoch has ended, and whether
                # one follows.
                self._decide()
            case SkipEpoch(take):
                self._skip(take)
            case FailEpoch(error):
                # Behind all that was put before: whoever takes gets that first.
                self._error = error
                self._answer(self.fifo.close(None))
            case _:
                what = f"a buffer takes no {type(message).__name__}"
                raise InternalError(what)
        self._show()

    def on_stop(self, reason: BaseException | None) -> None:
        """Fails whoever waits: nobody will put in or take out any more."""
        left = StreamLeft(
            "the stream was left while this waited for an element", hint="end the tasks that use it first"
        )
        # The rule may be closed already by a failure: then nobody waits in it.
        self._error = self._error or left
        self._answer(self.fifo.close(None, cancel_pending=True) if not self.fifo.closed else ())
        _reply(self._ended, None, left)
        self._memory.hold(self, 0)

    # -- the rule, obeyed --------------------------------------------------------------------------

    def _put(self, put: PutElements) -> None:
        # Of an epoch that nobody wants: answered at once, so that the producer gets to its end.
        if self._skipping:
            _reply(put.reply, False)
            return
        pairs = put.pairs
        limit = self.fifo.max_bytes
        if limit is not None and self._call_site is not None:
            # Refused behind what comes before it: that is still given.
            pairs, put.refusal = fitting(pairs, limit, self._call_site)
        self._answer(self.fifo.enqueue(put, pairs))

    def _end(self, reply: Future[bool]) -> None:
        self._ended = reply
        if self._skipping:
            # The producer has got to the end of the unwanted epoch: what is put next counts again.
            self._skipping = False
        else:
            self._answer(self.fifo.enqueue(None, [(END, 0)]))
        self._decide()

    def _decide(self) -> None:
        if self._ended is not None and self._onward is not None:
            reply, self._ended = self._ended, None
            again, self._onward = self._onward, None
            _reply(reply, again)

    def _skip(self, take: TakeElements | None) -> None:
        fifo = self.fifo
        # The take that is open is taken back: no answer may come to it.
        if take is not None:
            self._answer(fifo.cancel(take))
        # The producer waits for room that it does not need any more.
        waiting = [attempt.who for attempt in fifo.enqueues]
        for who in waiting:
            self._answer(fifo.cancel(who))
        self._answer(fifo.clear())
        # If the end was in already there is nothing left to skip.
        self._skipping = self._ended is None
        for who in waiting:
            if type(who) is PutElements:
                _reply(who.reply, False)

    def _answer(self, answers: Sequence[QueueAnswer]) -> None:
        for answer in answers:
            who = answer.who
            if type(who) is PutElements:
                _reply(who.reply, True, answer.error or who.refusal)
            elif type(who) is TakeElements:
                error: BaseException | None = answer.error
                # The rule says that no more will come; why, it does not know.
                if isinstance(error, OutOfRange):
                    error = self._error
                self._take(who, answer, error)

    def _take(self, take: TakeElements, answer: QueueAnswer, error: BaseException | None) -> None:
        pairs = answer.elements
        if not take.came(pairs, error):
            # Whoever waited is gone: an element goes out once, and in order, so it goes back to the front.
            self._answer(self.fifo.put_back(answer.entries))

    def _show(self) -> None:
        fifo = self.fifo
        self._meter.fill = len(fifo)
        self._meter.fill_bytes = fifo.bytes
        # What waits to be put is held as well, by the producer.
        waiting = sum(sum(put.sizes) for put in fifo.enqueues if put.sizes)
        self._memory.hold(self, fifo.bytes + waiting)


def fitting(
    pairs: list[tuple[Any, int]], max_bytes: int, place: CallSite
) -> tuple[list[tuple[Any, int]], InputError | None]:
    """Returns the pairs before the first that alone has more than `max_bytes`, and the error of that one."""
    for i, pair in enumerate(pairs):
        size = _size(pair)
        if size > max_bytes:
            at = f"element {ordinal_of(pair[1])} of epoch {epoch_of(pair[1])}"
            message = f"{place.label} may hold {max_bytes} bytes, got {size} bytes in {at} alone"
            hint = f"max_bytes={size} or more, or smaller elements"
            return pairs[:i], InputError(message, where=Where(defined_at=place.line), hint=hint)
    return pairs, None


def _size(pair: tuple[Any, int]) -> int:
    return 0 if pair[0] is END else size_of(pair[0])


def _reply(reply: Future[bool] | None, value: Any, error: BaseException | None = None) -> None:
    if reply is None or reply.done():
        return
    if error is None:
        reply.set_result(value)
    else:
        reply.set_exception(error)
        reply.exception()  # whoever waited may be gone
