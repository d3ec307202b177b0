"""Queues: bounded buffers of tuples between steps, from which each element is taken once.

Nodes name the queue in `attrs["resource"]`. These ops have no kernels: the actor that owns the
queue answers them, and may let them wait. They are not ordered among themselves within a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from actorflow.arrays import name_of
from actorflow.errors import SpecError, Where
from actorflow.graph.builder import Tensor, source_line
from actorflow.graph.graph import current
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, Effect, op
from actorflow.graph.resource import QueueDef
from actorflow.ops.resource import Handle, check_fits, resource_name, typed
from actorflow.spec import Dim, Shape, Spec, merge, show, spec

Components = Tensor | Sequence[Any] | Mapping[str, Any] | Any
"""One value for a queue of one component, a sequence of values, or values by name."""

Element = Any
"""What a dequeue gives: a tensor for a queue of one component, a tuple, or a dict by names."""


class FIFOQueue(Handle[QueueDef]):
    """A queue that gives its elements in the order in which they were put in.

    An element is a tuple of tensors, its components. Ops that have to wait are served in the
    order of their arrival; a large `dequeue_many` at the head holds up smaller ones behind it.

    Args:
        capacity: How many elements fit; an enqueue waits while it is full. None for no limit.
        dtypes: The dtype of each component; one dtype for a queue of one component.
        shapes: The shape of each component, or one shape; None when they may differ.
        names: A name for each component: then elements are dicts.
        name: Name of the queue; `queue`, `queue_1`, … when left out.

    Raises:
        SpecError: for a capacity below 1, no component, or lists of different lengths.
        GraphError: when an explicit `name` is taken.

    >>> with af.Graph():
    ...     queue = af.FIFOQueue(8, ["float32", "int32"], [(28, 28), ()])
    ...     images, labels = queue.dequeue_many(4)
    ...     print(images.spec, labels.spec)
    (4, 28, 28) float32 (4,) int32
    """

    def __init__(
        self,
        capacity: int | None,
        dtypes: Any,
        shapes: Sequence[Shape] | Shape = None,
        names: Sequence[str] | None = None,
        *,
        name: str | None = None,
    ) -> None:
        graph = current()
        line = source_line()
        where = Where(defined_at=line)
        try:
            components = _components(dtypes, shapes)
            _check_queue(capacity, components, names)
        except SpecError as error:
            raise error.at(where) from None
        wanted = resource_name(graph, name, "queue", where)
        super().__init__(
            QueueDef(
                name=wanted,
                components=components,
                capacity=capacity,
                device=graph.scope.device,
                defined_at=line,
            )
        )
        self.names = None if names is None else tuple(names)

    @property
    def components(self) -> tuple[Spec, ...]:
        """What each component of an element fits."""
        return self.definition.components

    @property
    def capacity(self) -> int | None:
        """How many elements fit; None is no limit."""
        return self.definition.capacity

    def __repr__(self) -> str:
        held = ", ".join(map(str, self.components))
        return f"<FIFOQueue {self.name} of {held}, capacity {self.capacity}>"

    def enqueue(self, components: Components) -> Tensor:
        """Puts one element in, waiting for room; gives True.

        Raises:
            SpecError: when the components do not fit.
            QueueClosed: in the step, when the queue is closed.
        """
        return self._put("queue_enqueue", components)

    def enqueue_many(self, components: Components) -> Tensor:
        """Puts in every slice along axis 0, one by one as there is room; gives True.

        Others see the elements as they come; a failure in between leaves those that are in.

        Raises:
            SpecError: when the components do not fit or differ in their first size.
            QueueClosed: in the step, when the queue is closed.
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
            SpecError: unless the shapes of all components are fully known.
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
        given: Any = cancel_pending_enqueues
        if not isinstance(given, bool):
            message = f"cancel_pending_enqueues is True or False, got {given!r:.60}"
            raise SpecError(message, where=Where(defined_at=source_line()))
        return self._ask_one("queue_close", [], cancel_pending_enqueues=given)

    def _put(self, op_name: str, components: Components) -> Tensor:
        values = self._in_order(components)
        tensors = [typed(v, c.dtype) for v, c in zip(values, self.components, strict=True)]
        return self._ask_one(op_name, tensors)

    def _take(self, op_name: str, n: int | None = None) -> Element:
        extra: dict[str, Attr] = {} if n is None else {"n": n}
        tensors = self._ask(op_name, [], **extra)
        if self.names is not None:
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
        if n == 1 and not isinstance(components, tuple):
            return [components]
        if not isinstance(components, tuple | list) or len(components) != n:
            given = len(components) if isinstance(components, tuple | list) else type(components).__name__
            message = f"an element of queue {self.name!r} has {n} components, got {given}"
            raise SpecError(message, where=Where(defined_at=source_line()))
        return components

    def _told(self) -> Mapping[str, Attr]:
        return {
            "dtypes": tuple(name_of(c.dtype) for c in self.components),
            "shapes": tuple(c.shape for c in self.components),
        }


