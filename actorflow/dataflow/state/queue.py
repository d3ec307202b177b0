"""The queue actor: one bounded queue of tuples, of any kind, and the messages that it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from actorflow.actors.tombstones import ending_error
from actorflow.dataflow.state.fifo_rule import FifoRule
from actorflow.dataflow.state.queue_rule import QueueAnswer, QueueRule, at_least_one
from actorflow.dataflow.state.queue_store import Entry, Ranked, Shuffled
from actorflow.dataflow.state.register import Forget
from actorflow.dataflow.state.starvation_detector import LOOK
from actorflow.dataflow.state.waiters import StarvableActor
from actorflow.errors import ActorflowError, InternalError, SpecError
from actorflow.graph.resource import PaddingQueueDef, PriorityQueueDef, QueueDef, ShuffleQueueDef
from actorflow.runtime.clock import Entropy
from actorflow.runtime.messages import Call, CancelCall, Reply
from actorflow.values import arrays
from actorflow.values.arrays import Array
from actorflow.values.spec import Spec, show

Element = tuple[Array, ...]


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
class QueueSize:
    """Node → queue: the number of elements inside."""


@dataclass(frozen=True, slots=True)
class CloseQueue:
    """Node → queue: no more enqueues; with `cancel_pending` those waiting fail."""

    cancel_pending: bool = False


@dataclass(slots=True)
class PutBack:
    """Step → queue, control lane: it ended without having used what it dequeued; goes back where it was."""

    entries: Sequence[Entry]


@dataclass(frozen=True, slots=True)
class Fail:
    """Whoever fills the queue → queue, either lane: no more will come, because of `error`.

    Enqueues fail from now on, also those that wait; dequeues drain the rest, then get the error.
    """

    error: BaseException


class QueueActor(StarvableActor):
    """Owns the elements of one queue and everyone who waits for it.

    Receives: Enqueue, EnqueueMany, Dequeue, DequeueMany, QueueSize, CloseQueue as bodies of calls;
        CancelCall, PutBack and Forget on the control lane; Fail.
    Promise: exactly once, and in the order of its store (`dataflow.state.queue_rule`). Elements are copied in
        and leave read-only, so that nobody else can change them. What a step took and has not used when it is
        aborted comes back to its place. A waiting call holds no room in the mailbox.
    Fails: a refused element changes nothing and is answered with its error; when the actor stops,
        everyone who waits for room or elements hears ActorDied.

    Args:
        rule: The rule, with its store; `has_ended` tells it which steps have ended.
        components: What each component of an element fits.
        padded: Whether batches are made of elements of different shapes, filled up.
    """

    def __init__(self, rule: QueueRule, components: Sequence[Spec], *, padded: bool = False) -> None:
        self.rule_state = rule
        self.components = tuple(components)
        self._stack = arrays.stack_padded if padded else arrays.stack
        self._batches: set[Reply] = set()  # who is to get stacked elements

    def receive(self, message: Any) -> Any:
        """Obeys the rule and passes on its answers."""
        kind = type(message)
        if kind is Call:
            if message.reply.error is None:
                try:
                    self._answer(self._ask(message.body, message.reply))
                except ActorflowError as error:  # a refusal is an answer, not a failure of this actor
                    message.reply.failed(error)
                waiting = self.rule_state.dequeues
                if waiting and self.detector is not None and waiting[-1].who is message.reply:
                    self.detector.waits(message.reply)
        elif kind is CancelCall:
            self._batches.discard(message.reply)
            if self.detector is not None:
                self.detector.end_wait(message.reply)
            self._answer(self.rule_state.cancel(message.reply))
        elif message is LOOK:
            self.look()
        elif kind is PutBack:
            self._answer(self.rule_state.put_back(message.entries))
        elif kind is Fail:
            self._answer(self.rule_state.fail(message.error))
        elif kind is Forget:
            pass  # what is put in or taken out has no receipts
        else:
            what = f"a queue takes calls, got {kind.__name__}"
            raise InternalError(what)

    def on_stop(self, reason: BaseException | None) -> None:
        """Fails whoever waits: it is no end of the data, what lay inside is lost."""
        super().on_stop(reason)
        lines = self.rule_state
        error = ending_error(f"queue {lines.name!r}", "it could answer", reason)
        who: Any
        for who in [a.who for a in lines.enqueues] + [a.who for a in lines.dequeues]:
            who.failed(error.copy())

    def starved(self, who: Any) -> None:
        """Fails a dequeue that nobody would ever serve; what it had taken goes to the next."""
        assert self.detector is not None
        left = len(self.rule_state) + sum(len(d.taken) for d in self.rule_state.dequeues)
        answers = self.rule_state.cancel(who)
        self._batches.discard(who)
        who.failed(self.detector.error(f"elements ({left})" if left else ""))
        self._answer(answers)

    def _ask(self, body: Any, who: Any) -> list[QueueAnswer]:
        lines = self.rule_state
        kind = type(body)  # the common two need no patterns: -0.4 µs
        if kind is Dequeue:
            return lines.dequeue(who)
        if kind is Enqueue:
            self._check(body.components, batched=False)
            return lines.enqueue(who, [tuple(map(arrays.frozen_copy, body.components))])
        match body:
            case EnqueueMany(components):
                self._check(components, batched=True)
                return lines.enqueue(who, _rows(components))
            case DequeueMany(count, up_to):
                self._batches.add(who)
                return lines.dequeue(who, count, up_to=up_to)
            case QueueSize():
                who.done(arrays.integer(len(lines)))
                return []
            case CloseQueue(cancel_pending):
                return lines.close(who, cancel_pending=cancel_pending)
        message = f"a queue takes no {type(body).__name__}"
        raise InternalError(message)

    def _check(self, components: Sequence[Array], *, batched: bool) -> None:
        if batched and not all(c.shape for c in components):
            message = f"enqueue_many of queue {self.rule_state.name!r} takes batches, got a scalar"
            raise SpecError(message, hint="give each component a first axis, or use enqueue")
        rows = components[0].shape[0] if batched else 0
        for k, (value, spec) in enumerate(zip(components, self.components, strict=True)):
            shape = value.shape[1:] if batched else value.shape
            if not spec.fits(shape, value.dtype):
                message = (
                    f"component {k} of queue {self.rule_state.name!r} must be {spec}, "
                    f"got {show(shape)} {arrays.name_of(value.dtype)}"
                )
                raise SpecError(message)
            if batched and value.shape[0] != rows:
                message = (
                    f"components of one batch must have equal first sizes, got {rows} and {value.shape[0]}"
                )
                raise SpecError(message)

    def _answer(self, answers: Sequence[QueueAnswer]) -> None:
        """Passes answers on; what went to steps that have ended meanwhile goes back, and to others."""
        while True:
            if self.rule_state.enqueues:
                self._note_begin()
            if not answers:
                return
            unused: list[Entry] = []
            hunger = self.detector if self.detector is not None and self.detector.since else None
            for answer in answers:
                who: Any = answer.who
                if hunger is not None:
                    hunger.end_wait(who)
                if who is None or who.error is not None:
                    self._batches.discard(who)
                    unused.extend(answer.entries)
                elif answer.error is not None:
                    self._batches.discard(who)
                    who.failed(answer.error)
                elif who in self._batches:
                    self._batches.discard(who)
                    self._give_batch(who, answer, unused)
                elif answer.entries:
                    who.done(self._value(answer.entries[0][2]), PutBack(answer.entries))
                else:
                    who.done(_TRUE)
            if not unused:
                return
            answers = self.rule_state.put_back(unused)

    def _note_begin(self) -> None:
        """Tells the step of the first enqueue_many that rows of it are in: it could not undo that."""
        first = self.rule_state.enqueues[0]
        if first.begun:
            who: Any = first.who
            who.wrote()

    def _give_batch(self, who: Reply, answer: QueueAnswer, unused: list[Entry]) -> None:
        try:
            value = self._value(self._stack_element(answer.elements))
        except Exception as error:  # noqa: BLE001  no memory, for instance: fails the step, not the queue
            unused.extend(answer.entries)
            who.failed(error)
            return
        who.done(value, PutBack(answer.entries) if answer.entries else None)

    def _stack_element(self, elements: Sequence[Element]) -> Element:
        if not elements:
            shapes = [(0, *(n or 0 for n in spec.shape or ())) for spec in self.components]
            return tuple(arrays.empty(s, c.dtype) for s, c in zip(shapes, self.components, strict=True))
        return tuple(self._stack(component) for component in zip(*elements, strict=True))

    @staticmethod
    def _value(components: Element) -> Any:
        """One component leaves as it is, several as a tuple: the outputs of the node."""
        return components[0] if len(components) == 1 else components


def make_queue_actor(definition: QueueDef) -> QueueActor:
    """Returns the actor of a queue that a graph declares."""
    name, capacity, max_bytes = definition.name, definition.capacity, definition.max_bytes
    size = None if max_bytes is None else at_least_one(_size(definition.components))
    lines: QueueRule
    match definition:
        case ShuffleQueueDef():
            store = Shuffled(definition.min_after_dequeue, Entropy(definition.seed).below)
            lines = QueueRule(name, store, capacity, max_bytes, size=size, ended=has_ended)
        case PriorityQueueDef():
            lines = QueueRule(name, Ranked(_priority), capacity, max_bytes, size=size, ended=has_ended)
        case _:
            lines = FifoRule(name, capacity, max_bytes, size=size, ended=has_ended)
    return QueueActor(lines, definition.components, padded=isinstance(definition, PaddingQueueDef))


def has_ended(who: Any) -> bool:
    """Tells of a reply whether the step behind it has ended."""
    return who is not None and who.error is not None


def _size(components: Sequence[Spec]) -> Callable[[Element], int]:
    """How the bytes of an element are counted: once for all where every one has the same number."""
    if all(c.is_static and not c.dtype.hasobject for c in components):
        same = sum(prod(d or 0 for d in c.shape or ()) * c.dtype.itemsize for c in components)
        return lambda element: same
    return arrays.content_bytes


def _priority(element: Element) -> int:
    return int(element[0])


def _rows(components: Sequence[Array]) -> list[Element]:
    """A copy of each row, so that what has been taken out holds no memory of what lay beside it."""
    return [tuple(arrays.own_row(c, i) for c in components) for i in range(components[0].shape[0])]


_TRUE = arrays.truth(True)

FIXED: Mapping[str, Any] = {"queue_dequeue": Dequeue(), "queue_size": QueueSize()}
MADE: Mapping[str, Callable[[Sequence[Any], Mapping[str, Any]], Any]] = {
    "queue_enqueue": lambda args, attrs: Enqueue(tuple(args)),
    "queue_enqueue_many": lambda args, attrs: EnqueueMany(tuple(args)),
    "queue_dequeue_many": lambda args, attrs: DequeueMany(attrs["n"]),
    "queue_dequeue_up_to": lambda args, attrs: DequeueMany(attrs["n"], up_to=True),
    "queue_close": lambda args, attrs: CloseQueue(attrs["cancel_pending_enqueues"]),
}
