"""The queue between two parts of a pipeline: an actor that obeys `actors.fifo`, with ends and errors.

One producer and one consumer. Elements go in as pairs (value, number); where an epoch ends, an `END`
goes in among them.

Producer: `Put`s, then `Ended` at the end of an epoch, which is answered once the consumer has said
whether another epoch is wanted; or `Fail`, after which it ends.
Consumer: `Take`s; after `END` it says `Onward`. With `Skip` it wants no more of this epoch, and hears of
no `END`: puts of that epoch are answered False until the producer has `Ended` it.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from actorflow.actors.actor import Actor
from actorflow.actors.fifo import Fifo
from actorflow.actors.lines import Answer
from actorflow.data.chunk import nbytes
from actorflow.data.stats import Ledger, Meter
from actorflow.errors import InternalError, OutOfRange, StateError


class Mark(Enum):
    """What is in the queue beside elements."""

    END = "the end of an epoch"


END = Mark.END


class StreamLeft(StateError):
    """The stream was left while somebody waited in it."""


@dataclass(slots=True, eq=False)
class Put:
    """Producer → buffer: elements; answered True once all are in, False if this epoch is not wanted."""

    pairs: list[tuple[Any, int]]
    reply: Future[bool]


@dataclass(slots=True, eq=False)
class Ended:
    """Producer → buffer: the epoch is over; answered with whether another one is wanted."""

    reply: Future[bool]


@dataclass(slots=True, eq=False)
class Take:
    """Consumer → buffer: up to `most` pairs, at least one; or [END]; or the error at which it failed.

    Attributes:
        most: How many.
        came: (pairs, error) -> None, called once, in the turn of the buffer: a future would take two turns
            of the loop more. False hands the pairs back: whoever waited is gone.
    """

    most: int
    came: Callable[[list[tuple[Any, int]], BaseException | None], bool]


@dataclass(frozen=True, slots=True)
class Fail:
    """Producer → buffer: no more will come, because of this."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Onward:
    """Consumer → buffer: after `END`, whether another epoch is wanted."""

    again: bool


@dataclass(frozen=True, slots=True)
class Skip:
    """Consumer → buffer: no more of this epoch, and no answer to the take that is open."""

    take: Take | None


class BufferActor(Actor):
    """Owns what waits between two parts of a pipeline.

    Receives: Put, Ended, Take, Fail, Onward, Skip.
    Promise: every element goes out once, in order; an error comes after all that was put before it, and
        again for whoever takes later. A put waits for room, so a slow consumer holds the producer up.
    Fails: when it stops, whoever waits gets StreamLeft.
    """

    def __init__(self, name: str, capacity: int, meter: Meter, ledger: Ledger) -> None:
        self.fifo = Fifo(name, capacity)
        self._meter = meter
        self._ledger = ledger
        self._bytes = 0
        self._error: BaseException | None = None
        self._skipping = False
        self._ended: Future[bool] | None = None
        self._onward: bool | None = None

    def receive(self, message: Any) -> None:
        """Obeys the rule and passes on its answers."""
        match message:
            case Put():
                self._put(message)
            case Take():
                waiting = max(1, min(message.most, len(self.fifo)))
                self._answer(self.fifo.dequeue(message, waiting))
            case Ended(reply):
                self._end(reply)
            case Onward(again):
                self._onward = again
                self._decide()
            case Skip(take):
                self._skip(take)
            case Fail(error):
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
        self._error = self._error or left
        self._answer(self.fifo.close(None, cancel_pending=True) if not self.fifo.closed else ())
        _reply(self._ended, None, left)
        self._ledger.hold(self, 0)

    # -- the rule, obeyed --------------------------------------------------------------------------

    def _put(self, put: Put) -> None:
        if self._skipping:
            _reply(put.reply, False)
            return
        self._bytes += nbytes([value for value, _ in put.pairs])
        self._answer(self.fifo.enqueue(put, list(put.pairs)))

    def _end(self, reply: Future[bool]) -> None:
        self._ended = reply
        if self._skipping:
            self._skipping = False
        else:
            self._answer(self.fifo.enqueue(None, [(END, 0)]))
        self._decide()

    def _decide(self) -> None:
        if self._ended is not None and self._onward is not None:
            reply, self._ended = self._ended, None
            again, self._onward = self._onward, None
            _reply(reply, again)

    def _skip(self, take: Take | None) -> None:
        fifo = self.fifo
        if take is not None:
            self._answer(fifo.cancel(take))
        waiting = [attempt.who for attempt in fifo.enqueues]
        for who in waiting:
            self._answer(fifo.cancel(who))
        self._answer(fifo.clear())
        self._bytes = 0
        self._skipping = self._ended is None
        for who in waiting:
            if type(who) is Put:
                _reply(who.reply, False)

    def _answer(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            who = answer.who
            if type(who) is Put:
                _reply(who.reply, True, answer.error)
            elif type(who) is Take:
                error: BaseException | None = answer.error
                if isinstance(error, OutOfRange):
                    error = self._error
                self._take(who, answer, error)

    def _take(self, take: Take, answer: Answer, error: BaseException | None) -> None:
        pairs = answer.elements
        if take.came(pairs, error):
            self._bytes -= nbytes([value for value, _ in pairs if value is not END])
        else:
            self._answer(self.fifo.put_back(answer.entries))

    def _show(self) -> None:
        self._meter.fill = len(self.fifo)
        self._ledger.hold(self, self._bytes)


def _reply(reply: Future[bool] | None, value: Any, error: BaseException | None = None) -> None:
    if reply is None or reply.done():
        return
    if error is None:
        reply.set_result(value)
    else:
        reply.set_exception(error)
        reply.exception()  # whoever waited may be gone