def _components(dtypes: Any, shapes: Sequence[Shape] | Shape) -> tuple[Spec, ...]:
    """Returns the spec of each component."""
    many = list(dtypes) if isinstance(dtypes, list | tuple) else [dtypes]
    for given in many:
        if given is None or hasattr(given, "shape"):
            message = f"a queue takes a dtype for each component, got {given!r:.60}"
            raise SpecError(message, hint='dtypes and shapes are two lists: FIFOQueue(8, ["bytes"], [()])')
    if shapes is None:
        return tuple(spec(d, None) for d in many)
    listed: Any = shapes
    if not isinstance(listed, list | tuple):
        message = f"a queue takes a shape for each dtype, got {shapes!r:.60}"
        raise SpecError(message)
    sizes: list[Any] = list(shapes)
    if len(many) == 1 and isinstance(shapes, tuple) and not any(isinstance(s, tuple) for s in shapes):
        sizes = [shapes]  # one shape for one component
    if len(sizes) != len(many):
        message = f"a queue takes one shape for each dtype, got {len(sizes)} shapes for {len(many)} dtypes"
        raise SpecError(message)
    return tuple(spec(d, s) for d, s in zip(many, sizes, strict=True))


def _check_queue(capacity: Any, components: tuple[Spec, ...], names: Sequence[str] | None) -> None:
    whole = isinstance(capacity, int) and not isinstance(capacity, bool)
    if capacity is not None and (not whole or capacity < 1):
        message = f"a queue holds at least one element, got capacity {capacity!r:.60}"
        raise SpecError(message, hint="None is no limit")
    if not components:
        raise SpecError("an element of a queue has at least one component, got no dtype")
    given: Any = names
    if given is not None and not (isinstance(given, list | tuple) and all(isinstance(n, str) for n in given)):
        message = f"the names of a queue's components are a list of texts, got {names!r:.60}"
        raise SpecError(message)
    if names is not None and (len(set(names)) < len(names) or len(names) != len(components)):
        message = f"a queue takes a distinct name for each of {len(components)} components, got {list(names)}"
        raise SpecError(message)


def _held(attrs: Mapping[str, Attr]) -> list[Spec]:
    return [spec(d, s) for d, s in zip(attrs["dtypes"], attrs["shapes"], strict=True)]


def _batched(component: Spec, n: Dim) -> Spec:
    return Spec(None if component.shape is None else (n, *component.shape), component.dtype)


def _enqueue_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    for i, (given, component) in enumerate(zip(inputs, _held(attrs), strict=True)):
        check_fits(given, component, f"component {i} of queue {attrs['resource']!r}")
    return (spec("bool"),)


def _enqueue_many_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    first: Shape = (None,)
    for i, (given, component) in enumerate(zip(inputs, _held(attrs), strict=True)):
        what = f"component {i} of a batch for queue {attrs['resource']!r}"
        if given.shape == ():
            message = f"{what} has an axis 0 to slice along, got {given}"
            raise SpecError(message)
        check_fits(given, _batched(component, None), what)
        try:
            first = merge(first, None if given.shape is None else given.shape[:1])
        except SpecError:
            given_specs = " and ".join(map(str, inputs))
            message = f"the components of a batch have equal first sizes, got {given_specs}"
            raise SpecError(message) from None
    return (spec("bool"),)


def _dequeue_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    return _held(attrs)


def _dequeue_batch_spec(first: Callable[[int], Dim]) -> Callable[..., Sequence[Spec]]:
    """The rule of dequeues that stack; `first` gives the first size for a number of elements."""

    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        n, held = attrs["n"], _held(attrs)
        if not isinstance(n, int) or isinstance(n, bool) or n < 0:
            message = f"a number of elements is an integer and not negative, got {n!r:.60}"
            raise SpecError(message)
        if not all(c.is_static for c in held):
            shapes = ", ".join(show(c.shape) for c in held)
            message = f"only components of known shape can be stacked, got {shapes}"
            raise SpecError(message, hint="give the queue its shapes, or dequeue one by one")
        return [_batched(c, first(n)) for c in held]

    return rule


def _scalar_spec(dtype: str) -> Callable[..., Sequence[Spec]]:
    found = (spec(dtype),)
    return lambda inputs, attrs: found


def _queue_op(
    name: str, rule: Callable[..., Sequence[Spec]], constructor: Callable[..., Any], *, fills: bool = False
) -> None:
    """Registers an op of the queue; its constructor is the method, with the queue in front."""
    op(name, spec=rule, gradient=NOT_DIFFERENTIABLE, effect=Effect.WAIT, takes_bytes=True, fills=fills)(
        constructor
    )


_queue_op("queue_enqueue", _enqueue_spec, FIFOQueue.enqueue, fills=True)
_queue_op("queue_enqueue_many", _enqueue_many_spec, FIFOQueue.enqueue_many, fills=True)
_queue_op("queue_dequeue", _dequeue_spec, FIFOQueue.dequeue)
_queue_op("queue_dequeue_many", _dequeue_batch_spec(lambda n: n), FIFOQueue.dequeue_many)
_queue_op("queue_dequeue_up_to", _dequeue_batch_spec(lambda n: None), FIFOQueue.dequeue_up_to)
_queue_op("queue_size", _scalar_spec("int64"), FIFOQueue.size)
_queue_op("queue_close", _scalar_spec("bool"), FIFOQueue.close)
