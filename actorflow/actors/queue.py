"""The queue actor: one bounded FIFO queue of tuples, and the messages that it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actorflow import arrays
from actorflow.actors.fifo import Answer, Element, Fifo
from actorflow.actors.hungry import Hungry
from actorflow.actors.starvation import LOOK
from actorflow.arrays import Array
from actorflow.errors import ActorflowError, InternalError, OutOfRange, SpecError
from actorflow.messages import Call, CancelCall, Reply
from actorflow.spec import Spec, show


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Node → queue: one element; answered with True once it is in."""

    components: tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class EnqueueMany:
    """Node → queue: one element for each row; answered with True once all are in."""

    components: tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class Dequeue:
    """Node → queue: one element; answered with its components."""


@dataclass(frozen=True, slots=True)
class DequeueMany:
    """Node → queue: `count` elements, stacked; `up_to` accepts fewer once the queue is closed."""

    count: int
    up_to: bool = False


@dataclass(frozen=True, slots=True)
class Size:
    """Node → queue: the number of elements inside."""


@dataclass(frozen=True, slots=True)
class Close:
    """Node → queue: no more enqueues; with `cancel_pending` those waiting fail."""

    cancel_pending: bool = False


@dataclass(frozen=True, slots=True)
class Fail:
    """Whoever fills the queue → queue, either lane: no more will come, because of `error`.

    Enqueues fail from now on, also those that wait; dequeues drain the rest, then get the error.
    """

    error: BaseException


class QueueActor(Hungry):
    """Owns the elements of one queue and everyone who waits for it.

    Receives: Enqueue, EnqueueMany, Dequeue, DequeueMany, Size, Close as bodies of calls; CancelCall
        on the control lane.
    Promise: exactly once and in order (`actors.fifo`). Elements are copied in and leave read-only,
        so that nobody else can change them. A waiting call holds no room in the mailbox.
    Fails: a refused element changes nothing and is answered with its error; when the actor stops,
        everyone who waits is answered by the system.
    """

    def __init__(self, name: str, components: Sequence[Spec], capacity: int | None) -> None:
        self.fifo = Fifo(name, capacity)
        self.components = tuple(components)
        self._failure: BaseException | None = None
        self._batches: set[Reply] = set()  # who is to get stacked elements

    def receive(self, message: Any) -> Any:
        """Obeys the rule and passes on its answers."""
        if type(message) is CancelCall:
            who: Any = message.reply
            self._batches.discard(who)
            if self.hunger is not None:
                self.hunger.fed(who)
            self._answer(self.fifo.cancel(who))
            return
        if type(message) is Fail:
            self._failure = message.error
            self._answer(self.fifo.close(None, cancel_pending=True))
            return
        if message is LOOK:
            self.look()
            return
        if type(message) is not Call:
            what = f"a queue takes calls, got {type(message).__name__}"
            raise InternalError(what)
        if message.reply.error is not None:
            return
        try:
            self._answer(self._ask(message.body, message.reply))
        except ActorflowError as error:  # a refusal is an answer, not a failure of this actor
            message.reply.failed(error)
        if self.hunger is not None and self.fifo.dequeues:
            last: Any = self.fifo.dequeues[-1].who
            if last is message.reply:
                self.hunger.waits(last)

    def on_stop(self, reason: BaseException | None) -> None:
        """Fails whoever waits: nobody will put in or take out any more."""
        super().on_stop(reason)
        self._answer(self.fifo.close(None, cancel_pending=True))

    def starved(self, who: Any) -> None:
        """Fails a dequeue that nobody would ever serve; what it had taken goes to the next."""
        assert self.hunger is not None
        left = len(self.fifo.elements) + sum(len(d.taken) for d in self.fifo.dequeues)
        answers = self.fifo.cancel(who)
        self._batches.discard(who)
        who.failed(self.hunger.error(left))
        self._answer(answers)

    def _ask(self, body: Any, who: Any) -> list[Answer]:
        fifo = self.fifo
        match body:
            case Enqueue(components):
                self._check(components, batched=False)
                return fifo.enqueue(who, [tuple(map(arrays.frozen_copy, components))])
            case EnqueueMany(components):
                self._check(components, batched=True)
                return fifo.enqueue(who, _rows(tuple(map(arrays.frozen_copy, components))))
            case Dequeue():
                return fifo.dequeue(who)
            case DequeueMany(count, up_to):
                self._batches.add(who)
                return fifo.dequeue(who, count, up_to=up_to)
            case Size():
                who.done(arrays.integer(len(fifo.elements)))
                return []
            case Close(cancel_pending):
                return fifo.close(who, cancel_pending=cancel_pending)
        message = f"a queue takes no {type(body).__name__}"
        raise InternalError(message)

    def _check(self, components: Sequence[Array], *, batched: bool) -> None:
        if batched and not all(c.shape for c in components):
            message = f"enqueue_many of queue {self.fifo.name!r} takes batches, got a scalar"
            raise SpecError(message, hint="give each component a first axis, or use enqueue")
        rows = components[0].shape[0] if batched else 0
        for k, (value, spec) in enumerate(zip(components, self.components, strict=True)):
            shape = value.shape[1:] if batched else value.shape
            if not spec.fits(shape, value.dtype):
                message = (
                    f"component {k} of queue {self.fifo.name!r} must be {spec}, "
                    f"got {show(shape)} {arrays.name_of(value.dtype)}"
                )
                raise SpecError(message)
            if batched and value.shape[0] != rows:
                message = (
                    f"components of one batch must have equal first sizes, got {rows} and {value.shape[0]}"
                )
                raise SpecError(message)

    def _answer(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            who: Any = answer.who
            batch = who in self._batches
            self._batches.discard(who)
            if self.hunger is not None and self.hunger.since:
                self.hunger.fed(who)
            if who is None or who.error is not None:
                continue
            if answer.error is not None:
                lacks = type(answer.error) is OutOfRange and self._failure is not None
                who.failed(self._failure if lacks and self._failure else answer.error)
            elif batch:
                who.done(self._value(self._stacked(answer.elements)))
            elif answer.elements:
                who.done(self._value(answer.elements[0]))
            else:
                who.done(arrays.truth(True))

    def _stacked(self, elements: Sequence[Element]) -> Element:
        if not elements:
            shapes = [(0, *(n or 0 for n in spec.shape or ())) for spec in self.components]
            return tuple(arrays.empty(s, c.dtype) for s, c in zip(shapes, self.components, strict=True))
        return tuple(arrays.stack(component) for component in zip(*elements, strict=True))

    @staticmethod
    def _value(components: Element) -> Any:
        """One component leaves as it is, several as a tuple: the outputs of the node."""
        return components[0] if len(components) == 1 else components


def _rows(components: Sequence[Array]) -> list[Element]:
    return [tuple(arrays.row(c, i) for c in components) for i in range(components[0].shape[0])]


FIXED: Mapping[str, Any] = {"queue_dequeue": Dequeue(), "queue_size": Size()}
MADE: Mapping[str, Callable[[Sequence[Any], Mapping[str, Any]], Any]] = {
    "queue_enqueue": lambda args, attrs: Enqueue(tuple(args)),
    "queue_enqueue_many": lambda args, attrs: EnqueueMany(tuple(args)),
    "queue_dequeue_many": lambda args, attrs: DequeueMany(attrs["n"]),
    "queue_dequeue_up_to": lambda args, attrs: DequeueMany(attrs["n"], up_to=True),
    "queue_close": lambda args, attrs: Close(attrs["cancel_pending_enqueues"]),
}
