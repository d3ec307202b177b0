"""Queues: bounded buffers of tuples between steps, from which each element is taken once.

Nodes name the queue in `attrs["resource"]`. These ops have no kernels: the actor that owns the
queue answers them, and may let them wait. They are not ordered among themselves within a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError, Where
from actorflow.graph.builder import Tensor
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, Effect, op
from actorflow.graph.resource import QueueDef
from actorflow.ops.definition import handle_arguments
from actorflow.ops.state.handle import Handle, as_typed_tensor, check_fits
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import name_of
from actorflow.values.checks import is_whole
from actorflow.values.spec import Dim, Shape, Spec, merge, show, spec

Components = Tensor | Sequence[Any] | Mapping[str, Any] | Any
"""One value for a queue of one component, a sequence of values, or values by name."""

Element = Any
"""What a dequeue gives: a tensor for a queue of one component, a tuple, or a dict by names."""


class Queue(Handle[QueueDef]):
    """What every queue does; `FIFOQueue`, `RandomShuffleQueue`, `PriorityQueue`, `PaddingFIFOQueue` are made.

    An element is a tuple of tensors, its components. Ops that have to wait are served in the
    order of their arrival; a large `dequeue_many` at the head holds up smaller ones behind it.
    What a step took out is put back in its place if the step is aborted before anything computed from
    it was written elsewhere: put into a queue, assigned, or trained on.

    Deviations from TensorFlow: there a step that fails loses what it took, and a cancelled
    `dequeue_many` what it had taken so far; here neither does, so that a retry finds all of it. Limits
    in bytes are not there.
    """

    def __init__(self, definition: QueueDef, names: Sequence[str] | None) -> None:
        """Declares the queue in the current graph."""
        super().__init__(definition)
        self.names = None if names is None else tuple(names)

    @property
    def components(self) -> tuple[Spec, ...]:
        """What each component of an element fits."""
        return self.definition.components

    @property
    def capacity(self) -> int | None:
        """How many elements fit; None is no limit."""
        return self.definition.capacity

    @property
    def max_bytes(self) -> int | None:
        """How many bytes fit; None is no limit."""
        return self.definition.max_bytes

    def __repr__(self) -> str:
        held = ", ".join(map(str, self.components))
        of_bytes = "" if self.max_bytes is None else f", max_bytes {self.max_bytes}"
        return f"<{type(self).__name__} {self.name} of {held}, capacity {self.capacity}{of_bytes}>"

    def enqueue(self, components: Components) -> Tensor:
        """Puts one element in, waiting for room; gives True.

        Raises:
            SpecError: when the components do not fit.
            QueueClosed: in the step, when the queue is closed.
            StateError: in the step, for an element of more bytes than the queue may hold.
        """
        return self._put("queue_enqueue", components)

    def enqueue_many(self, components: Components) -> Tensor:
        """Puts in every slice along axis 0, one by one as there is room; gives True.

        Others see the elements as they come; a failure in between leaves those that are in, and
        drops the others, even where the step had taken them out of another queue.

        Raises:
            SpecError: when the components do not fit or differ in their first size.
            QueueClosed: in the step, when the queue is closed.
            StateError: in the step, before any is in, for one of more bytes than the queue may hold.
        """
        return self._put("queue_enqueue_many", components)

    def dequeue(self) -> Element:
        """Takes one element out, waiting for it.

        Raises:
            OutOfRange: in the step, when the queue is closed and empty.
        """
        return self._take("queue_dequeue")

    def dequeue_many(self, n: int) -> Element:
        """Takes `n` elements out, stacked along a new axis 0, waiting for all of them.

        Raises:
            SpecError: unless the shapes of all components are fully known, or padded.
            OutOfRange: in the step, when the queue is closed with fewer left, which stay in it.
        """
        return self._take("queue_dequeue_many", n)

    def dequeue_up_to(self, n: int) -> Element:
        """As `dequeue_many`, but from a closed queue gives the 1 to n elements that are left."""
        return self._take("queue_dequeue_up_to", n)

    def size(self) -> Tensor:
        """How many elements are in the queue, an int64 scalar."""
        return self._ask_one("queue_size", [])

    def close(self, cancel_pending_enqueues: bool = False) -> Tensor:
        """Lets nothing more in; gives True.

        Enqueues that wait already are still served before the queue closes, unless
        `cancel_pending_enqueues`: then they fail with QueueClosed at once. Dequeues take what is
        left. Closing again is an error in the step.
        """
        cancel = handle_arguments.flag(cancel_pending_enqueues, "cancel_pending_enqueues")
        return self._ask_one("queue_close", [], cancel_pending_enqueues=cancel)

    def _put(self, op_name: str, components: Components) -> Tensor:
        values = self._in_order(components)
        # Numbers take the dtype of their component.
        tensors = [as_typed_tensor(v, c.dtype) for v, c in zip(values, self.components, strict=True)]
        return self._ask_one(op_name, tensors)

    def _take(self, op_name: str, n: int | None = None) -> Element:
        extra: dict[str, Attr] = {}
        if n is not None:
            extra["n"] = handle_arguments.whole(
                n, f"the number of elements to take from queue {self.name!r}", 0
            )
        tensors = self._ask(op_name, [], **extra)
        if self.names is not None:
            # As they were put in.
            return dict(zip(self.names, tensors, strict=True))
        return tensors if len(tensors) > 1 else tensors[0]

    def _in_order(self, components: Components) -> Sequence[Any]:
        """Returns one value for each component; raises SpecError when there are others."""
        names, n = self.names, len(self.components)
        if names is not None:
            if not isinstance(components, Mapping) or set(components) != set(names):
                keys = sorted(components) if isinstance(components, Mapping) else type(components).__name__
                message = f"an element of queue {self.name!r} has the keys {list(names)}, got {keys}"
                raise SpecError(message, where=Where(defined_at=source_line()))
            return [components[k] for k in names]
        if isinstance(components, Mapping):
            keys = list(components)
            message = f"queue {self.name!r} has no names, got an element by names: {keys!r:.80}"
            hint = f"make it with names=[...], or give {'the tensor' if n == 1 else f'a tuple of {n}'}"
            raise SpecError(message, where=Where(defined_at=source_line()), hint=hint)
        # A list may be one value; a tuple is so many components.
        if n == 1 and not isinstance(components, tuple):
            return [components]
        if not isinstance(components, tuple | list) or len(components) != n:
            got = len(components) if isinstance(components, tuple | list) else type(components).__name__
            message = f"an element of queue {self.name!r} has {n} components, got {got}"
            raise SpecError(message, where=Where(defined_at=source_line()))
        return components

    def _local(self, op_name: str) -> str:
        return f"{self.name.removeprefix(self.graph.scope.name)}/{op_name.removeprefix('queue_')}"

    def _spec_attrs(self) -> Mapping[str, Attr]:
        return {
            "dtypes": tuple(name_of(c.dtype) for c in self.components),
            "shapes": tuple(c.shape for c in self.components),
        }


def _check_specs(attrs: Mapping[str, Attr]) -> list[Spec]:
    return [spec(d, s) for d, s in zip(attrs["dtypes"], attrs["shapes"], strict=True)]


def _batch_spec(component: Spec, n: Dim) -> Spec:
    return Spec(None if component.shape is None else (n, *component.shape), component.dtype)


def _enqueue_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    for i, (value, component) in enumerate(zip(inputs, _check_specs(attrs), strict=True)):
        check_fits(value, component, f"component {i} of queue {attrs['resource']!r}")
    return (spec("bool"),)


def _enqueue_many_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    first: Shape = (None,)
    for i, (value, component) in enumerate(zip(inputs, _check_specs(attrs), strict=True)):
        what = f"component {i} of a batch for queue {attrs['resource']!r}"
        if value.shape == ():
            message = f"{what} has an axis 0 to slice along, got {value}"
            raise SpecError(message)
        check_fits(value, _batch_spec(component, None), what)
        try:
            # As many elements of every component.
            first = merge(first, None if value.shape is None else value.shape[:1])
        except SpecError:
            given_specs = " and ".join(map(str, inputs))
            message = f"the components of a batch have equal first sizes, got {given_specs}"
            raise SpecError(message) from None
    return (spec("bool"),)


def _dequeue_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    return _check_specs(attrs)


def _dequeue_batch_spec(first: Callable[[int], Dim]) -> Callable[..., Sequence[Spec]]:
    """The rule of dequeues that stack; `first` gives the first size for a number of elements."""

    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        n, held = attrs["n"], _check_specs(attrs)
        if not is_whole(n, 0, plain=True):
            message = f"a number of elements is an integer and not negative, got {n!r:.60}"
            raise SpecError(message)
        # Only what has one shape can be stacked; padding makes it one.
        if not attrs.get("padded", False) and not all(c.is_static for c in held):
            shapes = ", ".join(show(c.shape) for c in held)
            message = f"only components of known shape can be stacked, got {shapes}"
            hint = "give the queue its shapes, take a PaddingFIFOQueue, or dequeue one by one"
            raise SpecError(message, hint=hint)
        # From a closed queue up to n come, so the first size is open.
        return [_batch_spec(c, first(n)) for c in held]

    return rule


def _scalar_spec(dtype: str) -> Callable[..., Sequence[Spec]]:
    found = (spec(dtype),)
    return lambda inputs, attrs: found


def _queue_op(
    name: str, rule: Callable[..., Sequence[Spec]], constructor: Callable[..., Any], *, fills: bool = False
) -> None:
    """Registers an op of the queue; its constructor is the method, with the queue in front."""
    # WAIT: queue ops are not ordered among themselves, since one may wait for another's.
    op(name, spec=rule, gradient=NOT_DIFFERENTIABLE, effect=Effect.WAIT, takes_bytes=True, fills=fills)(
        constructor
    )


_queue_op("queue_enqueue", _enqueue_spec, Queue.enqueue, fills=True)
_queue_op("queue_enqueue_many", _enqueue_many_spec, Queue.enqueue_many, fills=True)
_queue_op("queue_dequeue", _dequeue_spec, Queue.dequeue)
_queue_op("queue_dequeue_many", _dequeue_batch_spec(lambda n: n), Queue.dequeue_many)
_queue_op("queue_dequeue_up_to", _dequeue_batch_spec(lambda n: None), Queue.dequeue_up_to)
_queue_op("queue_size", _scalar_spec("int64"), Queue.size)
_queue_op("queue_close", _scalar_spec("bool"), Queue.close)
